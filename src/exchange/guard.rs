use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::exchange::{End, Exchange};
use super::in_flight::InFlight;
use super::outcome::Outcome;
use super::running::Panicked;

/// Drives a parked exchange to its one answer. Dropped before, it means that the client is gone.
#[derive(Debug)]
pub(crate) struct Guard<T: Send + 'static> {
    in_flight: Arc<InFlight<T>>,
    exchange: Arc<Exchange<T>>,
    driven_by: DrivenBy,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DrivenBy {
    Background,
    Client,
    /// The answer is given.
    Nobody,
}

/// The one answer: the handler's, or what the exchange's end stands for.
#[derive(Debug)]
pub(crate) enum Completion<T> {
    Ended(End),
    Replied(Result<T, Panicked>),
}

impl<T: Send + 'static> Guard<T> {
    pub(super) fn new(in_flight: Arc<InFlight<T>>, exchange: Arc<Exchange<T>>) -> Self {
        Self { in_flight, exchange, driven_by: DrivenBy::Client }
    }

    pub(crate) fn exchange(&self) -> &Exchange<T> {
        &self.exchange
    }
}

impl<T: Send + 'static> Future for Guard<T> {
    type Output = Completion<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The handler first: most are done at their first poll, and never need the waker.
        if let Poll::Ready(reply) = self.exchange.poll_handler(cx) {
            self.driven_by = DrivenBy::Nobody;
            if self.in_flight.end(&self.exchange, Outcome::Replied) {
                return Poll::Ready(Completion::Replied(reply));
            }
            tracing::debug!(id = ?self.exchange.key().id, "a late reply is dropped");
        }
        let end = ready!(self.exchange.poll_end(cx));
        self.driven_by = DrivenBy::Nobody;
        self.in_flight.dispose_of_handler(&self.exchange);
        Poll::Ready(Completion::Ended(end))
    }
}

impl<T: Send + 'static> Drop for Guard<T> {
    fn drop(&mut self) {
        match self.driven_by {
            // MCP, *Transports*: a client that disconnects has not cancelled. Its request goes on, still parked.
            DrivenBy::Client if self.exchange.end().is_none() => self.in_flight.detach(Self {
                in_flight: Arc::clone(&self.in_flight),
                exchange: Arc::clone(&self.exchange),
                driven_by: DrivenBy::Background,
            }),
            DrivenBy::Background | DrivenBy::Client => {
                self.in_flight.end(&self.exchange, Outcome::Disconnected);
                // Whoever ended it may have found the handler busy with its last poll.
                self.in_flight.dispose_of_handler(&self.exchange);
            }
            DrivenBy::Nobody => {}
        }
    }
}
