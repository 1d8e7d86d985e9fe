//! No request takes longer than it may.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::post as on_post;
use futures_util::stream;
use mcp_layer::{Cancellation, McpLayer, McpMessage, McpServerBuilder, Notifier, Outcome, Reply};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use support::{
    Answer, Era, INVALID_REQUEST, Post, Site, call, cancel, error_of, held, initialize, modern, note, post, request,
    until,
};

const MINUTES_10: Duration = Duration::from_secs(600);

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

/// Within the 10 ms that the clock of the tests may be off.
#[track_caller]
fn took(began: Instant, expected: Duration) {
    let took = began.elapsed().as_millis();
    assert!((expected.as_millis()..expected.as_millis() + 10).contains(&took), "{took} ms, not {expected:?}");
}

/// With replies that stay JSON.
fn patient(options: McpServerBuilder) -> McpServerBuilder {
    options.stream_after(None)
}

#[tokio::test(start_paused = true)]
async fn by_default_a_request_has_ten_minutes() {
    for era in Era::BOTH {
        for path in ["/mcp", "/polite"] {
            let site = Site::with(patient);
            let began = Instant::now();
            let answer = site.ask_past_deadlines(&era.held("1").to(path)).await;
            took(began, MINUTES_10);
            let error = answer.error(200, era.timed_out(), "1");
            assert_eq!(error.data, None);
            assert_eq!((site.server.parked(), site.outcomes.all()), (0, vec![("1".to_owned(), Outcome::TimedOut)]));
            let end = if path == "/mcp" { "dropped 1" } else { "fired 1: TimedOut None" };
            site.probe.until(end).await;
            took(began, MINUTES_10);
            if path == "/polite" {
                site.probe.until("returned 1").await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_error() {
    for era in Era::BOTH {
        for wish in [json!({ "notes": ["a"], "gate": "gate" }), json!({ "gate": "gate" })] {
            let site = Site::with(|options| options.keep_alive(None));
            let began = Instant::now();
            let mut events = site.open(&era.call("1", &wish)).await;
            events.streams();
            if wish["notes"].is_array() {
                assert_eq!(events.message().await, note(&json!("a")));
            }
            events.ends_with_error(era.timed_out(), "1").await;
            took(began, MINUTES_10);
            assert_eq!((site.server.parked(), site.outcomes.all()), (0, vec![("1".to_owned(), Outcome::TimedOut)]));
            site.probe.until("dropped 1").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_events_only_gets_it_as_one() {
    let site = Site::with(patient);
    let answer = site.ask_past_deadlines(&post(held("1")).with("accept", "text/event-stream")).await;
    error_of(answer.event(), -32001, Some("1"));
}

#[tokio::test(start_paused = true)]
async fn the_time_can_be_set_for_all_and_for_a_method() {
    let options = |options: McpServerBuilder| {
        let options = patient(options).request_timeout(seconds(100));
        options
            .request_timeout_of("short", seconds(1))
            .request_timeout_of("tasks/result", seconds(7))
            .request_timeout_of("now", Some(Duration::ZERO))
            .request_timeout_of("endless", None)
            .request_timeout_of("overflows", Some(Duration::MAX))
    };
    for (method, expected) in [
        ("tools/call", seconds(100)),
        ("short", seconds(1)),
        ("tasks/result", seconds(7)),
        ("now", seconds(0)),
        ("endless", None),
        ("overflows", None),
        ("subscriptions/listen", None),
    ] {
        for era in Era::BOTH {
            let site = Site::with(options);
            let params = json!({ "gate": "gate" });
            let asks = match era {
                Era::Legacy => post(request("1", method, &params)),
                Era::Modern => modern("1", method, &params),
            };
            let began = Instant::now();
            let asked = tokio::spawn(tower::ServiceExt::oneshot(site.app.clone(), asks.request()));
            sleep(expected.unwrap_or(Duration::from_secs(1_000_000))).await;
            if let Some(expected) = expected {
                let answer = Answer::of(asked.await.unwrap().unwrap()).await;
                answer.error(200, era.timed_out(), "1");
                took(began, expected);
            } else {
                assert!(!asked.is_finished(), "{method}");
                site.probe.open("gate");
                Answer::of(asked.await.unwrap().unwrap()).await.result("1");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_by_its_nature_has_no_deadline() {
    for method in ["subscriptions/listen", "tasks/result"] {
        for era in Era::BOTH {
            let site = Site::new();
            let params = json!({ "notes": ["a"], "gate": "gate" });
            let asks = match era {
                Era::Legacy => post(request("1", method, &params)),
                Era::Modern => modern("1", method, &params),
            };
            let mut events = site.open(&asks).await;
            events.message().await;
            sleep(Duration::from_secs(1_000_000)).await;
            assert_eq!(site.server.parked(), 1);
            site.probe.open("gate");
            events.ends_with_result("1", &json!({ "text": "" })).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn none_at_all_can_be_set() {
    let site = Site::with(|options| patient(options).request_timeout(None));
    let asked = tokio::spawn(tower::ServiceExt::oneshot(site.app.clone(), post(held("1")).request()));
    sleep(Duration::from_secs(1_000_000)).await;
    assert_eq!(site.server.parked(), 1);
    site.probe.open("gate");
    Answer::of(asked.await.unwrap().unwrap()).await.result("1");
}

#[tokio::test(start_paused = true)]
async fn initialize_has_one_too() {
    let site = Site::new();
    let began = Instant::now();
    site.ask_past_deadlines(&post(initialize("1", &json!({ "gate": "gate" })))).await.error(200, -32001, "1");
    took(began, MINUTES_10);
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_move_it() {
    let handler = async |notifier: Notifier| {
        for n in 1.. {
            sleep(Duration::from_secs(7)).await;
            notifier.progress(f64::from(n), None, None);
            notifier.notify("notifications/message", json!(n)).await.unwrap();
        }
        Reply(json!({}))
    };
    for era in Era::BOTH {
        let site = Site::over(on_post(handler));
        let began = Instant::now();
        let mut events = site.open(&era.call("1", &json!({ "_meta": { "progressToken": 1 } }))).await;
        let mut last = String::new();
        while let Some(event) = events.next().await {
            last = event;
        }
        took(began, MINUTES_10);
        error_of(last.strip_prefix("data: ").unwrap(), era.timed_out(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn it_holds_for_a_legacy_request_that_was_left() {
    for (wish, after) in [(json!({ "gate": "gate" }), 100), (json!({ "notes": ["a"], "gate": "gate" }), 0)] {
        for path in ["/mcp", "/polite"] {
            let site = Site::with(patient);
            let began = Instant::now();
            if after == 0 {
                drop(site.open(&post(call("1", &wish)).to(path)).await);
            } else {
                let asked = site.begin(&post(call("1", &wish)).to(path));
                site.parked(1).await;
                sleep(Duration::from_secs(after)).await;
                asked.abort();
            }
            sleep(MINUTES_10 - began.elapsed() - Duration::from_millis(10)).await;
            assert_eq!(site.server.parked(), 1);
            sleep(Duration::from_millis(20)).await;
            assert_eq!((site.server.parked(), site.outcomes.all()), (0, vec![("1".to_owned(), Outcome::TimedOut)]));
            site.probe.until(if path == "/mcp" { "dropped 1" } else { "fired 1: TimedOut None" }).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_has_its_grace_time_after_it() {
    let site = Site::with(patient);
    let began = Instant::now();
    let stays = call("1", &json!({ "gate": "gate", "stays_for": "ever" }));
    site.ask_past_deadlines(&post(stays).to("/polite")).await.error(200, -32001, "1");
    took(began, MINUTES_10);
    site.probe.until("dropped 1").await;
    took(began, MINUTES_10 + Duration::from_secs(5));
    assert_eq!(site.probe.count("fired 1: TimedOut None"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_just_before_it_is_a_result_and_a_cancel_just_after_it_nothing() {
    let site = Site::with(|options| patient(options).request_timeout(seconds(9)));
    let asked = site.begin(&post(held("1")));
    site.parked(1).await;
    sleep(Duration::from_millis(8_990)).await;
    site.probe.open("gate");
    asked.answer().await.result("1");

    let asked = site.begin(&post(call("2", &json!({ "gate": "other" }))));
    site.parked(1).await;
    sleep(Duration::from_millis(9_002)).await;
    site.ask(&post(cancel("2"))).await.accepted();
    asked.answer().await.error(200, -32001, "2");
    assert_eq!(site.outcomes.count(Outcome::Cancelled), 0);
}

#[tokio::test(start_paused = true)]
async fn it_is_on_time_where_the_reply_becomes_a_stream_at_the_same_moment() {
    for (timeout, after) in [(15, 15), (15, 14), (16, 15)] {
        let site = Site::with(|options| {
            options.request_timeout(seconds(timeout)).stream_after(seconds(after)).keep_alive(None)
        });
        let began = Instant::now();
        let answer = site.ask(&post(held("1"))).await;
        took(began, Duration::from_secs(timeout));
        assert!(answer.text().contains("-32001"), "{answer:?}");
        assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::TimedOut)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_inside_that_is_never_ready_is_not_waited_for() {
    let site = Site::build(patient, |server, probe| {
        let limit = tower::limit::GlobalConcurrencyLimitLayer::new(0);
        Router::new().merge(Site::routes(probe)).layer(limit).layer(McpLayer::new(server.clone()))
    });
    let began = Instant::now();
    site.ask_past_deadlines(&post(held("1"))).await.error(200, -32001, "1");
    took(began, MINUTES_10);
    assert_eq!(site.probe.log(), Vec::<String>::new());
}

/// How long the handler of a notification has, whose client waits for a second or leaves.
async fn notification(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder, leaves: bool) -> Duration {
    let site = Site::with(options);
    let began = Instant::now();
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "gate": "gate" } });
    let posted = post(message.to_string());
    if leaves {
        let asked = site.begin(&posted);
        site.probe.until("started notifications/x").await;
        asked.abort();
    } else {
        site.ask(&posted).await.accepted();
    }
    site.probe.until_dropped("notifications/x").await;
    assert_eq!((site.server.parked(), site.outcomes.all()), (0, vec![]));
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_notification_is_dropped_in_the_background() {
    for leaves in [false, true] {
        let took = notification(|options| options, leaves).await;
        // The second that its client waits may come to it.
        assert!((600_000..601_010).contains(&took.as_millis()), "{took:?}");
        let set = |options: McpServerBuilder| options.request_timeout_of("notifications/x", seconds(20));
        let took = notification(set, leaves).await;
        assert!((20_000..21_010).contains(&took.as_millis()), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_notification_has_no_longer_than_a_request() {
    for millis in [500, 20_000, 600_000] {
        let set = |options: McpServerBuilder| options.request_timeout(Some(Duration::from_millis(millis)));
        let took = notification(set, false).await;
        assert!((u128::from(millis)..u128::from(millis) + 10).contains(&took.as_millis()), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_upload_does_not_count_but_has_its_own_time() {
    let site = Site::with(|options| patient(options).request_timeout(seconds(20)));
    let whole = held("1");
    let (first, second) = whole.split_at(10);
    let pieces = [first.to_owned(), second.to_owned()].map(Bytes::from);
    let body = Body::from_stream(stream::unfold(pieces.into_iter(), |mut pieces| async {
        let piece = pieces.next()?;
        sleep(Duration::from_secs(14)).await;
        Some((Ok::<_, Infallible>(piece), pieces))
    }));
    let (parts, _) = post(whole.clone()).request().into_parts();
    let began = Instant::now();
    let asks = http::Request::from_parts(parts, body);
    let answer = Answer::of(tower::ServiceExt::oneshot(site.app.clone(), asks).await.unwrap()).await;
    answer.error(200, -32001, "1");
    took(began, Duration::from_secs(48));

    let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let (parts, _) = post(whole.clone()).request().into_parts();
    let began = Instant::now();
    let asks = http::Request::from_parts(parts, never);
    let answer = Answer::of(tower::ServiceExt::oneshot(site.app.clone(), asks).await.unwrap()).await;
    answer.error(408, INVALID_REQUEST, None);
    took(began, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn the_token_says_why_in_every_place() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |_: McpMessage, token: Cancellation| {
        let says = says.clone();
        tokio::spawn(async move {
            let outcome = token.cancelled().await;
            says.send((outcome, token.is_cancelled(), token.reason())).unwrap();
        });
        std::future::pending::<Reply<Value>>().await
    };
    let site = Site::over(on_post(handler));
    let requests: [Post; 2] = Era::BOTH.map(|era| era.call("1", &json!({})).with("accept", "application/json"));
    for request in requests {
        let answer = site.ask_past_deadlines(&request).await;
        assert_eq!(answer.status, 200);
        assert_eq!(said.recv().await.unwrap(), (Outcome::TimedOut, true, None));
    }
    until(|| site.outcomes.count(Outcome::TimedOut) == 2).await;
}
