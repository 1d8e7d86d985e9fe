use std::borrow::Cow;

use bytes::Bytes;
use http::header::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::accept::{Accepts, accepts};
use super::headers::Known;
use super::version::version;
use crate::jsonrpc::{Kind, Message, RequestId, read};
use crate::protocol::{ProtocolVersion, Served};
use crate::rejection::Rejection;

/// A message that was let in.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) accepts: Accepts,
    pub(crate) message: Message,
    pub(crate) version: ProtocolVersion,
}

/// A refusal, and the id of the request that it answers.
pub(crate) type Refusal = (Rejection, Option<RequestId>);

/// Reads a whole body in the light of its headers.
pub(crate) fn decode(known: &Known<'_>, headers: &HeaderMap, body: &Bytes, served: Served) -> Result<Inbound, Refusal> {
    let message = Message::decode(body).map_err(|mut malformed| {
        let id = malformed.id.take();
        (malformed.into(), id)
    })?;
    // Only a request has an answer whose form could matter.
    let accepts = match message.kind() {
        Kind::Request { .. } => accepts(known.accept, headers),
        Kind::Notification { .. } | Kind::Response { .. } => Ok(Accepts { event_stream: false, json: true }),
    };
    match accepts.and_then(|accepts| Ok((accepts, version(known.protocol_version, headers, &message, served)?))) {
        Ok(_) if is_positional(&message) => Err((Rejection::PositionalParams, message.request_id().cloned())),
        Ok((accepts, version)) => Ok(Inbound { accepts, message, version }),
        Err(rejection) => Err((rejection, message.request_id().cloned())),
    }
}

/// JSON-RPC lets a request have its params in an array; MCP has none that do. No handler is to make something else of them.
fn is_positional(message: &Message) -> bool {
    message.request_id().is_some() && message.params().is_some_and(|params| params.starts_with('['))
}

/// What a cancel names.
#[derive(Debug, PartialEq)]
pub(crate) struct Cancel<'a> {
    pub(crate) id: RequestId,
    pub(crate) reason: Option<Cow<'a, str>>,
}

/// What this message cancels, if it is `notifications/cancelled`. One that names nothing cancels nothing.
pub(crate) fn cancel_of(message: &Message) -> Option<Cancel<'_>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
        #[serde(borrow)]
        reason: Option<&'a RawValue>,
    }

    match message.kind() {
        Kind::Notification { method, params: Some(params) } if method == "notifications/cancelled" => {
            let cancelled: Cancelled<'_> = read(params).ok()?;
            let reason = cancelled.reason.and_then(|raw| serde_json::from_str(raw.get()).ok());
            Some(Cancel { id: RequestId::from_json(cancelled.request_id.get())?, reason })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    fn decode_with(headers: &[(&'static str, &'static str)], body: &'static str) -> Result<Inbound, Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        decode(&Known::of(&map), &map, &Bytes::from_static(body.as_bytes()), Served::default())
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#;

    #[test]
    fn accept_is_a_matter_of_requests() {
        let html = [("accept", "text/html")];
        assert_eq!(decode_with(&html, CALL).unwrap_err(), (Rejection::NotAcceptable, Some("a".into())));
        assert!(decode_with(&html, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).is_ok());
        assert!(decode_with(&html, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_ok());
    }

    #[test]
    fn the_params_of_a_request_are_an_object() {
        let of = |params: &'static str| {
            decode_with(&[], params).map(|inbound| inbound.message.params().map(ToOwned::to_owned))
        };
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[ ]}"#), Ok(Some("{}".to_owned())));
        let refused = Err((Rejection::PositionalParams, Some(1.into())));
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#), refused);
        assert_eq!(of(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":[[]]}"#), refused);
        assert!(of(r#"{"jsonrpc":"2.0","method":"x","params":[1]}"#).is_ok(), "a notification has no answer");
    }

    #[test]
    fn a_cancel_names_a_request_or_nothing() {
        let of = |body: &str| Message::decode(&Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let message =
            of(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"a\nb"}}"#);
        assert_eq!(cancel_of(&message), Some(Cancel { id: "7".into(), reason: Some("a\nb".into()) }));
        let message = of(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":7,"requestId":0}}"#);
        assert_eq!(cancel_of(&message), Some(Cancel { id: 0.into(), reason: None }));
        let message = of(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"\ud800":1,"requestId":0,"x\udc00":2}}"#,
        );
        assert_eq!(cancel_of(&message), Some(Cancel { id: 0.into(), reason: None }));
        for nothing in [
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[5,"r"]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[{"requestId":5}]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[5]}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"request\u0049d":5}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled","params":{"requestId":1}}"#,
        ] {
            assert_eq!(cancel_of(&of(nothing)), None, "{nothing}");
        }
    }
}
