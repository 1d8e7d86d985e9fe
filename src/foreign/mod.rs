//! Services that know nothing of this crate: their replies pass as they are, and can still be ended.

mod event;
mod events;
mod late;
mod reply;
mod response;
mod withdrawal;

pub(crate) use self::late::without_late_answers;
pub(crate) use self::reply::{Course, Head, answer, forward};
