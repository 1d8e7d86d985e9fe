//! What a service may reply to a request, and which of it answers the request.

use super::foreign::{answer, event};

/// A reply to the request whose id is 7.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Vec<u8>,
}

const JSON: (&str, &str) = ("content-type", "application/json");
const HTML: (&str, &str) = ("content-type", "text/html; charset=utf-8");
const GZIP: (&str, &str) = ("content-encoding", "gzip");

fn sent(status: u16, headers: &[(&'static str, &'static str)], body: impl Into<Vec<u8>>) -> Sent {
    Sent { status, headers: headers.to_vec(), body: body.into() }
}

fn json(body: impl Into<Vec<u8>>) -> Sent {
    sent(200, &[JSON], body)
}

fn with_id(id: &str) -> Sent {
    json(answer(id))
}

/// These pass as they are.
pub(crate) fn that_pass() -> Vec<Sent> {
    let mut all: Vec<_> =
        ["7", "7.0", "7e0", "70e-1", "0.7E+1", r#""7""#, r#""7.0""#, r#""\u0037""#].map(with_id).into();
    all.extend(
        [
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"},"result":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null,"method":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":8,"result":{},"id":7,"x":1,"x":2}"#,
            r#"{"jsonrpc":"2\u002e0","\u0069d":7,"result":"\ud800 \udfff"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":[1e999999999,123456789012345678901234567890.5]}"#,
            "\t\r\n {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}} \r\n\t",
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}",
            r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
            r#" [{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":"7","result":{}},1]"#,
        ]
        .map(json),
    );
    all.push(json(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}"));
    // The type does not decide, nor does the status of a success.
    for headers in [&[][..], &[HTML], &[("content-type", "text/plain")], &[("content-type", "application/json-rpc")]] {
        all.push(sent(200, headers, answer("7")));
    }
    for status in [201, 203, 206, 299] {
        all.push(sent(status, &[JSON], answer("7")));
        all.push(sent(status, &[("content-type", "text/event-stream")], event(&answer("7"))));
    }
    // What cannot be judged is taken at its word.
    all.push(sent(200, &[JSON, GZIP], b"\x1f\x8b\x08"));
    all.push(json([b"{".to_vec(), vec![b' '; 4 * 1024 * 1024]].concat()));
    all.push(sent(200, &[HTML, ("content-encoding", "identity")], answer("7")));
    // What is no success is HTTP's.
    for status in [301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 429, 500, 501, 502, 503, 504, 599] {
        for (headers, body) in
            [(&[JSON][..], "{}"), (&[JSON], ""), (&[HTML], "<html>"), (&[HTML, GZIP], "x"), (&[], "")]
        {
            all.push(sent(status, headers, body));
        }
        all.push(sent(status, &[JSON], answer("8")));
    }
    all
}

/// These would leave their client without an answer.
pub(crate) fn that_do_not_answer() -> Vec<Sent> {
    let mut all: Vec<_> =
        ["8", "-7", "7.5", "70", r#""07""#, r#""7.1""#, "null", "[7]", "7.00000000000000000001"].map(with_id).into();
    let whole = answer("7");
    all.extend([1, whole.len() / 2, whole.len() - 1].map(|end| json(&whole.as_bytes()[..end])));
    all.extend(
        [
            "",
            " \n",
            "[]",
            "null",
            "{}",
            "7",
            "true",
            "\"7\"",
            "no JSON",
            "\u{feff}",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request"}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":-1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"id":8}"#,
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":2.0,"id":7,"result":{}}"#,
            r#"{"id":7,"result":{}}"#,
            r#"{"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"[{"jsonrpc":"2.0","id":8,"result":{}}]"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"[[{"jsonrpc":"2.0","id":7,"result":{}}]]"#,
        ]
        .map(json),
    );
    for status in [200, 201, 202, 203, 206, 299] {
        all.extend([&[][..], &[JSON], &[HTML], &[JSON, GZIP], &[HTML, GZIP]].map(|headers| sent(status, headers, "")));
        all.push(sent(status, &[HTML], "<html></html>"));
        all.push(sent(status, &[JSON], answer("8")));
    }
    all.extend([204, 205].map(|status| sent(status, &[], "")));
    all.push(sent(200, &[HTML, GZIP], b"\x1f\x8b\x08"));
    all.push(sent(200, &[GZIP], answer("7")));
    // Too large to be held, and a page.
    all.push(sent(200, &[HTML], vec![b'x'; 4 * 1024 * 1024 + 1]));
    all
}
