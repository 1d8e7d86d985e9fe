use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;

use super::background::Background;
use super::limits::Permit;
use super::running::{Panicked, Running};

/// The handler of a message that has no answer: a notification or a response. Its client need not wait for it, and does
/// not stop it by leaving: dropped before it is done, it runs on in the background.
#[derive(Debug)]
pub(crate) struct Unanswered<T: Send + 'static> {
    handler: Option<Running<T>>,
    permit: Option<Permit>,
    background: Background,
    timeout: Option<Duration>,
}

impl<T: Send + 'static> Unanswered<T> {
    pub(super) fn new(handler: Running<T>, permit: Permit, background: Background, timeout: Option<Duration>) -> Self {
        Self { handler: Some(handler), permit: Some(permit), background, timeout }
    }
}

impl<T: Send + 'static> Future for Unanswered<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handler) = &mut self.handler else { return Poll::Pending };
        let polled = Pin::new(handler).poll(cx);
        if polled.is_ready() {
            self.handler = None;
            self.permit = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Unanswered<T> {
    fn drop(&mut self) {
        let (handler, permit) = (self.handler.take(), self.permit.take());
        if let Some(handler) = handler {
            let within = self.timeout.unwrap_or(Duration::MAX);
            self.background.spawn(async move {
                let _permit = permit;
                drop(timeout(within, handler).await);
            });
        }
    }
}
