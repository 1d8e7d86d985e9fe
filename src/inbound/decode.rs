use std::borrow::Cow;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::accept::{Form, form};
use super::headers::{PROTOCOL_VERSION, singleton};
use crate::jsonrpc::{Kind, Message, RequestId};
use crate::protocol::ProtocolVersion;
use crate::rejection::Rejection;

/// A message that was let in.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) form: Form,
    pub(crate) message: Message,
    pub(crate) version: ProtocolVersion,
}

/// A refusal, and the id of the request that it answers.
pub(crate) type Refusal = (Rejection, Option<RequestId>);

/// Reads a whole body in the light of its headers.
pub(crate) fn decode(headers: &HeaderMap, body: Bytes) -> Result<Inbound, Refusal> {
    let message = Message::decode(body).map_err(|mut malformed| {
        let id = malformed.id.take();
        (malformed.into(), id)
    })?;
    match judge(headers, &message) {
        Ok((form, version)) => Ok(Inbound { form, message, version }),
        Err(rejection) => Err((rejection, message.request_id().cloned())),
    }
}

fn judge(headers: &HeaderMap, message: &Message) -> Result<(Form, ProtocolVersion), Rejection> {
    // Only a request has an answer whose form could matter.
    let form = match message.kind() {
        Kind::Request { .. } => form(headers)?,
        Kind::Notification { .. } | Kind::Response { .. } => Form::Json,
    };
    Ok((form, version(headers, message)?))
}

fn version(headers: &HeaderMap, message: &Message) -> Result<ProtocolVersion, Rejection> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialize<'a> {
        #[serde(borrow)]
        protocol_version: Option<Cow<'a, str>>,
    }

    if matches!(message.kind(), Kind::Request { method, .. } if method == "initialize") {
        // A client may name a version in the header before it knows which ones are served.
        let requested = message.params_as::<Initialize<'_>>().ok().and_then(|params| params.protocol_version);
        return Ok(ProtocolVersion::negotiated(requested.as_deref()));
    }
    let header = singleton(headers, &PROTOCOL_VERSION, "MCP-Protocol-Version")?;
    ProtocolVersion::from_header(header.map(HeaderValue::as_bytes)).ok_or(Rejection::UnsupportedVersion)
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
            let cancelled: Cancelled<'_> = serde_json::from_str(params).ok()?;
            let reason = cancelled.reason.and_then(|raw| serde_json::from_str(raw.get()).ok());
            Some(Cancel { id: RequestId::from_json(cancelled.request_id.get())?, reason })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_with(headers: &[(&'static str, &'static str)], body: &'static str) -> Result<Inbound, Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        decode(&map, Bytes::from_static(body.as_bytes()))
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#;

    #[test]
    fn the_header_names_the_version() {
        let version = |headers: &[_]| decode_with(headers, CALL).map(|inbound| inbound.version);
        assert_eq!(version(&[]).unwrap(), ProtocolVersion::V2025_03_26);
        assert_eq!(version(&[("mcp-protocol-version", "2025-06-18")]).unwrap(), ProtocolVersion::V2025_06_18);
        let id = Some(RequestId::from("a"));
        for unknown in ["junk", "2099-01-01", "2025-06-18, 2025-06-18", ""] {
            let refusal = version(&[("mcp-protocol-version", unknown)]).unwrap_err();
            assert_eq!(refusal, (Rejection::UnsupportedVersion, id.clone()));
        }
        let twice = version(&[("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2025-06-18")]);
        assert_eq!(twice.unwrap_err(), (Rejection::RepeatedHeader("MCP-Protocol-Version"), id));
    }

    #[test]
    fn initialize_is_let_in_whatever_it_asks_for() {
        let of = |body| decode_with(&[("mcp-protocol-version", "2099-01-01")], body).unwrap().version;
        let known = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
        assert_eq!(of(known), ProtocolVersion::V2025_06_18);
        for other in [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2099-01-01"}}"#,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":7}}"#,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#,
        ] {
            assert_eq!(of(other), ProtocolVersion::LATEST);
        }
    }

    #[test]
    fn accept_is_a_matter_of_requests() {
        let html = [("accept", "text/html")];
        assert_eq!(decode_with(&html, CALL).unwrap_err(), (Rejection::NotAcceptable, Some("a".into())));
        assert!(decode_with(&html, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).is_ok());
        assert!(decode_with(&html, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_ok());
    }

    #[test]
    fn a_cancel_names_a_request_or_nothing() {
        let of = |body: &str| Message::decode(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let message =
            of(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"a\nb"}}"#);
        assert_eq!(cancel_of(&message), Some(Cancel { id: "7".into(), reason: Some("a\nb".into()) }));
        let message = of(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":7,"requestId":0}}"#);
        assert_eq!(cancel_of(&message), Some(Cancel { id: 0.into(), reason: None }));
        for nothing in [
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
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
