//! Replies that become event streams.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use mcp_layer::{Cancellation, CancelledStream, McpError, McpMessage, McpServerBuilder, Notifier, Outcome, Reply};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, advance, sleep, timeout};

use support::{
    CANCELLED, COMMENT, Era, Events, INTERNAL_ERROR, Live, Post, Site, call, cancel, error_of, held, initialize,
    modern, note, post, result_of, until,
};

const EVENTS_ONLY: &str = "text/event-stream";
const JSON_ONLY: &str = "application/json";

/// Sends these notes, waits for the gate `gate`, and sends those.
fn noted(id: &str, notes: &Value, then_notes: &Value) -> Post {
    post(call(id, &json!({ "notes": notes, "gate": "gate", "then_notes": then_notes, "text": "x" })))
}

fn numbers(count: u32) -> Value {
    (0..count).collect()
}

/// A request with a progress token, as JSON.
fn with_token(id: &str, token: &str) -> Post {
    post(call(id, &json!({ "_meta": { "progressToken": serde_json::from_str::<Value>(token).unwrap() } })))
}

fn progress(token: &str, rest: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{rest}}}}}"#
    )
}

#[tokio::test]
async fn the_first_note_turns_the_reply_into_a_stream_that_ends_with_what_the_handler_returns() {
    let live = Live::new().await;
    let mut connection = live.connect().await;
    connection.send(noted("\"a\"", &json!(["first"]), &json!([{ "n": 2 }])).bytes()).await;
    let head = connection.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert_eq!((head.header("transfer-encoding"), head.header("content-length")), (Some("chunked"), None));
    assert_eq!(connection.event().await, format!("data: {}", note(&json!("first"))));
    assert_eq!(live.server.parked(), 1);
    live.probe.open("gate");
    assert_eq!(connection.event().await, format!("data: {}", note(&json!({ "n": 2 }))));
    assert_eq!(connection.event().await, r#"data: {"jsonrpc":"2.0","id":"a","result":{"text":"x"}}"#);
    connection.end_of_stream().await;
    connection.post(&post(call("2", &json!({})))).await.result("2");
    assert_eq!(live.server.parked(), 0);
    assert_eq!(live.outcomes.count(Outcome::Replied), 2);
}

#[tokio::test]
async fn notes_and_a_reply_of_one_moment_are_one_stream() {
    let live = Live::new().await;
    let site = Site::new();
    for count in [1, 3, 64] {
        let request = post(call("7", &json!({ "notes": numbers(count), "text": "x" })));
        for answer in [site.ask(&request).await, live.post(&request).await] {
            let notes = (0..count).map(|n| format!("data: {}\n\n", note(&json!(n)))).collect::<String>();
            let last = r#"{"jsonrpc":"2.0","id":7,"result":{"text":"x"}}"#;
            assert_eq!(answer.text(), format!("{notes}data: {last}\n\n"));
            assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
            assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
            assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        }
    }
}

#[tokio::test]
async fn more_notes_than_wait_at_once_all_arrive_in_their_order() {
    let live = Live::new().await;
    let answer = live.post(&post(call("7", &json!({ "notes": numbers(1_000), "text": "x" })))).await;
    let notes = (0..1_000).map(|n| format!("data: {}\n\n", note(&json!(n)))).collect::<String>();
    assert_eq!(answer.text(), format!("{notes}data: {}\n\n", r#"{"jsonrpc":"2.0","id":7,"result":{"text":"x"}}"#));
}

#[tokio::test]
async fn a_task_of_the_handlers_may_send_notes() {
    let (late, mut lates) = mpsc::unbounded_channel();
    let handler = async move |notifier: Notifier| {
        let (done, is_done) = oneshot::channel();
        let late = late.clone();
        tokio::spawn(async move {
            for n in 0..3 {
                tokio::task::yield_now().await;
                notifier.notify("notifications/message", json!({ "n": n })).await.unwrap();
            }
            done.send(()).unwrap();
            // These come too late.
            for n in 0..100 {
                tokio::task::yield_now().await;
                notifier.notify("notifications/late", json!({ "n": n })).await.unwrap();
                notifier.progress(f64::from(n), None, None);
            }
            late.send(()).unwrap();
        });
        is_done.await.unwrap();
        Reply(json!({}))
    };
    let live = Site::over(on_post(handler)).listen().await;
    for request in [with_token("1", "1"), with_token("1", "1").with("accept", EVENTS_ONLY)] {
        let mut connection = live.connect().await;
        connection.send(request.bytes()).await;
        connection.head().await;
        for n in 0..3 {
            let expected = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"n":{n}}}}}"#);
            assert_eq!(connection.event().await, format!("data: {expected}"));
        }
        let mut last = connection.event().await;
        // Between the third note and the reply there is room for some of the others.
        while last.contains("notifications/") {
            last = connection.event().await;
        }
        assert_eq!(last, r#"data: {"jsonrpc":"2.0","id":1,"result":{}}"#);
        connection.end_of_stream().await;
        timeout(support::BOUND, lates.recv()).await.expect("late notes go nowhere, and hold nobody up").unwrap();
    }
}

