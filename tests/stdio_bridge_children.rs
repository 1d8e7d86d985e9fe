//! The processes behind the example `stdio_bridge`: when they start, how they end, and what becomes of their calls.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::Signal;
use serde_json::json;
use support::bridge::{Bridge, Session, gone, listening, tool};
use support::{Answer, BOUND, CANCELLED, INTERNAL_ERROR, INVALID_REQUEST, cancel_because, post};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{sleep, timeout};

const SHUT_DOWN: i64 = -32000;

#[tokio::test]
#[ignore = "needs python3"]
async fn a_session_has_a_child_of_its_own_until_it_is_deleted() {
    let bridge = Bridge::new(&[], &[]).await;
    let (one, other) = (bridge.open().await, bridge.open().await);
    let (pid, other_pid) = (one.value("pid").await, other.value("pid").await);
    assert_ne!(pid, other_pid);
    assert_eq!(one.value("pid").await, pid);

    let mut parked = one.begin("1", "hang", &json!({})).await;
    one.hears(|line| line["params"]["name"] == "hang").await;
    let end = post("").method("DELETE");
    assert_eq!(one.send(&end).await.status, 204);
    let error = parked.answer().await.error(200, INTERNAL_ERROR, "1");
    assert!(error.message.contains("the session has ended"), "{}", error.message);
    gone(&pid).await;
    one.call("1", "pid", &json!({})).await.error(404, INVALID_REQUEST, "1");
    assert_eq!(one.send(&end).await.status, 404);
    assert_eq!(bridge.post(&end).await.status, 400);
    assert_eq!(other.value("pid").await, other_pid);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn an_unknown_session_gets_404() {
    let bridge = Bridge::new(&[], &[]).await;
    for id in ["x", "mcpl-7f3c", "9a4d3f0e-1c52-4d35-9f5e-2f1f5b8a8f11"] {
        let session = Session { bridge: &bridge, id: Some(id.to_owned()) };
        session.call("1", "pid", &json!({})).await.error(404, INVALID_REQUEST, "1");
        let notification = session.send(&post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)).await;
        assert_eq!(notification.status, 404);
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_session_id_has_one_spelling() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let id = client.id.clone().unwrap();
    let others = [
        id.to_uppercase(),
        id.replace('-', ""),
        format!("{{{id}}}"),
        format!("urn:uuid:{id}"),
        id.replacen('-', "", 1),
        format!("\"{id}\""),
        format!("{id}x"),
    ];
    for other in others.into_iter().filter(|other| *other != id) {
        let session = Session { bridge: &bridge, id: Some(other) };
        session.call("1", "pid", &json!({})).await.error(404, INVALID_REQUEST, "1");
        session.send(&listening()).await.error(404, INVALID_REQUEST, None);
        assert_eq!(session.send(&post("").method("DELETE")).await.status, 404);
    }
    client.value("pid").await;
}

#[tokio::test]
async fn a_signal_right_after_the_address_is_printed_ends_it_in_order() {
    let signals = [Signal::TERM, Signal::INT, Signal::HUP].into_iter().cycle().take(9);
    join_all(signals.map(async |signal| Bridge::before(&[], &["cat"]).await.exits_on(signal).await)).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn callers_without_a_session_share_a_child_for_each_authorization() {
    let bridge = Bridge::new(&[], &[]).await;
    let pid = |authorization: Option<&'static str>| {
        let post = tool("1", "pid", &json!({}));
        let post = authorization.map_or(post.clone(), |value| post.with("authorization", value));
        async { bridge.post(&{ post }).await.result("1")["value"].clone() }
    };
    let (anonymous, ada, bob) = (pid(None).await, pid(Some("Bearer ada")).await, pid(Some("Bearer bob")).await);
    assert_eq!((pid(None).await, pid(Some("Bearer ada")).await), (anonymous.clone(), ada.clone()));
    assert!(anonymous != ada && ada != bob && bob != anonymous);
    let own = bridge.open().await.value("pid").await;
    assert!(![anonymous, ada, bob].contains(&own));
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_dies_answers_all_that_is_parked_and_is_started_again() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let pid = client.value("pid").await;
    let mut parked = [client.begin("1", "hang", &json!({})).await, client.begin("\"1\"", "hold", &json!({})).await];
    client.hears(|line| line["params"]["name"] == "hang").await;
    client.hears(|line| line["params"]["name"] == "hold").await;
    let error = client.call("2", "exit", &json!({})).await.error(200, INTERNAL_ERROR, "2");
    assert_eq!(error.message, "the server has exited (exit status: 3)");
    for (id, connection) in ["1", "\"1\""].into_iter().zip(&mut parked) {
        assert_eq!(connection.answer().await.error(200, INTERNAL_ERROR, id).message, error.message);
    }
    assert_ne!(client.value("pid").await, pid);
    client.hears(|line| line["method"] == "initialize" && line["params"]["clientInfo"]["version"] == "7").await;
    client.hears(|line| line["method"] == "notifications/initialized").await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_keeps_dying_is_given_a_rest() {
    let bridge = Bridge::new(&[], &[]).await;
    let (client, none) = (bridge.open().await, json!({}));
    // The first ones may have had bad luck.
    for _ in 0..2 {
        let error = client.call("1", "exit", &json!({})).await.error(200, INTERNAL_ERROR, "1");
        assert!(error.message.contains("exit status: 3"), "{}", error.message);
    }
    // The rests get longer, so that one is met however slow this machine is.
    let began = Instant::now();
    while !client.call("1", "exit", &json!({})).await.error(200, INTERNAL_ERROR, "1").message.contains("keeps failing")
    {
        assert!(began.elapsed() < BOUND, "never given a rest");
    }
    in_the_end(|| client.call("1", "pid", &none)).await.result("1");
}

#[tokio::test]
async fn what_a_child_writes_to_its_stderr_is_logged() {
    let command = ["sh", "-c", "echo in trouble >&2; exec sleep 600"];
    let mut bridge = Bridge::start(&["--start-timeout", "0.5"], &command, Stdio::piped()).await;
    let mut log = BufReader::new(bridge.process.stderr.take().unwrap()).lines();
    bridge.initialize().await.error(200, INTERNAL_ERROR, "0");
    while !timeout(BOUND, log.next_line()).await.unwrap().unwrap().expect("the line").contains("in trouble") {}
    bridge.exits().await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_line_that_is_too_long_ends_the_child() {
    let bridge = Bridge::new(&["--max-line-bytes", "10000"], &[]).await;
    let client = bridge.open().await;
    let error = client.call("1", "long", &json!({ "bytes": 20_000 })).await.error(200, INTERNAL_ERROR, "1");
    assert!(error.message.contains("more than 10000 bytes"), "{}", error.message);
    client.value("pid").await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_closes_its_input_is_ended() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let pid = client.value("pid").await;
    let mut parked = client.begin("1", "hold", &json!({})).await;
    client.hears(|line| line["params"]["name"] == "hold").await;
    assert_eq!(client.value("close input").await, "closed");
    let error = client.call("2", "pid", &json!({})).await.error(200, INTERNAL_ERROR, "2");
    assert!(error.message.contains("cannot be written to"), "{}", error.message);
    assert_eq!(parked.answer().await.error(200, INTERNAL_ERROR, "1").message, error.message);
    assert_ne!(client.value("pid").await, pid);
    gone(&pid).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_a_child_leaves_behind_is_ended_with_it() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let left = client.value("leave").await;
    client.call("1", "exit", &json!({})).await.error(200, INTERNAL_ERROR, "1");
    gone(&left).await;
    let left = client.value("leave").await;
    assert_eq!(client.send(&post("").method("DELETE")).await.status, 204);
    gone(&left).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_session_that_its_client_does_not_go_on_with_ends_early() {
    let bridge = Bridge::new(&["--start-timeout", "3", "--max-children", "2"], &[]).await;
    let other = bridge.open().await;
    let pid = other.value("pid").await;
    let id = bridge.initialize().await.header("mcp-session-id").map(ToOwned::to_owned);
    // Its place is free as soon as its process has ended.
    in_the_end(|| bridge.initialize()).await.result("0");
    Session { bridge: &bridge, id }.call("1", "pid", &json!({})).await.error(404, INVALID_REQUEST, "1");
    assert_eq!(other.value("pid").await, pid);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_does_not_read_holds_up_no_cancel_and_no_end() {
    let bridge = Bridge::new(&["--drain", "0.1"], &["stubborn"]).await;
    let client = bridge.open().await;
    let pid = client.value("pid").await;
    let _deaf = client.begin("0", "stop reading", &json!({})).await;
    let mut parked = Vec::new();
    for id in 1..=80 {
        let padding = json!({ "padding": "x".repeat(10_000) });
        parked.push(client.begin(&id.to_string(), "hang", &padding).await);
    }
    for id in [80, 1, 40] {
        let began = Instant::now();
        // The cancel may come before its request: then it is remembered.
        client.send(&post(cancel_because(&id.to_string(), &json!("enough")))).await.accepted();
        parked[id - 1].answer().await.error(200, CANCELLED, id.to_string().as_str());
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    bridge.exits().await;
    for (at, connection) in parked.iter_mut().enumerate().filter(|(at, _)| ![79, 0, 39].contains(at)) {
        let (id, answer) = ((at + 1).to_string(), connection.answer().await);
        match answer.status {
            // It was still on its way.
            503 => answer.error(503, INTERNAL_ERROR, id.as_str()),
            _ => answer.error(200, SHUT_DOWN, id.as_str()),
        };
    }
    gone(&pid).await;
}

/// The answer, as soon as it is not to try again: a process has its place until it has ended.
async fn in_the_end<F: Future<Output = Answer>>(ask: impl Fn() -> F) -> Answer {
    let began = Instant::now();
    loop {
        let answer = ask().await;
        if !answer.text().contains("again") {
            return answer;
        }
        assert!(began.elapsed() < BOUND, "{answer:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_cannot_be_initialized_opens_no_session() {
    for (word, start_timeout, code, why) in [
        ("dies", "60", INTERNAL_ERROR, "the server has exited (exit status: 1)"),
        ("refuses", "60", -7, "not today"),
        ("silent", "0.5", INTERNAL_ERROR, "has not answered `initialize`"),
        ("modern", "60", INTERNAL_ERROR, "2026-07-28"),
    ] {
        let bridge = Bridge::new(&["--start-timeout", start_timeout, "--max-children", "1"], &[word]).await;
        for _ in 0..2 {
            let answer = in_the_end(|| bridge.initialize()).await;
            let error = answer.error(200, code, "0");
            assert!(error.message.contains(why), "{}", error.message);
            assert_eq!(answer.header("mcp-session-id"), None);
        }
        // What is shared is tried again too, but not without a rest.
        let (client, none) = (bridge.anonymous(), json!({}));
        for _ in 0..3 {
            let error = in_the_end(|| client.call("1", "pid", &none)).await.error(200, code, "1");
            assert!(error.message.contains(why), "{}", error.message);
        }
    }
    let bridge = Bridge::before(&[], &["/nonexistent/server"]).await;
    let error = bridge.initialize().await.error(200, INTERNAL_ERROR, "0");
    assert_eq!(error.message, "the server cannot be started");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn there_are_no_more_children_than_there_may_be_and_idle_ones_end() {
    let bridge = Bridge::new(&["--max-children", "2", "--idle-timeout", "3"], &[]).await;
    let (one, other) = (bridge.open().await, bridge.open().await);
    let mut parked = other.begin("1", "hold", &json!({})).await;
    let refused = bridge.initialize().await;
    refused.error(503, SHUT_DOWN, "0");
    assert_eq!(refused.header("retry-after"), Some("10"));
    bridge.anonymous().call("1", "pid", &json!({})).await.error(503, SHUT_DOWN, "1");
    // Nothing that nobody answers starts one.
    bridge.post(&post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)).await.accepted();

    let pid = one.value("pid").await;
    gone(&pid).await;
    one.call("1", "pid", &json!({})).await.error(404, INVALID_REQUEST, "1");
    // One with a call in progress is not idle.
    other.value("release").await;
    parked.answer().await.result("1");
    bridge.open().await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn asked_to_stop_it_answers_what_is_parked_and_ends_its_children() {
    let signals = [(Signal::TERM, &[][..]), (Signal::TERM, &["stubborn"]), (Signal::INT, &["stubborn"])];
    for (signal, words) in signals.into_iter().chain([(Signal::HUP, &[][..]), (Signal::HUP, &["stubborn"])]) {
        let bridge = Bridge::new(&["--drain", "0.3"], words).await;
        let (client, shared) = (bridge.open().await, bridge.anonymous());
        let pids = [client.value("pid").await, shared.value("pid").await];
        let mut parked = client.begin("1", "hang", &json!({})).await;
        client.hears(|line| line["params"]["name"] == "hang").await;
        bridge.exits_on(signal).await;
        parked.answer().await.error(200, SHUT_DOWN, "1");
        for pid in &pids {
            gone(pid).await;
        }
    }
}
