//! Exchanges: requests from the moment that they are parked to their one answer. No HTTP here.
//!
//! The table of parked exchanges decides every race: whoever removes an exchange from it owns its outcome, and does
//! all that an end needs - it sets the outcome, wakes the driver, fires the token, disposes of the handler - without
//! waiting for anyone. A driver that is never polled again holds up nothing but its own answer.

mod background;
mod early;
mod ended;
mod exchange;
mod guard;
mod in_flight;
mod key;
mod lifecycle;
mod limits;
mod notes;
mod options;
mod outcome;
mod questions;
mod running;
mod sync;
mod table;
mod unanswered;

pub(crate) use self::background::Background;
pub(crate) use self::exchange::{End, Exchange};
pub(crate) use self::guard::{Completion, Guard};
pub(crate) use self::in_flight::InFlight;
pub(crate) use self::key::{Caller, Callers, Key, Owner};
pub(crate) use self::lifecycle::Lifecycle;
pub(crate) use self::limits::Refused;
pub(crate) use self::notes::Piece;
pub(crate) use self::options::Options;
pub use self::options::{AmbiguousCancel, Departure, DuplicateId};
pub use self::outcome::{Ended, Observer, Outcome};
pub(crate) use self::questions::{Answered, Question};
pub(crate) use self::running::Running;
pub(crate) use self::unanswered::Unanswered;
