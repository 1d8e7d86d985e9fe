//! What is let in, by its body.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use serde_json::json;

use support::{Answer, INVALID_PARAMS, INVALID_REQUEST, Live, PARSE_ERROR, Site, call, post};

/// Posts a body that is to be refused. Nothing of it may reach the handler.
async fn refused(site: &Site, body: impl Into<Vec<u8>>) -> Answer {
    let answer = site.ask(&post(body)).await;
    assert_eq!((site.server.parked(), site.probe.log()), (0, vec![]));
    answer
}

#[tokio::test]
async fn what_is_no_json_is_a_parse_error() {
    let site = Site::new();
    let none: [&[u8]; 12] = [
        b"",
        b" ",
        b"{",
        b"not json",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xff\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",}",
        b"{'jsonrpc':'2.0'}",
        b"{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"ping\"}",
        b"[{\"jsonrpc\":\"2.0\"}",
    ];
    for body in none {
        refused(&site, body).await.error(400, PARSE_ERROR, None);
    }
}

#[tokio::test]
async fn what_is_no_message_is_an_invalid_request() {
    let site = Site::new();
    for (body, id) in [
        ("{}", None),
        ("null", None),
        ("1", None),
        (r#""x""#, None),
        (r#"{"id":1,"method":"ping"}"#, Some("1")),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, Some(r#""a""#)),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","id":18446744073709551615}"#, Some("18446744073709551615")),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","method":7}"#, None),
    ] {
        refused(&site, body).await.error(400, INVALID_REQUEST, id);
    }
}

#[tokio::test]
async fn a_batch_is_refused_in_every_version() {
    let site = Site::new();
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        for batch in ["[]", " \r\n[1]", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
            let answer = site.ask(&post(batch).with("mcp-protocol-version", version)).await;
            answer.error(400, INVALID_REQUEST, None);
        }
    }
    assert_eq!(site.probe.log(), [""; 0]);
}

#[tokio::test]
async fn an_id_is_a_string_or_an_integer_of_64_bits() {
    let site = Site::new();
    for id in [
        "null",
        "true",
        "[1]",
        "{}",
        "1.5",
        "1.0",
        "1e3",
        "1E0",
        "-0",
        "18446744073709551616",
        "-9223372036854775809",
        r#""\ud800""#,
    ] {
        refused(&site, call(id, &json!({}))).await.error(400, INVALID_REQUEST, None);
        refused(&site, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).await.error(
            400,
            INVALID_REQUEST,
            None,
        );
    }
}

#[tokio::test]
async fn a_repeated_key_is_refused() {
    let site = Site::new();
    for (body, id) in [
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"pong"}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":2}"#, Some("1")),
    ] {
        refused(&site, body).await.error(400, INVALID_REQUEST, id);
    }
    // Within the params it is the handler's business.
    let inside = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}"#;
    site.ask(&post(inside)).await.result("1");
}

#[tokio::test]
async fn nesting_is_refused_from_129_levels_on() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"a":{open}{close}}}}}"#)
    };
    let site = Site::new();
    for depth in [127, 1_000, 100_000] {
        refused(&site, nested(depth)).await.error(400, PARSE_ERROR, None);
    }
    site.ask(&post(nested(126))).await.result("1");
}

#[tokio::test]
async fn what_json_leaves_open_is_let_in() {
    let site = Site::new();
    for body in [
        " \t\r\n{ \"method\" : \"ping\" ,\n \"id\":1,\"jsonrpc\":\"2.0\" }\r\n ",
        r#"{"jsonrpc":"2\u002e0","id":1,"method":"pi\u006eg"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"result":null,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"extension":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":""}"#,
    ] {
        site.ask(&post(body)).await.result("1");
    }
}

#[tokio::test]
async fn the_params_of_a_request_are_an_object() {
    let site = Site::new();
    for method in ["ping", "initialize", "tools/call", "completion/complete", "x"] {
        for params in ["[1]", "[[]]", "[{}]", "[null]", r#"["a","b"]"#, r#"[{"name":"echo"}]"#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#);
            let error = refused(&site, body).await.error(200, INVALID_PARAMS, r#""a""#);
            assert_eq!(error.message, "params must be an object");
        }
    }
    // A notification has no answer, and its handler hears of it.
    site.ask(&post(r#"{"jsonrpc":"2.0","method":"notifications/x","params":[1]}"#)).await.accepted();
    assert_eq!(site.probe.heard().len(), 1);
}

#[tokio::test]
async fn a_refused_body_does_not_cost_the_connection() {
    let live = Live::new().await;
    let mut connection = live.connect().await;
    for _ in 0..3 {
        connection.post(&post("{")).await.error(400, PARSE_ERROR, None);
        connection.post(&post(call("1", &json!({})))).await.result("1");
    }
}
