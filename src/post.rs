use std::sync::Arc;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Request};
use tokio::sync::oneshot;
use tower::{Service, ServiceExt};

use crate::exchange::{Answered, Caller, Exchange, Guard, Key, Running, Unanswered};
use crate::extract::{Context, Subject};
use crate::foreign::{self, Head};
use crate::inbound::headers::{Known, unwrap_session, wrap_session};
use crate::inbound::{Accepts, Inbound, Refusal, cancel_of, decode};
use crate::jsonrpc::{Kind, Message, ids_in, shortened};
use crate::rejection::Rejection;
use crate::reply::{self, Settle, Settled, accepted, log_failure};
use crate::server::Shared;

/// What is kept of a cancel's reason, in bytes, and what of it goes to the log.
const LONGEST_REASON: usize = 1_024;
const LONGEST_LOGGED: usize = 256;

/// A POST that passed the gate, and the service that is to handle it.
#[derive(Debug)]
pub(crate) struct Post<S> {
    /// The service knows nothing of this crate.
    pub(crate) is_foreign: bool,
    pub(crate) inner: S,
    pub(crate) parts: Parts,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Dispatched {
    /// A request: it is parked.
    Parked(Guard<Settled>, Accepts, Option<oneshot::Receiver<Head>>),
    /// A notification or a response.
    Unanswered(Unanswered<Settled>),
    /// What needs no handler, or has found none.
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
    pub(crate) fn dispatch(mut self, body: &Bytes, shared: &Shared) -> Result<Dispatched, Refusal> {
        let known = Known::of(&self.parts.headers);
        let served = shared.served;
        let Inbound { accepts, message, version } =
            decode(&known, &self.parts.headers, body, served).map_err(|(rejection, id)| {
                // The id of a response is one that the server chose: in an error it would name a request of the client's.
                let has_failed = self.fail_questions(&rejection, body, &known, shared);
                (rejection, id.filter(|_| !has_failed))
            })?;
        let id = message.request_id().cloned();
        // A modern request has no session. What a notification cancels may have one, whatever its own headers say.
        let has_session = !(version.is_modern() && id.is_some());
        let caller = match shared.identify.caller(&self.parts, &known, has_session) {
            Ok(caller) => caller,
            Err(rejection) => return Err((rejection, id)),
        };
        let (is_encodable, is_chunked) = (known.accept_encoding.is_present(), known.transfer_encoding.is_present());
        let headers = &mut self.parts.headers;
        if is_encodable && !self.is_foreign {
            // An encoded reply could not be read here; compression belongs outside.
            headers.remove(ACCEPT_ENCODING);
        }
        if is_chunked {
            headers.remove(TRANSFER_ENCODING);
            headers.insert(CONTENT_LENGTH, HeaderValue::from(message.text().len()));
        }
        let session = unwrap_session(headers, self.is_foreign).filter(|_| has_session);
        let Some(id) = id else {
            let subject = Subject::Unanswered;
            let context = |message| Context { session, streams: false, served, subject: subject(message), version };
            return self.admit(caller, message, context, shared);
        };
        // The head of an `initialize` names the session, so it comes with the answer.
        let streams = accepts.event_stream && message.method() != Some("initialize");
        let mints_session = has_session && shared.mints_sessions && message.method() == Some("initialize");
        let exchange = Arc::new(Exchange::new(Arc::clone(&shared.in_flight), Key { caller, id }, message, version));
        // A stream of ours is none of a foreign service's, so its handlers have nowhere to send notes to.
        let streams = streams && !self.is_foreign;
        let context = Context { session, streams, served, subject: Subject::Request(Arc::clone(&exchange)), version };
        let settle = Settle { exchange: Arc::clone(&exchange), mints_session };
        let request = request(self.parts, context);
        let (handler, head) = if self.is_foreign {
            let (sender, head) = oneshot::channel();
            (Running::new(foreign::answer(self.inner, request, settle, sender)), Some(head))
        } else {
            (Running::new(answer(self.inner, request, settle)), None)
        };
        let accepts = Accepts { event_stream: streams, ..accepts };
        match shared.in_flight.park(&exchange, handler, self.is_foreign && caller.has_session()) {
            Ok(guard) => Ok(Dispatched::Parked(guard, accepts, head)),
            Err(refused) => Err((refused.into(), Some(exchange.key().id.clone()))),
        }
    }

    /// A body that is refused may hold responses that requests of this server wait for. The client will not send others.
    fn fail_questions(&self, rejection: &Rejection, body: &[u8], known: &Known<'_>, shared: &Shared) -> bool {
        let questions = shared.in_flight.questions();
        if questions.is_empty() {
            return false;
        }
        let Ok(caller) = shared.identify.caller(&self.parts, known, true) else { return false };
        let why = || Answered::Malformed(rejection.error().message().to_owned());
        ids_in(body).iter().fold(false, |has_failed, id| questions.answer(caller, id, why) | has_failed)
    }

    /// Of a notification or a response.
    fn admit(
        self,
        caller: Caller,
        message: Message,
        context: impl FnOnce(Arc<Message>) -> Context,
        shared: &Shared,
    ) -> Result<Dispatched, Refusal> {
        if answers(caller, &message, shared) {
            return Ok(Dispatched::Accepted);
        }
        let is_cancel = cancel(caller, &message, shared);
        let message = Arc::new(message);
        let request = request(self.parts, context(Arc::clone(&message)));
        let handler = Running::new(unanswered(self.inner, request, self.is_foreign));
        match shared.in_flight.admit(caller, message.method().unwrap_or_default(), handler) {
            Ok(handler) => Ok(Dispatched::Unanswered(handler)),
            // It has done what its client wants of it, though the handler does not hear of it.
            Err(refused) if is_cancel => {
                tracing::warn!(?refused, "notifications/cancelled finds no place for its handler");
                Ok(Dispatched::Accepted)
            }
            Err(refused) => Err((refused.into(), None)),
        }
    }
}

/// It is the response to something that this server asked its client: who asked has it now.
fn answers(caller: Caller, message: &Message, shared: &Shared) -> bool {
    let Kind::Response { id, result } = message.kind() else { return false };
    shared.in_flight.questions().answer(caller, id, || match result.clone() {
        Ok(result) => Answered::Result(result),
        Err(error) => Answered::Error(error),
    })
}

/// Ends what the message cancels, before its handler hears of it: nothing that the handler does can hold that up.
fn cancel(caller: Caller, message: &Message, shared: &Shared) -> bool {
    let Some(cancel) = cancel_of(message) else { return false };
    let reason = cancel.reason.as_deref().map(|reason| shortened(reason, LONGEST_REASON));
    let found = shared.in_flight.cancel(
        &Key { caller, id: cancel.id.clone() },
        caller.without_session(),
        reason.map(Arc::from),
    );
    let reason = reason.map(|reason| shortened(reason, LONGEST_LOGGED));
    tracing::debug!(id = ?cancel.id, ?reason, ?found, "notifications/cancelled");
    true
}

/// The request as the inner service sees it: the body as it came, in one piece.
fn request(mut parts: Parts, context: Context) -> Request<Body> {
    let body: Bytes = context.subject.message().text().as_bytes().clone();
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

async fn unanswered<S, R>(inner: S, request: Request<Body>, is_foreign: bool) -> Settled
where
    S: Service<Request<Body>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    match inner.oneshot(request).await.map_err(log_failure) {
        Ok(mut response) => {
            if is_foreign {
                wrap_session(response.headers_mut());
            }
            reply::unanswered(response).await
        }
        Err(()) => Settled::Passed(accepted()),
    }
}
