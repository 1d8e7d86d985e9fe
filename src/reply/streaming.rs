use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use http::header::{CACHE_CONTROL, HeaderValue};

use crate::protocol::ProtocolVersion;

/// How a stream ends that has begun when its exchange is cancelled.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum CancelledStream {
    /// Without another event, for clients that dislike an answer to what they have cancelled.
    End,
    /// With an event that holds the error, as a JSON reply would. The default.
    #[default]
    Error,
}

/// When a reply is a stream, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streaming {
    pub(crate) cancelled: CancelledStream,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) legacy_after: Option<Duration>,
    pub(crate) modern_after: Option<Duration>,
}

impl Default for Streaming {
    fn default() -> Self {
        Self {
            cancelled: CancelledStream::default(),
            keep_alive: Some(Duration::from_secs(15)),
            legacy_after: Some(Duration::from_secs(15)),
            // A modern client cancels by closing the stream, and so has to have one.
            modern_after: Some(Duration::from_secs(1)),
        }
    }
}

impl Streaming {
    /// How long a handler may be silent before its reply becomes a stream.
    pub(crate) fn after(&self, version: ProtocolVersion) -> Option<Duration> {
        if version.is_modern() { self.modern_after } else { self.legacy_after }
    }
}

/// A response of these events, which nothing on the way may hold back or change.
pub(crate) fn event_stream(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = futures_util::StreamExt::map(events, Ok::<_, Infallible>);
    let mut response = Sse::new(events).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
