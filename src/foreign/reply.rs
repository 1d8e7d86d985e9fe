use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream::{Stream, StreamExt, iter};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::response::Parts;
use http::{HeaderValue, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tokio::sync::oneshot;
use tower::{Service, ServiceExt};

use super::event::Event;
use super::events::{End, Events, Piece, joined};
use super::response::{Holds, NoAnswer, body_answers};
use super::withdrawal::withdrawal;
use crate::extract::Call;
use crate::inbound::headers::{SESSION_ID, has_only_codings, wrap_session};
use crate::inbound::is_media;
use crate::reply::{Settle, Settled, Streamed, is_ours, log_failure, mint};

/// A reply that is not a stream is held until it is whole, up to this size.
const LARGEST: usize = 4 * 1024 * 1024;

/// The head of a reply that is a stream: its events follow through the exchange.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) parts: Parts,
    pub(crate) course: Arc<Course>,
}

/// What can follow the events of a stream that have come so far.
#[derive(Debug, Default)]
pub(crate) struct Course {
    has_ids: AtomicBool,
    is_closed: AtomicBool,
    trailers: OnceLock<HeaderMap>,
}

impl Course {
    /// They end with a whole event that can be read, so that one of ours may follow.
    pub(crate) fn takes_events(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    /// One had an id, so that its client may come back with that for the rest. In modern versions none does.
    pub(crate) fn is_resumable(&self, exchange: &Call) -> bool {
        self.has_ids.load(Ordering::Relaxed) && !exchange.version().is_modern()
    }

    /// Those of the service, once all of its stream has come.
    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.get()
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn set_trailers(&self, trailers: Option<HeaderMap>) {
        if let Some(trailers) = trailers {
            self.trailers.set(trailers).ok();
        }
    }
}

/// Lets a service answer. Its reply passes as it is; a stream goes event by event, behind its head.
pub(crate) async fn answer<S, R>(
    inner: S,
    request: Request<Body>,
    settle: Settle,
    head: oneshot::Sender<Head>,
) -> Settled
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let withdrawal = withdrawal(&inner, &parts, &settle.exchange);
    let request = Request::from_parts(parts, body);
    let mut replied = pin!(reply(inner, request, settle, head));
    // It is dropped before the reply, which may make the service look for another way to its client.
    let _withdrawal = withdrawal;
    replied.as_mut().await
}

async fn reply<S, R>(inner: S, request: Request<Body>, settle: Settle, head: oneshot::Sender<Head>) -> Settled
where
    S: Service<Request<Body>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let mut response = match inner.oneshot(request).await.map_err(log_failure) {
        Ok(response) => response.map(Body::new),
        Err(()) => return settle.failed(),
    };
    wrap_session(response.headers_mut());
    // A handler among them that knows this crate after all.
    if is_ours(&response) {
        return settle.response(response).await;
    }
    if !response.status().is_success() {
        return Settled::Passed(response);
    }
    // Behind these two no body is sent (RFC 9110, 15.3.5 and 15.3.6), whatever the service gave.
    if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) {
        return replaced(response.into_parts().0, &settle, "its status allows no body");
    }
    if is_of(response.headers(), "text", "event-stream") {
        stream(response, &settle, head).await
    } else {
        whole(response, &settle).await
    }
}

/// The status of a reply that answers. Clients take 202 for a reply without a body, and read none.
fn answering(status: StatusCode) -> StatusCode {
    if status == StatusCode::ACCEPTED { StatusCode::OK } else { status }
}

pub(super) fn is_of(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| is_media(value, kind, subtype))
}

/// A reply that does not answer its request would leave the client without an answer.
fn replaced(parts: Parts, settle: &Settle, why: impl Into<NoAnswer>) -> Settled {
    let NoAnswer { why, code } = why.into();
    tracing::warn!(id = ?settle.id(), status = %parts.status, why, code, "the service's reply does not answer its request");
    settle.failed_with(parts)
}

