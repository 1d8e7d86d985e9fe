use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::background::Background;
use super::early::EarlyCancels;
use super::ended::EndedEarly;
use super::exchange::{End, Exchange};
use super::guard::Guard;
use super::key::{Caller, Key};
use super::lifecycle::Lifecycle;
use super::limits::{Limits, Refused};
use super::options::{AmbiguousCancel, Departure, DuplicateId, Options};
use super::outcome::{Ended, Outcome};
use super::questions::Questions;
use super::running::Running;
use super::table::{Slots, Table};
use super::unanswered::Unanswered;

/// Handlers that may use their grace time at once; of more, the newest is dropped without it.
const MOST_IN_GRACE: usize = 1_024;
/// Cancels of ours at once, and how long a service may take to accept one, and how long a shutdown waits for them.
const MOST_WITHDRAWALS: usize = 1_024;
const LONGEST_WITHDRAWAL: Duration = Duration::from_secs(5);
const LAST_WITHDRAWALS: Duration = Duration::from_secs(1);

/// The parked exchanges of a server, and what ends them.
pub(crate) struct InFlight<T> {
    table: Table<T>,
    early: EarlyCancels,
    /// What a service that knows nothing of this crate may answer still.
    ended_early: EndedEarly,
    lifecycle: Arc<Lifecycle>,
    limits: Limits,
    /// Of notifications and responses: apart, so that a full table does not keep the cancels out that would empty it.
    unanswered_limits: Limits,
    /// Handlers that were asked to stop.
    in_grace: Background,
    /// Handlers whose client has left or, of messages without an answer, has its 202. The limits bound them.
    detached: Background,
    /// Cancels of ours to services that know nothing of this crate. They are sent while the server goes down, too.
    withdrawals: Background,
    options: Options,
    questions: Arc<Questions>,
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
    /// Only what this cancel may not end: an `initialize`, a modern request, or anything of an anonymous caller.
    Spared,
}

