use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{FromRequestParts, Request};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use mcp_layer::Cancellation;
use serde::Serialize;

use crate::debug::Debug;

/// How many tool calls have started, and how they ended.
#[derive(Default, Serialize)]
pub(crate) struct Counts {
    started: AtomicUsize,
    completed: AtomicUsize,
    cancelled: AtomicUsize,
    dropped: AtomicUsize,
}

/// The handler of a tool, whose calls are counted.
#[derive(Clone)]
pub(crate) struct Counted<H>(pub(crate) H);

impl<T, H: Handler<T, Arc<Debug>>> Handler<T, Arc<Debug>> for Counted<H> {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, debug: Arc<Debug>) -> Self::Future {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let cancellation = match Cancellation::from_request_parts(&mut parts, &debug).await {
                Ok(cancellation) => cancellation,
                Err(rejection) => return rejection.into_response(),
            };
            let mut call = Call::start(Arc::clone(&debug), cancellation);
            let response = self.0.call(Request::from_parts(parts, body), debug).await;
            call.has_returned = true;
            response
        })
    }
}

/// A tool call at work. Dropped before its handler has returned, it counts as dropped.
struct Call {
    cancellation: Cancellation,
    debug: Arc<Debug>,
    has_returned: bool,
}

impl Call {
    fn start(debug: Arc<Debug>, cancellation: Cancellation) -> Self {
        debug.handlers.started.fetch_add(1, Ordering::SeqCst);
        Self { cancellation, debug, has_returned: false }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let counts = &self.debug.handlers;
        let count = match (self.has_returned, self.cancellation.is_cancelled()) {
            (false, _) => &counts.dropped,
            (true, true) => &counts.cancelled,
            (true, false) => &counts.completed,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}
