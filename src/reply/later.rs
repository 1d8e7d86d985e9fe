use std::sync::{Arc, Mutex, PoisonError};

use axum::response::{IntoResponse, Response};
use tokio::sync::oneshot;

use crate::jsonrpc::McpError;

/// An extension of a response that stands for another one, which is still to come.
#[derive(Clone, Debug)]
pub(crate) struct Later(Arc<Mutex<Option<oneshot::Receiver<Response>>>>);

impl Later {
    pub(crate) fn new(answer: oneshot::Receiver<Response>) -> Self {
        Self(Arc::new(Mutex::new(Some(answer))))
    }

    /// Waits for it. Where nobody is left to send it, it is an error.
    pub(super) async fn response(self) -> Response {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let response = match answer {
            Some(answer) => answer.await.ok(),
            None => None,
        };
        response.unwrap_or_else(|| {
            tracing::error!("a ticket was dropped unused");
            McpError::internal_error("Internal error").into_response()
        })
    }
}

impl IntoResponse for Later {
    fn into_response(self) -> Response {
        let mut response = ().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
