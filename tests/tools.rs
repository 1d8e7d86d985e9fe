//! Tools: how they are listed and called, and what calls are answered that no tool can take.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use mcp_layer::{Arguments, CallToolResult, McpError, McpMessage, McpRouter, Notifier, Reply, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use support::{
    Era, INVALID_PARAMS, INVALID_REQUEST, LEGACY, MODERN, Site, call, calls, completed, mcp, panics, post, request,
};

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

async fn add(Arguments(Add { a, b }): Arguments<Add>) -> CallToolResult {
    CallToolResult::text((a + b).to_string())
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } })
}

fn adds() -> Tool {
    Tool::with_schema("add", "Adds two numbers", schema(), add)
}

/// A tool that has no arguments, and looks at none.
fn now() -> Tool {
    Tool::with_schema("now", "Tells the time", json!({}), async || CallToolResult::text("noon"))
}

/// A tool that takes what it gets.
fn echo() -> Tool {
    let echo = async |Arguments(arguments): Arguments<Value>| CallToolResult::text(arguments.to_string());
    Tool::with_schema("echo", "Says it again", json!({ "type": "object" }), echo)
}

fn site() -> Site {
    Site::serving(mcp().tool(adds()).tool(now()).tool(echo()))
}

#[tokio::test]
async fn tools_are_listed_in_the_order_in_which_they_were_added() {
    let names = ["z", "a", "m", "B", "b", "10", "9"];
    let tool = |name: &str| Tool::with_schema(name, format!("It is {name}"), schema(), async || "");
    let mcp = names.iter().fold(mcp(), |mcp, name| mcp.tool(tool(name)));
    let tools =
        names.map(|name| json!({ "name": name, "description": format!("It is {name}"), "inputSchema": schema() }));
    let legacy = json!({ "tools": tools });
    let modern = json!({ "tools": tools, "ttlMs": 60_000, "cacheScope": "private" });
    let (site, again) = (Site::serving(mcp.clone()), Site::serving(mcp));
    // Only modern versions have hints for caches.
    for (era, own) in [(Era::Legacy, legacy), (Era::Modern, modern)] {
        let asks = era.request("1", "tools/list", &json!({}));
        let first = site.ask(&asks).await;
        assert_eq!(first.result("1"), completed(era, &own));
        for answer in [site.ask(&asks).await, again.ask(&asks).await] {
            assert_eq!(answer.text(), first.text());
        }
    }
}

#[tokio::test]
async fn all_tools_are_on_the_first_page_so_no_cursor_is_valid() {
    for era in Era::BOTH {
        for params in [json!({}), json!({ "cursor": null }), json!({ "x": 1 })] {
            let listed = site().ask(&era.request("1", "tools/list", &params)).await.result("1");
            assert_eq!((listed["tools"].as_array().unwrap().len(), listed.get("nextCursor")), (3, None));
        }
        for cursor in [json!("x"), json!(""), json!(7), json!({}), json!("x".repeat(100_000))] {
            let asks = era.request("1", "tools/list", &json!({ "cursor": cursor }));
            let error = site().ask(&asks).await.error(200, INVALID_PARAMS, "1");
            assert_eq!(error.message, "Invalid cursor");
        }
    }
    for params in ["", r#","params":null"#] {
        let bare = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{params}}}"#);
        site().ask(&post(bare)).await.result("1");
    }
}

