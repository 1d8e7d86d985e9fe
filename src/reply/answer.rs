use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use bytestring::ByteString;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body::{Frame, SizeHint};
use serde::Serialize;
use smallvec::SmallVec;

use super::completion::Completion;
use crate::jsonrpc::{McpError, RequestId, one_line};
use crate::protocol::SUBSCRIPTION_ID;

/// Up to this size an object is copied behind its head; a larger one follows it as a piece of its own.
const COPIED: usize = 2 * 1024;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

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
    pub(super) fn from_member(id: Option<&RequestId>, object: &Bytes) -> Self {
        Self::joined(&head(id), object.slice(1..))
    }

    /// The same of one that has a `result`, which lacks something itself.
    pub(super) fn from_result(id: &RequestId, object: &Bytes, result: Range<usize>, completion: &Completion) -> Self {
        Self::completed(head(Some(id)), &object.slice(1..), result.start - 1..result.end - 1, completion)
    }

    /// A response that is whole but for what its result lacks.
    pub(super) fn from_whole(json: &Bytes, result: Range<usize>, completion: &Completion) -> Self {
        Self::completed(SmallVec::new(), json, result, completion)
    }

    fn completed(mut head: SmallVec<[u8; 64]>, json: &Bytes, result: Range<usize>, completion: &Completion) -> Self {
        head.extend_from_slice(&json[..result.start]);
        let text = std::str::from_utf8(&json[result.clone()]).unwrap_or_default();
        // Nothing can fail where all is written to memory.
        let begin = completion.begin(text, &mut head).unwrap_or_default();
        Self::joined(&head, json.slice(result.start + begin..))
    }

    fn joined(head: &[u8], rest: Bytes) -> Self {
        if rest.len() > COPIED {
            return Self { head: head.to_vec().into(), rest };
        }
        // Without room to spare, because `Bytes` would keep a note of it on the heap.
        Self::whole([head, &rest[..]].concat().into())
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

    /// The result that closes a `subscriptions/listen` (2026-07-28, *Graceful Closure*), with the server's name if it is known.
    pub(crate) fn subscription_closed(id: &RequestId, server_info: Option<&ByteString>) -> Self {
        let result = serde_json::json!({ "resultType": "complete", "_meta": { SUBSCRIPTION_ID: id } }).to_string();
        let object = Bytes::from(format!(r#"{{"result":{result}}}"#));
        let Some(server_info) = server_info.cloned() else { return Self::from_member(Some(id), &object) };
        let end = object.len() - 1;
        let completion = Completion { is_cacheable: false, server_info };
        Self::from_result(id, &object, end - result.len()..end, &completion)
    }

    /// The answer as a response of its own.
    pub(crate) fn into_response(self) -> Response {
        let mut response = Response::new(self.into_body());
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        response
    }

    pub(super) fn into_body(self) -> Body {
        if self.rest.is_empty() { Body::from(self.head) } else { Body::new(self) }
    }

    /// The answer as one line.
    pub(crate) fn into_line(self) -> String {
        let mut json = Vec::from(self.head);
        json.extend_from_slice(&self.rest);
        one_line(json)
    }
}

/// The notification by which a server ends a subscription (2026-07-28, *Cancellation*).
pub(crate) fn closing(id: &RequestId) -> String {
    let params = serde_json::json!({ "requestId": id, "_meta": { SUBSCRIPTION_ID: id } });
    serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string()
}

/// How a response begins that lacks `jsonrpc` and the id.
fn head(id: Option<&RequestId>) -> SmallVec<[u8; 64]> {
    let mut head = SmallVec::from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        head.extend_from_slice(br#""id":"#);
        write(&mut head, id);
        head.push(b',');
    }
    head
}

/// Ids and errors are made of JSON values: writing them cannot fail.
fn write(json: &mut impl io::Write, value: &impl Serialize) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_object_follows_its_head_uncopied() {
        let object = Bytes::from(format!("{{\"result\":\"{}\"}}", "x".repeat(COPIED)));
        let answer = Answer::from_member(Some(&7.into()), &object);
        assert_eq!(answer.rest.as_ptr(), object[1..].as_ptr());
        assert!(answer.into_line().starts_with(r#"{"jsonrpc":"2.0","id":7,"result":"xx"#));
    }

    #[test]
    fn a_subscription_is_closed_with_its_id() {
        let closed = |server_info: Option<&ByteString>| {
            let closed = Answer::subscription_closed(&"s".into(), server_info).into_line();
            serde_json::from_str::<serde_json::Value>(&closed).unwrap()
        };
        let mut expected = serde_json::json!({
            "jsonrpc": "2.0",
            "id": "s",
            "result": { "resultType": "complete", "_meta": { "io.modelcontextprotocol/subscriptionId": "s" } },
        });
        assert_eq!(closed(None), expected);
        expected["result"]["_meta"]["io.modelcontextprotocol/serverInfo"] = serde_json::json!({ "name": "n" });
        assert_eq!(closed(Some(&r#"{"name":"n"}"#.into())), expected);
    }
}