impl<T: Send + 'static> InFlight<T> {
    pub(crate) fn new(options: Options) -> Self {
        let lifecycle = Arc::<Lifecycle>::default();
        Self {
            table: Table::new(),
            early: EarlyCancels::new(options.early_cancels),
            ended_early: EndedEarly::default(),
            limits: Limits::new(options.max_parked, options.max_parked_per_caller),
            unanswered_limits: Limits::new(options.max_parked, options.max_parked_per_caller),
            in_grace: Background::new(MOST_IN_GRACE, &lifecycle),
            detached: Background::new(usize::MAX, &lifecycle),
            withdrawals: Background::new(MOST_WITHDRAWALS, &Arc::default()),
            lifecycle,
            options,
            questions: Arc::default(),
        }
    }

    pub(crate) fn parked(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn lifecycle(&self) -> &Arc<Lifecycle> {
        &self.lifecycle
    }

    /// What the server asks its clients.
    pub(crate) fn questions(&self) -> &Arc<Questions> {
        &self.questions
    }

    /// Lets the handler of a message without an answer run. It is not parked, but has a place and a deadline like others.
    pub(crate) fn admit(
        self: &Arc<Self>,
        caller: Caller,
        method: &str,
        handler: Running<T>,
    ) -> Result<Unanswered<T>, Refused> {
        if self.lifecycle.is_down() {
            return Err(Refused::ShuttingDown);
        }
        self.enter(&self.unanswered_limits, caller)?;
        Ok(Unanswered::new(Arc::clone(self), caller, handler, self.timeout_of(method)))
    }

    fn enter(&self, limits: &Limits, caller: Caller) -> Result<(), Refused> {
        // A place that was taken and given back may have been the last that a shutdown saw.
        limits.enter(caller).inspect_err(|_| self.lifecycle.tell_ended())
    }

    pub(super) fn leave_unanswered(&self, caller: Caller) {
        self.unanswered_limits.leave(caller);
        self.lifecycle.tell_ended();
    }

    /// The client of a message without an answer has its 202, the handler goes on.
    pub(super) fn detach_unanswered(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.detached.spawn(work);
    }

    /// Parks an exchange, before its handler is called. The guard drives it from there.
    pub(crate) fn park(
        &self,
        exchange: &Arc<Exchange<T>>,
        handler: Running<T>,
        refuses_duplicates: bool,
    ) -> Result<Guard<T>, Refused> {
        if self.lifecycle.is_draining() {
            return Err(Refused::ShuttingDown);
        }
        self.enter(&self.limits, exchange.key().caller)?;
        exchange.start(handler);
        let refuses_duplicates = refuses_duplicates || self.options.duplicate_id == DuplicateId::Reject;
        if !self.table.insert(exchange, refuses_duplicates) {
            drop(exchange.take_handler());
            self.leave(exchange);
            return Err(Refused::Duplicate);
        }
        let guard = Guard::new(Arc::clone(exchange));
        // Who shuts down sets this before it looks through the table, so one of the two sees the other.
        if self.lifecycle.is_down() || (exchange.is_subscription() && self.lifecycle.is_draining()) {
            self.end(exchange, Outcome::ShutDown);
        }
        if self.may_cancel(exchange)
            && let Some(end) = self.early.take(exchange.key(), Instant::now)
        {
            self.end_with(exchange, &end);
        }
        Ok(guard)
    }

    /// `notifications/cancelled` names this key. A modern request ignores the session that its client may send all the
    /// same, so it is looked for without it.
    pub(crate) fn cancel(&self, key: &Key, sessionless: Option<Caller>, reason: Option<Arc<str>>) -> Found {
        let is_let_in = |caller: &Caller| !(self.options.strict_callers && caller.is_anonymous());
        if !is_let_in(&key.caller) {
            return Found::Spared;
        }
        let end = End { outcome: Outcome::Cancelled, reason };
        let found = match (self.cancel_parked(key, &end, |_| true), sessionless.filter(is_let_in)) {
            (Found::Nothing, Some(caller)) => {
                let key = Key { caller, id: key.id.clone() };
                self.cancel_parked(&key, &end, |exchange| exchange.version().is_modern())
            }
            (found, _) => found,
        };
        match found {
            Found::Nothing if self.early.keep(key, &end, Instant::now()) => {}
            found => return found,
        }
        // The request may have been parked since it was not found. It looked for a kept cancel after it was parked, so
        // one of the two sees the other.
        match self.cancel_parked(key, &end, |_| true) {
            Found::Nothing => Found::Remembered,
            found => {
                self.early.take(key, Instant::now);
                found
            }
        }
    }

    fn cancel_parked(&self, key: &Key, end: &End, is_meant: impl Fn(&Exchange<T>) -> bool) -> Found {
        let (mut known, mut found) = (false, 0);
        let ended = self.table.end_chosen(key, end, |slots| {
            known = slots.iter().any(|parked| is_meant(parked));
            let may_end = |parked: &Exchange<T>| is_meant(parked) && self.may_cancel(parked);
            found = slots.iter().filter(|parked| may_end(parked)).count();
            match self.options.ambiguous_cancel {
                AmbiguousCancel::Ignore if found > 1 => Slots::new(),
                AmbiguousCancel::All | AmbiguousCancel::Ignore => take(slots, may_end),
                AmbiguousCancel::Newest => {
                    let newest = slots.iter().rposition(|parked| may_end(parked));
                    newest.map(|at| slots.remove(at)).into_iter().collect()
                }
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

    /// `initialize` is never cancelled (MCP, *Cancellation*), and by default no request of a modern version is.
    fn may_cancel(&self, exchange: &Exchange<T>) -> bool {
        exchange.method() != "initialize" && self.options.honours_cancels(exchange.version())
    }

    /// Lets nothing new in, waits until all that is parked or runs in the background has ended, for this long at most,
    /// and then ends it.
    pub(crate) async fn shutdown(&self, drain: Duration) {
        self.lifecycle.drain();
        self.end_all(Exchange::is_subscription);
        let idle = self
            .lifecycle
            .until(|| self.limits.taken() + self.unanswered_limits.taken() + self.in_grace.running() == 0);
        drop(timeout(drain, idle).await);
        self.lifecycle.set_down();
        self.end_all(|_| true);
        self.lifecycle.stop_background();
        drop(timeout(LAST_WITHDRAWALS, self.withdrawals.idle()).await);
    }

    fn end_all(&self, which: impl Fn(&Exchange<T>) -> bool) {
        for exchange in self.table.all() {
            if which(&exchange) {
                self.end(&exchange, Outcome::ShutDown);
            }
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
        match end.outcome {
            Outcome::Replied => self.leave(exchange),
            _ => self.dispose_of_handler(exchange),
        }
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
        let Ok(handler) = exchange.take_handler() else { return };
        if let Some(handler) = handler
            && exchange.is_asked()
            && !self.options.cancel_grace.is_zero()
        {
            let grace = self.options.cancel_grace;
            self.in_grace.spawn(async move { drop(timeout(grace, handler).await) });
        }
        self.leave(exchange);
    }

    /// Gives the place of an exchange back that has ended, once its handler is no longer at work in it.
    fn leave(&self, exchange: &Exchange<T>) {
        if exchange.give_up_place() {
            self.limits.leave(exchange.key().caller);
            self.lifecycle.tell_ended();
        }
    }

    /// A request begins whose service may answer it by another way.
    pub(crate) fn forget_end(&self, exchange: &Exchange<T>) {
        self.ended_early.forget(exchange.key(), Instant::now);
    }

    /// The client of this request has an answer of ours, and its service may answer it still.
    pub(crate) fn remember_end(&self, exchange: &Exchange<T>) {
        let is_ours = |end: End| !matches!(end.outcome, Outcome::Disconnected | Outcome::Replied);
        if exchange.end().is_some_and(is_ours) && !exchange.is_left() {
            self.ended_early.keep(exchange.key(), Instant::now());
        }
    }

    /// Whether the request that this id names in a response to this caller has ended without its service. The id is given as
    /// it stands in the JSON of the response.
    pub(crate) fn has_ended_early(&self, caller: Caller, id: impl FnOnce() -> Option<String>) -> bool {
        self.ended_early.has(caller, id, |key| self.table.contains(key), Instant::now())
    }

    /// Sends a cancel of ours.
    pub(crate) fn withdraw(&self, sent: impl Future<Output = ()> + Send + 'static) {
        self.withdrawals.spawn(async move { drop(timeout(LONGEST_WITHDRAWAL, sent).await) });
    }

    /// The client is gone, the handler goes on.
    pub(super) fn detach(&self, guard: Guard<T>) {
        self.detached.spawn(async move { drop(guard.drive_in_background().await) });
    }

    /// Nobody but its client has any use for a subscription.
    pub(super) fn departure(&self, exchange: &Exchange<T>) -> Departure {
        let is_subscription = exchange.version().is_modern() && exchange.is_subscription();
        if is_subscription { Departure::Cancel } else { self.options.departure(exchange.version()) }
    }

    pub(super) fn timeout_of(&self, method: &str) -> Option<Duration> {
        self.options.timeout_of(method)
    }

    /// The client of a stream is gone.
    pub(crate) fn depart(&self, exchange: &Arc<Exchange<T>>) {
        exchange.close_notes();
        if self.departure(exchange) == Departure::Cancel {
            self.end(exchange, Outcome::Disconnected);
        }
    }
}

/// Takes those out that are wanted.
fn take<T>(slots: &mut Slots<T>, is_wanted: impl Fn(&Exchange<T>) -> bool) -> Slots<T> {
    let (taken, kept) = std::mem::take(slots).into_iter().partition(|parked| is_wanted(parked));
    *slots = kept;
    taken
}

impl<T> std::fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlight")
            .field("in_grace", &self.in_grace)
            .field("detached", &self.detached)
            .finish_non_exhaustive()
    }
}
