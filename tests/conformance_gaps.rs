//! What the official conformance suite (0.2.0-alpha.12) lets pass, and this project answers for: the faults that its judge
//! missed when they were injected, and the requirements on servers that it covers in part or not at all. The server is an
//! `McpRouter` behind the layer. A test is named for its row; those that others prove are listed here.
//!
//! L: 2025-11-25 (*Transports*, *Lifecycle*, *Cancellation*). M: 2026-07-28. F: an injected fault.
//!
//! | row | what | proved by |
//! |---|---|---|
//! | F1 | Host and Origin unchecked | here: `l02_l03_m02_…`; gate: `only_loopback_hosts_by_default`, `only_loopback_origins_by_default` |
//! | F2 | a bad Origin answered 400 | the same |
//! | F3 | a GET answered 200 | here: `l01_l13_l14_m01_…`, `m16_…`; router: `methods_but_post_are_not_allowed` |
//! | F4 | a modern POST without its version accepted | here: `m13_…`; modern: `a_header_that_does_not_agree_is_a_mismatch` |
//! | F5 | Accept ignored | here: `l07_m05_…`; gate: `accept_decides_the_form` |
//! | F6 | notifications answered 200 | here: `l05_m04_…` |
//! | F7 | a session minted on modern answers | here: `m17_…`; modern: `there_are_no_sessions` |
//! | F8 | 404 turned 200 | router: `an_unknown_method_is_not_found` |
//! | F9 | 400 turned 200 | here: `sep_2243_…`; modern: `refusals_come_in_the_order_in_which_a_client_can_mend_them` |
//! | F10 | a dead session answered 400 | sessions: `a_stale_session_is_the_handlers_to_refuse` |
//! | F11 | subscriptionId as a string | here: `m18_m19_…`; shutdown: `a_subscription_is_closed_when_the_drain_begins` |
//! | F12 | a departure not propagated | router_exchanges: `a_modern_client_that_leaves_has_cancelled_its_tool`; leaving: `a_modern_request_ends` |
//! | F13, F14 | Mcp-Name unchecked | here: `sep_2243_server_reject_invalid_headers_…` |
//! | L04, M03 | bound to loopback; authentication | the server's own; by default the layer answers to loopback names only: F1 |
//! | L12 | a departure is no cancel | router_exchanges: `a_legacy_client_that_leaves_has_cancelled_nothing`; leaving: `a_legacy_request_goes_on` |
//! | L15 | each message on one stream | here: `l11_l15_l17_m06_…`; streams: `one_id_twice_has_two_streams`, `two_streams_do_not_mix` |
//! | L20 | a session id is unique and secure | sessions: `initialize_opens_a_session` |
//! | L26 | version negotiation | router_built_in: `initialize_negotiates_the_version`, `only_versions_that_are_served_are_negotiated_and_named` |
//! | L27 | a cancel stops and frees, others are ignored | router_exchanges: `a_cancelled_tool_is_dropped`, `however_a_tool_ends_nothing_of_it_is_left`; cancellation: `what_names_no_parked_request_does_nothing` |
//! | | … and sends no response | not so: that its POST is answered is what this crate is for |
//! | L28 | races of a cancel | races: all |
//! | M09 | X-Accel-Buffering | here: `l10_m07_m09_…`; all tests that ask `Events::streams` or `Answer::event` |
//! | M11, M12 | a departure is a cancel, and nothing is sent after | F12; leaving: `notes_to_a_client_that_left_go_nowhere` |
//! | M15 | integers are compared as numbers | param_headers: `integers_are_compared_as_numbers` |
//! | M23 | the error to `initialize` names versions | router_built_in: `only_versions_that_are_served_are_negotiated_and_named` |
//! | -32022 itself | sep-2575-server-unsupported-version-error | modern: `a_version_that_is_not_served_is_named_with_those_that_are` |
//! | sep-2243-server-reject-invalid-param-chars | | param_headers: `what_is_no_header_is_encoded`, `raw_bytes_beyond_ascii_are_no_value` |
//! | sep-2243-server-validate-param-match, -reject-param-mismatch | | param_headers: `a_header_says_what_the_argument_says`, `a_plain_value_is_compared_letter_for_letter` |
//! | sep-2243-server-not-expect-null | | param_headers: `no_header_is_expected_for_what_is_not_there` |
//! | sep-2575-server-tags-subscription-id | equal to the id | F11 |
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use mcp_layer::{
    Arguments, CallToolResult, ExchangeInfo, McpError, McpLayer, McpRouter, McpServerBuilder, Notifier, Params,
    ProtocolVersion, Reply, Tool,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use support::{
    Answer, Era, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, MODERN, Post, Site, cancel, completed, initialize,
    mcp, modern, post, request, result_of, texts,
};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const VERSION: &str = "mcp-protocol-version";

/// What changes at the server: methods of notifications.
type Changes = broadcast::Sender<&'static str>;

async fn echo(Arguments(arguments): Arguments<Value>) -> CallToolResult {
    CallToolResult::text(arguments["text"].as_str().unwrap_or("nothing"))
}

/// Sends three notes of its own, with the name that it is given.
async fn noisy(notifier: Notifier, Arguments(arguments): Arguments<Value>) -> Result<CallToolResult, McpError> {
    for step in 1..=3 {
        notifier.progress(f64::from(step), Some(3.0), None);
        let note = json!({ "level": "info", "data": [arguments["name"], step] });
        notifier.notify("notifications/message", note).await?;
        tokio::task::yield_now().await;
    }
    Ok(CallToolResult::text(arguments["name"].as_str().unwrap_or_default()))
}

/// Sends what changes, of those tools alone that it was asked for.
async fn listen(
    State(changes): State<Changes>,
    info: ExchangeInfo,
    notifier: Notifier,
    Params(params): Params<Value>,
) -> Result<Reply<Value>, McpError> {
    let mut changes = changes.subscribe();
    let meta = json!({ SUBSCRIPTION: info.id() });
    // Prompts never change here, whoever asks for them.
    let honoured = params["notifications"]["toolsListChanged"] == true;
    let notifications = if honoured { json!({ "toolsListChanged": true }) } else { json!({}) };
    let acknowledged = json!({ "_meta": meta, "notifications": notifications });
    notifier.notify("notifications/subscriptions/acknowledged", acknowledged).await?;
    while let Ok(method) = changes.recv().await {
        if honoured && method == "notifications/tools/list_changed" {
            notifier.notify(method, json!({ "_meta": meta })).await?;
        }
    }
    Ok(Reply(json!({ "_meta": meta })))
}

async fn named(Params(params): Params<Value>) -> Reply<Value> {
    Reply(json!({ "is": params["name"].as_str().or(params["uri"].as_str()) }))
}

fn router() -> McpRouter<Changes> {
    mcp()
        .tool(Tool::with_schema("echo", "Says it again", json!({ "type": "object" }), echo))
        .tool(Tool::with_schema("noisy", "Says it thrice", json!({ "type": "object" }), noisy))
        .tool(Tool::with_schema("gr\u{fc}\u{df}e", "Has a name beyond ASCII", json!({}), echo))
        .request("prompts/get", named)
        .request("resources/read", named)
        .request("subscriptions/listen", listen)
        .capability("tools", json!({ "listChanged": true }))
}

fn site_with(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> (Site, Changes) {
    let changes = Changes::new(16);
    let mcp = router().with_state(changes.clone());
    let site =
        Site::build(options, |server, _| Router::new().route_service("/mcp", mcp).layer(McpLayer::new(server.clone())));
    (site, changes)
}

fn site() -> Site {
    site_with(|options| options).0
}

fn calls(era: Era, id: &str, tool: &str, arguments: &Value) -> Post {
    era.call(id, &json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": id } }))
}

fn subscribes(id: &str, notifications: &Value) -> Post {
    modern(id, "subscriptions/listen", &json!({ "notifications": notifications }))
}

#[tokio::test]
async fn l01_l13_l14_m01_one_path_takes_posts_and_answers_a_get_with_405() {
    let live = site().listen().await;
    for era in Era::BOTH {
        live.post(&era.request("1", "tools/list", &json!({}))).await.result("1");
    }
    for accept in ["text/event-stream", "*/*", "application/json"] {
        for session in [None, Some("mcpl-1"), Some("theirs")] {
            let get = post("").method("GET").with("accept", accept).without("content-type");
            let answer = live.post(&session.map_or(get.clone(), |session| get.and("mcp-session-id", session))).await;
            assert_eq!((answer.status, answer.header("allow"), answer.text()), (405, Some("POST"), ""));
            assert_eq!(answer.header("content-type"), None);
        }
    }
}

#[tokio::test]
async fn l02_l03_m02_a_wrong_origin_is_403_on_every_method_and_so_is_a_wrong_host() {
    let site = site();
    let requests = || {
        [
            Era::Legacy.request("1", "tools/list", &json!({})),
            Era::Modern.request("1", "tools/list", &json!({})),
            post(initialize("1", &json!({}))),
            post(cancel("1")),
            post("").method("GET").with("accept", "text/event-stream"),
            post("").method("DELETE").and("mcp-session-id", "s"),
            post("").method("HEAD"),
        ]
    };
    for request in requests() {
        for origin in ["http://evil.example", "null", "http://localhost.evil.example", ""] {
            site.ask(&request.clone().and("origin", origin)).await.error(403, INVALID_REQUEST, None);
        }
        site.ask(&request.clone().with("host", "evil.example")).await.error(403, INVALID_REQUEST, None);
        let both = request.clone().with("host", "evil.example").and("origin", "http://evil.example");
        site.ask(&both).await.error(403, INVALID_REQUEST, None);
        for good in [request.clone(), request.and("origin", "http://localhost:6274")] {
            assert!([200, 202, 405].contains(&site.ask(&good).await.status));
        }
    }
}

#[tokio::test]
async fn l05_m04_a_notification_or_a_response_that_is_accepted_is_202_and_empty() {
    let live = site().listen().await;
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/unheard/of","params":{}}"#.to_owned(),
        cancel("1"),
        cancel("[]"),
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#.to_owned(),
    ] {
        for version in support::LEGACY.into_iter().chain([MODERN]) {
            for accept in ["application/json, text/event-stream", "text/event-stream", "text/html"] {
                live.post(&post(body.clone()).with(VERSION, version).with("accept", accept)).await.accepted();
            }
        }
        live.post(&post(body.clone()).without(VERSION).without("accept")).await.accepted();
    }
}

#[tokio::test]
async fn l06_m04_a_notification_or_a_response_that_is_not_accepted_is_an_http_error() {
    let site = site_with(|options| options.max_body_bytes(1_000)).0;
    let notification = || post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    for (request, status) in [
        (post(r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":7}"#), 400),
        (post(r#"{"method":"notifications/initialized"}"#), 400),
        (post(r#"{"jsonrpc":"2.0","method":"notifications/initialized""#), 400),
        (post(r#"{"jsonrpc":"2.0","result":{}}"#), 400),
        (post(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#), 400),
        (post(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#), 400),
        (notification().with(VERSION, "junk"), 400),
        (notification().with("content-type", "text/plain"), 415),
        (notification().with("host", "evil.example"), 403),
        (post(format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"x":"{}"}}}}"#, "x".repeat(1_000))), 413),
    ] {
        for request in [request.clone(), request.and("mcp-session-id", "s")] {
            let answer = site.ask(&request).await;
            let error: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!((answer.status, error.get("id")), (status, None), "{answer:?}");
            assert!(error["error"]["code"].is_i64(), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn l07_m05_a_request_is_answered_in_the_form_that_it_asks_for() {
    let live = site().listen().await;
    for era in Era::BOTH {
        for (method, params) in [("tools/list", json!({})), ("tools/call", json!({ "name": "echo" })), ("x", json!({}))]
        {
            let asks = |accept| era.request("1", method, &params).with("accept", accept);
            for accept in ["application/json", "application/json, text/event-stream", "*/*"] {
                let answer = live.post(&asks(accept)).await;
                assert_eq!(answer.header("content-type"), Some("application/json"), "{method}");
                let whole: Value = serde_json::from_slice(&answer.body).unwrap();
                assert_eq!((&whole["jsonrpc"], &whole["id"]), (&json!("2.0"), &json!(1)));
            }
            let answer = live.post(&asks("text/event-stream")).await;
            match (era, method) {
                (Era::Modern, "x") => drop(answer.error(404, support::METHOD_NOT_FOUND, "1")),
                _ => assert!(!answer.event().is_empty()),
            }
            live.post(&asks("text/html")).await.error(406, INVALID_REQUEST, "1");
        }
    }
}

#[tokio::test]
async fn l10_m07_m09_a_stream_holds_the_response_last_and_then_ends() {
    let live = site().listen().await;
    for era in Era::BOTH {
        let mut connection = live.connect().await;
        connection.send(calls(era, "1", "noisy", &json!({ "name": "n" })).bytes()).await;
        let head = connection.head().await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(head.header("x-accel-buffering"), Some("no"));
        let mut last = connection.event().await;
        while last.contains(r#""method":"#) {
            last = connection.event().await;
        }
        assert_eq!(texts(&result_of(last.strip_prefix("data: ").unwrap(), "1")), ["n"]);
        connection.end_of_stream().await;
        // And the connection serves on.
        connection.post(&era.request("2", "tools/list", &json!({}))).await.result("2");
    }
}

/// The messages of a stream, and its raw events.
async fn read(site: &Site, request: &Post) -> (Vec<Value>, Vec<String>) {
    let mut events = site.open(request).await;
    events.streams();
    let mut raw = Vec::new();
    while let Some(event) = events.next().await {
        raw.push(event);
    }
    let messages = raw.iter().filter_map(|event| event.strip_prefix("data: "));
    (messages.map(|message| serde_json::from_str(message).unwrap()).collect(), raw)
}

#[tokio::test]
async fn l11_l15_l17_m06_what_a_stream_carries_is_of_its_own_request() {
    let site = site();
    for era in Era::BOTH {
        let names = ["a", "b", "c"];
        let requests = names.map(|name| {
            // Equal ids and a wish to resume change nothing.
            calls(era, "1", "noisy", &json!({ "name": name })).and("last-event-id", "1").and("mcp-session-id", "s")
        });
        let read = tokio::join!(read(&site, &requests[0]), read(&site, &requests[1]), read(&site, &requests[2]));
        for (name, (messages, _)) in names.into_iter().zip([read.0, read.1, read.2]) {
            let (last, notes) = messages.split_last().unwrap();
            assert_eq!(last["result"]["content"][0]["text"], name);
            let data: Vec<_> = notes.iter().filter(|note| note["method"] == "notifications/message").collect();
            let expected = [1, 2, 3].map(|step| json!([name, step]));
            assert_eq!(data.iter().map(|note| note["params"]["data"].clone()).collect::<Vec<_>>(), expected);
            assert!(notes.iter().all(|note| note.get("id").is_none()), "a request on a stream: {notes:?}");
        }
    }
}

#[tokio::test]
async fn l16_l18_no_event_has_an_id_and_none_asks_to_reconnect() {
    for era in Era::BOTH {
        let (_, raw) = read(&site(), &calls(era, "1", "noisy", &json!({ "name": "n" }))).await;
        for event in raw {
            let fields: Vec<_> = event.lines().map(|line| line.split(':').next().unwrap()).collect();
            assert_eq!(fields, ["data"], "{event}");
        }
    }
}

#[tokio::test]
async fn l21_l22_no_session_is_needed_and_none_can_be_ended() {
    let site = site();
    let hello = site.ask(&post(initialize("0", &json!({}))).without(VERSION)).await;
    let session = hello.header("mcp-session-id").unwrap().to_owned();
    for session in [None, Some(session.as_str()), Some("theirs"), Some("mcpl-unknown")] {
        let with = |request: Post| session.map_or(request.clone(), |session| request.and("mcp-session-id", session));
        site.ask(&with(post(request("1", "tools/list", &json!({}))))).await.result("1");
        let deleted = site.ask(&with(post("").method("DELETE"))).await;
        assert_eq!((deleted.status, deleted.header("allow")), (405, Some("POST")));
        site.ask(&with(post(request("1", "tools/list", &json!({}))))).await.result("1");
    }
}

#[tokio::test]
async fn l24_a_request_without_a_version_is_one_of_2025_03_26() {
    async fn add(Arguments(_): Arguments<std::collections::HashMap<String, i64>>) -> CallToolResult {
        CallToolResult::new()
    }

    let version = async |info: ExchangeInfo| Reply(json!(info.version().as_str()));
    let mcp = mcp().request("version", version).tool(Tool::with_schema("add", "", json!({}), add));
    let site = Site::serving(mcp);
    let unversioned = |request: Post| request.without(VERSION);
    let answer = site.ask(&unversioned(post(request("1", "version", &json!({}))))).await;
    assert_eq!(answer.result("1"), "2025-03-26");
    // Whose tools answer wrong arguments so, and not by a result.
    let wrong = post(support::call("1", &json!({ "name": "add", "arguments": { "a": "x" } })));
    site.ask(&unversioned(wrong.clone())).await.error(200, INVALID_PARAMS, "1");
    assert_eq!(site.ask(&wrong).await.result("1")["isError"], true);
    // Where that version is not served, the header is needed.
    let (site, _) = site_with(|options| options.versions([ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28]));
    site.ask(&unversioned(post(request("1", "tools/list", &json!({}))))).await.error(400, INVALID_REQUEST, "1");
}

#[tokio::test]
async fn l25_a_version_that_is_not_served_is_400() {
    let site = site();
    for version in ["1999-01-01", "2025-11-26", "junk", "", "2025-11-25 ", "2026-07-28, 2025-11-25"] {
        for (method, params) in
            [("tools/list", json!({})), ("tools/call", json!({ "name": "echo" })), ("ping", json!({}))]
        {
            let asks = post(request("1", method, &params)).with(VERSION, version);
            site.ask(&asks).await.error(400, INVALID_REQUEST, "1");
        }
        site.ask(&post(cancel("1")).with(VERSION, version)).await.error(400, INVALID_REQUEST, None);
    }
}

#[tokio::test]
async fn m08_progress_and_messages_are_never_on_a_stream_of_subscriptions() {
    let (site, changes) = site_with(|options| options);
    let mut events = site.open(&subscribes("\"s\"", &json!({ "toolsListChanged": true }))).await;
    events.streams();
    assert!(events.message().await.contains("notifications/subscriptions/acknowledged"));
    for era in Era::BOTH {
        read(&site, &calls(era, "1", "noisy", &json!({ "name": "n" }))).await;
    }
    changes.send("notifications/tools/list_changed").unwrap();
    let next: Value = serde_json::from_str(&events.message().await).unwrap();
    assert_eq!(next["method"], "notifications/tools/list_changed");
}

#[tokio::test(start_paused = true)]
async fn m10_a_stream_of_subscriptions_is_held_open_by_comments() {
    let (site, changes) = site_with(|options| options);
    let mut events = site.open(&subscribes("1", &json!({ "toolsListChanged": true }))).await;
    events.message().await;
    // The first two come early.
    for seconds in [0, 0, 15, 15] {
        let before = tokio::time::Instant::now();
        assert_eq!(events.next().await.unwrap().chars().next(), Some(':'));
        assert_eq!(before.elapsed().as_secs(), seconds);
    }
    // Far longer than any deadline: subscriptions have none.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    changes.send("notifications/tools/list_changed").unwrap();
    loop {
        let event = events.next().await.unwrap();
        if event.starts_with("data: ") {
            break assert!(event.contains("notifications/tools/list_changed"));
        }
    }
}

#[tokio::test]
async fn m13_a_modern_body_without_its_version_in_the_head_is_refused() {
    let asks = Era::Modern.request("1", "tools/list", &json!({})).without(VERSION);
    site().ask(&asks).await.error(400, HEADER_MISMATCH, "1");
    // And so is anything without it where nobody could mean an older one.
    let (modern_only, _) = site_with(|options| options.versions([ProtocolVersion::V2026_07_28]));
    modern_only.ask(&asks).await.error(400, HEADER_MISMATCH, "1");
    let bare = post(request("1", "tools/list", &json!({}))).without(VERSION);
    modern_only.ask(&bare).await.error(400, INVALID_REQUEST, "1");
    modern_only.ask(&post(cancel("1")).without(VERSION)).await.error(400, INVALID_REQUEST, None);
}

#[tokio::test]
async fn sep_2243_server_reject_invalid_headers_of_all_that_have_a_name() {
    let site = site();
    for (method, params, name) in [
        ("tools/call", json!({ "name": "echo" }), "echo"),
        ("prompts/get", json!({ "name": "p" }), "p"),
        ("resources/read", json!({ "uri": "file:///a%20b?c=d" }), "file:///a%20b?c=d"),
    ] {
        let good = modern("1", method, &params);
        site.ask(&good).await.result("1");
        site.ask(&good.clone().without("mcp-name").and("MCP-NAME", name)).await.result("1");
        for wrong in [
            good.clone().without("mcp-name"),
            good.clone().with("mcp-name", "other"),
            good.clone().with("mcp-name", &name.to_uppercase()),
            good.clone().with("mcp-name", ""),
            good.clone().and("mcp-name", name),
            good.clone().without("mcp-method"),
            good.clone().with("mcp-method", "server/discover"),
            good.clone().with("mcp-method", &method.to_uppercase()),
            good.and("mcp-method", method),
        ] {
            site.ask(&wrong).await.error(400, HEADER_MISMATCH, "1");
        }
    }
    // What has no name has no such header either.
    site.ask(&modern("1", "tools/list", &json!({})).without("mcp-method")).await.error(400, HEADER_MISMATCH, "1");
}

#[tokio::test]
async fn m14_an_encoded_name_is_decoded_before_it_is_compared() {
    let site = site();
    for (method, params, encoded) in [
        ("tools/call", json!({ "name": "gr\u{fc}\u{df}e" }), "=?base64?Z3LDvMOfZQ==?="),
        ("tools/call", json!({ "name": "echo" }), "=?base64?ZWNobw==?="),
        ("prompts/get", json!({ "name": " p " }), "=?base64?IHAg?="),
        ("resources/read", json!({ "uri": "file:///\u{4e16}" }), "=?base64?ZmlsZTovLy/kuJY=?="),
    ] {
        let asks = modern("1", method, &params);
        site.ask(&asks.clone().with("mcp-name", encoded)).await.result("1");
        let other = encoded.replacen("=?base64?", "=?base64?QQ", 1);
        site.ask(&asks.clone().with("mcp-name", &other)).await.error(400, HEADER_MISMATCH, "1");
        let inner = encoded.trim_start_matches("=?base64?").trim_end_matches("?=");
        site.ask(&asks.with("mcp-name", inner)).await.error(400, HEADER_MISMATCH, "1");
    }
}

#[tokio::test]
async fn sep_2243_server_reject_missing_required_parameters_and_their_headers() {
    #[derive(serde::Deserialize)]
    struct Needs {
        region: String,
    }
    async fn needs(Arguments(Needs { region }): Arguments<Needs>) -> CallToolResult {
        CallToolResult::text(region)
    }

    let schema = json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    });
    let site = Site::serving(mcp().tool(Tool::with_schema("needs", "", schema, needs)));
    let asks = |arguments: Value| modern("1", "tools/call", &json!({ "name": "needs", "arguments": arguments }));
    site.ask(&asks(json!({ "region": "eu" }))).await.error(400, HEADER_MISMATCH, "1");
    site.ask(&asks(json!({})).and("mcp-param-region", "eu")).await.error(400, HEADER_MISMATCH, "1");
    let result = site.ask(&asks(json!({ "region": "eu" })).and("mcp-param-region", "eu")).await.result("1");
    assert_eq!(texts(&result), ["eu"]);
    // Absent from both it is wrong input, which a model is to read (*Tools*, Error Handling).
    for arguments in [json!({}), json!({ "region": null })] {
        assert_eq!(site.ask(&asks(arguments)).await.result("1")["isError"], true);
    }
}

#[tokio::test]
async fn m16_a_server_of_this_revision_alone_answers_a_get_or_a_delete_with_405() {
    let (site, _) = site_with(|options| options.versions([ProtocolVersion::V2026_07_28]));
    let live = site.listen().await;
    for method in ["GET", "DELETE"] {
        for request in [
            post("").method(method),
            post("").method(method).with(VERSION, MODERN).with("accept", "text/event-stream"),
            post("").method(method).and("mcp-session-id", "s").and("last-event-id", "1"),
        ] {
            let answer = live.post(&request).await;
            assert_eq!((answer.status, answer.header("allow"), answer.text()), (405, Some("POST"), ""));
        }
    }
}

#[tokio::test]
async fn m17_sessions_and_last_event_ids_are_ignored_and_none_is_minted() {
    let site = site();
    for (name, value) in [("mcp-session-id", "s"), ("mcp-session-id", "mcpl-s"), ("last-event-id", "7")] {
        for (method, params) in [
            ("server/discover", json!({})),
            ("tools/list", json!({})),
            ("tools/call", json!({ "name": "echo" })),
            ("initialize", json!({})),
            ("x", json!({})),
        ] {
            let plain = site.ask(&modern("1", method, &params)).await;
            let with = site.ask(&modern("1", method, &params).and(name, value)).await;
            assert_eq!((plain.status, plain.text()), (with.status, with.text()));
            for answer in [plain, with] {
                assert_eq!((answer.header("mcp-session-id"), answer.header("last-event-id")), (None, None));
            }
        }
    }
}

#[tokio::test]
async fn m18_m19_a_subscription_is_acknowledged_tagged_and_closed_by_the_id_of_its_request() {
    for id in ["7", "\"7\"", "0", "-1", "18446744073709551615", "\"\""] {
        let (site, changes) = site_with(|options| options);
        let wants = json!({ "toolsListChanged": true, "promptsListChanged": true });
        let mut events = site.open(&subscribes(id, &wants)).await;
        let tagged = |message: &str| {
            // Digit for digit, and of the same type.
            assert!(message.contains(&format!(r#""{SUBSCRIPTION}":{id}"#)), "{message}");
            serde_json::from_str::<Value>(message).unwrap()
        };
        let acknowledged = tagged(&events.message().await);
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));
        for method in ["notifications/prompts/list_changed", "notifications/tools/list_changed"] {
            changes.send(method).unwrap();
        }
        assert_eq!(tagged(&events.message().await)["method"], "notifications/tools/list_changed");
        site.server.shutdown(Duration::ZERO).await;
        assert_eq!(tagged(&events.message().await)["method"], "notifications/cancelled");
        let last = events.message().await;
        tagged(&last);
        assert_eq!(result_of(&last, id)["resultType"], "complete");
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn m20_a_request_relies_on_none_before_it() {
    let live = site().listen().await;
    let mut connection = live.connect().await;
    // No discovery came before, and what came before does not matter.
    let list = Era::Modern.request("1", "tools/list", &json!({}));
    let first = connection.post(&list).await;
    first.result("1");
    for before in [
        post(initialize("0", &json!({ "protocolVersion": "2025-03-26" }))).without(VERSION),
        post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        post(request("1", "tools/list", &json!({}))).with(VERSION, "2025-03-26"),
        list.clone().without("mcp-method"),
        list.clone().with(VERSION, "2099-01-01"),
        post("{"),
        post("").method("DELETE"),
    ] {
        connection.post(&before).await;
        assert_eq!(connection.post(&list).await.text(), first.text());
    }
    // A legacy request in between is one in itself, without its own `initialize`.
    let legacy = connection.post(&post(support::call("1", &json!({ "name": "echo" })))).await.result("1");
    assert_eq!(legacy, json!({ "content": [{ "type": "text", "text": "nothing" }] }));
    let modern = connection.post(&Era::Modern.call("1", &json!({ "name": "echo" }))).await.result("1");
    assert_eq!(modern, completed(Era::Modern, &legacy));
}

#[tokio::test(start_paused = true)]
async fn m22_no_code_is_emitted_that_the_revision_forbids() {
    async fn stays() -> Reply<Value> {
        std::future::pending().await
    }
    let mcp = || {
        mcp()
            .request("stays", stays)
            .request("panics", async || {
                if true {
                    panic!("a secret")
                }
            })
            .request("nonsense", async || "nonsense")
            .tool(Tool::with_schema("echo", "", json!({}), echo))
    };
    let options = |options: McpServerBuilder| {
        options.honour_modern_cancel(true).request_timeout(Some(Duration::from_secs(60))).stream_after(None)
    };
    let site = Site::serving_with(options, mcp());
    let code = |answer: &Answer| {
        let whole: Value = serde_json::from_slice(&answer.body).unwrap();
        whole["error"]["code"].as_i64().unwrap()
    };
    let asks = |method: &str, params: Value| modern("1", method, &params);
    let mut codes = Vec::new();
    for request in [
        asks("x", json!({})),
        asks("ping", json!({})),
        asks("panics", json!({})),
        asks("nonsense", json!({})),
        asks("stays", json!({})),
        asks("resources/read", json!({ "uri": "file:///none" })),
        asks("tools/call", json!({ "name": "none" })),
        asks("tools/call", json!({ "name": "echo", "arguments": 7 })),
        asks("tools/list", json!({ "cursor": "x" })),
        asks("tools/list", json!({})).without("mcp-method"),
        asks("tools/list", json!({})).with("accept", "text/html"),
        asks("tools/list", json!({})).with("content-type", "text/html"),
        asks("tools/list", json!({})).with("host", "evil.example"),
        post("{").with(VERSION, MODERN),
        post(request("1", "tools/list", &json!({}))).with(VERSION, MODERN),
    ] {
        codes.push(code(&site.ask_past_deadlines(&request).await));
    }
    let cancelled = site.begin(&asks("stays", json!({})));
    site.parked(1).await;
    site.ask(&post(cancel("1")).with(VERSION, MODERN)).await.accepted();
    codes.push(code(&cancelled.answer().await));
    let shut_down = site.begin(&asks("stays", json!({})));
    site.parked(1).await;
    site.server.shutdown(Duration::from_secs(1)).await;
    codes.push(code(&shut_down.answer().await));
    codes.push(code(&site.ask(&asks("x", json!({}))).await));
    for code in codes {
        assert!(code != -32002 && code != -32042 && !(-32019..=-32000).contains(&code), "{code}");
        assert!(!(-32099..=-32020).contains(&code) || [-32020, -32021, -32022].contains(&code), "{code}");
    }
}

#[tokio::test]
async fn sep_2575_http_server_error_jsonrpc_id_is_that_of_the_request() {
    let site = site();
    for id in ["101", "\"101\"", "0", "\"\"", "9007199254740993"] {
        let asks = |method: &str, params: &Value| modern(id, method, params);
        site.ask(&asks("x", &json!({}))).await.error(404, support::METHOD_NOT_FOUND, id);
        site.ask(&asks("tools/call", &json!({ "name": "none" }))).await.error(200, INVALID_PARAMS, id);
        site.ask(&asks("tools/list", &json!({})).without("mcp-method")).await.error(400, HEADER_MISMATCH, id);
        site.ask(&asks("tools/list", &json!({})).with(VERSION, "2025-11-25")).await.error(400, HEADER_MISMATCH, id);
        site.ask(&post(request(id, "x", &json!({}))).with(VERSION, MODERN)).await.error(400, INVALID_PARAMS, id);
    }
}
