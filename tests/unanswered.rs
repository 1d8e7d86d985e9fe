//! Notifications and responses: they have no answer, only a 202.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{Cancellation, McpError, McpMessage, Reply};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use support::{Answer, CANCELLED, INTERNAL_ERROR, INVALID_REQUEST, Live, Site, call, cancel, held, post, until};

fn notification(params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": params }).to_string()
}

/// What the client of a notification gets of what its handler returns.
async fn answers<R: IntoResponse + Send>(returns: impl Fn() -> R + Clone + Send + Sync + 'static) -> Answer {
    let site = Site::over(on_post(async move || returns()));
    let [first, second] = [notification(&json!({})), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned()];
    let (first, second) = (site.ask(&post(first)).await, site.ask(&post(second)).await);
    assert_eq!((first.status, &first.body, &first.headers), (second.status, &second.body, &second.headers));
    assert_eq!((site.server.parked(), site.outcomes.all()), (0, vec![]));
    first
}

#[tokio::test]
async fn any_success_is_accepted() {
    answers(|| Reply(Value::Null)).await.accepted();
    answers(|| "text").await.accepted();
    answers(|| axum::Json(json!({}))).await.accepted();
    answers(|| ([("content-type", "text/event-stream")], "data: x\n\n")).await.accepted();
    for status in [200, 201, 202, 204, 206] {
        answers(move || StatusCode::from_u16(status).unwrap()).await.accepted();
    }
    let answer = answers(|| ([("set-cookie", "a=1"), ("etag", "x"), ("content-length", "7")], "a body")).await;
    answer.accepted();
    assert_eq!((answer.header("set-cookie"), answer.header("etag")), (Some("a=1"), None));
}

#[tokio::test]
async fn an_error_and_a_panic_are_accepted() {
    answers(|| McpError::internal_error("failed")).await.accepted();
    answers(|| -> Response { panic!("as asked") }).await.accepted();
}

#[tokio::test]
async fn the_handlers_own_refusal_passes() {
    for status in [400, 401, 404, 500, 503] {
        let answer = answers(move || (StatusCode::from_u16(status).unwrap(), [("x-own", "1")], "text")).await;
        assert_eq!((answer.status, answer.header("x-own"), answer.text()), (status, Some("1"), "text"));
    }
}

#[tokio::test]
async fn responses_of_the_client_reach_the_handler() {
    let (hears, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let site = Site::over(on_post(async move |message: McpMessage, token: Cancellation| {
        assert!(message.is_response() && !token.is_cancelled());
        let response = message.response().unwrap();
        hears.send((message.id().cloned(), response.map(str::to_owned).map_err(str::to_owned))).unwrap();
        StatusCode::OK
    }));
    site.ask(&post(r#"{"jsonrpc":"2.0","id":"x","result":{"a":1.50}}"#)).await.accepted();
    assert_eq!(heard.recv().await.unwrap(), (Some("x".into()), Ok(r#"{"a":1.50}"#.to_owned())));
    site.ask(&post(r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}"#)).await.accepted();
    assert_eq!(heard.recv().await.unwrap(), (Some(7.into()), Err(r#"{"code":1,"message":"no"}"#.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn after_a_second_it_is_accepted_and_its_handler_runs_on() {
    for path in ["/mcp", "/polite"] {
        let site = Site::new();
        let began = Instant::now();
        site.ask(&post(notification(&json!({ "gate": "gate" }))).to(path)).await.accepted();
        assert!((1_000..1_010).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        // Longer than any grace time.
        sleep(Duration::from_secs(60)).await;
        assert_eq!(site.probe.log().last().unwrap(), "started notifications/x");
        site.probe.open("gate");
        site.probe.until("returned notifications/x").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_comes_in_time_passes_and_a_later_one_does_not() {
    for (after, status) in [(900, 404), (1_100, 202)] {
        let site = Site::over(on_post(async move || {
            sleep(Duration::from_millis(after)).await;
            StatusCode::NOT_FOUND
        }));
        assert_eq!(site.ask(&post(notification(&json!({})))).await.status, status);
    }
}

#[tokio::test]
async fn its_handler_does_not_stop_when_its_client_leaves() {
    let live = Live::new().await;
    let mut connection = live.connect().await;
    connection.send(post(notification(&json!({ "gate": "gate" }))).bytes()).await;
    live.probe.until("started notifications/x").await;
    drop(connection);
    // Another exchange goes by, so the server has had its turns to see the departure.
    live.post(&post(call("1", &json!({})))).await.result("1");
    live.probe.open("gate");
    live.probe.until("returned notifications/x").await;
    assert_eq!(live.probe.count("dropped notifications/x"), 0);
}

#[tokio::test(start_paused = true)]
async fn they_are_bounded_apart_from_requests() {
    let site = Site::with(|options| options.max_parked(2));
    let slow = notification(&json!({ "gate": "gate" }));
    for _ in 0..2 {
        site.ask(&post(slow.clone())).await.accepted();
    }
    let refused = site.ask(&post(slow.clone())).await;
    refused.error(503, INTERNAL_ERROR, None);
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Requests have places of their own.
    site.ask(&post(call("1", &json!({})))).await.result("1");
    site.probe.open("gate");
    site.probe.until("returned notifications/x").await;
    until(|| site.probe.count("returned notifications/x") == 2).await;
    tokio::task::yield_now().await;
    site.ask(&post(slow)).await.accepted();
}

#[tokio::test(start_paused = true)]
async fn a_cancel_counts_even_where_its_handler_has_no_place() {
    let site = Site::with(|options| options.max_parked(1));
    let parked = site.begin(&post(held("1")));
    site.parked(1).await;
    site.ask(&post(notification(&json!({ "gate": "other" })))).await.accepted();
    site.ask(&post(cancel("1"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
}

#[tokio::test]
async fn they_are_bounded_by_owner_too() {
    let site = Site::with(|options| options.max_parked_per_caller(1));
    let slow = post(notification(&json!({ "gate": "gate" })));
    let parked = site.begin(&slow.clone().and("authorization", "a"));
    site.probe.until("started notifications/x").await;
    site.ask(&slow.clone().and("authorization", "a")).await.error(429, INVALID_REQUEST, None);
    let other = site.begin(&slow.and("authorization", "b"));
    site.probe.open("gate");
    parked.answer().await.accepted();
    other.answer().await.accepted();
}
