//! JSON-RPC 2.0 as MCP uses it: messages, their ids, their errors. No HTTP and no runtime here.

mod envelope;
mod error;
mod line;
mod message;
mod object;
mod request_id;

pub(crate) use self::envelope::{Envelope, string};
pub use self::error::McpError;
pub(crate) use self::error::shortened;
pub(crate) use self::line::one_line;
pub(crate) use self::message::{Kind, Malformed, Message};
pub(crate) use self::object::Object;
pub use self::request_id::RequestId;
