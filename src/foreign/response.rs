//! Finds the response to a request in what a service sends: one message, or a batch of them (MCP 2025-03-26). Of a repeated
//! member the last one counts, as in most parsers.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::jsonrpc::{Envelope, Member, RequestId, is_batch, present, read_batch};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Holds {
    Error,
    Result,
}

/// Why a body is not the response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NoAnswer {
    pub(super) why: &'static str,
    /// Of an error without an id.
    pub(super) code: Option<i64>,
}

impl From<&'static str> for NoAnswer {
    fn from(why: &'static str) -> Self {
        Self { why, code: None }
    }
}

/// What the response in a body holds, or why the body is not the response. Like `fetch().json()`, it skips a byte order mark
/// and replaces bytes that are not UTF-8.
pub(super) fn body_answers(body: &[u8], id: &RequestId) -> Result<Holds, NoAnswer> {
    let text = String::from_utf8_lossy(body);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if is_batch(text) {
        let found =
            find_in_batch(text, |message| answers(message, id).ok()).map_err(|_| "it is not JSON, or is cut short")?;
        return found.ok_or(NoAnswer::from("it is a batch without the response"));
    }
    let envelope = Envelope::parse(text).map_err(|error| match error.is_data() {
        true => "it is not a JSON object",
        false if text.is_empty() => "it is empty",
        false => "it is not JSON, or is cut short",
    })?;
    answers(&envelope, id)
}

/// JSON-RPC 2.0, section 5.
fn answers(envelope: &Envelope<'_>, id: &RequestId) -> Result<Holds, NoAnswer> {
    if !envelope.is_version_2() {
        return Err("its jsonrpc is not \"2.0\"".into());
    }
    let member = Member::of(envelope)?;
    let holds = match member {
        Member::Error(error) if error.get().starts_with('{') => Holds::Error,
        Member::Error(_) => return Err("its error is not an object".into()),
        Member::Result(_) => Holds::Result,
    };
    match (present(envelope.id), member) {
        (Some(own), _) if id.is_spelled(own.get()) => Ok(holds),
        (Some(_), _) => Err("it has another id".into()),
        (None, Member::Error(error)) => Err(NoAnswer { why: "it is an error without an id", code: code(error) }),
        (None, Member::Result(_)) => Err("it has no id".into()),
    }
}

fn code(error: &RawValue) -> Option<i64> {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
    }

    serde_json::from_str(error.get()).ok().map(|Error { code }| code)
}

/// What the response in the data of an event holds, if there is one. A message counts if any client may take it for the
/// response, even if it is malformed: otherwise the layer would send a second one.
pub(super) fn event_answers(data: &str, id: &RequestId) -> Option<Holds> {
    let holds_for =
        |envelope: &Envelope<'_>| answered(envelope).and_then(|(own, holds)| id.is_spelled(own).then_some(holds));
    if is_batch(data) {
        return find_in_batch(data, holds_for).ok().flatten();
    }
    holds_for(&Envelope::parse(data).ok()?)
}

/// The id in a message that is a response, as it stands there.
pub(super) fn answered_id(message: &str) -> Option<&str> {
    answered(&Envelope::parse(message).ok()?).map(|(id, _)| id)
}

fn answered<'a>(envelope: &Envelope<'a>) -> Option<(&'a str, Holds)> {
    let id = envelope.id.filter(|_| present(envelope.method).is_none())?;
    let holds = match (envelope.result, present(envelope.error)) {
        (_, Some(_)) if present(envelope.result).is_none() => Holds::Error,
        (Some(_), _) => Holds::Result,
        (None, _) => return None,
    };
    Some((id.get(), holds))
}

