use std::convert::Infallible;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::header::{CACHE_CONTROL, HeaderValue};

/// A stream of one event: the answer of a client that accepts no JSON.
pub(super) fn one_event(json: &[u8]) -> Response {
    // JSON has line ends between its tokens only, so they can go: one `data:` line a message.
    let line: String = String::from_utf8_lossy(json).replace(['\n', '\r'], " ");
    let event = Event::default().data(line);
    let mut response = Sse::new(stream::iter([Ok::<_, Infallible>(event)])).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
