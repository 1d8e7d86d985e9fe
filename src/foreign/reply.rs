use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use tower::{Service, ServiceExt};

use super::event::{Event, Holds};
use super::events::{Events, Piece};
use crate::extract::Call;
use crate::inbound::headers::{SESSION_ID, wrap_session};
use crate::inbound::is_media;
use crate::jsonrpc::Envelope;
use crate::reply::{Settle, Settled, Streamed, is_ours, mint};

/// A JSON reply is held until it is whole, up to this size.
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
}

impl Course {
    /// They end with a whole event that can be read, so that one of ours may follow.
    pub(crate) fn takes_events(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    /// One had an id, so that a client may come back with that.
    pub(crate) fn has_ids(&self) -> bool {
        self.has_ids.load(Ordering::Relaxed)
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
    S: Service<Request<Body>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let mut response = match inner.oneshot(request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => {
            let error: BoxError = error.into();
            tracing::error!(error, "the inner service failed");
            return settle.failed();
        }
    };
    wrap_session(response.headers_mut());
    // A handler among them that knows this crate after all.
    if is_ours(&response) {
        return settle.response(response).await;
    }
    if response.status() != StatusCode::OK {
        return Settled::Passed(response);
    }
    if is_of(&response, "text", "event-stream") {
        stream(response, &settle, head).await
    } else if is_of(&response, "application", "json") {
        whole(response, &settle).await
    } else {
        Settled::Passed(response)
    }
}

fn is_of(response: &Response, kind: &str, subtype: &str) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| is_media(value, kind, subtype))
}

/// Holds a JSON reply until it is whole: until then a cancel can replace it.
async fn whole(response: Response, settle: &Settle) -> Settled {
    let (mut parts, mut body) = response.into_parts();
    let mut held = Vec::new();
    loop {
        let frame = match body.frame().await {
            Some(Ok(frame)) => frame,
            None => break,
            Some(Err(error)) => {
                tracing::error!(%error, "the body of the inner service broke off");
                return settle.failed();
            }
        };
        // Trailers say nothing here.
        let Ok(data) = frame.into_data() else { continue };
        held.extend_from_slice(&data);
        if held.len() > LARGEST {
            let begin = futures_util::stream::iter([Ok(Bytes::from(held))]);
            let rest = futures_util::StreamExt::chain(begin, body.into_data_stream());
            return Settled::Passed(Response::from_parts(parts, Body::from_stream(rest)));
        }
    }
    if settle.mints_session && !parts.headers.contains_key(SESSION_ID) && has_result(&held) {
        parts.headers.insert(SESSION_ID, mint());
    }
    Settled::Passed(Response::from_parts(parts, Body::from(held)))
}

fn has_result(json: &[u8]) -> bool {
    let envelope = std::str::from_utf8(json).ok().and_then(|text| Envelope::parse(text).ok());
    envelope.is_some_and(|envelope| envelope.result.is_some())
}

async fn stream(response: Response, settle: &Settle, head: oneshot::Sender<Head>) -> Settled {
    let (mut parts, body) = response.into_parts();
    let exchange: &Call = &settle.exchange;
    // It may end earlier than its service thinks, or with an event more.
    parts.headers.remove(CONTENT_LENGTH);
    let mut events = Events::new(body);
    // Encoded events cannot be read, and none of ours can be put among them.
    let is_readable = !parts.headers.contains_key(CONTENT_ENCODING);
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
        let (_, mut body) = events.into_rest();
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data() {
                exchange.pass(data).await;
            }
        }
        return Settled::Streamed(Streamed::Over);
    }
    while let Some(piece) = events.next().await {
        let bytes = match piece {
            Piece::Event(bytes) => bytes,
            Piece::Part(bytes) => {
                course.is_closed.store(true, Ordering::Relaxed);
                exchange.pass(bytes).await;
                continue;
            }
        };
        let event = Event::read(&bytes);
        if event.has_id {
            course.has_ids.store(true, Ordering::Relaxed);
        }
        if event.answers(&exchange.key().id).is_some() {
            let (held, rest) = events.into_rest();
            return Settled::Streamed(Streamed::Answered { event: bytes, held, rest });
        }
        exchange.pass(bytes).await;
    }
    // A service may close a stream on purpose after an event with an id: its client comes back for the rest.
    let is_over = (course.has_ids() && !exchange.version().is_modern()) || !course.takes_events();
    Settled::Streamed(if is_over { Streamed::Over } else { Streamed::Broken })
}
