use serde_json::value::RawValue;

use crate::object::Object;

/// Bytes of a line that may be read once more, because what was thought to begin a message did not.
const MOST_AGAIN: usize = 16 << 20;

/// The JSON-RPC messages on a line. A server should write one, and some write two, a batch (MCP 2025-03-26), or a message
/// behind something for the log that was not meant to be here.
///
/// Beside text that is not JSON only an object that says `jsonrpc` is a message, and none that is a request: a log line may
/// quote the client's own. Elsewhere any object may be a message.
pub(crate) fn messages(line: &str) -> Vec<&RawValue> {
    let (mut found, mut is_clean, mut again) = (Vec::new(), true, MOST_AGAIN);
    let mut rest = line;
    while let Some(begin) = rest.find(['{', '[']) {
        is_clean &= is_blank(&rest[..begin]);
        rest = &rest[begin..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(value)) => {
                rest = &rest[values.byte_offset()..];
                match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
                    Ok(batch) => found.extend(batch),
                    Err(_) => found.push(value),
                }
            }
            Some(Err(error)) => {
                is_clean = false;
                rest = &rest[1..];
                let Some(left) = again.checked_sub(error.column()) else { break };
                again = left;
            }
            None => break,
        }
    }
    is_clean &= is_blank(rest);
    found.retain(|value| {
        value.get().starts_with('{') && (is_clean || Object::read(value).is_some_and(|object| is_meant(&object)))
    });
    found
}

/// Beside text, a response or a notification is a message; an object without `jsonrpc` is not, nor is a request.
fn is_meant(object: &Object<'_>) -> bool {
    let has = |name| object.get(name).is_some();
    has("jsonrpc") && !(has("id") && has("method"))
}

/// White space, or a byte order mark.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|char| char.is_whitespace() || char == '\u{feff}' || char == '\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"a":"}{[]"}}"#;
    const B: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"\ud83d":"\ud83d"}}"#;

    const N: &str = r#"{"jsonrpc":"2.0","id":null,"method":"notifications/message"}"#;
    const Q: &str = r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{}}"#;

    #[test]
    fn every_message_on_a_line_is_found() {
        for (line, expected) in [
            (A.to_owned(), &[A][..]),
            (format!("\u{feff}{A}\r"), &[A]),
            (format!("{A}{B}"), &[A, B]),
            (format!(" {A} \t {B} \0"), &[A, B]),
            (format!("[{A},{B}]"), &[A, B]),
            (format!("[{A}, 7, [{B}]][]{B}"), &[A, B]),
            (format!("Listening... {A}"), &[A]),
            (format!("[INFO] {{x}} \"{{\" {A} -- {B} (done)"), &[A, B]),
            (format!("{A}{B} {{\"jsonrpc\":"), &[A, B]),
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"res{A}"), &[A]),
            (format!("\u{1b}[32m{A}\u{1b}[0m"), &[A]),
            ("{\"id\":1,\"result\":{}}".to_owned(), &["{\"id\":1,\"result\":{}}"]),
            (Q.to_owned(), &[Q]),
            (format!("{Q}{A} [{Q}]"), &[Q, A, Q]),
            (format!("DEBUG got {Q}"), &[]),
            (format!("{Q} <- got"), &[]),
            (format!("{Q} is answered with {A}"), &[A]),
            (format!("DEBUG got [{Q}, {A}]"), &[A]),
            (format!("\u{1b}[32m{Q}\u{1b}[0m"), &[]),
            (format!("DEBUG {N}"), &[N]),
            ("saw {\"id\":1,\"result\":{}}".to_owned(), &[]),
            ("not json".to_owned(), &[]),
            ("7 null [] [1] \"{}\"".to_owned(), &[]),
            (String::new(), &[]),
        ] {
            assert_eq!(messages(&line).iter().map(|raw| raw.get()).collect::<Vec<_>>(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_that_begins_many_messages_is_given_up() {
        let line = format!("{}{A}", "[".repeat(4 << 20));
        assert!(messages(&line).is_empty());
    }
}
