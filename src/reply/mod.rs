//! What goes out: a handler's response becomes the one answer to its request.

mod answer;
#[expect(clippy::module_inception, reason = "one noun a file, and this one is the room's")]
mod reply;
mod settle;
mod sse;

pub(crate) use self::answer::Answer;
pub use self::reply::Reply;
pub(crate) use self::settle::{Settle, accepted};
