//! What goes out: a handler's response becomes the one answer to its request.

mod answer;
mod call_tool_result;
mod completion;
mod input_required;
mod later;
mod reply;
mod settle;
mod settled;
mod streaming;

pub(crate) use self::answer::{Answer, closing};
pub use self::call_tool_result::CallToolResult;
pub(crate) use self::completion::Completion;
pub use self::input_required::InputRequired;
pub(crate) use self::later::Later;
pub use self::reply::Reply;
pub(crate) use self::settle::{Settle, accepted, is_ours, log_failure, mint, minted, unanswered};
pub(crate) use self::settled::{Settled, Streamed, merge, remove_of_body};
pub use self::streaming::CancelledStream;
pub(crate) use self::streaming::{Streaming, event_stream};