#[tokio::test]
async fn a_call_finds_its_tool() {
    for (version, call) in calls(&json!({ "name": "add", "arguments": { "a": 40, "b": 2, "c": "x" } })) {
        let result = site().ask(&call).await.result("1");
        let own = json!({ "content": [{ "type": "text", "text": "42" }] });
        let era = if version == MODERN { Era::Modern } else { Era::Legacy };
        assert_eq!(result, completed(era, &own), "{version}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_invalid_params_in_every_version() {
    for (name, header) in [
        ("", ""),
        ("Add", "Add"),
        ("tools/call", "tools/call"),
        ("add ", "=?base64?YWRkIA==?="),
        ("add\u{0}", "=?base64?YWRkAA==?="),
        ("\u{e4}dd", "=?base64?w6RkZA==?="),
    ] {
        for (_, call) in calls(&json!({ "name": name })) {
            let error = site().ask(&call.with("mcp-name", header)).await.error(200, INVALID_PARAMS, "1");
            assert_eq!((error.message, error.data), (format!("Unknown tool: {name}"), None));
        }
    }
    // What a client sends is shown, but not all of it.
    let error = site().ask(&post(call("1", &json!({ "name": "\u{e9}".repeat(100_000) })))).await;
    assert_eq!(error.error(200, INVALID_PARAMS, "1").message, format!("Unknown tool: {}", "\u{e9}".repeat(64)));
}

#[tokio::test]
async fn a_call_that_is_none_is_invalid_params_in_every_version() {
    for params in [
        json!({}),
        json!({ "name": null }),
        json!({ "name": 7 }),
        json!({ "name": ["add"] }),
        json!({ "arguments": { "name": "add" } }),
    ] {
        for (version, call) in calls(&params) {
            let error = site().ask(&call).await.error(200, INVALID_PARAMS, "1");
            assert!(error.message.starts_with("Invalid params: "), "{version}: {}", error.message);
        }
    }
    for params in ["", r#","params":null"#, r#","params":["now"]"#, r#","params":["now",{}]"#, r#","params":[]"#] {
        let bare = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call"{params}}}"#);
        site().ask(&post(bare)).await.error(200, INVALID_PARAMS, "1");
    }
}

#[tokio::test]
async fn a_call_that_says_something_twice_is_refused_in_every_version() {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    );
    for (params, in_legacy, in_modern) in [
        (r#""name":"now","name":"now""#, (200, INVALID_PARAMS), (400, INVALID_REQUEST)),
        // What may hide the name of a version is looked at as closely as what has one.
        (r#""name":"now","n\u0061me":"echo""#, (400, INVALID_REQUEST), (400, INVALID_REQUEST)),
        (r#""name":"now","arguments":{},"arguments":{}"#, (200, INVALID_PARAMS), (200, INVALID_PARAMS)),
        (r#""name":"now","arguments":{},"\u0061rguments":null"#, (200, INVALID_PARAMS), (200, INVALID_PARAMS)),
    ] {
        let legacy = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params}}}}}"#);
        for version in LEGACY {
            let asks = post(legacy.clone()).with("mcp-protocol-version", version);
            site().ask(&asks).await.error(in_legacy.0, in_legacy.1, "1");
        }
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{meta},{params}}}}}"#);
        let asks =
            post(text).with("mcp-protocol-version", MODERN).and("mcp-method", "tools/call").and("mcp-name", "now");
        site().ask(&asks).await.error(in_modern.0, in_modern.1, "1");
    }
}

#[tokio::test]
async fn a_tool_may_return_whatever_answers_a_request() {
    async fn of(message: McpMessage) -> Response {
        let call: Value = message.params().unwrap();
        match call["arguments"]["as"].as_str() {
            Some("error") => McpError::new(-7, "why").into_response(),
            Some("capability") => McpError::missing_capabilities(json!({ "sampling": {} })).into_response(),
            Some("reply") => Reply(json!({ "own": 1 })).into_response(),
            Some("whole") => Json(json!({ "jsonrpc": "2.0", "id": 1, "result": { "own": 2 } })).into_response(),
            Some("status") => (StatusCode::UNAUTHORIZED, "who?").into_response(),
            Some("structured") => CallToolResult::structured(json!({ "own": [3] })).into_response(),
            _ => panic!("a secret"),
        }
    }

    let site = Site::serving(mcp().tool(Tool::with_schema("of", "", json!({}), of)));
    for era in Era::BOTH {
        let asks =
            async |kind: &str| site.ask(&era.call("1", &json!({ "name": "of", "arguments": { "as": kind } }))).await;
        asks("error").await.error(200, -7, "1");
        let status = if era == Era::Modern { 400 } else { 200 };
        let error = asks("capability").await.error(status, -32021, "1");
        assert_eq!(error.data, Some(json!({ "requiredCapabilities": { "sampling": {} } })));
        assert_eq!(asks("reply").await.result("1"), completed(era, &json!({ "own": 1 })));
        assert_eq!(asks("whole").await.result("1"), completed(era, &json!({ "own": 2 })));
        assert_eq!(asks("status").await.status, 401);
        let text = json!([{ "type": "text", "text": "{\"own\":[3]}" }]);
        let own = json!({ "content": text, "structuredContent": { "own": [3] } });
        assert_eq!(asks("structured").await.result("1"), completed(era, &own));
        asks("panic").await.error(200, support::INTERNAL_ERROR, "1");
    }
}

