//! `McpRouter` put together: of routers, and of handlers with layers of their own.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::StatusCode;
use mcp_layer::{CallToolResult, McpLayer, McpMessage, McpRouter, McpServer, Reply, Tool};
use serde_json::{Value, json};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use support::{Era, METHOD_NOT_FOUND, Site, completed, mcp, modern, panics, post, request};

async fn empty() -> Reply<Value> {
    Reply(json!({}))
}

fn tool<S: Clone + Send + Sync + 'static>(name: &str) -> Tool<S> {
    Tool::with_schema(name, "A tool", json!({ "type": "object" }), async || CallToolResult::new())
}

fn on(app: impl FnOnce(McpLayer) -> Router) -> Site {
    Site::build(|options| options, |server, _| app(McpLayer::new(server.clone())))
}

async fn tools_of(site: &Site) -> Vec<String> {
    let listed = site.ask(&post(request("1", "tools/list", &json!({})))).await.result("1");
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn answers(site: &Site, method: &str) {
    for era in Era::BOTH {
        site.ask(&era.request("1", method, &json!({}))).await.result("1");
    }
}

async fn answers_not(site: &Site, method: &str) {
    for era in Era::BOTH {
        let answer = site.ask(&era.request("1", method, &json!({}))).await;
        answer.error(era.not_found(), METHOD_NOT_FOUND, "1");
    }
}

#[tokio::test]
async fn merged_routers_are_one() {
    let prompts = McpRouter::default().request("prompts/list", empty).tool(tool("b"));
    let resources = McpRouter::default().request("resources/list", empty).tool(tool("a")).fallback(empty);
    let site = Site::serving(mcp().tool(tool("c")).request("x", empty).merge(prompts).merge(resources));
    for method in ["x", "prompts/list", "resources/list", "anything"] {
        answers(&site, method).await;
    }
    assert_eq!(tools_of(&site).await, ["c", "b", "a"]);
}

#[tokio::test]
async fn what_a_merged_router_says_of_its_server_is_dropped_but_not_what_it_can_do() {
    let other = McpRouter::new(mcp_layer::ServerInfo::new("other", "9"))
        .instructions("theirs")
        .capability("tools", json!({ "theirs": 1 }))
        .capability("extensions", json!({ "theirs": 2 }));
    for merged in [
        mcp().capability("tools", json!({ "ours": 1 })).instructions("ours").merge(other.clone()),
        mcp().capability("tools", json!({ "ours": 1 })).instructions("ours").nest("x", other),
    ] {
        let discovered = Site::serving(merged).ask(&modern("1", "server/discover", &json!({}))).await.result("1");
        assert_eq!(discovered["capabilities"], json!({ "tools": { "ours": 1 }, "extensions": { "theirs": 2 } }));
        assert_eq!(discovered["instructions"], "ours");
        assert_eq!(discovered["_meta"], completed(Era::Modern, &json!({}))["_meta"]);
    }
}

#[tokio::test]
async fn nested_names_are_made_as_mcp_makes_them() {
    let (heard, hears) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let hear = |heard: &Arc<AtomicUsize>| {
        let heard = Arc::clone(heard);
        async move || {
            heard.fetch_add(1, Ordering::Relaxed);
        }
    };
    let tasks = McpRouter::default()
        .request("get", empty)
        .request("a/b", empty)
        .notification("notifications/status", hear(&heard))
        .notification("bare", hear(&hears))
        .tool(tool("list"));
    let site = Site::serving(mcp().tool(tool("list")).nest("tasks", tasks.clone()).nest("x/y", tasks));
    for method in ["tasks/get", "tasks/a/b", "x/y/get"] {
        answers(&site, method).await;
    }
    for method in ["get", "a/b", "tasks", "tasks/", "tasks//get", "tasks/tasks/get", "y/get"] {
        answers_not(&site, method).await;
    }
    for (method, named) in [
        ("notifications/tasks/status", 1),
        ("notifications/x/y/status", 1),
        ("notifications/status", 0),
        ("tasks/notifications/status", 0),
        ("notifications/notifications/tasks/status", 0),
    ] {
        heard.store(0, Ordering::Relaxed);
        site.ask(&post(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#))).await.accepted();
        assert_eq!(heard.load(Ordering::Relaxed), named, "{method}");
    }
    site.ask(&post(r#"{"jsonrpc":"2.0","method":"tasks/bare"}"#)).await.accepted();
    assert_eq!(hears.load(Ordering::Relaxed), 1);
    assert_eq!(tools_of(&site).await, ["list", "tasks.list", "x/y.list"]);
    for name in ["list", "tasks.list"] {
        for era in Era::BOTH {
            site.ask(&era.call("1", &json!({ "name": name }))).await.result("1");
        }
    }
}

#[tokio::test]
async fn routers_nest_in_nested_ones() {
    let inner = McpRouter::default().request("x", empty).tool(tool("t"));
    let site = Site::serving(mcp().nest("a", McpRouter::default().nest("b/", inner.clone()).merge(inner)));
    answers(&site, "a/b/x").await;
    answers(&site, "a/x").await;
    answers_not(&site, "b/x").await;
    assert_eq!(tools_of(&site).await, ["a.b.t", "a.t"]);
}

#[test]
fn what_has_a_name_has_it_alone() {
    let with = || mcp::<()>().request("x", empty).notification("n", empty).fallback(empty).tool(tool("t"));
    for (panic, names) in [
        (panics(|| with().request("x", empty)), "request \"x\""),
        (panics(|| with().notification("n", empty)), "notification \"n\""),
        (panics(|| with().fallback(empty)), "fallback"),
        (panics(|| with().tool(tool("t"))), "tool \"t\""),
        (panics(|| with().merge(McpRouter::default().request("x", empty))), "request \"x\""),
        (panics(|| with().merge(McpRouter::default().notification("n", empty))), "notification \"n\""),
        (panics(|| with().merge(McpRouter::default().fallback(empty))), "fallback"),
        (panics(|| with().merge(McpRouter::default().tool(tool("t")))), "tool \"t\""),
        (panics(|| with().request("a/x", empty).nest("a", with())), "request \"a/x\""),
        (panics(|| with().nest("a", with()).nest("a", McpRouter::default().fallback(empty))), "fallback \"a\""),
        (panics(|| with().tool(tool("a.t")).nest("a", with())), "tool \"a.t\""),
        (panics(|| with().nest("/", McpRouter::default())), "merge it instead"),
    ] {
        assert!(panic.contains(names), "{panic}");
    }
    // Each kind has names of its own, and so has each case.
    drop(with().request("n", empty).notification("x", empty).request("t", empty).tool(tool("x")).tool(tool("T")));
}

#[tokio::test]
async fn a_clone_that_is_changed_changes_no_other() {
    let mcp = mcp().request("x", empty);
    let (with_more, plain) = (mcp.clone().request("y", empty).tool(tool("t")), mcp.clone());
    answers(&Site::serving(with_more), "y").await;
    answers_not(&Site::serving(plain), "y").await;
    answers_not(&Site::serving(mcp), "tools/list").await;
}

#[tokio::test]
async fn a_handler_may_have_layers_of_its_own() {
    async fn only_curl(request: Request, next: Next) -> Response {
        match request.headers().contains_key("user-agent") {
            true => next.run(request).await,
            false => Response::builder().status(403).body(axum::body::Body::empty()).unwrap(),
        }
    }

    let marks = SetResponseHeaderLayer::overriding(
        http::HeaderName::from_static("x-layer"),
        http::HeaderValue::from_static("1"),
    );
    let call = async |message: McpMessage| CallToolResult::text(message.method());
    let schema = json!({ "type": "object" });
    let mcp = mcp().request("x", empty.layer(marks.clone())).request("plain", empty).tool(Tool::with_schema(
        "t",
        "A tool",
        schema,
        call.layer(from_fn(only_curl)).layer(marks),
    ));
    let site = Site::serving(mcp);
    for era in Era::BOTH {
        let answer = site.ask(&era.request("1", "x", &json!({}))).await;
        assert_eq!((answer.result("1"), answer.header("x-layer")), (completed(era, &json!({})), Some("1")));
        assert_eq!(site.ask(&era.request("1", "plain", &json!({}))).await.header("x-layer"), None);
        let call = era.call("1", &json!({ "name": "t" }));
        let answer = site.ask(&call.clone().and("user-agent", "curl")).await;
        assert_eq!(
            (&answer.result("1")["content"][0]["text"], answer.header("x-layer")),
            (&json!("tools/call"), Some("1"))
        );
        let refused = site.ask(&call).await;
        assert_eq!((refused.status, refused.header("x-layer")), (403, Some("1")));
    }
}

#[tokio::test]
async fn a_layer_of_a_handler_may_hold_it_up_but_no_cancel_and_no_other() {
    async fn stays() -> Reply<Value> {
        std::future::pending().await
    }

    let mcp = mcp().request("stays", stays.layer(GlobalConcurrencyLimitLayer::new(1))).request("x", empty);
    let live = Site::serving(mcp).listen().await;
    let first = live.park(&post(request("1", "stays", &json!({}))));
    live.parked(1).await;
    let second = live.park(&post(request("2", "stays", &json!({}))));
    live.parked(2).await;
    live.post(&post(request("3", "x", &json!({})))).await.result("3");
    for (id, asked) in [("2", second), ("1", first)] {
        live.post(&post(support::cancel(id))).await.accepted();
        asked.answer().await.error(200, support::CANCELLED, id);
    }
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_handler_is_its_answer() {
    async fn slow() -> Reply<Value> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Reply(json!({}))
    }

    let timeout =
        tower_http::timeout::TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_millis(500));
    let site = Site::serving(mcp().request("x", slow.layer(timeout)));
    for era in Era::BOTH {
        assert_eq!(site.ask(&era.request("1", "x", &json!({}))).await.status, 504);
    }
}

#[tokio::test]
async fn two_routers_share_a_server() {
    let server = McpServer::new();
    let app = Router::new()
        .route_service("/a", mcp().request("x", async || Reply(json!("a"))))
        .route_service("/b", mcp().request("x", async || Reply(json!("b"))))
        .layer(McpLayer::new(server.clone()));
    let site = on(|_| app);
    let asks = |target: &str| post(request("1", "x", &json!({}))).to(target);
    for (target, result) in [("/a", "a"), ("/b", "b")] {
        assert_eq!(site.ask(&asks(target)).await.result("1"), json!(result));
    }
    assert_eq!((site.ask(&asks("/c")).await.status, server.parked()), (404, 0));
}