/// Holds a reply until it is whole, and lets it pass if it is the answer, whatever its type. Until then a cancel can replace
/// it. What cannot be judged, because it is encoded or too large, is taken at its word if it says that it is JSON.
async fn whole(response: Response, settle: &Settle) -> Settled {
    let (mut parts, mut body) = response.into_parts();
    let (is_json, is_plain) = (is_of(&parts.headers, "application", "json"), is_plain(&parts.headers));
    if !is_plain && !is_json {
        return replaced(parts, settle, "it is encoded, and not JSON");
    }
    let (mut held, mut trailers) = (Bytes::new(), None);
    loop {
        let frame = match body.frame().await {
            Some(Ok(frame)) => frame,
            None => break,
            Some(Err(error)) => {
                tracing::debug!(%error, "the body of a reply was cut short");
                return replaced(parts, settle, "its body was cut short");
            }
        };
        match frame.into_data() {
            Ok(data) => held = joined(held, data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if held.len() > LARGEST {
            if !is_json {
                return replaced(parts, settle, "it is larger than 4 MiB, and not JSON");
            }
            return Settled::Passed(Response::from_parts(parts, begun(held, BodyStream::new(body))));
        }
    }
    if is_plain || held.is_empty() {
        match body_answers(&held, settle.id()) {
            Ok(Holds::Result) if settle.mints_session && is_json && !parts.headers.contains_key(SESSION_ID) => {
                parts.headers.insert(SESSION_ID, mint());
            }
            Ok(_) => {}
            Err(no_answer) => return replaced(parts, settle, no_answer),
        }
    }
    parts.status = answering(parts.status);
    if parts.headers.contains_key(CONTENT_LENGTH) {
        // The length of what is sent, whatever the service wrote: another one would break the connection.
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(held.len()));
    }
    let body = match trailers {
        None => Body::from(held),
        Some(trailers) => {
            parts.headers.remove(CONTENT_LENGTH);
            begun(held, iter([Ok(Frame::trailers(trailers))]))
        }
    };
    Settled::Passed(Response::from_parts(parts, body))
}

/// A body of which this has been read.
fn begun(held: Bytes, rest: impl Stream<Item = Result<Frame<Bytes>, axum::Error>> + Send + 'static) -> Body {
    Body::new(StreamBody::new(iter([Ok(Frame::data(held))]).chain(rest)))
}

async fn stream(response: Response, settle: &Settle, head: oneshot::Sender<Head>) -> Settled {
    let (mut parts, body) = response.into_parts();
    let exchange: &Call = &settle.exchange;
    // It may end earlier than its service thinks, or with an event more.
    parts.headers.remove(CONTENT_LENGTH);
    parts.status = answering(parts.status);
    let mut events = Events::new(body);
    let is_readable = is_plain(&parts.headers);
    if settle.mints_session && is_readable && !parts.headers.contains_key(SESSION_ID) {
        // The head tells of a session, so it waits for the answer to the request that opens one.
        let first = events.first_message().await.map(|event| event.answers(&exchange.key().id));
        if first == Some(Some(Holds::Result)) {
            parts.headers.insert(SESSION_ID, mint());
        }
    }
    let course = Arc::new(Course { is_closed: AtomicBool::new(!is_readable), ..Course::default() });
    // Where its client has left, nobody waits for it.
    head.send(Head { parts, course: Arc::clone(&course) }).ok();
    if !is_readable {
        let (_, body) = events.into_rest();
        forward(exchange, &course, body).await;
        return Settled::Streamed(Streamed::Over);
    }
    while let Some(piece) = next(&mut events, &course, exchange).await {
        let bytes = match piece {
            Piece::Event(bytes) => bytes,
            Piece::Part(bytes) => {
                course.close();
                exchange.pass(bytes).await;
                continue;
            }
        };
        let event = Event::read(&bytes);
        if event.id.is_some() {
            course.has_ids.store(true, Ordering::Relaxed);
        }
        if event.answers(&exchange.key().id).is_some() {
            let (held, rest) = events.into_rest();
            return Settled::Streamed(Streamed::Answered { event: bytes, held, rest });
        }
        exchange.pass(bytes).await;
    }
    Settled::Streamed(unanswered(events, &course, exchange).await)
}

/// The next piece. None if a client has left that can come back, too: its service has to see that, or it may refuse the client
/// as long as this stream is open.
async fn next(events: &mut Events, course: &Course, exchange: &Call) -> Option<Piece> {
    if !course.is_resumable(exchange) {
        return events.next().await;
    }
    match select(pin!(events.next()), pin!(exchange.departed())).await {
        Either::Left((piece, _)) => piece,
        Either::Right(_) => None,
    }
}

/// Encoded events cannot be read, and none of ours can be put among them. Some name a coding that is none, so that no
/// proxy encodes their stream.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    has_only_codings(headers, &["identity", "none"])
}

/// What becomes of a stream that has come to its end without a whole event that answers its request.
async fn unanswered(mut events: Events, course: &Course, exchange: &Call) -> Streamed {
    let End { unfinished, trailers, .. } = events.take_end();
    if course.takes_events() && Event::read(&unfinished).answers(&exchange.key().id).is_some() {
        course.set_trailers(trailers);
        return Streamed::Answered { event: finished(&unfinished), held: Bytes::new(), rest: Body::empty() };
    }
    // A service may close a stream on purpose after an event with an id: its client comes back for the rest.
    let is_over = course.is_resumable(exchange) || !course.takes_events();
    if !is_over {
        return Streamed::Broken;
    }
    // A cancel that comes at the same time has a place behind whole events only.
    if !unfinished.is_empty() {
        course.close();
        exchange.pass(unfinished).await;
    }
    course.set_trailers(trailers);
    Streamed::Over
}

/// Adds the empty line without which it is no event to its client.
fn finished(event: &[u8]) -> Bytes {
    // The first one ends the line, unless it is the rest of a CRLF.
    let line_ends: &[u8] = if event.ends_with(b"\n") { b"\n" } else { b"\n\n" };
    [event, line_ends].concat().into()
}

/// Sends a body on as it comes, up to its trailers.
pub(crate) async fn forward(exchange: &Call, course: &Course, mut body: Body) {
    while let Some(Ok(frame)) = body.frame().await {
        match frame.into_data() {
            Ok(data) => exchange.pass(data).await,
            Err(frame) => course.set_trailers(frame.into_trailers().ok()),
        }
    }
}
