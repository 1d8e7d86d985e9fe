//! Sessions that the layer opens, so that each client is a caller of its own. It stores nothing for them.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::collections::HashSet;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{get, post as on_post};
use http::{HeaderMap, StatusCode};
use mcp_layer::{ExchangeInfo, McpError, McpLayer, Reply};
use serde_json::{Value, json};

use support::{CANCELLED, Post, Site, call, cancel, held, initialize, post};

const SESSION: &str = "mcp-session-id";

fn hello() -> Post {
    post(initialize("0", &json!({ "protocolVersion": "2025-11-25" })))
}

#[tokio::test]
async fn initialize_opens_a_session() {
    let site = Site::new();
    let mut all = HashSet::new();
    for accept in ["application/json, text/event-stream", "application/json", "text/event-stream"].repeat(20) {
        let answer = site.ask(&hello().with("accept", accept)).await;
        assert_eq!(answer.status, 200);
        let id = answer.header(SESSION).unwrap();
        assert!(
            id.starts_with("mcpl-") && id.len() >= 5 + 32 && id.bytes().all(|byte| byte.is_ascii_graphic()),
            "{id}"
        );
        assert!(all.insert(id.to_owned()), "the same session twice");
    }
}

#[tokio::test]
async fn nothing_else_opens_one() {
    let site = Site::new();
    let fails = post(initialize("0", &json!({ "fail": true })));
    let panics = post(initialize("0", &json!({ "panic": true })));
    let not_found = post(initialize("0", &json!({ "status": 404 })));
    for request in [fails, panics, not_found, hello().with("accept", "text/html"), post(call("1", &json!({})))] {
        assert_eq!(site.ask(&request).await.header(SESSION), None);
    }
    let notification = json!({ "jsonrpc": "2.0", "method": "initialize" });
    assert_eq!(site.ask(&post(notification.to_string())).await.header(SESSION), None);
}

#[tokio::test]
async fn sessions_can_be_switched_off() {
    let site = Site::with(|options| options.sessions(false));
    let answer = site.ask(&hello()).await;
    answer.result("0");
    assert_eq!(answer.header(SESSION), None);
}

#[tokio::test]
async fn a_session_of_the_handlers_own_is_kept() {
    let site = Site::over(on_post(async || ([(SESSION, "own")], Reply(json!({})))));
    let answer = site.ask(&hello()).await;
    answer.result("0");
    assert_eq!(answer.headers.get_all(SESSION).iter().collect::<Vec<_>>(), ["own"]);
}

#[tokio::test]
async fn a_complete_response_opens_one_too() {
    let complete = async || axum::Json(json!({ "jsonrpc": "2.0", "id": 0, "result": {} }));
    let answer = Site::over(on_post(complete)).ask(&hello()).await;
    assert!(answer.header(SESSION).unwrap().starts_with("mcpl-"));
    let error = async || axum::Json(json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": 1, "message": "no" } }));
    assert_eq!(Site::over(on_post(error)).ask(&hello()).await.header(SESSION), None);
    let broken = async || axum::Json(json!({ "jsonrpc": "2.0", "id": 9, "result": {} }));
    assert_eq!(Site::over(on_post(broken)).ask(&hello()).await.header(SESSION), None);
}

#[tokio::test]
async fn clients_that_send_it_back_are_callers_of_their_own() {
    let site = Site::new();
    let (mine, yours) = (site.ask(&hello()).await, site.ask(&hello()).await);
    let [mine, yours] = [&mine, &yours].map(|answer| answer.header(SESSION).unwrap());
    let parked = site.begin(&post(held("1")).and(SESSION, mine));
    site.parked(1).await;
    for other in [post(cancel("1")), post(cancel("1")).and(SESSION, yours)] {
        site.ask(&other).await.accepted();
        assert_eq!(site.server.parked(), 1);
    }
    site.ask(&post(cancel("1")).and(SESSION, mine)).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
}

/// Shows what the inner service sees of the session.
async fn show(headers: HeaderMap, info: Option<ExchangeInfoOf>) -> Reply<Value> {
    let header = headers.get(SESSION).map(|value| value.to_str().unwrap());
    Reply(
        json!({ "header": header, "info": info.and_then(|ExchangeInfoOf(info)| info.session_id().map(str::to_owned)) }),
    )
}

/// `ExchangeInfo`, where there is one: a GET has none.
struct ExchangeInfoOf(ExchangeInfo);

impl<S: Send + Sync> axum::extract::OptionalFromRequestParts<S> for ExchangeInfoOf {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Option<Self>, Self::Rejection> {
        let info = <ExchangeInfo as axum::extract::FromRequestParts<S>>::from_request_parts(parts, state).await;
        Ok(info.ok().map(Self))
    }
}

#[tokio::test]
async fn a_session_of_ours_is_shown_apart_from_the_headers() {
    let site = Site::over(on_post(show));
    // Any that looks like one of ours is: nothing is stored that could tell.
    for ours in ["mcpl-0123456789abcdef0123456789abcdef", "mcpl-", "mcpl-x"] {
        let seen = site.ask(&post(call("1", &json!({}))).and(SESSION, ours)).await.result("1");
        assert_eq!(seen, json!({ "header": null, "info": ours }));
    }
    for theirs in ["own", "MCPL-x", "xmcpl-x", "mcpl"] {
        let seen = site.ask(&post(call("1", &json!({}))).and(SESSION, theirs)).await.result("1");
        assert_eq!(seen, json!({ "header": theirs, "info": null }));
    }
    assert_eq!(site.ask(&post(call("1", &json!({})))).await.result("1"), json!({ "header": null, "info": null }));
}

#[tokio::test]
async fn other_methods_do_not_see_it_either() {
    let site = Site::over(get(show).delete(show));
    for method in ["GET", "DELETE"] {
        for (sent, seen) in [("mcpl-1", Value::Null), ("own", json!("own"))] {
            let answer = site.ask(&post("").method(method).and(SESSION, sent)).await;
            let answer: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(answer["result"]["header"], seen);
        }
    }
}

#[tokio::test]
async fn a_stale_session_is_the_handlers_to_refuse() {
    async fn gone(info: ExchangeInfo) -> Result<Reply<Value>, axum::response::Response> {
        match info.id() {
            Some(_) => Err((StatusCode::NOT_FOUND, McpError::new(-32001, "Session not found")).into_response()),
            None => Err(StatusCode::NOT_FOUND.into_response()),
        }
    }

    let site = Site::build(
        |options| options,
        |server, _| Router::new().route("/mcp", on_post(gone)).layer(McpLayer::new(server.clone())),
    );
    for body in [call("1", &json!({})), cancel("1")] {
        let answer = site.ask(&post(body).and(SESSION, "old")).await;
        assert_eq!((answer.status, answer.header(SESSION)), (404, None));
    }
}
