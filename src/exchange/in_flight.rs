use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::background::Background;
use super::early::EarlyCancels;
use super::exchange::{End, Exchange};
use super::guard::Guard;
use super::key::{Caller, Key};
use super::limits::{Limits, Permit, Refused};
use super::outcome::{Ended, Observer, Outcome};
use super::running::Running;
use super::table::Table;

/// Handlers that may use their grace time at once; of more, the newest is dropped without it.
const MOST_IN_GRACE: usize = 1_024;

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
    pub(crate) max_parked: usize,
    pub(crate) max_parked_per_caller: usize,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) strict_callers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ambiguous_cancel: AmbiguousCancel::default(),
            cancel_grace: Duration::from_secs(5),
            duplicate_id: DuplicateId::default(),
            early_cancels: Duration::from_secs(1),
            max_parked: 10_000,
            max_parked_per_caller: 1_000,
            observer: None,
            strict_callers: false,
        }
    }
}

/// The parked exchanges of a server, and what ends them.
pub(crate) struct InFlight<T> {
    table: Table<T>,
    early: EarlyCancels,
    limits: Limits,
    /// Of notifications and responses: apart, so that a full table does not keep the cancels out that would empty it.
    unanswered_limits: Limits,
    /// Handlers that were asked to stop.
    in_grace: Background,
    /// Handlers whose client has left. They are parked, so the limits bound them.
    detached: Background,
    options: Options,
}

/// What a cancel found under its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    /// More than one, and none was ended.
    Ambiguous,
    /// This many, and all of them were ended.
    Ended(usize),
    /// Nothing.
    Nothing,
    /// Nothing yet: the cancel is kept for a request that is late.
    Remembered,
    /// Only an `initialize`, or the caller may not cancel.
    Spared,
}

impl<T: Send + 'static> InFlight<T> {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            table: Table::new(),
            early: EarlyCancels::new(options.early_cancels),
            limits: Limits::new(options.max_parked, options.max_parked_per_caller),
            unanswered_limits: Limits::new(options.max_parked, options.max_parked_per_caller),
            in_grace: Background::new(MOST_IN_GRACE),
            detached: Background::new(options.max_parked),
            options,
        }
    }

    pub(crate) fn parked(&self) -> usize {
        self.table.len()
    }

    /// A place for a handler that is not parked: a notification's or a response's.
    pub(crate) fn admit_unanswered(&self, caller: Caller) -> Result<Permit, Refused> {
        self.unanswered_limits.admit(caller)
    }

    /// Parks an exchange, before its handler is called. The guard drives it from there.
    pub(crate) fn park(
        self: &Arc<Self>,
        exchange: &Arc<Exchange<T>>,
        handler: Running<T>,
    ) -> Result<Guard<T>, Refused> {
        let permit = self.limits.admit(exchange.key().caller)?;
        exchange.start(handler, permit);
        if !self.table.insert(exchange, self.options.duplicate_id == DuplicateId::Reject) {
            drop(exchange.take_handler());
            exchange.announce_end();
            return Err(Refused::Duplicate);
        }
        let guard = Guard::new(Arc::clone(self), Arc::clone(exchange));
        if exchange.is_cancellable()
            && let Some(end) = self.early.take(exchange.key(), Instant::now)
        {
            self.end_with(exchange, &end);
        }
        Ok(guard)
    }

    /// `notifications/cancelled` names this key.
    pub(crate) fn cancel(&self, key: &Key, reason: Option<Arc<str>>) -> Found {
        if self.options.strict_callers && key.caller.is_anonymous() {
            return Found::Spared;
        }
        let end = End { outcome: Outcome::Cancelled, reason };
        match self.cancel_parked(key, &end) {
            Found::Nothing if self.early.keep(key, &end, Instant::now()) => {}
            found => return found,
        }
        // The request may have been parked since it was not found. It looked for a kept cancel after it was parked, so
        // one of the two sees the other.
        match self.cancel_parked(key, &end) {
            Found::Nothing => Found::Remembered,
            found => {
                self.early.take(key, Instant::now);
                found
            }
        }
    }

    fn cancel_parked(&self, key: &Key, end: &End) -> Found {
        let (mut known, mut found) = (false, 0);
        let ended = self.table.end_chosen(key, end, |slots| {
            known = !slots.is_empty();
            slots.retain(|parked| parked.is_cancellable());
            found = slots.len();
            match self.options.ambiguous_cancel {
                AmbiguousCancel::Ignore if found > 1 => slots.clear(),
                AmbiguousCancel::All | AmbiguousCancel::Ignore => {}
                AmbiguousCancel::Newest => drop(slots.drain(..found.saturating_sub(1))),
            }
        });
        for exchange in &ended {
            self.after_end(exchange, end);
        }
        match ended.len() {
            0 if found > 0 => Found::Ambiguous,
            0 if known => Found::Spared,
            0 => Found::Nothing,
            ended => Found::Ended(ended),
        }
    }

    /// Ends an exchange, unless it has ended: says which.
    pub(super) fn end(&self, exchange: &Arc<Exchange<T>>, outcome: Outcome) -> bool {
        self.end_with(exchange, &End { outcome, reason: None })
    }

    fn end_with(&self, exchange: &Arc<Exchange<T>>, end: &End) -> bool {
        let ended = self.table.end(exchange, end);
        if ended {
            self.after_end(exchange, end);
        }
        ended
    }

    /// What is left to do once the table has let go of an exchange, in the order of who waits for it.
    fn after_end(&self, exchange: &Exchange<T>, end: &End) {
        exchange.announce_end();
        self.dispose_of_handler(exchange);
        if let Some(observer) = &self.options.observer {
            let (id, method) = (&exchange.key().id, exchange.method());
            let ended = Ended { id, method, outcome: end.outcome, version: exchange.version() };
            if catch_unwind(AssertUnwindSafe(|| observer.ended(ended))).is_err() {
                tracing::error!("the observer panicked");
            }
        }
    }

    /// A handler that took the token has been asked, and gets time to stop. Any other one is dropped.
    pub(super) fn dispose_of_handler(&self, exchange: &Exchange<T>) {
        let Some(handler) = exchange.take_handler() else { return };
        if exchange.is_asked() && !self.options.cancel_grace.is_zero() {
            let grace = self.options.cancel_grace;
            self.in_grace.spawn(async move { drop(timeout(grace, handler).await) });
        }
    }

    /// The client is gone, the handler goes on.
    pub(super) fn detach(&self, guard: Guard<T>) {
        self.detached.spawn(async move { drop(guard.await) });
    }
}

impl<T> std::fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlight")
            .field("in_grace", &self.in_grace)
            .field("detached", &self.detached)
            .finish_non_exhaustive()
    }
}
