use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::batch::{is_batch, read_batch};
use super::envelope::Envelope;
use super::error::McpError;
use super::member::{Member, present};
use super::read::{as_object, read_object};
use super::request_id::RequestId;
use super::string::string;

/// Arrays and objects within each other, at most: what `serde_json` itself reads.
const MAX_DEPTH: usize = 128;

/// One JSON-RPC message: its envelope is read, its params are kept as they came.
#[derive(Debug)]
pub(crate) struct Message {
    text: ByteString,
    kind: Kind,
}

/// Params are an object, or an array with elements: those are refused in requests, and no notification is read from them.
#[derive(Debug)]
pub(crate) enum Kind {
    Notification { method: ByteString, params: Option<ByteString> },
    Request { id: RequestId, method: ByteString, params: Option<ByteString> },
    Response { id: RequestId, result: Result<ByteString, ByteString> },
}

/// Why bytes are not a message.
#[derive(Debug, PartialEq)]
pub(crate) struct Malformed {
    pub(crate) code: i64,
    pub(crate) why: &'static str,
    /// The id of the request that they seem to be.
    pub(crate) id: Option<RequestId>,
}

impl Malformed {
    fn unreadable(why: &'static str) -> Self {
        Self { code: McpError::PARSE_ERROR, why, id: None }
    }

    fn invalid(why: &'static str) -> Self {
        Self { code: McpError::INVALID_REQUEST, ..Self::unreadable(why) }
    }
}

