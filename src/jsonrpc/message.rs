use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::{Envelope, string};
use super::error::McpError;
use super::request_id::RequestId;

/// Arrays and objects within each other, at most: what `serde_json` itself reads.
const MAX_DEPTH: usize = 128;

/// One JSON-RPC message: its envelope is read, its params are kept as they came.
#[derive(Debug)]
pub(crate) struct Message {
    text: ByteString,
    kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Notification { method: ByteString, params: Option<ByteString> },
    Request { id: RequestId, method: ByteString, params: Option<ByteString> },
    Response { id: RequestId, result: Result<ByteString, ByteString> },
}

/// Why bytes are no message, and the id of the request that they seem to be.
#[derive(Debug, PartialEq)]
pub(crate) struct Malformed {
    pub(crate) code: i64,
    pub(crate) why: &'static str,
    pub(crate) id: Option<RequestId>,
}

impl Malformed {
    fn unreadable(why: &'static str) -> Self {
        Self { code: McpError::PARSE_ERROR, why, id: None }
    }

    fn invalid(why: &'static str, id: Option<RequestId>) -> Self {
        Self { code: McpError::INVALID_REQUEST, why, id }
    }
}

impl Message {
    /// Reads the body of a POST: once for UTF-8 and depth, which raw values skip, and once as an envelope.
    pub(crate) fn decode(body: Bytes) -> Result<Self, Malformed> {
        if !is_shallow(&body) {
            return Err(Malformed::unreadable("Parse error: nested deeper than 128"));
        }
        let Ok(text) = ByteString::try_from(body) else {
            return Err(Malformed::unreadable("Parse error: not UTF-8"));
        };
        let envelope = Envelope::parse(&text).map_err(|error| match error.is_data() {
            true if is_array(&text) => Malformed::invalid("Invalid Request: batches are not supported", None),
            true => Malformed::invalid("Invalid Request: not a JSON-RPC message", None),
            false => Malformed::unreadable("Parse error: not JSON"),
        })?;
        let kind = classify(&envelope, &text)?;
        Ok(Self { text, kind })
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The body that was posted, byte for byte.
    pub(crate) fn text(&self) -> &ByteString {
        &self.text
    }

    /// Of a request or a notification.
    pub(crate) fn method(&self) -> Option<&str> {
        match &self.kind {
            Kind::Notification { method, .. } | Kind::Request { method, .. } => Some(method),
            Kind::Response { .. } => None,
        }
    }

    /// Of a request.
    pub(crate) fn request_id(&self) -> Option<&RequestId> {
        match &self.kind {
            Kind::Request { id, .. } => Some(id),
            Kind::Notification { .. } | Kind::Response { .. } => None,
        }
    }

    /// Of a request or a notification.
    pub(crate) fn params(&self) -> Option<&str> {
        match &self.kind {
            Kind::Notification { params, .. } | Kind::Request { params, .. } => params.as_deref(),
            Kind::Response { .. } => None,
        }
    }

    /// The params as a type of the caller's; absent ones are read as `{}`, then as `null`.
    pub(crate) fn params_as<'a, P: Deserialize<'a>>(&'a self) -> Result<P, McpError> {
        match self.params() {
            Some(params) => serde_json::from_str(params),
            None => serde_json::from_str("{}").or_else(|error| serde_json::from_str("null").map_err(|_| error)),
        }
        .map_err(|error| McpError::invalid_params(format!("Invalid params: {error}")))
    }
}

/// JSON-RPC 2.0, sections 4 (requests, notifications) and 5 (responses).
fn classify(envelope: &Envelope<'_>, text: &ByteString) -> Result<Kind, Malformed> {
    let id = envelope.id.map(|raw| RequestId::from_json(raw.get()));
    // A response's id is one that the server chose: in an error it would name another request of this client's.
    let responds = envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some());
    let echo = if envelope.repeated_id || responds { None } else { id.clone().flatten() };
    let invalid = |why| Malformed::invalid(why, echo.clone());
    let kept = |raw: &RawValue| text.slice_ref(raw.get());

