use std::collections::HashMap;
use std::time::Duration;

use super::outcome::Observer;
use crate::protocol::ProtocolVersion;

/// What `notifications/cancelled` does where its caller has several requests of that id parked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum AmbiguousCancel {
    /// It ends them all.
    All,
    /// It ends none: nobody can tell which was meant. The default.
    #[default]
    Ignore,
    /// It ends the one that was parked last.
    Newest,
}

/// What becomes of a request whose client goes away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Departure {
    /// It ends: its handler is asked to stop, or dropped. The default for modern versions, where a client that closes its
    /// stream has cancelled.
    Cancel,
    /// It goes on in the background, still parked: it can be cancelled, and has its deadline. The default for legacy
    /// versions, where a client that disconnects has not cancelled.
    CarryOn,
}

/// What becomes of a request whose caller has one of the same id parked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum DuplicateId {
    /// It is parked beside it, and each gets its own answer. The default: some clients give every request the same id.
    #[default]
    Allow,
    /// It is refused, with HTTP 400 and -32600; the one that is parked goes on.
    Reject,
}

pub(crate) struct Options {
    pub(crate) ambiguous_cancel: AmbiguousCancel,
    pub(crate) cancel_grace: Duration,
    pub(crate) duplicate_id: DuplicateId,
    pub(crate) early_cancels: Duration,
    pub(crate) honours_modern_cancels: bool,
    pub(crate) legacy_departure: Departure,
    pub(crate) max_parked: usize,
    pub(crate) max_parked_per_caller: usize,
    pub(crate) modern_departure: Departure,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) strict_callers: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) timeouts: HashMap<String, Option<Duration>>,
}

impl Default for Options {
    fn default() -> Self {
        // These wait for something that may never come, and say so.
        let endless = ["subscriptions/listen", "tasks/result"];
        Self {
            ambiguous_cancel: AmbiguousCancel::default(),
            cancel_grace: Duration::from_secs(5),
            duplicate_id: DuplicateId::default(),
            early_cancels: Duration::from_secs(1),
            honours_modern_cancels: false,
            legacy_departure: Departure::CarryOn,
            max_parked: 10_000,
            max_parked_per_caller: 1_000,
            modern_departure: Departure::Cancel,
            observer: None,
            strict_callers: false,
            timeout: Some(Duration::from_secs(600)),
            timeouts: endless.map(|method| (method.to_owned(), None)).into(),
        }
    }
}

impl Options {
    pub(super) fn departure(&self, version: ProtocolVersion) -> Departure {
        if version.is_modern() { self.modern_departure } else { self.legacy_departure }
    }

    /// A posted cancel may end exchanges of this version.
    pub(super) fn honours_cancels(&self, version: ProtocolVersion) -> bool {
        !version.is_modern() || self.honours_modern_cancels
    }

    pub(super) fn timeout_of(&self, method: &str) -> Option<Duration> {
        self.timeouts.get(method).copied().unwrap_or(self.timeout)
    }
}
