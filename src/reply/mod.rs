//! What goes out: a handler's response becomes the one answer to its request.

mod answer;
mod reply;
mod settle;
mod sse;

pub(crate) use self::answer::Answer;
pub use self::reply::Reply;
pub(crate) use self::settle::{Settle, accepted};
