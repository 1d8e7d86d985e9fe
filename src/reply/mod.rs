//! What goes out: a handler's response becomes the one answer to its request.

mod answer;
mod call_tool_result;
mod completion;
mod input_required;
mod reply;
mod settle;
mod settled;
mod streaming;

pub(crate) use self::answer::{Answer, closing};
pub use self::call_tool_result::CallToolResult;
pub(crate) use self::completion::Completion;
pub use self::input_required::InputRequired;
pub use self::reply::Reply;
pub(crate) use self::settle::{Settle, accepted, unanswered};
pub(crate) use self::settled::{Settled, merge};
pub use self::streaming::CancelledStream;
pub(crate) use self::streaming::{Streaming, event_stream};
