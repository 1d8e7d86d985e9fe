//! What becomes of a handler whose exchange is cancelled.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{Cancellation, McpLayer, McpMessage, Outcome};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, advance};
use tower::ServiceBuilder;
use tower::limit::ConcurrencyLimitLayer;

use support::{CANCELLED, Live, Site, call, cancel, cancel_because, held, post};

/// A handler that takes the token, and stays when it fires.
fn stubborn(id: &str) -> support::Post {
    post(call(id, &json!({ "gate": "gate", "stays_for": "stay" }))).to("/polite")
}

#[tokio::test]
async fn the_token_fires_with_the_reason() {
    for (reason, seen) in [
        (json!("user pressed stop"), Some("user pressed stop".to_owned())),
        (json!("a\nb\u{0}\u{1f980}\""), Some("a\nb\u{0}\u{1f980}\"".to_owned())),
        (json!(""), Some(String::new())),
        (Value::Null, None),
        (json!(7), None),
        (json!({ "a": 1 }), None),
        (json!("x".repeat(1_024)), Some("x".repeat(1_024))),
        (json!("x".repeat(5_000)), Some("x".repeat(1_024))),
        // The 1,024th byte would be half of a character.
        (json!(format!("x{}", "\u{e9}".repeat(800))), Some(format!("x{}", "\u{e9}".repeat(511)))),
    ] {
        let live = Live::new().await;
        let parked = live.park(&post(held("7")).to("/polite"));
        live.parked(1).await;
        live.post(&post(cancel_because("7", &reason))).await.accepted();
        parked.answer().await.error(200, CANCELLED, "7");
        live.probe.until(&format!("fired 7: {:?} {seen:?}", Outcome::Cancelled)).await;
        live.probe.until("returned 7").await;
    }
}

