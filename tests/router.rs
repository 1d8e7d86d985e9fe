//! `McpRouter`: which handler a message finds, and what becomes of those that find none.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{McpError, McpMessage, McpRouter, Reply};
use serde_json::{Value, json};
use tower::ServiceExt;

use support::{
    Answer, BOUND, Era, METHOD_NOT_FOUND, Post, Site, completed, error_of, initialize, mcp, modern, post, request,
};

/// A handler that says which one it is, and what it was sent.
fn says(name: &'static str) -> impl Fn(McpMessage) -> Ready<Reply<Value>> + Clone + Send + Sync + 'static {
    move |message| ready(Reply(json!({ "handler": name, "method": message.method() })))
}

/// That handler's answer.
fn said(era: Era, name: &str, method: &str) -> Value {
    completed(era, &json!({ "handler": name, "method": method }))
}

/// What was sent to which handlers, in order.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn by(&self, name: &'static str) -> impl Fn(McpMessage) -> Ready<Reply<Value>> + Clone + Send + Sync + 'static {
        let heard = self.clone();
        move |message| {
            heard.0.lock().unwrap().push(format!("{name}: {}", message.as_str()));
            ready(Reply(json!({})))
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn notification(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;

#[tokio::test]
async fn a_request_finds_the_handler_of_its_method() {
    let site = Site::serving(mcp().request("prompts/list", says("list")).request("x", says("x")));
    for era in Era::BOTH {
        assert_eq!(site.ask(&era.request("1", "x", &json!({}))).await.result("1"), said(era, "x", "x"));
        // A name is compared as it is spelled, and whole.
        for other in ["X", "xx", "x/", "prompts", "prompts/list/x", ""] {
            let answer = site.ask(&era.request("1", other, &json!({}))).await;
            answer.error(era.not_found(), METHOD_NOT_FOUND, "1");
        }
        let escaped = era.request("1", "prompts\\/l\\u0069st", &json!({})).with("mcp-method", "prompts/list");
        let result = site.ask(&escaped).await.result("1");
        assert_eq!((&result["handler"], &result["method"]), (&json!("list"), &json!("prompts/list")));
    }
}

#[tokio::test]
async fn an_unknown_method_is_not_found() {
    let site = Site::serving(mcp());
    for era in Era::BOTH {
        for method in ["x", "prompts/list", "tools/list", "tools/call", "resources/read", "notifications/cancelled"] {
            let mut asks = era.request("\"a\"", method, &json!({}));
            if era == Era::Legacy {
                // Not even an id and a name of a modern one make a difference.
                asks = asks.and("mcp-method", "other").and("mcp-name", "other");
            }
            let error = site.ask(&asks).await.error(era.not_found(), METHOD_NOT_FOUND, "\"a\"");
            assert_eq!((error.message, error.data), (format!("Method not found: {method}"), None));
        }
        let endless = "x/".repeat(1_000);
        let error = site.ask(&era.request("1", &endless, &json!({}))).await;
        let error = error.error(era.not_found(), METHOD_NOT_FOUND, "1");
        assert_eq!(error.message, format!("Method not found: {}", "x/".repeat(64)));
    }
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn not_found_comes_in_the_form_that_the_client_takes() {
    let site = Site::serving(mcp());
    let asks = |era: Era, accept| era.request("1", "x", &json!({})).with("accept", accept);
    for accept in ["application/json", "*/*"] {
        for era in Era::BOTH {
            site.ask(&asks(era, accept)).await.error(era.not_found(), METHOD_NOT_FOUND, "1");
        }
    }
    let answer = site.ask(&asks(Era::Legacy, "text/event-stream")).await;
    error_of(answer.event(), METHOD_NOT_FOUND, Some("1"));
    // There the status says it, and a stream has none of its own.
    site.ask(&asks(Era::Modern, "text/event-stream")).await.error(404, METHOD_NOT_FOUND, "1");
}

#[tokio::test]
async fn methods_of_the_other_era_are_not_found_even_where_they_have_a_handler() {
    let legacy_only = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
    let modern_only = ["server/discover", "subscriptions/listen"];
    let with_all = [legacy_only.as_slice(), modern_only.as_slice()].concat();
    let with_all = with_all.into_iter().fold(mcp(), |mcp, method| mcp.request(method, says("own")));
    for (mcp, is_own) in [(mcp(), false), (mcp().fallback(says("fallback")), false), (with_all, true)] {
        let site = Site::serving(mcp);
        for method in legacy_only {
            site.ask(&modern("1", method, &json!({}))).await.error(404, METHOD_NOT_FOUND, "1");
        }
        for method in modern_only {
            site.ask(&post(request("1", method, &json!({})))).await.error(200, METHOD_NOT_FOUND, "1");
        }
        if is_own {
            for (era, methods) in [(Era::Legacy, &legacy_only[..]), (Era::Modern, &modern_only[..])] {
                for method in methods {
                    let result = site.ask(&era.request("1", method, &json!({}))).await.result("1");
                    assert_eq!((&result["handler"], &result["method"]), (&json!("own"), &json!(method)));
                }
            }
        }
    }
}

#[tokio::test]
async fn a_notification_finds_the_handler_of_its_method() {
    let heard = Heard::default();
    let mcp = mcp().notification("notifications/x", heard.by("x")).notification("bare", heard.by("bare"));
    let site = Site::serving(mcp);
    for method in ["notifications/x", "bare", "notifications/other", "x", "notifications/X", "", "notifications/"] {
        site.ask(&post(notification(method))).await.accepted();
        site.ask(&post(notification(method)).with("mcp-protocol-version", support::MODERN)).await.accepted();
    }
    let heard_by = |name, method| format!("{name}: {}", notification(method));
    let expected = [heard_by("x", "notifications/x"), heard_by("bare", "bare")];
    assert_eq!(heard.all(), [expected[0].clone(), expected[0].clone(), expected[1].clone(), expected[1].clone()]);
}

#[tokio::test]
async fn what_the_handler_of_a_notification_returns_goes_nowhere() {
    let mcp = mcp()
        .notification("error", async || McpError::internal_error("a secret"))
        .notification("complete", async || r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        .notification("panic", async || {
            if true {
                panic!("a secret")
            }
        })
        .notification("refuse", async || (StatusCode::NOT_FOUND, "no such session"));
    let site = Site::serving(mcp);
    for method in ["error", "complete", "panic"] {
        site.ask(&post(notification(method))).await.accepted();
    }
    let refused = site.ask(&post(notification("refuse"))).await;
    assert_eq!((refused.status, refused.text()), (404, "no such session"));
}

#[tokio::test]
async fn a_request_and_a_notification_of_one_name_are_two_things() {
    let heard = Heard::default();
    let mcp = mcp()
        .request("both", says("request"))
        .notification("both", heard.by("notification"))
        .request("one", heard.by("one"))
        .notification("notifications/one", heard.by("one"));
    let site = Site::serving(mcp);
    for era in Era::BOTH {
        let answer = site.ask(&era.request("1", "both", &json!({}))).await;
        assert_eq!(answer.result("1"), said(era, "request", "both"));
        let asks = era.request("1", "notifications/one", &json!({}));
        site.ask(&asks).await.error(era.not_found(), METHOD_NOT_FOUND, "1");
    }
    assert_eq!(heard.all(), [""; 0]);
    site.ask(&post(notification("both"))).await.accepted();
    for method in ["one", "ping", "initialize", "server/discover", "tools/list", "tools/call"] {
        let answer = site.ask(&post(notification(method))).await;
        answer.accepted();
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    assert_eq!(heard.all(), [format!("notification: {}", notification("both"))]);
}

#[tokio::test]
async fn a_response_is_accepted_and_reaches_the_fallback_alone() {
    let heard = Heard::default();
    let error = r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#;
    for (mcp, is_heard) in [
        (mcp().notification("", heard.by("notification")).request("", heard.by("request")), false),
        (mcp().nest("x", McpRouter::default().fallback(heard.by("nested"))), false),
        (mcp().fallback(heard.by("fallback")), true),
    ] {
        let site = Site::serving(mcp);
        for response in [RESPONSE, error] {
            site.ask(&post(response)).await.accepted();
        }
        let expected = [RESPONSE, error].map(|response| format!("fallback: {response}"));
        assert_eq!(heard.all(), if is_heard { expected.to_vec() } else { vec![] });
    }
}

#[tokio::test]
async fn a_fallback_takes_what_nobody_else_does() {
    let heard = Heard::default();
    let fallback = says("fallback");
    let hears = heard.by("fallback");
    let mcp = mcp().request("x", says("x")).notification("notifications/x", heard.by("x")).fallback(
        async move |message: McpMessage| match message.is_request() {
            true => fallback(message).await,
            false => hears(message).await,
        },
    );
    let site = Site::serving(mcp);
    for era in Era::BOTH {
        assert_eq!(site.ask(&era.request("1", "x", &json!({}))).await.result("1"), said(era, "x", "x"));
        // Without tools these are methods like any other.
        for method in ["y", "prompts/list", "notifications/x", "tools/list", "tools/call"] {
            let result = site.ask(&era.request("1", method, &json!({}))).await.result("1");
            assert_eq!((&result["handler"], &result["method"]), (&json!("fallback"), &json!(method)));
        }
    }
    site.ask(&post(request("1", "ping", &json!({})))).await.result("1");
    for method in ["notifications/x", "notifications/y", "x"] {
        site.ask(&post(notification(method))).await.accepted();
    }
    let names = ["x", "fallback", "fallback"].into_iter().zip(["notifications/x", "notifications/y", "x"]);
    let expected: Vec<_> = names.map(|(name, method)| format!("{name}: {}", notification(method))).collect();
    assert_eq!(heard.all(), expected);
}

#[tokio::test]
async fn a_fallback_says_what_it_likes_of_a_method() {
    let refuses = async |message: McpMessage| McpError::method_not_found(message.method());
    let site = Site::serving(mcp().fallback(refuses));
    for era in Era::BOTH {
        site.ask(&era.request("1", "x", &json!({}))).await.error(era.not_found(), METHOD_NOT_FOUND, "1");
    }
    site.ask(&post(notification("x"))).await.accepted();
    let site = Site::serving(mcp().fallback(async || (StatusCode::IM_A_TEAPOT, "short and stout")));
    for message in [request("1", "x", &json!({})), notification("x"), RESPONSE.to_owned()] {
        let answer = site.ask(&post(message)).await;
        assert_eq!((answer.status, answer.text()), (418, "short and stout"));
    }
}

#[tokio::test]
async fn the_fallback_of_a_nested_router_takes_what_begins_with_its_prefix() {
    let inner = McpRouter::default().request("get", says("get")).fallback(says("inner"));
    let outer = McpRouter::default().nest("deep", inner.clone()).fallback(says("outer"));
    let mcp = mcp().request("tasks/own", says("own")).nest("tasks", inner).nest("a/b", outer).fallback(says("own"));
    let site = Site::serving(mcp);
    for era in Era::BOTH {
        for (method, handler) in [
            ("tasks/get", "get"),
            ("tasks/other", "inner"),
            ("tasks/", "inner"),
            ("tasks/x/y", "inner"),
            ("tasks//", "inner"),
            ("notifications/tasks/x", "inner"),
            ("tasks/own", "own"),
            ("tasks", "own"),
            ("tasksx/get", "own"),
            ("x/tasks/get", "own"),
            ("/tasks/get", "own"),
            ("a/b/x", "outer"),
            ("a/b/deep", "outer"),
            ("a/b/deep/get", "get"),
            ("a/b/deep/x", "inner"),
            ("a/bx", "own"),
            ("a/x", "own"),
            ("", "own"),
            ("/", "own"),
        ] {
            let result = site.ask(&era.request("1", method, &json!({}))).await.result("1");
            assert_eq!(result["handler"], handler, "{method}");
        }
    }
}

#[tokio::test]
async fn a_method_of_many_parts_takes_no_longer_than_any_other_of_its_length() {
    let inner = McpRouter::default().fallback(says("inner"));
    let site = Site::serving(mcp().nest("x", inner).fallback(says("own")));
    let began = Instant::now();
    for (prefix, handler) in [("", "own"), ("x/", "inner"), ("notifications/x/", "inner")] {
        let method = format!("{prefix}{}", "a/".repeat(1_000_000));
        let result = site.ask(&post(request("1", &method, &json!({})))).await.result("1");
        assert_eq!(result["handler"], handler);
    }
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
}

#[tokio::test]
async fn methods_but_post_are_not_allowed() {
    let site = Site::serving(mcp().fallback(says("fallback"))).listen().await;
    for method in ["GET", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS"] {
        for request in [
            post("").method(method),
            post(request("1", "ping", &json!({}))).method(method),
            post("").method(method).with("accept", "text/event-stream").and("mcp-session-id", "s"),
            modern("1", "server/discover", &json!({})).method(method),
            post("").method(method).and("last-event-id", "7"),
        ] {
            let mut connection = site.connect().await;
            connection.send(request.bytes()).await;
            let answer = connection.head().await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{request:?}");
            assert_eq!(answer.header("content-length").unwrap_or("0"), "0");
        }
    }
    assert_eq!((site.server.parked(), site.outcomes.all()), (0, vec![]));
}

/// What a router says without the layer.
async fn without_the_layer(app: Router, request: &Post) -> Answer {
    Answer::of(app.oneshot(request.request()).await.unwrap()).await
}

#[tokio::test]
async fn without_the_layer_a_post_is_an_internal_error_that_says_what_is_missing() {
    let mcp: McpRouter = mcp().fallback(says("fallback"));
    for app in [Router::new().route_service("/mcp", mcp.clone()), Router::new().route("/mcp", on_post(mcp.clone()))] {
        for request in [
            post(request("1", "ping", &json!({}))),
            post(initialize("1", &json!({}))),
            modern("1", "server/discover", &json!({})),
            post(notification("x")),
            post("no JSON"),
        ] {
            let answer = without_the_layer(app.clone(), &request).await;
            assert_eq!(answer.status, 500);
            assert!(answer.text().contains("McpLayer"), "{answer:?}");
        }
        let answer = without_the_layer(app, &post("").method("GET")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    }
}

#[tokio::test]
async fn a_router_may_be_the_handler_of_a_method() {
    let inner = McpRouter::default().request("x", says("inner")).notification("x", says("inner"));
    let site = Site::serving(mcp().request("x", inner.clone()).request("y", inner.clone()).fallback(inner));
    for era in Era::BOTH {
        assert_eq!(site.ask(&era.request("1", "x", &json!({}))).await.result("1"), said(era, "inner", "x"));
        for method in ["y", "z"] {
            site.ask(&era.request("1", method, &json!({}))).await.error(era.not_found(), METHOD_NOT_FOUND, "1");
        }
    }
    site.ask(&post(notification("x"))).await.accepted();
}

#[tokio::test]
async fn a_value_may_be_the_handler_of_a_method() {
    let response = (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]);
    let site = Site::serving(mcp().request("x", response).request("y", "no JSON-RPC"));
    for era in Era::BOTH {
        let answer = site.ask(&era.request("1", "x", &json!({}))).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
        site.ask(&era.request("1", "y", &json!({}))).await.error(200, support::INTERNAL_ERROR, "1");
    }
}

#[tokio::test]
async fn ids_are_echoed_by_what_is_built_in() {
    let site = Site::serving(mcp());
    for id in ["0", "-1", "18446744073709551615", "\"\"", "\"7\"", "\"a\\\"\\u0000\""] {
        site.ask(&post(request(id, "ping", &json!({})))).await.result(id);
        site.ask(&modern(id, "server/discover", &json!({}))).await.result(id);
        site.ask(&modern(id, "x", &json!({}))).await.error(404, METHOD_NOT_FOUND, id);
    }
}

#[tokio::test]
async fn a_router_is_a_tower_service_of_any_body() {
    let layered = tower::ServiceBuilder::new()
        .layer(mcp_layer::McpLayer::new(mcp_layer::McpServer::new()))
        .service(mcp().request("x", says("x")));
    let request = post(request("1", "x", &json!({}))).request();
    let response = layered.oneshot(request.map(axum::body::Body::into_data_stream).map(axum::body::Body::from_stream));
    let answer = Answer::of(response.await.unwrap().into_response()).await;
    assert_eq!(answer.result("1"), said(Era::Legacy, "x", "x"));
}
