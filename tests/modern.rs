//! Revision 2026-07-28: requests that say all about themselves, in their body and again in their headers.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{ExchangeInfo, McpError, McpMessage, Notifier, Outcome, ProtocolVersion, Reply};
use serde_json::{Value, json};

use support::{
    Answer, CANCELLED, Era, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, Live, PARSE_ERROR, Post, Site,
    UNSUPPORTED_VERSION, call, cancel, error_of, held, initialize, modern, note, post, request,
};

const MODERN: &str = "2026-07-28";
const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A good one.
fn echo() -> Post {
    modern("\"m\"", "tools/call", &json!({ "name": "echo" }))
}

/// Its headers, over another body.
fn with_body(body: impl Into<Vec<u8>>) -> Post {
    post(body).with(VERSION, MODERN).and(METHOD, "tools/call").and(NAME, "echo")
}

/// Its headers, over a call with this `_meta`.
fn with_meta(meta: &Value) -> Post {
    with_body(call("\"m\"", &json!({ "name": "echo", "_meta": meta })))
}

/// Posts what is to be refused: its handler must not be called.
async fn refused(live: &Live, request: &Post) -> Answer {
    let answer = live.post(request).await;
    assert_eq!(live.probe.log(), Vec::<String>::new(), "{request:?}");
    assert_eq!((live.server.parked(), live.outcomes.all()), (0, vec![]), "{request:?}");
    assert_eq!(answer.header("mcp-session-id"), None);
    answer
}

