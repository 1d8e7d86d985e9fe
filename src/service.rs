use std::convert::Infallible;
use std::sync::Arc;
use std::task::{self, Poll};

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{Method, Request};
use tower::Service;

use crate::exchange::Refused;
use crate::extract::Context;
use crate::future::ResponseFuture;
use crate::inbound::headers::{Known, resumes_ended, unwrap_session};
use crate::rejection::Rejection;
use crate::server::Shared;

/// The service that [`McpLayer`](crate::McpLayer) makes. It never fails and is always ready, so that a cancel gets through
/// when the service inside is busy: that one is made ready within each exchange.
#[derive(Clone, Debug)]
pub struct Mcp<S> {
    inner: S,
    is_foreign: bool,
    shared: Arc<Shared>,
}

impl<S> Mcp<S> {
    pub(crate) fn new(inner: S, is_foreign: bool, shared: Arc<Shared>) -> Self {
        Self { inner, is_foreign, shared }
    }
}

impl<S, B, R> Service<Request<B>> for Mcp<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = ResponseFuture<S>;

    fn poll_ready(&mut self, _cx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let (inner, shared, body) = (self.inner.clone(), Arc::clone(&self.shared), Body::new(body));
        // Behind another layer of ours a request has its exchange. To park it twice would make every cancel ambiguous.
        if parts.method == Method::OPTIONS || parts.extensions.get::<Context>().is_some() {
            return ResponseFuture::pass(inner, shared, Request::from_parts(parts, body));
        }
        let known = Known::of(&parts.headers);
        if let Err(rejection) = shared.gate.check_sender(&known, &parts.uri) {
            return ResponseFuture::refuse(shared, rejection, &parts, body);
        }
        if parts.method != Method::POST {
            if shared.in_flight.lifecycle().is_draining() {
                return ResponseFuture::refuse(shared, Refused::ShuttingDown.into(), &parts, body);
            }
            if self.is_foreign && parts.method == Method::GET && resumes_ended(&parts.headers) {
                return ResponseFuture::refuse(shared, Rejection::NothingFollows, &parts, body);
            }
            let listens = self.is_foreign && parts.method == Method::GET && known.session_id.is_present();
            let listener = if listens { shared.identify.caller(&parts, &known, true).ok() } else { None };
            unwrap_session(&mut parts.headers, self.is_foreign);
            let request = Request::from_parts(parts, body);
            return match self.is_foreign {
                true => ResponseFuture::pass_foreign(inner, shared, listener, request),
                false => ResponseFuture::pass(inner, shared, request),
            };
        }
        if let Err(rejection) = shared.gate.check_content(&known, &parts.headers) {
            return ResponseFuture::refuse(shared, rejection, &parts, body);
        }
        ResponseFuture::read(inner, shared, self.is_foreign, parts, body)
    }
}
