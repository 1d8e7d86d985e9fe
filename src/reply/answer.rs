use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body::{Frame, SizeHint};
use serde::Serialize;

use super::sse;
use crate::inbound::Form;
use crate::jsonrpc::{McpError, RequestId};

/// Up to this size an object is copied behind its head; a larger one follows it as a piece of its own.
const COPIED: usize = 2 * 1024;

/// A whole JSON-RPC response, in one piece or in two.
#[derive(Debug)]
pub(crate) struct Answer {
    head: Bytes,
    rest: Bytes,
}

impl Answer {
    pub(super) fn whole(json: Bytes) -> Self {
        Self { head: json, rest: Bytes::new() }
    }

    /// A response made of an object that has the one member `result` or `error`: it lacks `jsonrpc` and the id.
    pub(super) fn from_member(id: &RequestId, object: &Bytes) -> Self {
        let members = object.slice(1..);
        let copied = if members.len() <= COPIED { members.len() } else { 0 };
        let mut head = Vec::with_capacity(64 + copied);
        head.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        write(&mut head, id);
        head.push(b',');
        if copied == members.len() {
            head.extend_from_slice(&members);
            return Self::whole(head.into());
        }
        Self { head: head.into(), rest: members }
    }

    /// An error response. Without an id where none could be read.
    pub(crate) fn error(id: Option<&RequestId>, error: &McpError) -> Self {
        #[derive(Serialize)]
        struct ErrorResponse<'a> {
            jsonrpc: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a RequestId>,
            error: &'a McpError,
        }

        let mut json = Vec::with_capacity(128);
        write(&mut json, &ErrorResponse { jsonrpc: "2.0", id, error });
        Self::whole(json.into())
    }

    /// The answer as a 200 in this form.
    pub(crate) fn into_response(self, form: Form) -> Response {
        match form {
            Form::Event => sse::one_event(&self.joined()).into_response(),
            Form::Json => {
                let body = if self.rest.is_empty() { Body::from(self.head) } else { Body::new(self) };
                let mut response = Response::new(body);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
        }
    }

    fn joined(self) -> Bytes {
        if self.rest.is_empty() { self.head } else { [self.head, self.rest].concat().into() }
    }
}

/// Ids and errors are made of JSON values: writing them cannot fail.
fn write(json: &mut Vec<u8>, value: &impl Serialize) {
    if let Err(error) = serde_json::to_writer(json, value) {
        tracing::error!(%error, "a value that cannot be written");
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = if self.head.is_empty() { std::mem::take(&mut self.rest) } else { std::mem::take(&mut self.head) };
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_empty() && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.head.len() + self.rest.len()) as u64)
    }
}
