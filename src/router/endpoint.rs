use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;

use crate::reply::Completion;

pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handler whose type is forgotten. It still lacks its state.
pub(super) struct Endpoint<S>(Arc<dyn Fn(Request, S, Option<Completion>) -> BoxFuture<Response> + Send + Sync>);

impl<S: 'static> Endpoint<S> {
    pub(super) fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        Self(Arc::new(move |request, state, completion| {
            let response = handler.clone().call(request, state);
            Box::pin(async move {
                let mut response = response.await;
                if let Some(completion) = completion {
                    response.extensions_mut().insert(completion);
                }
                response
            })
        }))
    }

    /// The layer completes a result of the handler with what it lacks.
    pub(super) fn call(&self, request: Request, state: S, completion: Option<Completion>) -> BoxFuture<Response> {
        (self.0)(request, state, completion)
    }

    pub(super) fn with_state<S2: 'static>(self, state: &S) -> Endpoint<S2>
    where
        S: Clone + Send + Sync,
    {
        let (state, call) = (state.clone(), self.0);
        Endpoint(Arc::new(move |request, _, completion| call(request, state.clone(), completion)))
    }
}

impl<S> Clone for Endpoint<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for Endpoint<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint")
    }
}
