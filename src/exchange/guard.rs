use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, timeout_at};

use super::exchange::{End, Exchange};
use super::options::Departure;
use super::outcome::Outcome;
use super::running::Panicked;

/// Drives a parked exchange to its one answer. Dropped before, it means that the client is gone.
#[derive(Debug)]
pub(crate) struct Guard<T: Send + 'static> {
    exchange: Arc<Exchange<T>>,
    driven_by: DrivenBy,
    deadline: Deadline,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DrivenBy {
    /// A task of ours: the client waits for a stream, or is gone.
    Background,
    Client,
    /// The answer is given.
    Nobody,
}

/// Not looked up before somebody has to wait.
#[derive(Clone, Copy, Debug)]
enum Deadline {
    At(Instant),
    None,
    Unknown,
}

/// The one answer: the handler's, or what the exchange's end stands for.
#[derive(Debug)]
pub(crate) enum Completion<T> {
    Ended(End),
    Replied(Result<T, Panicked>),
}

impl<T: Send + 'static> Guard<T> {
    pub(super) fn new(exchange: Arc<Exchange<T>>) -> Self {
        Self { exchange, driven_by: DrivenBy::Client, deadline: Deadline::Unknown }
    }

    pub(crate) fn exchange(&self) -> &Arc<Exchange<T>> {
        &self.exchange
    }

    /// When the time of the exchange is up. It runs from the first call.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        if let Deadline::Unknown = self.deadline {
            let timeout = self.exchange.in_flight().timeout_of(self.exchange.method());
            let at = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            self.deadline = at.map_or(Deadline::None, Deadline::At);
        }
        match self.deadline {
            Deadline::At(at) => Some(at),
            Deadline::None | Deadline::Unknown => None,
        }
    }

    /// Ends the exchange at its deadline.
    pub(crate) fn time_out(&self) {
        self.exchange.in_flight().end(&self.exchange, Outcome::TimedOut);
    }

    /// Drives it on in a task of ours: who drops the response from now on says nothing about the exchange.
    pub(crate) async fn drive_in_background(mut self) -> Completion<T> {
        self.driven_by = DrivenBy::Background;
        if let Some(deadline) = self.deadline() {
            if let Ok(completion) = timeout_at(deadline, &mut self).await {
                return completion;
            }
            self.time_out();
        }
        self.await
    }
}

impl<T: Send + 'static> Future for Guard<T> {
    type Output = Completion<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The handler first: most are done at their first poll, and never need the waker.
        if let Poll::Ready(reply) = self.exchange.poll_handler(cx) {
            self.driven_by = DrivenBy::Nobody;
            if self.exchange.in_flight().end(&self.exchange, Outcome::Replied) {
                return Poll::Ready(Completion::Replied(reply));
            }
            tracing::debug!(id = ?self.exchange.key().id, "a late reply is dropped");
        }
        let end = ready!(self.exchange.poll_end(cx));
        self.driven_by = DrivenBy::Nobody;
        self.exchange.in_flight().dispose_of_handler(&self.exchange);
        Poll::Ready(Completion::Ended(end))
    }
}

impl<T: Send + 'static> Drop for Guard<T> {
    fn drop(&mut self) {
        let carries_on = || {
            self.exchange.end().is_none() && self.exchange.in_flight().departure(&self.exchange) == Departure::CarryOn
        };
        match self.driven_by {
            DrivenBy::Nobody => {}
            DrivenBy::Client if carries_on() => {
                self.exchange.close_notes();
                self.exchange.in_flight().detach(Self {
                    exchange: Arc::clone(&self.exchange),
                    driven_by: DrivenBy::Background,
                    deadline: self.deadline,
                });
            }
            DrivenBy::Background | DrivenBy::Client => {
                self.exchange.close_notes();
                self.exchange.in_flight().end(&self.exchange, Outcome::Disconnected);
                // Whoever ended it may have found the handler busy with its last poll.
                self.exchange.in_flight().dispose_of_handler(&self.exchange);
            }
        }
    }
}
