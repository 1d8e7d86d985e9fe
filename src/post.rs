use std::sync::Arc;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Request};
use tower::{Service, ServiceExt};

use crate::exchange::{Caller, Exchange, Guard, Key, Running, Unanswered};
use crate::extract::Context;
use crate::inbound::headers::take_minted_session;
use crate::inbound::{Accepts, Inbound, Refusal, cancel_of, decode};
use crate::jsonrpc::{Kind, Message, shortened};
use crate::rejection::Rejection;
use crate::reply::{self, Settle, Settled, accepted};
use crate::server::Shared;

/// What is kept of a cancel's reason, in bytes, and what of it goes to the log.
const LONGEST_REASON: usize = 1_024;
const LONGEST_LOGGED: usize = 256;

/// A POST that passed the gate, and the service that is to handle it.
#[derive(Debug)]
pub(crate) struct Post<S> {
    pub(crate) inner: S,
    pub(crate) parts: Parts,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Dispatched {
    /// A request: it is parked.
    Parked(Guard<Settled>, Accepts),
    /// A notification or a response.
    Unanswered(Unanswered<Settled>),
    /// A notification that nobody handles.
    Accepted,
}

impl<S, R> Post<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    /// Reads the body, which is whole, and sets the handler up. It is not called yet.
    pub(crate) fn dispatch(mut self, body: Bytes, shared: &Shared) -> Result<Dispatched, Refusal> {
        let Inbound { accepts, message, version } = decode(&self.parts.headers, body, &shared.served)?;
        let refuse = |rejection: Rejection| (rejection, message.request_id().cloned());
        // A modern request has no session. What a notification cancels may have one, whatever its own headers say.
        let has_session = !(version.is_modern() && message.request_id().is_some());
        let caller = shared.identify.caller(&self.parts, has_session).map_err(refuse)?;
        let mut context = Context {
            exchange: None,
            message: message.clone(),
            session: take_minted_session(&mut self.parts.headers).filter(|_| has_session),
            // The head of an `initialize` names the session, so it comes with the answer.
            streams: accepts.event_stream && message.method() != Some("initialize"),
            version,
        };
        let Kind::Request { id, method, .. } = message.kind() else {
            let is_cancel = cancel(caller, &message, shared);
            let handler = Running::new(unanswered(self.inner, request(self.parts, context)));
            let method = message.method().unwrap_or_default();
            return match shared.in_flight.admit(caller, method, handler) {
                Ok(handler) => Ok(Dispatched::Unanswered(handler)),
                // It has done what its client wants of it, though the handler does not hear of it.
                Err(refused) if is_cancel => {
                    tracing::warn!(?refused, "notifications/cancelled finds no place for its handler");
                    Ok(Dispatched::Accepted)
                }
                Err(refused) => Err(refuse(refused.into())),
            };
        };
        let accepts = Accepts { event_stream: context.streams, ..accepts };
        let exchange = Arc::new(Exchange::new(Key { caller, id: id.clone() }, method.clone(), version));
        context.exchange = Some(Arc::clone(&exchange));
        let mints_session = shared.mints_sessions && method == "initialize";
        let settle = Settle { id: id.clone(), mints_session, version };
        let handler = Running::new(answer(self.inner, request(self.parts, context), settle));
        match shared.in_flight.park(&exchange, handler) {
            Ok(guard) => Ok(Dispatched::Parked(guard, accepts)),
            Err(refused) => Err(refuse(refused.into())),
        }
    }
}

/// Ends what the message cancels, before its handler hears of it: nothing that the handler does can hold that up.
fn cancel(caller: Caller, message: &Message, shared: &Shared) -> bool {
    let Some(cancel) = cancel_of(message) else { return false };
    let reason = cancel.reason.as_deref().map(|reason| shortened(reason, LONGEST_REASON));
    let found = shared.in_flight.cancel(&Key { caller, id: cancel.id.clone() }, reason.map(Arc::from));
    let reason = reason.map(|reason| shortened(reason, LONGEST_LOGGED));
    tracing::debug!(id = ?cancel.id, ?reason, ?found, "notifications/cancelled");
    true
}

/// The request as the inner service sees it: the headers and the body as they came, the body in one piece.
fn request(mut parts: Parts, context: Context) -> Request<Body> {
    let body: Bytes = context.message.text().as_bytes().clone();
    // An encoded reply could not be read here; compression belongs outside.
    parts.headers.remove(ACCEPT_ENCODING);
    if parts.headers.remove(TRANSFER_ENCODING).is_some() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    parts.extensions.insert(context);
    Request::from_parts(parts, Body::from(body))
}

async fn answer<S, R>(inner: S, request: Request<Body>, settle: Settle) -> Settled
where
    S: Service<Request<Body>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    match inner.oneshot(request).await.map_err(log_failure) {
        Ok(response) => settle.response(response).await,
        Err(()) => settle.failed(),
    }
}

async fn unanswered<S, R>(inner: S, request: Request<Body>) -> Settled
where
    S: Service<Request<Body>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    match inner.oneshot(request).await.map_err(log_failure) {
        Ok(response) => reply::unanswered(response).await,
        Err(()) => Settled::Passed(accepted()),
    }
}

fn log_failure(error: impl Into<BoxError>) {
    let error: BoxError = error.into();
    tracing::error!(error, "the inner service failed");
}
