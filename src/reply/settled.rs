use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, TRANSFER_ENCODING,
};
use http::response::Parts;

use super::answer::{Answer, JSON};
use crate::jsonrpc::{McpError, RequestId};

/// What a handler made of its request.
#[derive(Debug)]
pub(crate) enum Settled {
    /// An answer, and the head of the HTTP response that it came in.
    Answer(Answer, Parts),
    /// HTTP's business, which passes: what is no success, and whatever a service that knows nothing of this crate replies.
    Passed(Response),
    /// A service's own stream, up to what decides how its exchange ends.
    Streamed(Streamed),
}

/// How a service's own stream goes on from there.
#[derive(Debug)]
pub(crate) enum Streamed {
    /// With the answer, and whatever is behind it.
    Answered { event: Bytes, held: Bytes, rest: Body },
    /// It is at its end, without the answer: its client would wait for ever.
    Broken,
    /// It is at its end, and its client knows what that means.
    Over,
}

impl Settled {
    /// As a reply that has not begun.
    pub(crate) fn into_response(self) -> Response {
        match self {
            Self::Answer(answer, mut own) => {
                let is_json = own.headers.get(CONTENT_TYPE) == Some(&JSON);
                // A `Reply` has this one header, and it is right.
                if !is_json || own.headers.len() > 1 {
                    remove_of_body(&mut own.headers);
                    own.headers.insert(CONTENT_TYPE, JSON);
                }
                Response::from_parts(own, answer.into_body())
            }
            Self::Passed(response) => response,
            // Its head is out before: this is never asked for.
            Self::Streamed(_) => Response::default(),
        }
    }

    /// As the last event of a stream. What has no place in one is an internal error there.
    pub(crate) fn into_line(self, id: &RequestId) -> String {
        match self {
            Self::Answer(answer, _) => answer.into_line(),
            Self::Passed(response) => {
                tracing::error!(?id, status = %response.status(), "a handler's response comes too late to be one");
                Answer::error(Some(id), &McpError::internal_error("Internal error")).into_line()
            }
            Self::Streamed(_) => Answer::error(Some(id), &McpError::internal_error("Internal error")).into_line(),
        }
    }

    /// The head of the HTTP response that the answer came in, where there is one.
    pub(crate) fn head(&self) -> Option<&Parts> {
        match self {
            Self::Answer(_, own) => Some(own),
            Self::Passed(_) | Self::Streamed(_) => None,
        }
    }

    /// It is an answer with a status that a stream can have too.
    pub(crate) fn is_success(&self) -> bool {
        self.head().is_some_and(|own| own.status.is_success())
    }
}

/// Headers that speak of a body which is replaced, or written anew.
const OF_A_BODY: [HeaderName; 13] = [
    ACCEPT_RANGES,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LENGTH,
    CONTENT_LOCATION,
    CONTENT_RANGE,
    ETAG,
    LAST_MODIFIED,
    TRANSFER_ENCODING,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

pub(crate) fn remove_of_body(headers: &mut HeaderMap) {
    for name in OF_A_BODY {
        headers.remove(name);
    }
}

/// Gives a response the handler's own headers, as far as they do not speak of its body, and its extensions.
pub(crate) fn merge(response: &mut Response<Body>, own: Parts) {
    let Parts { mut headers, extensions, .. } = own;
    *response.extensions_mut() = extensions;
    headers.remove(CONTENT_TYPE);
    remove_of_body(&mut headers);
    let settled: HeaderMap = std::mem::replace(response.headers_mut(), headers);
    for (name, value) in settled {
        if let Some(name) = name {
            response.headers_mut().insert(name, value);
        }
    }
}