/// A handler that leaves a task behind, which sends more notes than wait at once after the reply.
fn leaves_a_task(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> (Site, mpsc::UnboundedReceiver<usize>) {
    let (says, said) = mpsc::unbounded_channel();
    let handler = async move |message: McpMessage, notifier: Notifier| {
        let says = says.clone();
        if !message.is_request() {
            return Reply(json!({}));
        }
        tokio::spawn(async move {
            sleep(Duration::from_secs(2)).await;
            for n in 1..=200 {
                notifier.notify("notifications/message", json!(n)).await.unwrap();
                says.send(n).unwrap();
            }
        });
        if message.method() == "stays" {
            std::future::pending::<()>().await;
        }
        Reply(json!({}))
    };
    let site = Site::build(options, |server, _| {
        axum::Router::new().route("/mcp", on_post(handler)).layer(mcp_layer::McpLayer::new(server.clone()))
    });
    (site, said)
}

async fn all_200(said: &mut mpsc::UnboundedReceiver<usize>) {
    let mut sent = 0;
    while let Ok(Some(number)) = timeout(Duration::from_secs(60), said.recv()).await {
        sent = number;
        if sent == 200 {
            return;
        }
    }
    panic!("the task waits for ever at note {}", sent + 1);
}

#[tokio::test(start_paused = true)]
async fn notes_after_a_json_reply_go_nowhere_and_hold_nobody_up() {
    let (site, mut said) = leaves_a_task(|options| options);
    site.ask(&post(call("1", &json!({})))).await.result("1");
    all_200(&mut said).await;
}

#[tokio::test(start_paused = true)]
async fn notes_after_a_cancel_go_nowhere_and_hold_nobody_up() {
    let (site, mut said) = leaves_a_task(|options| options);
    let parked = site.begin(&post(support::request("1", "stays", &json!({}))));
    site.parked(1).await;
    site.ask(&post(cancel("1"))).await;
    parked.answer().await.error(200, CANCELLED, "1");
    all_200(&mut said).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_sends_notes_in_its_grace_time_comes_to_its_end() {
    let site = Site::new();
    let wish = json!({ "gate": "gate", "then_notes": numbers(100) });
    let parked = site.begin(&post(call("1", &wish)).to("/polite"));
    site.probe.until("started 1").await;
    site.ask(&post(cancel("1"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
    until(|| site.probe.count("returned 1") + site.probe.count("dropped 1") == 1).await;
    assert_eq!((site.probe.count("returned 1"), site.probe.count("dropped 1")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_sends_notes_after_a_departure_comes_to_its_end() {
    let site = Site::new();
    let wish = json!({ "gate": "gate", "then_notes": numbers(100) });
    let leaving = site.begin(&modern("1", "tools/call", &wish).to("/polite"));
    site.probe.until("started 1").await;
    leaving.abort();
    site.probe.until("fired 1: Disconnected None").await;
    until(|| site.probe.count("returned 1") + site.probe.count("dropped 1") == 1).await;
    assert_eq!((site.probe.count("returned 1"), site.probe.count("dropped 1")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_json_only_gets_json_and_no_notes() {
    let site = Site::new();
    for accept in [JSON_ONLY, "application/json, text/event-stream;q=0", "text/html, application/*"] {
        let began = Instant::now();
        let wish = json!({ "notes": numbers(200), "gate": accept, "then_notes": numbers(200), "text": "x" });
        let asked = site.begin(&post(call("1", &wish)).with("accept", accept));
        site.parked(1).await;
        // Far longer than a silence that turns a reply into a stream.
        sleep(Duration::from_secs(50)).await;
        assert!(!asked.is_answered());
        site.probe.open(accept);
        assert_eq!(asked.answer().await.result("1"), json!({ "text": "x" }));
        assert!(began.elapsed() < Duration::from_secs(51));
    }
}

#[tokio::test]
async fn a_client_that_takes_events_only_gets_events() {
    let live = Live::new().await;
    let takes = |wish: &Value| post(call("1", wish)).with("accept", EVENTS_ONLY);
    let answer = live.post(&takes(&json!({ "text": "x" }))).await;
    assert_eq!(result_of(answer.event(), "1"), json!({ "text": "x" }));
    for (wish, code) in [("fail", -1), ("panic", INTERNAL_ERROR)] {
        let answer = live.post(&takes(&json!({ wish: true }))).await;
        error_of(answer.event(), code, Some("1"));
    }
    let answer = live.post(&takes(&json!({ "notes": [1], "text": "x" }))).await;
    let first = note(&json!(1));
    assert_eq!(
        answer.text(),
        format!("data: {first}\n\ndata: {}\n\n", r#"{"jsonrpc":"2.0","id":1,"result":{"text":"x"}}"#)
    );
    // A status that is no success says more than the form.
    let answer = live.post(&takes(&json!({ "status": 404, "text": "none" }))).await;
    assert_eq!((answer.status, answer.text()), (404, "none"));
}

#[tokio::test]
async fn what_is_no_answer_is_an_internal_error_once_the_stream_has_begun() {
    let live = Live::new().await;
    for (wish, code) in [
        (json!({ "status": 404, "text": "a secret" }), INTERNAL_ERROR),
        (json!({ "status": 500 }), INTERNAL_ERROR),
        (json!({ "status": 302 }), INTERNAL_ERROR),
        (json!({ "status": 200, "text": "no JSON: a secret" }), INTERNAL_ERROR),
        (json!({ "status": 204 }), INTERNAL_ERROR),
        (json!({ "panic": true }), INTERNAL_ERROR),
        (json!({ "fail": true }), -1),
    ] {
        let mut params = wish;
        params["notes"] = json!([1]);
        for (path, era) in [("/mcp", Era::Legacy), ("/polite", Era::Modern)] {
            params["gate"] = format!("{path} {params}").into();
            let mut connection = live.connect().await;
            connection.send(era.call("1", &params).to(path).bytes()).await;
            assert_eq!(connection.head().await.header("content-type"), Some("text/event-stream"));
            assert_eq!(connection.event().await, format!("data: {}", note(&json!(1))));
            live.probe.open(params["gate"].as_str().unwrap());
            let last = connection.event().await;
            let error = error_of(last.strip_prefix("data: ").unwrap(), code, Some("1"));
            assert!(!error.message.contains("secret") && error.data.is_none(), "{last}");
            connection.end_of_stream().await;
        }
    }
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_silence_turns_the_reply_into_a_stream() {
    let whole = |seconds| Some(Duration::from_secs(seconds));
    let default: fn(McpServerBuilder) -> McpServerBuilder = |options| options;
    let set: fn(McpServerBuilder) -> McpServerBuilder = |options| options.stream_after(Some(Duration::from_secs(7)));
    let none: fn(McpServerBuilder) -> McpServerBuilder = |options| options.stream_after(None);
    for (options, era, after) in [
        (default, Era::Legacy, whole(15)),
        (default, Era::Modern, whole(1)),
        (set, Era::Legacy, whole(7)),
        (set, Era::Modern, whole(7)),
        (none, Era::Legacy, None),
        (none, Era::Modern, None),
    ] {
        for accept in ["application/json, text/event-stream", EVENTS_ONLY] {
            let site = Site::with(|builder| options(builder.request_timeout(whole(100))));
            let began = Instant::now();
            let mut events = site.open(&era.held("1").with("accept", accept)).await;
            let expected = after.unwrap_or(Duration::from_secs(100));
            assert_eq!(began.elapsed().as_millis() / 10, expected.as_millis() / 10, "{era:?} {accept}");
            if after.is_some() {
                events.streams();
                assert_eq!(events.next().await.unwrap(), COMMENT);
                site.probe.open("gate");
                events.ends_with_result("1", &json!({ "text": "" })).await;
            } else if accept == EVENTS_ONLY {
                events.ends_with_error(era.timed_out(), "1").await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_before_that_is_json() {
    let site = Site::new();
    for (era, millis) in [(Era::Legacy, 14_990), (Era::Modern, 990)] {
        let gate = format!("{era:?}");
        let asked = site.begin(&era.call("1", &json!({ "gate": gate })));
        site.parked(1).await;
        advance(Duration::from_millis(millis)).await;
        site.probe.open(&gate);
        asked.answer().await.result("1");
    }
}

#[tokio::test(start_paused = true)]
async fn initialize_is_never_a_stream_for_a_client_that_takes_json() {
    let site = Site::with(|options| options.request_timeout(None));
    let asked = site.begin(&post(initialize("0", &json!({ "notes": [1], "gate": "gate", "then_notes": [2] }))));
    site.parked(1).await;
    sleep(Duration::from_secs(50)).await;
    assert!(!asked.is_answered());
    site.probe.open("gate");
    let answer = asked.answer().await;
    answer.result("0");
    assert!(answer.header("mcp-session-id").unwrap().starts_with("mcpl-"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_initialize_opens_a_session_for_a_client_that_takes_events_only_too() {
    for seconds in [1, 14, 20] {
        let site = Site::new();
        let request = post(initialize("0", &json!({ "gate": "gate" }))).with("accept", EVENTS_ONLY);
        let asked = site.begin(&request);
        site.parked(1).await;
        sleep(Duration::from_secs(seconds)).await;
        site.probe.open("gate");
        let answer = asked.answer().await;
        let session = answer.header("mcp-session-id");
        assert!(session.is_some_and(|session| session.starts_with("mcpl-")), "after {seconds} s: {session:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_gets_comments() {
    // The first two come early.
    for (set, comments) in [
        (None, &[500, 1_000, 16_000, 31_000][..]),
        (Some(Duration::from_secs(4)), &[500, 1_000, 5_000, 9_000]),
        (Some(Duration::from_millis(501)), &[500, 1_000, 1_501, 2_002]),
        (Some(Duration::from_millis(300)), &[300, 600, 900, 1_200]),
        (Some(Duration::MAX), &[500, 1_000]),
    ] {
        let site = Site::with(|options| match set {
            Some(pause) => options.keep_alive(Some(pause)),
            None => options,
        });
        let mut events = site.open(&noted("1", &json!(["a"]), &json!(["b"]))).await;
        let began = Instant::now();
        // A timer may be late by a millisecond each time.
        let late = |millis: u128| (millis..millis + 10).contains(&began.elapsed().as_millis());
        assert_eq!(events.message().await, note(&json!("a")));
        assert!(late(0));
        for millis in comments {
            assert_eq!(events.next().await.unwrap(), COMMENT);
            assert!(late(*millis), "{millis}: {:?}", began.elapsed());
        }
        // What is sent begins the pause anew, and the end ends it.
        site.probe.open("gate");
        assert_eq!(events.message().await, note(&json!("b")));
        events.ends_with_result("1", &json!({ "text": "x" })).await;
        assert!(late(*comments.last().unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_puts_the_next_comment_off() {
    let handler = async |notifier: Notifier| {
        for n in 0..4 {
            notifier.notify("notifications/message", json!(n)).await.unwrap();
            sleep(Duration::from_secs(10)).await;
        }
        sleep(Duration::from_secs(10)).await;
        Reply(json!({}))
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&post(call("1", &json!({})))).await;
    let began = Instant::now();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push((began.elapsed().as_secs(), event.starts_with(':')));
    }
    // The early ones come once.
    assert_eq!(
        seen,
        [(0, false), (0, true), (1, true), (10, false), (20, false), (30, false), (45, true), (50, false)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_never_silent_gets_no_comment() {
    let handler = async |notifier: Notifier| {
        for n in 0..100 {
            notifier.notify("notifications/message", json!(n)).await.unwrap();
            sleep(Duration::from_millis(490)).await;
        }
        Reply(json!({}))
    };
    let mut events = Site::over(on_post(handler)).open(&post(call("1", &json!({})))).await;
    for _ in 0..=100 {
        assert_ne!(events.next().await.unwrap(), COMMENT);
    }
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn comments_can_be_switched_off() {
    let site = Site::with(|options| options.keep_alive(None).request_timeout(Some(Duration::from_secs(3_000))));
    let mut events = site.open(&noted("1", &json!(["a"]), &json!([]))).await;
    assert_eq!(events.message().await, note(&json!("a")));
    assert_ne!(events.next().await.unwrap(), COMMENT);
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn progress_carries_the_token_of_its_request() {
    let handler = async |notifier: Notifier| {
        notifier.progress(1.0, Some(3.0), None);
        notifier.progress(1.5, None, Some("half \"way\"\n"));
        notifier.progress(-2.0, Some(1e300), Some(""));
        notifier.progress(9_007_199_254_740_991.0, None, None);
        Reply(json!({}))
    };
    let site = Site::over(on_post(handler));
    for token in ["7", "-3", "0", "\"7\"", "\"\"", "18446744073709551615", "9007199254740993", "\"gr\u{fc}\u{df}e\""] {
        let mut events = site.open(&with_token("1", token)).await;
        events.streams();
        for rest in [
            "1,\"total\":3",
            "1.5,\"message\":\"half \\\"way\\\"\\n\"",
            "-2,\"total\":1e+300,\"message\":\"\"",
            "9007199254740991",
        ] {
            assert_eq!(events.message().await, progress(token, rest));
        }
        events.ends_with_result("1", &json!({})).await;
    }
    // As it was written, escapes too.
    let escaped = r#""\u0041\/""#;
    let text = call("1", &json!({})).replace("{}", &format!(r#"{{"_meta":{{"progressToken":{escaped}}}}}"#));
    assert_eq!(site.open(&post(text)).await.message().await, progress(escaped, "1,\"total\":3"));
}

#[tokio::test]
async fn progress_without_a_token_goes_nowhere() {
    let handler = async |notifier: Notifier| {
        notifier.progress(1.0, Some(3.0), None);
        Reply(json!({}))
    };
    let site = Site::over(on_post(handler));
    for params in [json!({}), json!({ "_meta": {} }), json!({ "_meta": null }), json!({ "progressToken": 1 })] {
        site.ask(&post(call("1", &params))).await.result("1");
    }
    for token in ["null", "{}", "[1]", "true", "false"] {
        site.ask(&with_token("1", token)).await.result("1");
    }
    site.ask(&with_token("1", "1").with("accept", JSON_ONLY)).await.result("1");
}

#[tokio::test(start_paused = true)]
async fn nobody_reads_and_progress_keeps_the_newest_while_notes_wait() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |notifier: Notifier| {
        for n in 0..10_000 {
            notifier.progress(f64::from(n), None, None);
        }
        says.send("progress").unwrap();
        notifier.notify("notifications/message", json!("x")).await.unwrap();
        says.send("note").unwrap();
        Reply(json!({}))
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&with_token("1", "1")).await;
    assert_eq!(said.recv().await.unwrap(), "progress");
    assert!(timeout(Duration::from_secs(100), said.recv()).await.is_err(), "the note did not wait");
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.strip_prefix("data: ").unwrap_or(&event).to_owned());
    }
    let mut expected: Vec<_> = (0..64).map(|n| progress("1", &n.to_string())).collect();
    expected.push(progress("1", "9999"));
    expected.push(r#"{"jsonrpc":"2.0","method":"notifications/message","params":"x"}"#.to_owned());
    expected.push(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned());
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn the_65th_note_waits_for_its_client() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |notifier: Notifier| {
        for n in 1..=66 {
            notifier.notify("notifications/message", json!(n)).await.unwrap();
            says.send(n).unwrap();
        }
        Reply(json!({}))
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&post(call("1", &json!({})))).await;
    for read in 0..=2 {
        sleep(Duration::from_secs(60)).await;
        let mut sent = 0;
        while let Ok(number) = said.try_recv() {
            sent = number;
        }
        assert_eq!(sent, if read == 0 { 64 } else { 64 + read });
        let next = events.message().await;
        assert_eq!(next, format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{}}}"#, read + 1));
    }
}

/// More than waits at once, so that the handler has to.
fn never_read(id: &str) -> Value {
    json!({ "notes": numbers(200), "gate": "gate", "name": id })
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_holds_up_no_end() {
    for era in Era::BOTH {
        for path in ["/mcp", "/polite"] {
            let site = Site::with(|options| {
                options.request_timeout(Some(Duration::from_secs(100))).honour_modern_cancel(true)
            });
            let began = Instant::now();
            let cancelled = site.open(&era.call("1", &never_read("1")).to(path)).await;
            let timed_out = site.open(&era.call("2", &never_read("2")).to(path)).await;
            assert_eq!(site.server.parked(), 2);
            site.ask(&post(cancel("1"))).await.accepted();
            assert_eq!((site.server.parked(), began.elapsed().as_millis()), (1, 0));
            site.parked(1).await;
            sleep(Duration::from_secs(101)).await;
            assert_eq!(site.server.parked(), 0);
            let shut_down = site.open(&era.call("3", &never_read("3")).to(path)).await;
            site.server.shutdown(Duration::from_secs(3)).await;
            assert_eq!(site.server.parked(), 0);
            let expected = [("1", Outcome::Cancelled), ("2", Outcome::TimedOut), ("3", Outcome::ShutDown)];
            assert_eq!(site.outcomes.all(), expected.map(|(id, outcome)| (id.to_owned(), outcome)));
            cancelled.ends_with_error(era.cancelled(), "1").await;
            timed_out.ends_with_error(era.timed_out(), "2").await;
            shut_down.ends_with_error_after_notes(era.shut_down(), "3").await;
            for id in ["1", "2", "3"] {
                until(|| site.probe.count(&format!("returned {id}")) + site.probe.count(&format!("dropped {id}")) == 1)
                    .await;
            }
        }
    }
}

#[tokio::test]
async fn over_a_socket_too() {
    let handler = async |message: McpMessage, notifier: Notifier| {
        if !message.is_request() {
            return Reply(json!({}));
        }
        let text = "x".repeat(1 << 16);
        loop {
            notifier.notify("notifications/message", &text).await.unwrap();
        }
    };
    let live = Site::over(on_post(handler)).listen().await;
    let mut connection = live.send_and_park(&post(call("1", &json!({}))), 1).await;
    connection.head().await;
    let other = live.send_and_park(&post(call("2", &json!({}))), 2).await;
    live.post(&post(cancel("1"))).await.accepted();
    assert_eq!(live.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
    let mut last = connection.event().await;
    while last.contains("notifications/message") {
        last = connection.event().await;
    }
    error_of(last.strip_prefix("data: ").unwrap(), CANCELLED, Some("1"));
    connection.end_of_stream().await;
    assert_eq!(live.server.parked(), 1);
    drop(other);
}

#[tokio::test]
async fn a_cancelled_stream_gets_one_error_and_its_end() {
    let live = Live::new().await;
    for path in ["/mcp", "/polite"] {
        let mut connection = live.connect().await;
        connection.send(noted("1", &json!(["a"]), &numbers(100)).to(path).bytes()).await;
        connection.head().await;
        assert_eq!(connection.event().await, format!("data: {}", note(&json!("a"))));
        live.post(&post(cancel("1"))).await.accepted();
        let last = connection.event().await;
        error_of(last.strip_prefix("data: ").unwrap(), CANCELLED, Some("1"));
        connection.end_of_stream().await;
        connection.post(&post(call("2", &json!({})))).await.result("2");
    }
    // The one that took the token went on, and its notes went nowhere.
    live.probe.until("returned 1").await;
    assert_eq!((live.probe.count("dropped 1"), live.probe.count("returned 1")), (1, 1));
}

#[tokio::test]
async fn a_cancelled_stream_may_end_without_a_word() {
    let live = Site::with(|options| options.cancelled_stream(CancelledStream::End)).listen().await;
    let mut connection = live.connect().await;
    connection.send(noted("1", &json!(["a"]), &numbers(100)).bytes()).await;
    connection.head().await;
    assert_eq!(connection.event().await, format!("data: {}", note(&json!("a"))));
    live.post(&post(cancel("1"))).await.accepted();
    connection.end_of_stream().await;
    connection.post(&post(call("2", &json!({})))).await.result("2");
    // What has not begun is still answered.
    let parked = live.park(&post(held("3")));
    live.parked(1).await;
    live.post(&post(cancel("3"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "3");
    let parked = live.park(&post(held("4")).with("accept", EVENTS_ONLY));
    live.parked(1).await;
    live.post(&post(cancel("4"))).await.accepted();
    error_of(parked.answer().await.event(), CANCELLED, Some("4"));
}

#[tokio::test(start_paused = true)]
async fn ends_that_are_no_cancel_are_told_all_the_same() {
    let site = Site::with(|options| {
        options.cancelled_stream(CancelledStream::End).request_timeout(Some(Duration::from_secs(9)))
    });
    let timed_out = site.open(&noted("1", &json!([]), &json!([])).with("accept", EVENTS_ONLY)).await;
    timed_out.ends_with_error(-32001, "1").await;
    let mut shut_down = site.open(&noted("2", &json!(["a"]), &json!([]))).await;
    shut_down.message().await;
    site.server.shutdown(Duration::ZERO).await;
    shut_down.ends_with_error(-32000, "2").await;
}

#[tokio::test]
async fn two_streams_do_not_mix() {
    const STREAMS: u32 = 20;
    let handler = async |message: McpMessage, notifier: Notifier| {
        for n in 0..50 {
            notifier.notify("notifications/message", json!([message.id().unwrap().to_string(), n])).await.unwrap();
            tokio::task::yield_now().await;
        }
        Reply(json!(message.id().unwrap().to_string()))
    };
    let live = Site::over(on_post(handler)).listen().await;
    let all: Vec<_> = (0..STREAMS).map(|id| live.park(&post(call(&id.to_string(), &json!({}))))).collect();
    for (id, asked) in all.into_iter().enumerate() {
        let notes = (0..50).map(|n| {
            format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":[\"{id}\",{n}]}}\n\n")
        });
        let last = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"{id}\"}}\n\n");
        assert_eq!(asked.answer().await.text(), notes.collect::<String>() + &last);
    }
}

#[tokio::test]
async fn one_id_twice_has_two_streams() {
    let live = Live::new().await;
    let mut connections = Vec::new();
    for name in ["a", "b"] {
        let mut connection = live.connect().await;
        connection.send(noted("1", &json!([name]), &json!([name])).bytes()).await;
        connection.head().await;
        connections.push((connection, format!("data: {}", note(&json!(name)))));
    }
    live.probe.open("gate");
    for (mut connection, expected) in connections {
        assert_eq!([connection.event().await, connection.event().await], [expected.clone(), expected]);
        assert_eq!(connection.event().await, r#"data: {"jsonrpc":"2.0","id":1,"result":{"text":"x"}}"#);
        connection.end_of_stream().await;
    }
}

#[tokio::test]
async fn the_answer_is_one_line_whatever_the_handler_wrote() {
    async fn handler(notifier: Notifier) -> Response {
        notifier.notify("notifications/message", json!("a\nb\r\n\u{2028}")).await.unwrap();
        "{\r\n \"jsonrpc\": \"2.0\",\n \"id\": 1,\r \"result\": \"a\\nb\" }\n".into_response()
    }

    let mut events = Site::over(on_post(handler)).open(&post(call("1", &json!({})))).await;
    let first = events.message().await;
    assert_eq!(first, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":\"a\\nb\\r\\n\u{2028}\"}");
    events.ends_with_result("1", &json!("a\nb")).await;
}

#[tokio::test]
async fn a_note_is_one_line_whatever_the_handler_wrote() {
    async fn handler(notifier: Notifier) -> Reply<Value> {
        let raw = RawValue::from_string("{\r\n \"a\":\n [1,\r 2] }".to_owned()).unwrap();
        notifier.notify("notifications/message", raw).await.unwrap();
        Reply(json!({}))
    }

    let mut events = Site::over(on_post(handler)).open(&post(call("1", &json!({})))).await;
    let read: Value = serde_json::from_str(&events.message().await).unwrap();
    assert_eq!(read["params"], json!({ "a": [1, 2] }));
}

#[tokio::test]
async fn what_cannot_be_written_is_an_error_of_the_handlers() {
    async fn handler(notifier: Notifier) -> Result<Reply<Value>, McpError> {
        struct Odd;
        impl serde::Serialize for Odd {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("odd"))
            }
        }

        notifier.notify("notifications/message", Odd).await?;
        Ok(Reply(json!({})))
    }

    let site = Site::over(on_post(handler));
    site.ask(&post(call("1", &json!({})))).await.error(200, INTERNAL_ERROR, "1");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_cancelled_by_its_token_too() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |message: McpMessage, token: Cancellation, notifier: Notifier| {
        if !message.is_request() {
            return StatusCode::OK.into_response();
        }
        notifier.notify("notifications/message", json!(1)).await.unwrap();
        says.send(token.cancelled().await).unwrap();
        Reply(json!({})).into_response()
    };
    let site = Site::over(on_post(handler));
    let mut events: Events = site.open(&post(call("1", &json!({})))).await;
    events.message().await;
    site.ask(&post(cancel("1"))).await.accepted();
    assert_eq!(said.recv().await.unwrap(), Outcome::Cancelled);
    events.ends_with_error(CANCELLED, "1").await;
}