#[tokio::test]
async fn a_cancel_without_a_reason_gives_none() {
    let live = Live::new().await;
    let parked = live.park(&post(held("7")).to("/polite"));
    live.parked(1).await;
    live.post(&post(cancel("7"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "7");
    live.probe.until("fired 7: Cancelled None").await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_ask_is_dropped_at_once() {
    let site = Site::new();
    let parked = site.begin(&post(held("7")));
    site.parked(1).await;
    site.probe.until("started 7").await;
    let began = Instant::now();
    site.ask(&post(cancel("7"))).await.accepted();
    site.probe.until("dropped 7").await;
    assert!(began.elapsed().is_zero());
    parked.answer().await.error(200, CANCELLED, "7");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_has_five_seconds() {
    let site = Site::new();
    let parked = site.begin(&stubborn("7"));
    site.parked(1).await;
    let began = Instant::now();
    site.ask(&post(cancel("7"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "7");
    site.probe.until("dropped 7").await;
    let grace = began.elapsed();
    assert!((5_000..5_010).contains(&grace.as_millis()), "{grace:?}");
    assert_eq!(site.probe.count("fired 7: Cancelled None"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_may_finish_in_its_time() {
    let site = Site::new();
    let parked = site.begin(&stubborn("7"));
    site.parked(1).await;
    site.ask(&post(cancel("7"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "7");
    advance(Duration::from_millis(4_900)).await;
    site.probe.open("stay");
    site.probe.until("returned 7").await;
    assert_eq!(site.probe.count("dropped 7"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_grace_time_can_be_set() {
    for grace in [Duration::ZERO, Duration::from_secs(10)] {
        let site = Site::with(|options| options.cancel_grace(grace));
        let parked = site.begin(&stubborn("7"));
        site.parked(1).await;
        site.probe.until("started 7").await;
        let began = Instant::now();
        site.ask(&post(cancel("7"))).await.accepted();
        parked.answer().await.error(200, CANCELLED, "7");
        site.probe.until("dropped 7").await;
        let took = began.elapsed().as_millis();
        assert!((grace.as_millis()..grace.as_millis() + 10).contains(&took), "{took} ms of {grace:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_middleware_inside_may_ask_too() {
    async fn asks(token: Cancellation, request: Request, next: Next) -> axum::response::Response {
        let response = next.run(request).await;
        drop(token);
        response
    }

    let site = Site::build(
        |options| options,
        |server, probe| Site::routes(probe).layer(from_fn(asks)).layer(McpLayer::new(server.clone())),
    );
    let parked = site.begin(&post(held("7")));
    site.parked(1).await;
    site.probe.until("started 7").await;
    site.ask(&post(cancel("7"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "7");
    site.probe.open("gate");
    site.probe.until("returned 7").await;
    assert_eq!(site.probe.count("dropped 7"), 0);
}

#[tokio::test]
async fn a_late_result_goes_nowhere() {
    let live = Live::new().await;
    let mut connection = live.send_and_park(&stubborn("7"), 1).await;
    live.post(&post(cancel("7"))).await.accepted();
    connection.answer().await.error(200, CANCELLED, "7");
    live.probe.open("stay");
    live.probe.until("returned 7").await;
    for id in 8..18 {
        let id = id.to_string();
        connection.post(&post(call(&id, &json!({})))).await.result(&id);
    }
    assert_eq!(live.outcomes.count(Outcome::Cancelled), 1);
    assert_eq!(live.outcomes.all().len(), 11);
}

#[tokio::test]
async fn a_late_panic_goes_nowhere() {
    let live = Live::new().await;
    let dies = call("7", &json!({ "gate": "gate", "stays_for": "stay", "panic": true }));
    let parked = live.park(&post(dies).to("/polite"));
    live.parked(1).await;
    live.post(&post(cancel("7"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "7");
    live.probe.open("stay");
    live.probe.until("panicked 7").await;
    live.post(&post(call("8", &json!({})))).await.result("8");
    assert_eq!(live.outcomes.all()[0], ("7".to_owned(), Outcome::Cancelled));
}

#[tokio::test]
async fn the_token_of_a_finished_exchange_does_not_fire() {
    let (gives, mut given) = mpsc::unbounded_channel();
    let handler = async move |message: McpMessage, token: Cancellation| {
        gives.send(token).unwrap();
        if message.is_request() { mcp_layer::Reply(json!({})) } else { mcp_layer::Reply(Value::Null) }
    };
    let site = Site::over(on_post(handler));
    site.ask(&post(call("1", &json!({})))).await.result("1");
    site.ask(&post(cancel("1"))).await.accepted();
    for _ in 0..2 {
        let token: Cancellation = given.recv().await.unwrap();
        assert!(!token.is_cancelled() && token.reason().is_none());
        // Polled once: it would be ready if it had fired.
        tokio::select! {
            biased;
            _ = token.cancelled() => panic!("the token fired"),
            () = std::future::ready(()) => {}
        }
    }
}

#[tokio::test]
async fn the_token_may_be_waited_for_in_several_places() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |message: McpMessage, token: Cancellation| {
        for _ in 0..if message.is_request() { 3 } else { 0 } {
            let (token, says) = (token.clone(), says.clone());
            tokio::spawn(async move {
                let outcome = token.cancelled().await;
                says.send((outcome, token.cancelled().await, token.is_cancelled())).unwrap();
            });
        }
        match message.is_request() {
            true => std::future::pending().await,
            false => StatusCode::OK,
        }
    };
    let site = Site::over(on_post(handler));
    let parked = site.begin(&post(call("1", &json!({}))));
    site.parked(1).await;
    site.ask(&post(cancel("1"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
    for _ in 0..3 {
        assert_eq!(said.recv().await.unwrap(), (Outcome::Cancelled, Outcome::Cancelled, true));
    }
}

/// One handler at a time, below the layer.
fn busy() -> Site {
    Site::build(
        |options| options,
        |server, probe| {
            let limited =
                ServiceBuilder::new().layer(McpLayer::new(server.clone())).layer(ConcurrencyLimitLayer::new(1));
            Router::new().merge(Site::routes(probe)).layer(limited)
        },
    )
}

#[tokio::test]
async fn a_busy_service_inside_holds_up_no_cancel() {
    let live = busy().listen().await;
    let running = live.park(&post(held("101")));
    live.probe.until("started 101").await;
    let waiting = live.park(&post(held("102")));
    live.parked(2).await;
    // This one has never been called, and is ended all the same.
    live.post(&post(cancel("102"))).await;
    waiting.answer().await.error(200, CANCELLED, "102");
    assert!(!running.is_answered());
    live.post(&post(cancel("101"))).await.accepted();
    running.answer().await.error(200, CANCELLED, "101");
    assert_eq!(live.probe.count("started 102"), 0);
    live.post(&post(call("103", &json!({})))).await.result("103");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_accepted_while_the_service_inside_stays_busy() {
    let site = busy();
    let parked = site.begin(&stubborn("101"));
    site.probe.until("started 101").await;
    let began = Instant::now();
    // axum makes a limit of its own for each route, so both must be on one.
    let cancelling = site.begin(&post(cancel("101")).to("/polite"));
    parked.answer().await.error(200, CANCELLED, "101");
    assert!(began.elapsed().is_zero());
    // Its own handler cannot run before the other one's grace is over.
    cancelling.answer().await.accepted();
    assert!(began.elapsed() < Duration::from_millis(1_010));
    site.probe.until("started notifications/cancelled").await;
    assert!(began.elapsed() >= Duration::from_secs(5));
}
