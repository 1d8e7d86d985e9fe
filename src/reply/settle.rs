use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, TRANSFER_ENCODING,
};
use uuid::Uuid;

use super::answer::Answer;
use super::reply::Member;
use crate::inbound::headers::{MINTED, SESSION_ID};
use crate::inbound::{Collect, Form};
use crate::jsonrpc::{Envelope, McpError, RequestId};

/// What an answer must fit.
#[derive(Debug)]
pub(crate) struct Settle {
    pub(crate) form: Form,
    pub(crate) id: RequestId,
    /// A result opens a session.
    pub(crate) mints_session: bool,
}

impl Settle {
    /// Makes a handler's response the answer to its request. What is no success is HTTP's business, and passes.
    pub(crate) async fn response<B>(self, response: Response<B>) -> Response
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let (mut parts, body) = response.into_parts();
        if !parts.status.is_success() {
            return Response::from_parts(parts, Body::new(body));
        }
        let member = parts.extensions.remove::<Member>();
        let (answer, is_result) = match self.read(&parts.headers, Body::new(body), member).await {
            Ok(settled) => settled,
            Err(why) => {
                tracing::error!(id = ?self.id, why, "a handler's response does not answer its request");
                (self.internal_error(), false)
            }
        };
        let mut settled = answer.into_response(self.form);
        merge(&mut settled, parts.headers);
        *settled.extensions_mut() = parts.extensions;
        if self.mints_session && is_result && !settled.headers().contains_key(SESSION_ID) {
            settled.headers_mut().insert(SESSION_ID, mint());
        }
        settled
    }

    /// The answer of a handler that has none: it panicked, or its service failed.
    pub(crate) fn failed(&self) -> Response {
        self.internal_error().into_response(self.form)
    }

    fn internal_error(&self) -> Answer {
        Answer::error(Some(&self.id), &McpError::internal_error("Internal error"))
    }

    async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        member: Option<Member>,
    ) -> Result<(Answer, bool), &'static str> {
        let is_stream = |value: &HeaderValue| value.as_bytes().starts_with(b"text/event-stream");
        if headers.get(CONTENT_TYPE).is_some_and(is_stream) {
            return Err("it is an event stream");
        }
        if headers.contains_key(CONTENT_ENCODING) {
            return Err("it is encoded");
        }
        let json = Collect::new(body, usize::MAX).await.map_err(|_| "its body broke off")?;
        match member {
            Some(Member::Result) if json.starts_with(b"{\"result\":") => {
                Ok((Answer::from_member(&self.id, &json), true))
            }
            Some(Member::Error) if json.starts_with(b"{\"error\":") => {
                Ok((Answer::from_member(&self.id, &json), false))
            }
            _ => self.recognise(json),
        }
    }

    /// A complete response to this request, or the one member that a `Reply` or an `McpError` writes, whose mark got lost.
    fn recognise(&self, json: Bytes) -> Result<(Answer, bool), &'static str> {
        let text = std::str::from_utf8(&json).map_err(|_| "it is not UTF-8")?;
        let envelope = Envelope::parse(text).map_err(|_| "it is not a JSON object")?;
        let is_result = match (envelope.result, envelope.error) {
            _ if envelope.repeated => return Err("it has a repeated key"),
            _ if envelope.method.is_some() => return Err("it has a method"),
            (Some(_), None) => true,
            (None, Some(error)) if error.get().starts_with('{') => false,
            _ => return Err("it has not exactly one of `result` and `error`"),
        };
        if envelope.jsonrpc.is_none() && envelope.id.is_none() {
            let object = json.slice_ref(text.trim_ascii_start().as_bytes());
            return Ok((Answer::from_member(&self.id, &object), is_result));
        }
        if !envelope.is_version_2() {
            return Err("its jsonrpc is not \"2.0\"");
        }
        match envelope.id.and_then(|id| RequestId::from_json(id.get())) {
            Some(id) if id == self.id => Ok((Answer::whole(json), is_result)),
            _ => Err("it has another id"),
        }
    }
}

/// Headers that speak of a body which is replaced, or which is written anew.
const OF_A_BODY: [HeaderName; 9] = [
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    ETAG,
    LAST_MODIFIED,
    TRANSFER_ENCODING,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// The handler's own headers, as far as they do not speak of its body.
fn merge(settled: &mut Response, mut own: HeaderMap) {
    own.remove(CONTENT_TYPE);
    if own.is_empty() {
        return;
    }
    for name in OF_A_BODY {
        own.remove(name);
    }
    let settled_headers = std::mem::replace(settled.headers_mut(), own);
    for (name, value) in settled_headers {
        if let Some(name) = name {
            settled.headers_mut().insert(name, value);
        }
    }
}

/// The response to a notification or to a client's response, once its handler has one: 202 without a body for any
/// success and for an [`McpError`], which has nobody to go to. Other refusals pass.
pub(crate) fn accepted(handled: Option<Response>) -> Response {
    let mut accepted = StatusCode::ACCEPTED.into_response();
    if let Some(handled) = handled {
        if !handled.status().is_success() {
            return handled;
        }
        if handled.extensions().get() == Some(&Member::Error) {
            tracing::debug!("the handler of a notification returned an error");
        }
        merge(&mut accepted, handled.into_parts().0.headers);
    }
    accepted
}

fn mint() -> HeaderValue {
    let id = format!("{MINTED}{}", Uuid::new_v4().simple());
    HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static(MINTED))
}
