//! JSON-RPC 2.0 as MCP uses it: messages, their ids, their errors. No HTTP and no runtime here.

mod batch;
mod envelope;
mod error;
mod line;
mod member;
mod message;
mod object;
mod read;
mod request_id;
mod string;
mod unreadable;

pub(crate) use self::batch::{is_batch, read_batch};
pub(crate) use self::envelope::Envelope;
pub use self::error::McpError;
pub(crate) use self::error::shortened;
pub(crate) use self::line::one_line;
pub(crate) use self::member::{Member, present};
pub(crate) use self::message::{Kind, Malformed, Message, ids_in};
pub(crate) use self::object::{Object, place};
pub(crate) use self::read::{as_object, read, read_object, read_value};
pub use self::request_id::RequestId;
pub(crate) use self::string::string;
