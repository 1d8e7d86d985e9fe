//! What a service that knows nothing of this crate hears when the layer ends a request, and no client has said so.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{HeaderMap, StatusCode};
use mcp_layer::{Departure, McpLayer, McpServerBuilder, Outcome};
use serde_json::{Value, json};

use support::{BOUND, Era, Post, Site, cancel_because, initialize, post, until};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What the service has heard: it never answers a request, and streams where it is told to.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(HeaderMap, String)>>>);

impl Heard {
    fn site(&self, options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Site {
        let heard = self.clone();
        let service = any(move |request: Request| heard.clone().handle(request));
        Site::build(options, |server, _| {
            Router::new().route("/mcp", service).layer(McpLayer::transparent(server.clone()))
        })
    }

    async fn handle(self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        let (is_request, streams) = (body.contains(r#""id":"#), body.contains("streams"));
        self.0.lock().unwrap().push((parts.headers, body));
        match (is_request, streams) {
            (false, _) => StatusCode::ACCEPTED.into_response(),
            (true, false) => std::future::pending().await,
            (true, true) => {
                let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
                ([("content-type", "text/event-stream")], Body::from_stream(never)).into_response()
            }
        }
    }

    fn all(&self) -> Vec<(HeaderMap, Value)> {
        let heard = self.0.lock().unwrap();
        heard.iter().map(|(headers, body)| (headers.clone(), serde_json::from_str(body).unwrap())).collect()
    }

    /// How many cancels were among it.
    fn cancels(&self) -> usize {
        self.all().iter().filter(|(_, message)| message["method"] == "notifications/cancelled").count()
    }
}

fn call(era: Era, id: &str, tool: &str) -> Post {
    era.call(id, &json!({ "name": tool }))
}

fn of_session(post: Post) -> Post {
    post.and("mcp-session-id", "theirs").and("authorization", "Bearer x")
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_session_whose_time_is_up_is_withdrawn_as_its_client_would() {
    for tool in ["waits", "streams"] {
        let heard = Heard::default();
        let site = heard.site(|options| options.request_timeout(Some(TIMEOUT)));
        for (at, id) in [r#""one""#, "9007199254740993"].into_iter().enumerate() {
            let answer = site.begin(&of_session(call(Era::Legacy, id, tool)).and("expect", "100-continue"));
            let answer = answer.answer().await;
            assert!(answer.text().contains(&Era::Legacy.timed_out().to_string()), "{answer:?}");
            until(|| heard.all().len() == 2 * (at + 1)).await;
            let all = heard.all();
            let [(asked, _), (told, message)] = &all[2 * at..] else { panic!("{all:?}") };
            let id: Value = serde_json::from_str(id).unwrap();
            let params = json!({ "requestId": id, "reason": "Request timed out" });
            assert_eq!(*message, json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
            for name in ["accept", "authorization", "content-type", "mcp-protocol-version", "mcp-session-id"] {
                assert_eq!(told.get(name), asked.get(name), "{name}");
            }
            assert_eq!(told["content-length"], heard.0.lock().unwrap()[2 * at + 1].1.len().to_string().as_str());
            assert!(!told.contains_key("expect"));
        }
        assert_eq!(site.outcomes.count(Outcome::TimedOut), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_until_its_requests_are_withdrawn() {
    let heard = Heard::default();
    let site = heard.site(|options| options);
    let calls: Vec<_> =
        (0..100).map(|id| site.begin(&of_session(call(Era::Legacy, &id.to_string(), "waits")))).collect();
    site.parked(100).await;
    tokio::time::timeout(BOUND, site.server.shutdown(Duration::ZERO)).await.unwrap();
    assert_eq!(heard.cancels(), 100);
    for (id, call) in calls.into_iter().enumerate() {
        call.answer().await.error(200, Era::Legacy.shut_down(), id.to_string().as_str());
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_hears_nothing_does_not_hold_up_a_shutdown() {
    let never = any(async || std::future::pending::<Response>().await);
    let site = Site::build(
        |options| options,
        |server, _| Router::new().route("/mcp", never).layer(McpLayer::transparent(server.clone())),
    );
    let call = site.begin(&of_session(call(Era::Legacy, "1", "waits")));
    site.parked(1).await;
    let began = tokio::time::Instant::now();
    site.server.shutdown(Duration::ZERO).await;
    assert!(began.elapsed() <= Duration::from_secs(1));
    call.answer().await.error(200, Era::Legacy.shut_down(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_withdraws_where_that_is_a_cancel() {
    let heard = Heard::default();
    let site = heard.site(|options| options.legacy_departure(Departure::Cancel));
    let call = site.begin(&of_session(call(Era::Legacy, "1", "waits")));
    site.parked(1).await;
    until(|| heard.all().len() == 1).await;
    call.abort();
    until(|| heard.cancels() == 1).await;
    assert_eq!(heard.all().last().unwrap().1["params"]["reason"], "Client disconnected");
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_withdrawn() {
    let heard = Heard::default();
    let site = heard.site(|options| options.request_timeout(Some(TIMEOUT)).honour_modern_cancel(true));
    // Its client has said so.
    let cancelled = site.begin(&of_session(call(Era::Legacy, "1", "waits")));
    site.parked(1).await;
    site.ask(&of_session(post(cancel_because("1", &json!("enough"))))).await.accepted();
    cancelled.answer().await.error(200, Era::Legacy.cancelled(), "1");
    // Elsewhere an id alone may name the request of another client.
    site.begin(&call(Era::Legacy, "2", "waits")).answer().await.error(200, Era::Legacy.timed_out(), "2");
    let own = call(Era::Legacy, "3", "waits").and("mcp-session-id", "mcpl-1");
    site.begin(&own).answer().await.error(200, Era::Legacy.timed_out(), "3");
    // There is no session, and to leave is to cancel.
    let modern = of_session(call(Era::Modern, "4", "waits"));
    site.begin(&modern).answer().await.error(200, Era::Modern.timed_out(), "4");
    // MCP, Cancellation: never.
    let opening = of_session(post(initialize("5", &json!({ "protocolVersion": "2025-11-25" }))));
    site.begin(&opening).answer().await.error(200, Era::Legacy.timed_out(), "5");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(heard.cancels(), 1);
}
