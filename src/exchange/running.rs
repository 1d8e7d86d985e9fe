use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A handler at work. It can change hands while it runs, hence the box, and its panics end with it.
pub(crate) struct Running<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

/// The handler panicked; the panic hook has said how.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Panicked;

impl<T> Running<T> {
    /// Inlined, so that the handler is made in its box and not moved there.
    #[inline(always)]
    pub(crate) fn new(handler: impl Future<Output = T> + Send + 'static) -> Self {
        let handler = Box::write(Box::new_uninit(), handler);
        Self(Some(Box::into_pin(handler)))
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handler) = &mut self.0 else { return Poll::Pending };
        let polled = catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(reply)) => {
                drop_quietly(&mut self.0);
                Poll::Ready(Ok(reply))
            }
            Err(panic) => {
                drop_panic(panic);
                drop_quietly(&mut self.0);
                Poll::Ready(Err(Panicked))
            }
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        drop_quietly(&mut self.0);
    }
}

impl<T> std::fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Running")
    }
}

/// A destructor's panic must not reach the task that happens to run it: that may be another exchange's.
fn drop_quietly<T>(handler: &mut Option<T>) {
    let handler = handler.take();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(move || drop(handler))) {
        drop_panic(panic);
    }
}

/// The payload is a value of the user's, so its destructor may panic too.
fn drop_panic(panic: Box<dyn std::any::Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(panic))) {
        Box::leak(again);
    }
}
