//! The ends of a request that `McpRouter` handles: cancelled, left, overtaken, shut down; and that nothing stays behind.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{CallToolResult, McpLayer, McpMessage, McpRouter, McpServerBuilder, Outcome, Tool};
use serde_json::{Value, json};

use support::{
    CANCELLED, Era, Live, Post, Probe, Site, cancel, cancel_because, completed, error_of, mcp, note, plain, polite,
    post, request, until,
};

/// The probe's two handlers as tools and as methods, and one that hears of cancels.
fn router() -> McpRouter<Arc<Probe>> {
    mcp()
        .tool(Tool::with_schema("plain", "Does not take the token", json!({}), plain))
        .tool(Tool::with_schema("polite", "Takes the token", json!({}), polite))
        .request("plain", plain)
        .request("polite", polite)
        .notification("notifications/cancelled", plain)
}

fn site_with(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Site {
    Site::build(options, |server, probe| {
        let mcp = router().with_state(Arc::clone(probe));
        Router::new().route_service("/mcp", mcp).layer(McpLayer::new(server.clone()))
    })
}

fn site() -> Site {
    site_with(|options| options)
}

/// A call that waits for the gate `gate`, unless these wishes name another.
fn held(era: Era, tool: &str, id: &str, wishes: &Value) -> Post {
    let mut params = json!({ "name": tool, "gate": "gate" });
    params.as_object_mut().unwrap().extend(wishes.as_object().unwrap().clone());
    era.call(id, &params)
}

#[tokio::test]
async fn a_cancelled_tool_is_dropped() {
    let live = site().listen().await;
    for (number, request) in
        [(1, held(Era::Legacy, "plain", "7", &json!({}))), (2, post(request("7", "plain", &json!({ "gate": "gate" }))))]
    {
        let asked = live.park(&request);
        live.parked(1).await;
        live.post(&post(cancel("7"))).await.accepted();
        asked.answer().await.error(200, CANCELLED, "7");
        live.probe.until("dropped 7").await;
        assert_eq!(live.probe.count("dropped 7"), number);
        assert_eq!((live.server.parked(), live.outcomes.count(Outcome::Cancelled)), (0, number));
    }
    // Who registered for them hears of the cancels too, as they were posted.
    assert_eq!(live.probe.heard(), [cancel("7"), cancel("7")]);
}

#[tokio::test]
async fn a_cancelled_tool_that_takes_the_token_is_asked() {
    let live = site().listen().await;
    let asked = live.park(&held(Era::Legacy, "polite", "\"a\"", &json!({ "stays_for": "end" })));
    live.parked(1).await;
    live.post(&post(cancel_because("\"a\"", &json!("no more")))).await.accepted();
    asked.answer().await.error(200, CANCELLED, "\"a\"");
    live.probe.until("fired \"a\": Cancelled Some(\"no more\")").await;
    assert_eq!(live.probe.count("dropped \"a\""), 0);
    live.probe.open("end");
    live.probe.until("returned \"a\"").await;
}

#[tokio::test]
async fn a_cancelled_tool_that_streams_ends_with_the_error() {
    let live = site().listen().await;
    for tool in ["plain", "polite"] {
        let mut connection = live.connect().await;
        connection.send(held(Era::Legacy, tool, "7", &json!({ "notes": [1] })).bytes()).await;
        connection.head().await;
        assert_eq!(connection.event().await, format!("data: {}", note(&json!(1))));
        live.post(&post(cancel("7"))).await.accepted();
        let last = connection.event().await;
        error_of(last.strip_prefix("data: ").unwrap(), CANCELLED, Some("7"));
        connection.end_of_stream().await;
    }
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test]
async fn a_modern_client_that_leaves_has_cancelled_its_tool() {
    let live = site().listen().await;
    for wishes in [json!({}), json!({ "notes": [1] })] {
        for (tool, told) in [("plain", "dropped 7"), ("polite", "fired 7: Disconnected None")] {
            let before = live.probe.count(told);
            let mut connection = live.send_and_park(&held(Era::Modern, tool, "7", &wishes), 1).await;
            if wishes != json!({}) {
                connection.head().await;
                connection.event().await;
            }
            drop(connection);
            until(|| live.probe.count(told) == before + 1).await;
            live.parked(0).await;
        }
    }
    assert_eq!(live.outcomes.count(Outcome::Disconnected), 4);
}

#[tokio::test]
async fn a_legacy_client_that_leaves_has_cancelled_nothing() {
    let live = site().listen().await;
    drop(live.send_and_park(&held(Era::Legacy, "polite", "7", &json!({})), 1).await);
    drop(live.send_and_park(&held(Era::Legacy, "plain", "8", &json!({})), 2).await);
    live.post(&post(cancel("8"))).await.accepted();
    live.probe.until("dropped 8").await;
    assert_eq!((live.server.parked(), live.probe.count("fired 7: Disconnected None")), (1, 0));
    live.probe.open("gate");
    live.probe.until("returned 7").await;
    live.parked(0).await;
}

#[tokio::test]
async fn a_posted_cancel_leaves_a_modern_tool_alone() {
    let live = site().listen().await;
    let asked = live.park(&held(Era::Modern, "polite", "7", &json!({ "text": "t" })));
    live.parked(1).await;
    live.post(&post(cancel("7")).with("mcp-protocol-version", support::MODERN)).await.accepted();
    assert_eq!(live.server.parked(), 1);
    live.probe.open("gate");
    assert_eq!(asked.answer().await.result("7"), completed(Era::Modern, &json!({ "text": "t" })));
    assert_eq!(live.probe.heard(), [cancel("7")]);
}

#[tokio::test]
async fn equal_ids_of_two_tools_have_their_own_results() {
    let live = site().listen().await;
    for era in Era::BOTH {
        let gate = format!("{era:?}");
        let first = live.park(&held(era, "plain", "1", &json!({ "gate": gate, "text": "first" })));
        live.parked(1).await;
        let second = live.park(&held(era, "polite", "1", &json!({ "gate": gate, "text": "second" })));
        live.parked(2).await;
        live.probe.open(&gate);
        assert_eq!(first.answer().await.result("1"), completed(era, &json!({ "text": "first" })));
        assert_eq!(second.answer().await.result("1"), completed(era, &json!({ "text": "second" })));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_too_long_is_overtaken() {
    let site = site_with(|options| options.request_timeout(Some(Duration::from_secs(3))).stream_after(None));
    for era in Era::BOTH {
        for tool in ["plain", "polite"] {
            site.ask(&held(era, tool, "7", &json!({}))).await.error(200, era.timed_out(), "7");
        }
    }
    assert_eq!((site.server.parked(), site.outcomes.count(Outcome::TimedOut)), (0, 4));
    until(|| site.probe.count("fired 7: TimedOut None") == 2).await;
    assert_eq!(site.probe.count("dropped 7"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_tools_that_are_left() {
    let site = site();
    let asked = Era::BOTH
        .map(|era| (era, site.begin(&held(era, "polite", "7", &json!({})).with("accept", "application/json"))));
    site.parked(2).await;
    site.server.shutdown(Duration::from_secs(1)).await;
    for (era, asked) in asked {
        asked.answer().await.error(200, era.shut_down(), "7");
    }
    assert_eq!(site.ask(&post(request("1", "ping", &json!({})))).await.status, 503);
    let refused = site.ask(&post("").method("GET")).await;
    assert_eq!(refused.status, 503);
}

#[tokio::test]
async fn a_notification_that_takes_its_time_is_accepted_and_runs_on() {
    let live = site().listen().await;
    let slow = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"gate":"gate"}}"#;
    live.post(&post(slow)).await.accepted();
    assert_eq!(live.probe.count("returned notifications/cancelled"), 0);
    live.probe.open("gate");
    live.probe.until("returned notifications/cancelled").await;
}

#[tokio::test]
async fn what_is_built_in_is_answered_while_tools_are_at_work() {
    let live = site_with(|options| options.max_parked(3)).listen().await;
    let first = live.send_and_park(&held(Era::Legacy, "plain", "1", &json!({})), 1).await;
    let second = live.send_and_park(&held(Era::Modern, "polite", "1", &json!({})), 2).await;
    for era in Era::BOTH {
        live.post(&era.request("2", "tools/list", &json!({}))).await.result("2");
    }
    live.post(&post(request("2", "ping", &json!({})))).await.result("2");
    drop((first, second));
}

/// What holds the state of the handlers: each that is left behind holds it too.
fn holders(probe: &Arc<Probe>) -> usize {
    Arc::strong_count(probe)
}

async fn settled(live: &Live, holders_before: usize) {
    live.parked(0).await;
    until(|| holders(&live.probe) == holders_before).await;
}

#[tokio::test]
async fn however_a_tool_ends_nothing_of_it_is_left() {
    let live = site_with(|options| options.cancel_grace(Duration::from_millis(50))).listen().await;
    let before = holders(&live.probe);
    for era in Era::BOTH {
        for tool in ["plain", "polite"] {
            let of = |wishes: Value| {
                let mut params = wishes;
                params["name"] = tool.into();
                era.call("1", &params)
            };
            live.post(&of(json!({}))).await.result("1");
            live.post(&of(json!({ "notes": [1, 2], "text": "x".repeat(10_000) }))).await;
            live.post(&of(json!({ "fail": true }))).await.error(200, -1, "1");
            live.post(&of(json!({ "panic": true }))).await.error(200, support::INTERNAL_ERROR, "1");
            assert_eq!(live.post(&of(json!({ "status": 401 }))).await.status, 401);
            live.post(&of(json!({ "arguments": 7 }))).await.error(200, support::INVALID_PARAMS, "1");
            settled(&live, before).await;
            for wishes in [json!({ "gate": "never" }), json!({ "gate": "never", "notes": [1] })] {
                let mut wishes = wishes;
                wishes["stays_for"] = "never".into();
                let connection = live.send_and_park(&of(wishes), 1).await;
                if era == Era::Legacy {
                    live.post(&post(cancel("1"))).await.accepted();
                }
                drop(connection);
                settled(&live, before).await;
            }
        }
    }
}

#[tokio::test]
async fn a_router_that_is_dropped_takes_all_of_its_state_along() {
    let probe = Arc::new(Probe::default());
    let with_state: McpRouter = router().with_state(Arc::clone(&probe));
    let nested = mcp().nest("a", with_state.clone()).merge(with_state);
    assert!(holders(&probe) > 1);
    drop(nested);
    assert_eq!(holders(&probe), 1);
}

#[tokio::test]
async fn a_thousand_tools_at_once_each_have_their_answer() {
    let echo = async |message: McpMessage| {
        tokio::task::yield_now().await;
        CallToolResult::text(message.id().unwrap().to_string())
    };
    let live = Site::serving(mcp().tool(Tool::with_schema("echo", "", json!({}), echo))).listen().await;
    let asked: Vec<_> = (0..1_000)
        .map(|id| {
            let era = Era::BOTH[id % 2];
            (id.to_string(), live.park(&era.call(&id.to_string(), &json!({ "name": "echo" }))))
        })
        .collect();
    for (id, asked) in asked {
        assert_eq!(support::texts(&asked.answer().await.result(&id)), [id]);
    }
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test]
async fn a_refusal_of_a_service_around_the_router_is_its_own() {
    let app = |mcp: McpRouter| {
        Site::build(
            |options| options,
            |server, _| {
                let refuses =
                    axum::middleware::from_fn(async |_: axum::extract::Request, _: axum::middleware::Next| {
                        (StatusCode::NOT_FOUND, "no such session")
                    });
                Router::new().route("/mcp", on_post(mcp)).layer(refuses).layer(McpLayer::new(server.clone()))
            },
        )
    };
    for era in Era::BOTH {
        let answer = app(mcp()).ask(&era.request("1", "tools/list", &json!({}))).await;
        assert_eq!((answer.status, answer.text()), (404, "no such session"));
    }
}