#[tokio::test]
async fn a_request_that_agrees_with_its_headers_is_let_in() {
    let live = Live::new().await;
    for request in [
        echo(),
        echo().with(NAME, "=?base64?ZWNobw==?="),
        echo().without(NAME).and("MCP-Name", "  echo \t"),
        modern("\"m\"", "tools/call", &json!({ "name": "gr\u{fc}\u{df}e" })).with(NAME, "=?base64?Z3LDvMOfZQ==?="),
        modern("\"m\"", "tools/call", &json!({ "name": " a " })).with(NAME, "=?base64?IGEg?="),
        modern("\"m\"", "tools/call", &json!({ "name": "=?base64?x?=" })).with(NAME, "=?base64?PT9iYXNlNjQ/eD89?="),
        modern("\"m\"", "tools/call", &json!({ "name": "" })).with(NAME, "=?base64??="),
        modern("\"m\"", "prompts/get", &json!({ "name": "a b" })),
        modern("\"m\"", "resources/read", &json!({ "uri": "file:///a" })),
        modern("\"m\"", "resources/read", &json!({ "uri": "file:///\u{e4}", "name": "x" }))
            .with(NAME, "=?base64?ZmlsZTovLy/DpA==?="),
        modern("\"m\"", "tools/list", &json!({})),
        // A name of a method that has none says nothing.
        modern("\"m\"", "tools/list", &json!({})).and(NAME, "whatever"),
        modern("\"m\"", "server/discover", &json!({})),
        // It is the method's matter that it names no tool.
        modern("\"m\"", "tools/call", &json!({})),
        modern("\"m\"", "tools/call", &json!({ "_meta": { META_CAPABILITIES: { "a": 1 }, "other": 7 } })),
    ] {
        let answer = live.post(&request).await;
        answer.result("\"m\"");
        assert_eq!(answer.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn a_meta_that_lacks_something_is_invalid_params() {
    let live = Live::new().await;
    let (version, capabilities) = (json!(MODERN), json!({}));
    for (meta, lacks) in [
        (json!({ META_CAPABILITIES: capabilities }), META_VERSION),
        (json!({ META_VERSION: 7, META_CAPABILITIES: capabilities }), META_VERSION),
        (json!({ META_VERSION: null, META_CAPABILITIES: capabilities }), META_VERSION),
        (json!({ META_VERSION: version }), META_CAPABILITIES),
        (json!({ META_VERSION: version, META_CAPABILITIES: null }), META_CAPABILITIES),
        (json!({ META_VERSION: version, META_CAPABILITIES: [{}] }), META_CAPABILITIES),
        (json!({ META_VERSION: version, META_CAPABILITIES: "{}" }), META_CAPABILITIES),
        (json!({}), META_VERSION),
        (json!(null), META_VERSION),
        (json!([]), META_VERSION),
        (json!([{}]), META_VERSION),
        (json!("x"), META_VERSION),
    ] {
        let error = refused(&live, &with_meta(&meta)).await.error(400, INVALID_PARAMS, "\"m\"");
        assert!(error.message.contains(lacks), "{meta}: {}", error.message);
    }
    let echo = with_meta(&json!({ META_VERSION: version, META_CAPABILITIES: [] }));
    // As some languages write an empty object.
    assert_eq!(live.post(&echo).await.status, 200);
    let live = Live::new().await;
    for params in [
        "",
        r#","params":null"#,
        r#","params":{}"#,
        r#","params":[]"#,
        r#","params":[1]"#,
        r#","params":{"name":"echo"}"#,
    ] {
        let bare = format!(r#"{{"jsonrpc":"2.0","id":"m","method":"tools/call"{params}}}"#);
        refused(&live, &with_body(bare)).await.error(400, INVALID_PARAMS, "\"m\"");
    }
}

#[tokio::test]
async fn a_header_that_does_not_agree_is_a_mismatch() {
    let live = Live::new().await;
    let read = || modern("\"m\"", "resources/read", &json!({ "uri": "file:///a", "name": "echo" }));
    for (request, names) in [
        (echo().without(VERSION), "MCP-Protocol-Version"),
        (echo().and(VERSION, MODERN), "MCP-Protocol-Version"),
        (echo().with(VERSION, "2025-11-25"), "MCP-Protocol-Version"),
        (echo().with(VERSION, "2026-07-28, 2026-07-28"), "MCP-Protocol-Version"),
        (echo().with(VERSION, "=?base64?MjAyNi0wNy0yOA==?="), "MCP-Protocol-Version"),
        (echo().without(METHOD), "Mcp-Method"),
        (echo().with(METHOD, ""), "Mcp-Method"),
        (echo().and(METHOD, "tools/call"), "Mcp-Method"),
        (echo().with(METHOD, "tools/list"), "Mcp-Method"),
        (echo().with(METHOD, "TOOLS/CALL"), "Mcp-Method"),
        (echo().with(METHOD, "tools/call, tools/call"), "Mcp-Method"),
        (echo().with(METHOD, "=?base64?dG9vbHMvY2FsbA==?="), "Mcp-Method"),
        (echo().without(NAME), "Mcp-Name"),
        (echo().with(NAME, ""), "Mcp-Name"),
        (echo().and(NAME, "echo"), "Mcp-Name"),
        (echo().with(NAME, "Echo"), "Mcp-Name"),
        (echo().with(NAME, "\"echo\""), "Mcp-Name"),
        (echo().with(NAME, "ech\u{f6}"), "Mcp-Name"),
        (echo().with(NAME, "ZWNobw=="), "Mcp-Name"),
        (echo().with(NAME, "=?base64?ZWNobw?="), "Mcp-Name"),
        (echo().with(NAME, "=?base64?ZWNo!w==?="), "Mcp-Name"),
        (echo().with(NAME, "=?base64?ZWNobw==?"), "Mcp-Name"),
        (echo().with(NAME, "=?BASE64?ZWNobw==?="), "Mcp-Name"),
        (echo().with(NAME, "=?base64?ZWNoo/==?="), "Mcp-Name"),
        (echo().with(NAME, "=?base64?/w==?="), "Mcp-Name"),
        (modern("\"m\"", "tools/call", &json!({})).and(NAME, "echo"), "Mcp-Name"),
        (modern("\"m\"", "tools/call", &json!({ "name": 7 })).and(NAME, "7"), "Mcp-Name"),
        (modern("\"m\"", "prompts/get", &json!({ "name": "echo" })).without(NAME), "Mcp-Name"),
        // As raw bytes it is no header that anyone could compare.
        (modern("\"m\"", "tools/call", &json!({ "name": "gr\u{fc}\u{df}e" })), "Mcp-Name"),
        (read().with(NAME, "echo"), "Mcp-Name"),
        (read().without(NAME), "Mcp-Name"),
    ] {
        let error = refused(&live, &request).await.error(400, HEADER_MISMATCH, "\"m\"");
        assert!(error.message.contains(names), "{request:?}: {}", error.message);
    }
}

#[tokio::test]
async fn a_method_in_characters_that_no_header_may_have_is_a_mismatch() {
    let live = Live::new().await;
    let request = modern("\"m\"", "tools/\u{e4}", &json!({}));
    refused(&live, &request).await.error(400, HEADER_MISMATCH, "\"m\"");
}

#[tokio::test]
async fn a_repeated_param_is_an_invalid_request() {
    let live = Live::new().await;
    let meta = format!(r#""_meta":{{"{META_VERSION}":"{MODERN}","{META_CAPABILITIES}":{{}}}}"#);
    for params in [
        format!(r#"{{{meta},{meta},"name":"echo"}}"#),
        format!(r#"{{{meta},"name":"echo","name":"echo"}}"#),
        format!(r#"{{{meta},"name":"echo","n\u0061me":"other"}}"#),
        format!(r#"{{{meta},"uri":"a","uri":"b","name":"echo"}}"#),
        format!(r#"{{"_meta":{{"{META_VERSION}":"{MODERN}","{META_VERSION}":"{MODERN}"}},"name":"echo"}}"#),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{params}}}"#);
        refused(&live, &with_body(body)).await.error(400, INVALID_REQUEST, "\"m\"");
    }
}

#[tokio::test]
async fn a_version_that_is_not_served_is_named_with_those_that_are() {
    let live = Live::new().await;
    let of = |version: &str| with_meta(&json!({ META_VERSION: version, META_CAPABILITIES: {} })).with(VERSION, version);
    for version in ["2099-01-01", "2024-11-05", "x", "DRAFT-2026-v1"] {
        let error = refused(&live, &of(version)).await.error(400, UNSUPPORTED_VERSION, "\"m\"");
        let expected = json!({
            "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
            "requested": version,
        });
        assert_eq!(error.data, Some(expected));
    }
    // What a client sends is shown, but not all of it.
    let long = "9".repeat(4_000);
    let error = refused(&live, &of(&long)).await.error(400, UNSUPPORTED_VERSION, "\"m\"");
    assert_eq!(error.data.unwrap()["requested"], "9".repeat(128));
    // A legacy version in both is a legacy request.
    live.post(&of("2025-06-18")).await.result("\"m\"");
}

#[tokio::test]
async fn refusals_come_in_the_order_in_which_a_client_can_mend_them() {
    let live = Live::new().await;
    let nothing = json!({});
    // Each of these has all the faults that come after its own, too.
    let last = |request: Post| request.without(METHOD).with(NAME, "wrong");
    let unserved = || with_meta(&json!({ META_VERSION: "2099-01-01", META_CAPABILITIES: nothing }));
    for (request, status, code, id) in [
        (last(with_body("{")).and("host", "evil.example"), 403, INVALID_REQUEST, None),
        (last(with_body("{")).with("origin", "http://evil.example"), 403, INVALID_REQUEST, None),
        (last(with_body("{")).with("content-type", "text/plain"), 415, INVALID_REQUEST, None),
        (last(with_body("{")), 400, PARSE_ERROR, None),
        (last(with_body(r#"{"id":"m","method":"tools/call"}"#)), 400, INVALID_REQUEST, Some("\"m\"")),
        (last(with_meta(&nothing)).with("accept", "text/html"), 406, INVALID_REQUEST, Some("\"m\"")),
        (last(with_meta(&nothing)), 400, INVALID_PARAMS, Some("\"m\"")),
        (last(unserved()).with(VERSION, MODERN), 400, HEADER_MISMATCH, Some("\"m\"")),
        (last(unserved()).with(VERSION, "2099-01-01"), 400, UNSUPPORTED_VERSION, Some("\"m\"")),
        (last(echo()), 400, HEADER_MISMATCH, Some("\"m\"")),
    ] {
        refused(&live, &request).await.error(status, code, id);
    }
    let error = refused(&live, &last(echo())).await.error(400, HEADER_MISMATCH, "\"m\"");
    assert!(error.message.contains("Mcp-Method"), "{}", error.message);
}

/// What the client gets of an error that the handler returns.
async fn fails_with(code: i64, era: Era) -> Answer {
    let site = Site::over(on_post(async move || McpError::new(code, "why").with_data("data")));
    let answer = site.ask(&era.call("1", &json!({}))).await;
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
    answer
}

#[tokio::test]
async fn the_codes_of_the_protocol_have_a_status_of_their_own() {
    for (code, status) in [
        (-32601, 404),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32023, 200),
        (-32019, 200),
        (-32600, 200),
        (-32602, 200),
        (-32603, 200),
        (-32700, 200),
        (-32800, 200),
        (-32002, 200),
        (0, 200),
        (404, 200),
    ] {
        for (era, status) in [(Era::Modern, status), (Era::Legacy, 200)] {
            let error = fails_with(code, era).await.error(status, code, "1");
            assert_eq!((error.message.as_str(), error.data), ("why", Some(json!("data"))));
        }
    }
}

#[tokio::test]
async fn a_complete_response_of_the_handlers_has_the_status_too() {
    let text = |code: i64| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m"}}}}"#);
    for (code, status) in [(-32601, 404), (-32021, 400), (-32000, 200)] {
        let site = Site::over(on_post(async move || text(code)));
        site.ask(&Era::Modern.call("1", &json!({}))).await.error(status, code, "1");
        site.ask(&Era::Legacy.call("1", &json!({}))).await.error(200, code, "1");
    }
}

#[tokio::test]
async fn an_error_in_a_stream_that_has_begun_has_no_status() {
    async fn handler(notifier: Notifier) -> McpError {
        notifier.notify("notifications/message", json!(1)).await.unwrap();
        tokio::task::yield_now().await;
        McpError::method_not_found("x")
    }

    let mut events = Site::over(on_post(handler)).open(&Era::Modern.call("1", &json!({}))).await;
    events.streams();
    events.message().await;
    events.ends_with_error(-32601, "1").await;
}

#[tokio::test]
async fn notes_queued_before_such_an_error_are_sent_before_it() {
    async fn handler(notifier: Notifier) -> McpError {
        notifier.notify("notifications/message", json!({ "data": 1, "level": "info" })).await.unwrap();
        McpError::method_not_found("x")
    }

    let mut events = Site::over(on_post(handler)).open(&Era::Modern.call("1", &json!({}))).await;
    assert_eq!(events.message().await, note(&json!(1)));
    events.ends_with_error(-32601, "1").await;
}

#[tokio::test]
async fn there_are_no_sessions() {
    async fn handler(message: McpMessage, info: ExchangeInfo, headers: http::HeaderMap) -> Response {
        let ours = headers.get("mcp-session-id").is_some_and(|id| id.as_bytes().starts_with(b"mcpl-"));
        assert!(!ours, "a session of ours is not to be seen");
        let version = info.version().as_str();
        let result = Reply(json!([message.method(), info.session_id(), version]));
        ([("mcp-session-id", "of-the-handler")], result).into_response()
    }

    let live = Site::over(on_post(handler)).listen().await;
    for method in ["initialize", "tools/list"] {
        for session in [None, Some("theirs"), Some("mcpl-00000000000000000000000000000000")] {
            let mut request = modern("1", method, &json!({}));
            if let Some(session) = session {
                request = request.and("mcp-session-id", session);
            }
            for accept in ["application/json", "text/event-stream"] {
                let answer = live.post(&request.clone().with("accept", accept)).await;
                assert_eq!(answer.header("mcp-session-id"), None, "{method} {session:?}");
                assert!(answer.text().contains(&json!([method, null, MODERN]).to_string()), "{}", answer.text());
            }
        }
    }
}

#[tokio::test]
async fn initialize_opens_no_session_and_negotiates_no_modern_version() {
    let live = Live::new().await;
    assert_eq!(live.post(&modern("1", "initialize", &json!({}))).await.header("mcp-session-id"), None);
    // Without the header it is a legacy one, whatever it asks for.
    let site = Site::over(on_post(async |info: ExchangeInfo| Reply(json!(info.version().as_str()))));
    let asks = post(initialize("1", &json!({ "protocolVersion": MODERN }))).without(VERSION);
    let answer = site.ask(&asks).await;
    assert_eq!(answer.result("1"), json!("2025-11-25"));
    assert!(answer.header("mcp-session-id").unwrap().starts_with("mcpl-"));
}

#[tokio::test]
async fn a_session_that_is_sent_does_not_tell_callers_apart() {
    let site = Site::with(|options| options.honour_modern_cancel(true).max_parked_per_caller(1));
    let first = site.begin(&Era::Modern.held("1").and("mcp-session-id", "a"));
    site.parked(1).await;
    let second = site.begin(&Era::Modern.held("1").and("mcp-session-id", "b"));
    site.parked(2).await;
    // It names both: they are of one caller.
    site.ask(&post(cancel("1")).with(VERSION, MODERN)).await.accepted();
    assert_eq!(site.server.parked(), 2);
    site.probe.open("gate");
    first.answer().await.result("1");
    second.answer().await.result("1");
}

#[tokio::test]
async fn a_client_that_sends_a_session_with_everything_can_cancel() {
    let site = Site::with(|options| options.honour_modern_cancel(true));
    let parked = site.begin(&Era::Modern.held("1").and("mcp-session-id", "a"));
    site.parked(1).await;
    site.ask(&post(cancel("1")).with(VERSION, MODERN).and("mcp-session-id", "a")).await.accepted();
    assert_eq!(site.server.parked(), 0);
    parked.answer().await.error(200, -32800, "1");
}

#[tokio::test]
async fn a_session_makes_nobody_of_an_anonymous_client_where_callers_are_strict() {
    let site = Site::with(|options| options.honour_modern_cancel(true).strict_callers(true));
    let parked = site.begin(&Era::Modern.held("1").and("mcp-session-id", "a"));
    site.parked(1).await;
    site.ask(&post(cancel("1")).with(VERSION, MODERN).and("mcp-session-id", "a")).await.accepted();
    assert_eq!(site.server.parked(), 1);
    site.probe.open("gate");
    parked.answer().await.result("1");
}

#[tokio::test]
async fn notifications_need_no_more_than_the_version() {
    let live = Live::new().await;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
    let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned();
    let mut heard = Vec::new();
    for message in [initialized, response, cancel("7"), cancel("[]")] {
        let plain = post(message.clone()).with(VERSION, MODERN);
        for request in [
            plain.clone(),
            plain.clone().and(METHOD, "notifications/cancelled").and(NAME, "x"),
            plain.clone().and(METHOD, "tools/call"),
            plain.without(VERSION),
        ] {
            live.post(&request).await.accepted();
            heard.push(message.clone());
        }
    }
    assert_eq!(live.probe.heard(), heard);
}

#[tokio::test]
async fn a_posted_cancel_ends_no_modern_request_by_default() {
    let live = Live::new().await;
    for path in ["/mcp", "/polite"] {
        let parked = live.park(&Era::Modern.call("1", &json!({ "gate": path })).to(path));
        live.parked(1).await;
        for version in [MODERN, "2025-11-25", "2025-03-26"] {
            live.post(&post(cancel("1")).with(VERSION, version)).await.accepted();
        }
        assert_eq!(live.server.parked(), 1);
        live.probe.open(path);
        parked.answer().await.result("1");
    }
    assert_eq!(live.outcomes.count(Outcome::Replied), 2);
    assert_eq!(live.probe.heard().len(), 6);
    assert_eq!(live.probe.log().iter().filter(|line| line.starts_with("fired")).count(), 0);
}

#[tokio::test]
async fn a_posted_cancel_may_be_honoured() {
    let live = Site::with(|options| options.honour_modern_cancel(true)).listen().await;
    for version in [MODERN, "2025-11-25"] {
        for path in ["/mcp", "/polite"] {
            let cancels = post(cancel("1")).with(VERSION, version);
            let parked = live.park(&Era::Modern.held("1").to(path));
            live.parked(1).await;
            live.post(&cancels).await.accepted();
            parked.answer().await.error(200, -32800, "1");

            let mut connection = live.connect().await;
            let streams = Era::Modern.call("1", &json!({ "notes": ["a"], "gate": "gate" })).to(path);
            connection.send(streams.bytes()).await;
            connection.head().await;
            assert_eq!(connection.event().await, format!("data: {}", note(&json!("a"))));
            live.post(&cancels).await.accepted();
            let last = connection.event().await;
            error_of(last.strip_prefix("data: ").unwrap(), -32800, Some("1"));
            connection.end_of_stream().await;
        }
    }
    assert_eq!((live.outcomes.count(Outcome::Cancelled), live.outcomes.all().len()), (8, 8));
}

#[tokio::test]
async fn the_code_of_a_cancel_can_be_set_for_both() {
    let live = Site::with(|options| options.honour_modern_cancel(true).cancel_code(-7)).listen().await;
    for era in Era::BOTH {
        let parked = live.park(&era.held("1"));
        live.parked(1).await;
        live.post(&post(cancel("1"))).await.accepted();
        parked.answer().await.error(200, -7, "1");
    }
}

#[tokio::test]
async fn the_version_of_the_parked_request_decides_not_that_of_the_cancel() {
    let live = Live::new().await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    live.post(&post(cancel("1")).with(VERSION, MODERN)).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");

    let in_session = |request: Post| request.and("mcp-session-id", "s").and("authorization", "Bearer a");
    let parked = live.park(&in_session(post(held("2"))));
    live.parked(1).await;
    live.post(&in_session(post(cancel("2")).with(VERSION, MODERN))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "2");
}

#[tokio::test]
async fn both_eras_share_a_route_a_caller_and_an_id() {
    let live = Live::new().await;
    let modern = live.park(&Era::Modern.call("1", &json!({ "gate": "modern", "text": "modern" })));
    live.parked(1).await;
    let legacy = live.park(&Era::Legacy.call("1", &json!({ "gate": "legacy" })));
    live.parked(2).await;
    // It can only mean the legacy one, so it is not ambiguous.
    live.post(&post(cancel("1")).with(VERSION, MODERN)).await.accepted();
    legacy.answer().await.error(200, CANCELLED, "1");
    assert!(!modern.is_answered());
    live.probe.open("modern");
    assert_eq!(modern.answer().await.result("1"), json!({ "text": "modern" }));
}

#[tokio::test]
async fn a_remembered_cancel_ends_no_modern_request() {
    let live = Live::new().await;
    live.post(&post(cancel("1")).and("mcp-session-id", "s")).await.accepted();
    live.post(&Era::Modern.call("1", &json!({})).and("mcp-session-id", "s")).await.result("1");
    live.post(&post(call("1", &json!({}))).and("mcp-session-id", "s")).await.error(200, CANCELLED, "1");
}

#[tokio::test]
async fn a_server_of_legacy_versions_refuses_modern_requests() {
    let live = Site::with(|options| options.versions(ProtocolVersion::ALL[..3].iter().copied())).listen().await;
    refused(&live, &echo()).await.error(400, INVALID_REQUEST, "\"m\"");
    refused(&live, &echo().without(VERSION)).await.error(400, INVALID_REQUEST, "\"m\"");
    refused(&live, &with_meta(&json!({}))).await.error(400, INVALID_REQUEST, "\"m\"");
    refused(&live, &with_meta(&json!({ META_VERSION: "2099-01-01" }))).await.error(400, INVALID_REQUEST, "\"m\"");
    refused(&live, &post(cancel("1")).with(VERSION, MODERN)).await.error(400, INVALID_REQUEST, None);
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        live.post(&post(call("1", &json!({}))).with(VERSION, version)).await.result("1");
    }
    live.post(&post(initialize("1", &json!({ "protocolVersion": MODERN }))).without(VERSION)).await.result("1");
}

#[tokio::test]
async fn a_server_of_modern_versions_refuses_legacy_requests() {
    let live = Site::with(|options| options.versions([ProtocolVersion::V2026_07_28])).listen().await;
    refused(&live, &post(call("1", &json!({})))).await.error(400, INVALID_REQUEST, "1");
    refused(&live, &post(call("1", &json!({}))).without(VERSION)).await.error(400, INVALID_REQUEST, "1");
    refused(&live, &post(cancel("1"))).await.error(400, INVALID_REQUEST, None);
    for params in [json!({}), json!({ "protocolVersion": "2025-11-25" })] {
        let asks = post(initialize("1", &params)).without(VERSION);
        let error = refused(&live, &asks).await.error(400, UNSUPPORTED_VERSION, "1");
        let data = error.data.unwrap();
        assert_eq!(data["supported"], json!([MODERN]));
        assert_eq!(data["requested"], params["protocolVersion"].as_str().unwrap_or_default());
    }
    live.post(&echo()).await.result("\"m\"");
    live.post(&post(cancel("1")).with(VERSION, MODERN)).await.accepted();
}

#[tokio::test]
async fn some_versions_may_be_left_out() {
    let served = [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_06_18];
    let live = Site::with(|options| options.versions(served)).listen().await;
    live.post(&echo()).await.result("\"m\"");
    live.post(&post(call("1", &json!({}))).with(VERSION, "2025-06-18")).await.result("1");
    for version in ["2025-11-25", "2025-03-26"] {
        let answer = live.post(&post(call("1", &json!({}))).with(VERSION, version)).await;
        answer.error(400, INVALID_REQUEST, "1");
    }
    live.post(&post(call("1", &json!({}))).without(VERSION)).await.error(400, INVALID_REQUEST, "1");
    let error = live.post(&with_meta(&json!({ META_VERSION: "x", META_CAPABILITIES: {} })).with(VERSION, "x")).await;
    let error = error.error(400, UNSUPPORTED_VERSION, "\"m\"");
    assert_eq!(error.data.unwrap()["supported"], json!([MODERN, "2025-06-18"]));
}

#[tokio::test]
async fn what_is_no_success_of_the_handlers_passes() {
    for status in [401, 403, 404, 429, 503] {
        let site = Site::over(on_post(async move || (StatusCode::from_u16(status).unwrap(), "text")));
        let answer = site.ask(&request_of("tools/list")).await;
        assert_eq!((answer.status, answer.text()), (status, "text"));
    }
}

fn request_of(method: &str) -> Post {
    modern("1", method, &json!({}))
}

#[tokio::test]
async fn the_method_alone_makes_no_request_modern() {
    let live = Live::new().await;
    for method in ["server/discover", "subscriptions/listen", "tasks/result"] {
        live.post(&post(request("1", method, &json!({})))).await.result("1");
    }
}