#[tokio::test]
async fn a_tool_that_sends_progress_streams() {
    async fn slow(notifier: Notifier, Arguments(Add { a, b }): Arguments<Add>) -> CallToolResult {
        for step in [1.0, 2.0] {
            notifier.progress(step, Some(2.0), None);
            tokio::task::yield_now().await;
        }
        CallToolResult::text((a + b).to_string())
    }

    let site = Site::serving(mcp().tool(Tool::with_schema("slow", "", schema(), slow)));
    for era in Era::BOTH {
        let params = json!({ "name": "slow", "arguments": { "a": 1, "b": 2 }, "_meta": { "progressToken": "t" } });
        let mut events = site.open(&era.call("1", &params)).await;
        events.streams();
        let mut last = events.message().await;
        let mut progress = 0;
        while last.contains("notifications/progress") {
            progress += 1;
            last = events.message().await;
        }
        assert!((1..=2).contains(&progress), "{progress}");
        assert_eq!(
            support::result_of(&last, "1"),
            completed(era, &json!({ "content": [{ "type": "text", "text": "3" }] }))
        );
        assert_eq!(events.next().await, None);
        // Wrong arguments are told before any of it.
        let wrong = site.ask(&era.call("1", &json!({ "name": "slow", "_meta": { "progressToken": "t" } }))).await;
        assert_eq!(wrong.result("1")["isError"], true);
    }
}

#[tokio::test]
async fn a_definition_may_say_more() {
    let tool = now()
        .title("The time")
        .member("annotations", json!({ "readOnlyHint": true }))
        .member("icons", json!([]))
        .member("_meta", json!({ "a": 1 }))
        .member("outputSchema", json!({ "type": "object" }));
    let listed = Site::serving(mcp().tool(tool)).ask(&post(request("1", "tools/list", &json!({})))).await;
    let expected = json!({
        "name": "now",
        "title": "The time",
        "description": "Tells the time",
        "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
        "icons": [],
        "_meta": { "a": 1 },
        "outputSchema": { "type": "object" },
    });
    assert_eq!(listed.result("1")["tools"], json!([expected]));
    let text = listed.text();
    for member in ["\"name\"", "\"title\"", "\"description\"", "\"inputSchema\"", "\"annotations\"", "\"outputSchema\""]
    {
        assert_eq!(text.matches(member).count(), 1, "{member} in {text}");
    }
}

#[test]
fn a_member_stands_once() {
    for member in ["name", "title", "description", "inputSchema"] {
        assert!(panics(|| now().member(member, "x")).contains(member));
    }
    drop(now().member("annotations", 1).member("annotations", 2));
}

#[test]
fn a_schema_that_is_not_one_of_an_object_is_no_input_schema() {
    let with = |schema: Value| panics(|| -> Tool { Tool::with_schema("t", "", schema, async || "") });
    for schema in [json!(true), json!(null), json!([]), json!("object")] {
        assert!(with(schema.clone()).contains("is no object"), "{schema}");
    }
    for kind in [json!("array"), json!("string"), json!("null"), json!(["object", "null"]), json!(null)] {
        assert!(with(json!({ "type": kind })).contains("are no object"), "{kind}");
    }
}

#[tokio::test]
async fn a_schema_of_ones_own_is_listed_as_it_is() {
    let own = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "address", "type": "object", "properties": { "x-mcp-header": true } } },
        "properties": { "a": { "$ref": "#address" }, "x-mcp-header": { "const": { "x-mcp-header": 1 } } },
        "allOf": [{ "anyOf": [{ "required": ["a"] }, {}] }],
        "if": { "required": ["a"] },
        "then": {},
        "else": false,
        "additionalProperties": false,
    });
    let tool = Tool::with_schema("t", "", own.clone(), async || "");
    let listed = Site::serving(mcp().tool(tool)).ask(&post(request("1", "tools/list", &json!({})))).await;
    assert_eq!(listed.result("1")["tools"][0]["inputSchema"], own);
}

#[tokio::test]
async fn a_router_without_tools_knows_no_such_methods() {
    for mcp in [mcp(), mcp().merge(McpRouter::default()), mcp().capability("tools", json!({}))] {
        let site = Site::serving(mcp);
        for era in Era::BOTH {
            site.ask(&era.request("1", "tools/list", &json!({}))).await.error(era.not_found(), -32601, "1");
            site.ask(&era.call("1", &json!({ "name": "t" }))).await.error(era.not_found(), -32601, "1");
        }
    }
}

#[tokio::test]
async fn structured_content_that_is_no_object_is_for_those_clients_only_that_know_such() {
    let structured = async || CallToolResult::structured([1]);
    let site = Site::serving(mcp().tool(Tool::with_schema("t", "", json!({}), structured)));
    for era in Era::BOTH {
        let result = site.ask(&era.call("1", &json!({ "name": "t" }))).await.result("1");
        assert_eq!(result["content"], json!([{ "type": "text", "text": "[1]" }]));
        assert_eq!(result.get("structuredContent"), (era == Era::Modern).then_some(&json!([1])));
    }
}