/// Returns the first value that `look` finds in the messages of a batch, which is read to its end, because it may be cut short.
fn find_in_batch<T>(text: &str, look: impl Fn(&Envelope<'_>) -> Option<T>) -> serde_json::Result<Option<T>> {
    let mut found = None;
    read_batch(text, |message| {
        if found.is_none() {
            found = Envelope::parse(message.get()).ok().and_then(|envelope| look(&envelope));
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_body(body: &str) -> Result<Holds, &'static str> {
        body_answers(body.as_bytes(), &7.into()).map_err(|no_answer| no_answer.why)
    }

    #[test]
    fn a_body_answers_its_request() {
        for body in [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            " \r\n\t{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\r\n ",
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}",
            r#"{"jsonrpc":"2\u002e0","\u0069d":7.0,"result":"\ud800 \uDFFF"}"#,
            r#"{"jsonrpc":"2.0","id":"7","result":1e999999999,"x":123456789012345678901234567890}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null,"method":null,"params":null}"#,
            r#"{"jsonrpc":"1.0","id":8,"jsonrpc":"2.0","result":{},"id":7,"x":1,"x":2}"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
            r#" [1, null, {"jsonrpc":"2.0","id":8,"error":{}}, {"jsonrpc":"2.0","id":"7","result":{}}, [] ] "#,
        ] {
            assert_eq!(of_body(body), Ok(Holds::Result), "{body}");
        }
        for body in [
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":70e-1,"error":{},"result":null}"#,
            r#"[{"jsonrpc":"2.0","id":7,"error":{}}]"#,
        ] {
            assert_eq!(of_body(body), Ok(Holds::Error), "{body}");
        }
        assert!(body_answers(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}", &7.into()).is_ok());
    }

    #[test]
    fn a_crowd_of_members_and_deep_nesting_hide_no_answer() {
        let others: String = (0..1_000).map(|at| format!("\"{at}\":0,")).collect();
        assert!(of_body(&format!("{{{others}\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{}}}}")).is_ok());
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        assert!(of_body(&format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{open}{close}}}")).is_ok());
        assert!(of_body(&format!("{open}{close}")).is_err());
    }

    #[test]
    fn a_body_that_does_not_says_why() {
        for (body, why) in [
            ("", "it is empty"),
            (" \n", "it is not JSON, or is cut short"),
            ("{}", "its jsonrpc is not \"2.0\""),
            ("[]", "it is a batch without the response"),
            ("null", "it is not a JSON object"),
            ("7", "it is not a JSON object"),
            ("<html></html>", "it is not JSON, or is cut short"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{}"#, "it is not JSON, or is cut short"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}{}"#, "it is not JSON, or is cut short"),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{}}"#, "it is not JSON, or is cut short"),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{}}] 1"#, "it is not JSON, or is cut short"),
            (r#"[{"jsonrpc":"2.0","id":8,"result":{}}]"#, "it is a batch without the response"),
            (r#"[[{"jsonrpc":"2.0","id":7,"result":{}}]]"#, "it is a batch without the response"),
            (r#"{"id":7,"result":{}}"#, "its jsonrpc is not \"2.0\""),
            (r#"{"jsonrpc":2.0,"id":7,"result":{}}"#, "its jsonrpc is not \"2.0\""),
            (r#"{"jsonrpc":"2.0","id":7}"#, "it has not exactly one of `result` and `error`"),
            (r#"{"jsonrpc":"2.0","id":7,"error":null}"#, "it has not exactly one of `result` and `error`"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, "it has not exactly one of `result` and `error`"),
            (r#"{"jsonrpc":"2.0","id":7,"error":"no"}"#, "its error is not an object"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, "it has a method"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#, "it has a method"),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, "it has another id"),
            (r#"{"jsonrpc":"2.0","id":"07","result":{}}"#, "it has another id"),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"id":8}"#, "it has another id"),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "it has no id"),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "it has no id"),
            (r#"{"jsonrpc":"2.0","error":{}}"#, "it is an error without an id"),
        ] {
            assert_eq!(of_body(body), Err(why), "{body}");
        }
        let without_id = body_answers(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#, &7.into());
        assert_eq!(without_id, Err(NoAnswer { why: "it is an error without an id", code: Some(-32700) }));
    }

    #[test]
    fn an_event_answers_where_a_client_may_take_it_for_the_answer() {
        for data in [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"id":"7","result":{},"method":null}"#,
            r#"{"jsonrpc":"2.0","id":7.0,"result":{},"error":{}}"#,
            r#"[{},{"jsonrpc":"2.0","id":7e0,"result":{}}]"#,
        ] {
            assert_eq!(event_answers(data, &7.into()), Some(Holds::Result), "{data}");
        }
        assert_eq!(event_answers(r#"{"id":7,"error":{},"result":null}"#, &7.into()), Some(Holds::Error));
        for data in [r#"{"id":7}"#, r#"{"id":7,"error":null}"#, r#"{"id":7,"result":{},"method":"x"}"#, "[]", "7", ""] {
            assert_eq!(event_answers(data, &7.into()), None, "{data}");
        }
    }

    #[test]
    fn the_id_of_a_response_is_read_as_it_stands() {
        assert_eq!(answered_id(r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#), Some("7.0"));
        assert_eq!(answered_id(r#"{"jsonrpc":"2.0","id":"7","error":{}}"#), Some("\"7\""));
        assert_eq!(answered_id(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), None);
    }
}