    if envelope.repeated {
        return Err(invalid("Invalid Request: a repeated key"));
    }
    if envelope.crowded {
        return Err(invalid("Invalid Request: too many members"));
    }
    if !envelope.is_version_2() {
        return Err(invalid("Invalid Request: jsonrpc is not \"2.0\""));
    }
    if id == Some(None) {
        return Err(invalid("Invalid Request: the id is neither a string nor an integer of 64 bits"));
    }
    match (id.flatten(), envelope.method, envelope.result, envelope.error) {
        (id, Some(method), None, None) => {
            let Some(method) = string(method.get()) else {
                return Err(invalid("Invalid Request: the method is not a string"));
            };
            let method = match method {
                Cow::Borrowed(plain) => text.slice_ref(plain),
                Cow::Owned(escaped) => escaped.into(),
            };
            let params = match envelope.params {
                Some(raw) if raw.get() == "null" => None,
                Some(raw) if raw.get().starts_with(['{', '[']) => Some(kept(raw)),
                Some(_) => return Err(invalid("Invalid Request: the params are not an object")),
                None => None,
            };
            Ok(match id {
                Some(id) => Kind::Request { id, method, params },
                None => Kind::Notification { method, params },
            })
        }
        (Some(id), None, Some(result), None) => Ok(Kind::Response { id, result: Ok(kept(result)) }),
        (Some(id), None, None, Some(error)) if error.get().starts_with('{') => {
            Ok(Kind::Response { id, result: Err(kept(error)) })
        }
        _ => Err(invalid("Invalid Request: neither a request, a notification nor a response")),
    }
}

fn is_array(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('[')
}

/// No value is nested deeper than [`MAX_DEPTH`]. What is no JSON passes: the parser says so better.
fn is_shallow(body: &[u8]) -> bool {
    // Nearly every message has fewer opening brackets than that in all, and to count them is cheap: `[` and `{` differ in
    // one bit, and pieces of this size fit a counter of a byte, many of which fit a register.
    let opens = |piece: &[u8]| piece.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum::<u8>();
    if body.chunks(255).map(|piece| usize::from(opens(piece))).sum::<usize>() <= MAX_DEPTH {
        return true;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in body {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return false;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<Message, Malformed> {
        Message::decode(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_request_keeps_its_params_and_its_text() {
        let text = r#" {"params":{ "a" : 1.50 },"method":"tools/call","id":7,"jsonrpc":"2.0"} "#;
        let message = decode(text).unwrap();
        assert!(matches!(message.kind(), Kind::Request { id, .. } if *id == 7.into()));
        assert_eq!(message.method(), Some("tools/call"));
        assert_eq!(message.params(), Some(r#"{ "a" : 1.50 }"#));
        assert_eq!(message.text(), text);
    }

    #[test]
    fn a_method_that_is_escaped_is_the_method_that_it_spells() {
        let message = decode(r#"{"jsonrpc":"2.0","method":"notifications\/cancelled"}"#).unwrap();
        assert!(matches!(message.kind(), Kind::Notification { .. }));
        assert_eq!(message.method(), Some("notifications/cancelled"));
    }

    #[test]
    fn responses_have_a_result_or_an_error() {
        let message = decode(r#"{"jsonrpc":"2.0","id":"x","result":[1]}"#).unwrap();
        assert!(matches!(message.kind(), Kind::Response { result: Ok(result), .. } if result == "[1]"));
        let message = decode(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#).unwrap();
        assert!(matches!(message.kind(), Kind::Response { result: Err(error), .. } if error == r#"{"code":1}"#));
        assert_eq!(message.method(), None);
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_id_where_it_could_be_read() {
        for (text, code, id) in [
            ("", -32700, None),
            ("{", -32700, None),
            ("[1,", -32700, None),
            ("[]", -32600, None),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, None),
            ("{}", -32600, None),
            ("null", -32600, None),
            (r#"{"id":1,"method":"ping"}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, Some(1)),
            (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","method":7,"id":1}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"pong"}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":1}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","result":{}}"#, -32600, None),
        ] {
            let refused = decode(text).unwrap_err();
            assert_eq!((refused.code, refused.id), (code, id.map(RequestId::from)), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_refused() {
        let refused = Message::decode(Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err();
        assert_eq!(refused.code, -32700);
    }

    #[test]
    fn nesting_is_counted_outside_of_strings() {
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{open}{close}}}"#)
        };
        assert!(decode(&nested(127)).is_ok());
        assert_eq!(decode(&nested(128)).unwrap_err().code, -32700);
        assert_eq!(decode(&nested(100_000)).unwrap_err().code, -32700);
        let in_a_string = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":"\"{}\\"}}}}"#, "[".repeat(200));
        assert!(decode(&in_a_string).is_ok());
    }

    #[test]
    fn absent_params_suit_a_type_that_needs_none() {
        #[derive(Deserialize)]
        struct Page {
            cursor: Option<String>,
        }

        let message = decode(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}"#).unwrap();
        assert_eq!(message.params_as::<Page>().unwrap().cursor, None);
        assert!(message.params_as::<Option<Page>>().is_ok());
        message.params_as::<()>().unwrap();
        assert_eq!(message.params_as::<Vec<i32>>().unwrap_err().code(), -32602);
    }
}
