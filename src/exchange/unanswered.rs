use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::in_flight::InFlight;
use super::key::Caller;
use super::running::{Panicked, Running};

/// The handler of a message that has no answer: a notification or a response. Its client need not wait for it, and does
/// not stop it by leaving: dropped before it is done, it runs on in the background.
#[derive(Debug)]
pub(crate) struct Unanswered<T: Send + 'static> {
    at_work: Option<AtWork<T>>,
    timeout: Option<Duration>,
    /// Not looked at before somebody has to wait.
    since: Option<Instant>,
}

/// The handler, and its place among the limits.
#[derive(Debug)]
struct AtWork<T: Send + 'static> {
    handler: Running<T>,
    place: Place<T>,
}

#[derive(Debug)]
struct Place<T: Send + 'static> {
    in_flight: Arc<InFlight<T>>,
    caller: Caller,
}

impl<T: Send + 'static> Unanswered<T> {
    /// The caller has entered among the limits, and leaves when this is done.
    pub(super) fn new(
        in_flight: Arc<InFlight<T>>,
        caller: Caller,
        handler: Running<T>,
        timeout: Option<Duration>,
    ) -> Self {
        Self { at_work: Some(AtWork { handler, place: Place { in_flight, caller } }), timeout, since: None }
    }

    /// How long the handler may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

impl<T: Send + 'static> Future for Unanswered<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(AtWork { handler, .. }) = &mut self.at_work else { return Poll::Pending };
        let polled = Pin::new(handler).poll(cx);
        match &polled {
            Poll::Ready(_) => self.at_work = None,
            Poll::Pending => drop(self.since.get_or_insert_with(Instant::now)),
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Unanswered<T> {
    fn drop(&mut self) {
        if let Some(AtWork { handler, place }) = self.at_work.take() {
            let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
            let within = self.timeout.map_or(Duration::MAX, |timeout| timeout.saturating_sub(waited));
            let in_flight = Arc::clone(&place.in_flight);
            in_flight.detach_unanswered(async move {
                let _place = place;
                drop(timeout(within, handler).await);
            });
        }
    }
}

impl<T: Send + 'static> Drop for Place<T> {
    fn drop(&mut self) {
        self.in_flight.leave_unanswered(self.caller);
    }
}
