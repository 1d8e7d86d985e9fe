//! Services that know nothing of this crate: their replies pass as they are, and can still be ended.

mod event;
mod events;
mod reply;
mod withdrawal;

pub(crate) use self::reply::{Course, Head, answer, forward};