impl Message {
    /// Reads the body of a POST: once for UTF-8 and depth, which raw values skip, and once as an envelope.
    pub(crate) fn decode(body: &Bytes) -> Result<Self, Malformed> {
        if !is_shallow(body) {
            return Err(Malformed::unreadable("Parse error: nested deeper than 128"));
        }
        let text = ByteString::try_from(body.clone()).map_err(|_| Malformed::unreadable("Parse error: not UTF-8"))?;
        let envelope = Envelope::parse(&text).map_err(|error| match error.is_data() {
            true if is_batch(&text) => Malformed::invalid("Invalid Request: batches are not supported"),
            true => Malformed::invalid("Invalid Request: not a JSON-RPC message"),
            false => Malformed::unreadable("Parse error: invalid JSON"),
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

    /// The params as a type of the caller's; absent and empty ones are read as `{}`, then as `null`.
    pub(crate) fn params_as<'a, P: Deserialize<'a>>(&'a self) -> Result<P, McpError> {
        let params = as_object(self.params().unwrap_or("{}"));
        let params = params.ok_or_else(|| McpError::invalid_params("params must be an object"))?;
        read_object(params).map_err(|why| McpError::invalid_params(format!("Invalid params: {why}")))
    }
}

/// JSON-RPC 2.0, sections 4 (requests, notifications) and 5 (responses).
fn classify(envelope: &Envelope<'_>, text: &ByteString) -> Result<Kind, Malformed> {
    let id = envelope.id.map(|raw| RequestId::from_json(raw.get()));
    let method = present(envelope.method);
    // A response's id is one that the server chose: in an error it would name another request of this client's.
    let is_request = method.is_some() || (envelope.result.is_none() && envelope.error.is_none());
    let invalid = |why| Malformed { id: readable_id(envelope).filter(|_| is_request), ..Malformed::invalid(why) };
    let kept = |raw: &RawValue| text.slice_ref(raw.get());

    if envelope.repeated {
        return Err(invalid("Invalid Request: repeated member"));
    }
    if envelope.crowded {
        return Err(invalid("Invalid Request: too many members"));
    }
    if !envelope.is_version_2() {
        return Err(invalid("Invalid Request: jsonrpc must be \"2.0\""));
    }
    if id == Some(None) {
        return Err(invalid("Invalid Request: id must be a string or a 64-bit integer"));
    }
    match (id.flatten(), method, Member::of(envelope)) {
        (id, Some(method), _) if present(envelope.result).or(present(envelope.error)).is_none() => {
            let Some(method) = string(method.get()) else {
                return Err(invalid("Invalid Request: method must be a string"));
            };
            let method = match method {
                Cow::Borrowed(plain) => text.slice_ref(plain),
                Cow::Owned(escaped) => escaped.into(),
            };
            let params = match present(envelope.params).map(RawValue::get) {
                Some(raw) if as_object(raw).is_some_and(|object| object != raw) => Some(ByteString::from_static("{}")),
                Some(raw) if raw.starts_with(['{', '[']) => Some(text.slice_ref(raw)),
                Some(_) => return Err(invalid("Invalid Request: params must be an object")),
                None => None,
            };
            Ok(match id {
                Some(id) => Kind::Request { id, method, params },
                None => Kind::Notification { method, params },
            })
        }
        (Some(id), None, Ok(Member::Result(result))) => Ok(Kind::Response { id, result: Ok(kept(result)) }),
        (Some(id), None, Ok(Member::Error(error))) if error.get().starts_with('{') => {
            Ok(Kind::Response { id, result: Err(kept(error)) })
        }
        _ => Err(invalid("Invalid Request: neither a request, a notification nor a response")),
    }
}

/// The ids in a body that is refused, which may be those of responses.
pub(crate) fn ids_in(body: &[u8]) -> Vec<RequestId> {
    let text = String::from_utf8_lossy(body);
    let id_in = |message: &RawValue| readable_id(&Envelope::parse(message.get()).ok()?);
    if !is_batch(&text) {
        return serde_json::from_str(&text).ok().and_then(id_in).into_iter().collect();
    }
    let mut ids = Vec::new();
    match read_batch(&text, |message| ids.extend(id_in(message))) {
        Ok(()) => ids,
        Err(_) => Vec::new(),
    }
}

/// The id, if it is one, and no other reader could take another one.
fn readable_id(envelope: &Envelope<'_>) -> Option<RequestId> {
    RequestId::from_json(envelope.id.filter(|_| !envelope.repeated_id)?.get())
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
        Message::decode(&Bytes::copy_from_slice(text.as_bytes()))
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
    fn null_members_are_absent() {
        for (text, result) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, Ok("{}")),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null,"method":null,"params":null}"#, Ok("{}")),
            (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1},"method":null}"#, Err(r#"{"code":1}"#)),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Ok("null")),
            (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#, Ok("null")),
        ] {
            let message = decode(text).unwrap();
            let Kind::Response { result: read, .. } = message.kind() else { panic!("{text}") };
            assert_eq!(read.as_deref().map_err(AsRef::as_ref), result, "{text}");
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"result":null,"error":null}"#,
            r#"{"jsonrpc":"2.0","method":"ping","result":null}"#,
        ] {
            assert_eq!(
                (decode(text).unwrap().method(), decode(text).unwrap().params()),
                (Some("ping"), None),
                "{text}"
            );
        }
    }

    #[test]
    fn a_malformed_response_is_matched_by_its_id_and_the_id_is_not_echoed() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":"q","result":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for text in [
            r#"{"jsonrpc":"2.0","id":"q","result":{},"error":{"code":1}}"#,
            r#"{"jsonrpc":"2.0","id":"q","error":"x"}"#,
            r#"{"jsonrpc":"2.0","id":"q","error":[1]}"#,
            r#"{"jsonrpc":"2.0","id":"q","error":null}"#,
            r#"{"jsonrpc":"1.0","id":"q","result":{}}"#,
            r#"{"id":"q","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"q","result":{},"result":{}}"#,
            &deep,
        ] {
            assert_eq!((decode(text).unwrap_err().id, ids_in(text.as_bytes())), (None, vec!["q".into()]), "{text}");
        }
        let no_utf_8 = b"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":\"\xff\"}";
        assert_eq!(ids_in(no_utf_8), ["q".into()]);
        let batch = r#"[{"id":"q","result":1},7,[],{"id":"r"},{"id":1,"id":1}]"#;
        assert_eq!(ids_in(batch.as_bytes()), ["q".into(), "r".into()]);
        for text in
            [r#"{"jsonrpc":"2.0","id":"q","id":"q","result":{}}"#, r#"{"jsonrpc":"2.0","result":{}}"#, "[]", "{", "7"]
        {
            assert_eq!(ids_in(text.as_bytes()), [], "{text}");
        }
    }

    #[test]
    fn params_are_an_object() {
        let of =
            |params: &str| decode(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#)).unwrap();
        for (params, read) in [("{}", "{}"), ("[]", "{}"), ("[ \n]", "{}"), (r#"{"a":[]}"#, r#"{"a":[]}"#)] {
            assert_eq!(of(params).params(), Some(read), "{params}");
        }
        for params in ["[1]", "[[]]", "[null]", "[{}]"] {
            let error = of(params).params_as::<Vec<serde_json::Value>>().unwrap_err();
            assert_eq!((error.code(), error.message()), (-32602, "params must be an object"), "{params}");
        }
        of("[]").params_as::<()>().unwrap();
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
            (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping","params":null}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}"#, -32600, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1,"error":null}"#, -32600, None),
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
        let refused = Message::decode(&Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err();
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
