//! What `McpRouter` adds to the results of its handlers, for clients of revision 2026-07-28 alone, and what it leaves as it is.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use mcp_layer::{CallToolResult, McpError, McpLayer, McpRouter, Notifier, Reply};
use serde::Serialize;
use serde_json::{Value, json};
use tower::util::MapResponseLayer;

use support::{Answer, Era, Site, cacheable, completed, mcp, modern, note, post, request, result_of};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What a client gets of what the handler of this method returns.
async fn answers<R>(era: Era, method: &str, returns: impl Fn() -> R + Clone + Send + Sync + 'static) -> Answer
where
    R: IntoResponse + Send + 'static,
{
    let site = Site::serving(mcp().request(method, async move || returns()));
    let answer = site.ask(&era.request("1", method, &json!({}))).await;
    assert_eq!(site.server.parked(), 0);
    answer
}

async fn result_as(era: Era, method: &str, own: &Value) -> Value {
    let own = own.clone();
    answers(era, method, move || Reply(own.clone())).await.result("1")
}

#[tokio::test]
async fn a_result_gets_what_it_lacks() {
    for own in [json!({}), json!({ "a": [1, { "_meta": {} }], "b": "\"resultType\":" })] {
        for era in Era::BOTH {
            assert_eq!(result_as(era, "x", &own).await, completed(era, &own));
        }
    }
}

#[tokio::test]
async fn a_result_for_a_legacy_client_stays_as_it_is_to_the_byte() {
    for text in ["{}", "{ }", r#"{"_meta":{},"resultType":null}"#, "null", "[ 1 ]"] {
        let returns = move || Reply(serde_json::value::RawValue::from_string(text.to_owned()).unwrap());
        let answer = answers(Era::Legacy, "tools/list", returns).await;
        assert_eq!(answer.text(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#));
    }
}

#[tokio::test]
async fn results_that_clients_may_keep_say_for_how_long() {
    let all = ["prompts/list", "resources/list", "resources/read", "resources/templates/list", "tools/list"];
    for method in all.into_iter().chain(["server/discover"]) {
        let of = async |own: Value| result_as(Era::Modern, method, &own).await;
        let own = json!({ "a": 1 });
        assert_eq!(of(own.clone()).await, cacheable(Era::Modern, &own), "{method}");
        let kept = json!({ "ttlMs": 7, "cacheScope": "public", "resultType": "complete" });
        assert_eq!(of(kept.clone()).await, completed(Era::Modern, &kept), "{method}");
        // One that asks for more is not to be kept, and what an extension makes is not ours to judge.
        for kind in ["input_required", "task"] {
            let own = json!({ "resultType": kind, "requestState": "s" });
            let mut expected = completed(Era::Modern, &own);
            expected["resultType"] = kind.into();
            assert_eq!(of(own).await, expected, "{method}");
        }
    }
    for method in ["tools/call", "prompts/get", "completion/complete", "x"] {
        let own = json!({ "a": 1 });
        assert_eq!(result_as(Era::Modern, method, &own).await, completed(Era::Modern, &own), "{method}");
    }
}

#[tokio::test]
async fn what_a_result_says_itself_is_kept() {
    for own in [
        json!({ "resultType": "input_required", "inputRequests": {}, "_meta": { SERVER_INFO: { "name": "o" } } }),
        json!({ "resultType": "complete", "_meta": { SERVER_INFO: "odd", "a": 1 } }),
        json!({ "resultType": 7, "_meta": { SERVER_INFO: [] } }),
        json!({ "resultType": "", "_meta": [1] }),
        json!({ "resultType": "complete", "_meta": "odd" }),
    ] {
        assert_eq!(result_as(Era::Modern, "x", &own).await, own);
    }
    let own = json!({ "resultType": "input_required", "_meta": { "com.example/a": { "b": [1] }, "z": 1 } });
    let mut expected = own.clone();
    expected["_meta"][SERVER_INFO] = json!({ "name": "test", "version": "1.2.3" });
    assert_eq!(result_as(Era::Modern, "x", &own).await, expected);
}

#[tokio::test]
async fn what_a_result_has_as_null_is_what_it_lacks() {
    #[derive(Clone, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        #[serde(rename = "_meta")]
        meta: Option<Value>,
        cache_scope: Option<String>,
        prompts: Vec<Value>,
        result_type: Option<String>,
        ttl_ms: Option<u32>,
    }

    for meta in [None, Some(json!({ SERVER_INFO: null }))] {
        let page = Page { meta, cache_scope: None, prompts: vec![], result_type: None, ttl_ms: None };
        let answer = answers(Era::Modern, "prompts/list", move || Reply(page.clone())).await;
        assert_eq!(answer.result("1"), cacheable(Era::Modern, &json!({ "prompts": [] })));
        for name in ["\"resultType\"", "\"_meta\"", SERVER_INFO, "\"ttlMs\"", "\"cacheScope\""] {
            assert_eq!(answer.text().matches(name).count(), 1, "{name}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_result_that_is_no_object_stays_as_it_is() {
    for text in ["null", "[]", "[{}]", "7", "true", "\"{}\""] {
        let own: Value = serde_json::from_str(text).unwrap();
        for era in Era::BOTH {
            let own = own.clone();
            let answer = answers(era, "tools/list", move || Reply(own.clone())).await;
            assert_eq!(
                (answer.status, answer.text()),
                (200, &*format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#))
            );
        }
    }
}

#[tokio::test]
async fn errors_get_nothing() {
    for era in Era::BOTH {
        let error = answers(era, "tools/list", || McpError::new(-7, "why").with_data(json!({ "result": {} }))).await;
        let error = error.error(200, -7, "1");
        assert_eq!((error.message.as_str(), error.data), ("why", Some(json!({ "result": {} }))));
        let whole = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-7,"message":"m","data":{"result":{}}}}"#;
        assert_eq!(answers(era, "x", move || whole).await.text(), whole);
        answers(era, "x", || {
            if true {
                panic!("a secret")
            }
        })
        .await
        .error(200, support::INTERNAL_ERROR, "1");
        answers(era, "x", || "no JSON").await.error(200, support::INTERNAL_ERROR, "1");
        let refused = answers(era, "x", || (StatusCode::UNAUTHORIZED, Reply(json!({})))).await;
        // The status says it all; nothing was added to the body but what makes it a response.
        assert_eq!((refused.status, refused.text()), (401, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    }
}

#[tokio::test]
async fn a_complete_response_is_completed_where_its_result_stands() {
    for (text, own) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, json!({})),
        (r#"{"result":{"a":1},"id":1,"jsonrpc":"2.0"}"#, json!({ "a": 1 })),
        (" {\n\t\"result\" : { \"a\" : \"}\" } , \"id\" : 1,\r\n\"jsonrpc\" : \"2.0\" }\n", json!({ "a": "}" })),
        (r#"{"x":{"result":{}},"jsonrpc":"2.0","id":1,"result":{"_meta":{"b":1}}}"#, json!({ "_meta": { "b": 1 } })),
        (r#"{"jsonrpc":"2.0","id":1,"r\u0065sult":{"\u005fmeta":{}}}"#, json!({})),
    ] {
        let answer = answers(Era::Modern, "x", move || text).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let whole: Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(whole["result"], completed(Era::Modern, &own), "{}", answer.text());
        assert_eq!((&whole["id"], &whole["jsonrpc"]), (&json!(1), &json!("2.0")));
        assert_eq!(answer.text().matches("meta\"").count(), 1, "{}", answer.text());
        assert_eq!(answers(Era::Legacy, "x", move || text).await.text(), text);
    }
    // The one member alone, as a `Reply` writes it.
    for text in [r#"{"result":{"a":1}}"#, " { \"result\" : {\"a\":1} } "] {
        let answer = answers(Era::Modern, "x", move || text).await;
        assert_eq!(answer.result("1"), completed(Era::Modern, &json!({ "a": 1 })));
    }
}

#[tokio::test]
async fn results_of_any_size_are_completed_whole() {
    for size in [0, 1_000, 2_030, 2_048, 2_060, 100_000, 3 << 20] {
        for last in [false, true] {
            let mut own = json!({ "a": "\u{e9}".repeat(size / 2) });
            own[if last { "z" } else { "_a" }] = json!({ "_meta": {} });
            own["_meta"] = json!({ "k": 1 });
            let site = Site::serving(mcp().request("x", {
                let own = own.clone();
                async move || Reply(own)
            }));
            let live = site.listen().await;
            let answer = live.post(&modern("1", "x", &json!({}))).await;
            assert_eq!(answer.result("1"), completed(Era::Modern, &own));
            assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
            let answer = live.post(&modern("1", "x", &json!({})).with("accept", "text/event-stream")).await;
            assert_eq!(result_of(answer.event(), "1"), completed(Era::Modern, &own));
        }
    }
}

#[tokio::test]
async fn the_handlers_own_headers_are_kept_and_those_of_its_body_are_not() {
    let headers = [("x-own", "1"), ("etag", "\"7\""), ("content-length", "13"), ("digest", "x")];
    let live = Site::serving(mcp().request("x", async move || (StatusCode::CREATED, headers, Reply(json!({})))));
    let live = live.listen().await;
    for era in Era::BOTH {
        let answer = live.post(&era.request("1", "x", &json!({}))).await;
        assert_eq!(answer.result("1"), completed(era, &json!({})));
        assert_eq!((answer.header("x-own"), answer.header("etag"), answer.header("digest")), (Some("1"), None, None));
    }
}

async fn noted(notifier: Notifier) -> Reply<Value> {
    notifier.notify("notifications/message", json!({ "level": "info", "data": 1 })).await.unwrap();
    tokio::task::yield_now().await;
    Reply(json!({ "a": "b\nc" }))
}

#[tokio::test]
async fn a_result_that_ends_a_stream_is_completed_too() {
    let site = Site::serving(mcp().request("x", noted).request("tools/list", noted));
    for era in Era::BOTH {
        for (method, expected) in [("x", completed as fn(Era, &Value) -> Value), ("tools/list", cacheable)] {
            let mut events = site.open(&era.request("1", method, &json!({}))).await;
            events.streams();
            assert_eq!(events.message().await, note(&json!(1)));
            events.ends_with_result("1", &expected(era, &json!({ "a": "b\nc" }))).await;
        }
    }
}

#[tokio::test]
async fn a_complete_response_that_ends_a_stream_is_completed_too() {
    async fn pretty(notifier: Notifier) -> Response {
        noted(notifier).await;
        "{\n\"jsonrpc\": \"2.0\",\r\n\"id\": 1,\n\"result\": {\n\"_meta\": {\n}\n}\n}\n".into_response()
    }

    let mut events = Site::serving(mcp().request("x", pretty)).open(&modern("1", "x", &json!({}))).await;
    events.message().await;
    events.ends_with_result("1", &completed(Era::Modern, &json!({}))).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_late_is_completed_too() {
    async fn slow() -> Reply<Value> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Reply(json!({}))
    }

    let site = Site::serving(mcp().request("x", slow));
    for era in Era::BOTH {
        let mut events = site.open(&era.request("1", "x", &json!({}))).await;
        events.streams();
        loop {
            let event = events.next().await.unwrap();
            match event.strip_prefix("data: ") {
                Some(last) => break assert_eq!(result_of(last, "1"), completed(era, &json!({}))),
                None => assert!(event.starts_with(':'), "{event}"),
            }
        }
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn a_client_that_takes_events_only_gets_a_completed_one() {
    let site = Site::serving(mcp().request("x", async || Reply(json!({}))));
    let answer = site.ask(&modern("1", "x", &json!({})).with("accept", "text/event-stream")).await;
    assert_eq!(result_of(answer.event(), "1"), completed(Era::Modern, &json!({})));
}

#[tokio::test]
async fn the_result_of_a_tool_is_completed_as_others_are() {
    async fn call() -> CallToolResult {
        CallToolResult::error("no").with(json!({ "type": "text", "text": "way", "_meta": { "a": 1 } }))
    }

    let content = json!([{ "type": "text", "text": "no" }, { "type": "text", "text": "way", "_meta": { "a": 1 } }]);
    let own = json!({ "content": content, "isError": true });
    for era in Era::BOTH {
        let empty = answers(era, "tools/call", CallToolResult::new).await;
        assert_eq!(empty.result("1"), completed(era, &json!({ "content": [] })));
        let site = Site::serving(mcp().request("tools/call", call));
        assert_eq!(site.ask(&era.call("1", &json!({ "name": "t" }))).await.result("1"), completed(era, &own));
    }
}

fn forgets(mut response: Response) -> Response {
    response.extensions_mut().clear();
    response
}

#[tokio::test]
async fn a_middleware_of_the_handler_may_do_what_it_likes() {
    let replaces = |_| Response::new(Body::from(r#"{"id":1,"result":{"own":1},"jsonrpc":"2.0"}"#));
    for era in Era::BOTH {
        let layered = (async || Reply(json!({ "a": 1 }))).layer(MapResponseLayer::new(forgets));
        let site = Site::serving(mcp().request("x", layered));
        let answer = site.ask(&era.request("1", "x", &json!({}))).await;
        assert_eq!(answer.result("1"), completed(era, &json!({ "a": 1 })));
        let layered = (async || Reply(json!({ "a": 1 }))).layer(MapResponseLayer::new(replaces));
        let site = Site::serving(mcp().request("x", layered));
        let answer = site.ask(&era.request("1", "x", &json!({}))).await;
        assert_eq!(answer.result("1"), completed(era, &json!({ "own": 1 })));
    }
}

#[tokio::test]
async fn a_middleware_between_layer_and_router_that_keeps_extensions_may_do_so_too() {
    let behind = |maps: fn(Response) -> Response| {
        let mcp: McpRouter = mcp().request("x", async || Reply(json!({ "a": 1 })));
        Site::build(
            |options| options,
            |server, _| {
                let route = Router::new().route_service("/mcp", mcp);
                route.layer(MapResponseLayer::new(maps)).layer(McpLayer::new(server.clone()))
            },
        )
    };
    let replaces = |response: Response| response.map(|_| Body::from(r#"{"result":{"own":1}}"#));
    let answer = behind(replaces).ask(&modern("1", "x", &json!({}))).await;
    assert_eq!(answer.result("1"), completed(Era::Modern, &json!({ "own": 1 })));
    // One that loses them loses what is added by them: clients then read it as complete, as the specification has it.
    let answer = behind(forgets).ask(&modern("1", "x", &json!({}))).await;
    assert_eq!(answer.result("1"), json!({ "a": 1 }));
    let answer = behind(forgets).ask(&post(request("1", "x", &json!({})))).await;
    assert_eq!(answer.result("1"), json!({ "a": 1 }));
}
