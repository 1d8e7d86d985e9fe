//! The example `gateway`, in front of a server made with this crate: how a call ends at both.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::sync::Arc;

use mcp_layer::Outcome;
use serde_json::{Value, json};
use tokio::task::{JoinSet, yield_now};

use support::gateway::Gateway;
use support::{
    CANCELLED, Connection, Era, INVALID_REQUEST, Live, Post, call, cancel, cancel_because, error_of, initialize, note,
    post, result_of, until,
};

/// The server's handler takes the token, or does not.
const POLITE: &str = "/polite";
const PLAIN: &str = "/mcp";

async fn before(upstream: &Live, path: &str) -> Gateway {
    Gateway::with(&[], &format!("http://{}{path}", upstream.address)).await
}

async fn pair(path: &str) -> (Gateway, Live) {
    let upstream = Live::new().await;
    (before(&upstream, path).await, upstream)
}

async fn session(gateway: &Gateway) -> String {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "", "version": "" } });
    let opened = gateway.post(&post(initialize("0", &params))).await;
    opened.result("0");
    opened.header("mcp-session-id").expect("a session").to_owned()
}

/// A call that is held at the server, after a note where its reply is to be a stream.
fn held(era: Era, id: &str, streams: bool) -> Post {
    let notes: &[Value] = if streams { &[json!(1)] } else { &[] };
    era.call(id, &json!({ "name": "tool", "gate": "gate", "notes": notes }))
}

/// Sends it, and waits until its handler is at work, and its reply has begun where it is a stream.
async fn begin(gateway: &Gateway, upstream: &Live, request: &Post, streams: bool) -> Connection {
    let mut client = gateway.begin(request).await;
    upstream.parked(1).await;
    if streams {
        client.head().await;
        assert_eq!(client.event().await, format!("data: {}", note(&json!(1))));
    }
    client
}

async fn is_cancelled(client: &mut Connection, id: &str, streams: bool) {
    if streams {
        let last = client.event().await;
        error_of(last.strip_prefix("data: ").unwrap(), CANCELLED, Some(id));
        client.end_of_stream().await;
    } else {
        client.answer().await.error(200, CANCELLED, id);
    }
}

fn nothing(post: Post, _session: &str) -> Post {
    post
}

fn with_session(post: Post, session: &str) -> Post {
    post.and("mcp-session-id", session)
}

fn with_authorization(post: Post, _session: &str) -> Post {
    post.and("authorization", "Bearer x")
}

#[tokio::test]
async fn a_cancel_ends_both_sides_once() {
    for (path, last_word) in [(POLITE, "returned 1"), (PLAIN, "dropped 1")] {
        for streams in [false, true] {
            for who in [nothing, with_session, with_authorization] {
                let (gateway, upstream) = pair(path).await;
                let session = session(&gateway).await;
                let request = who(held(Era::Legacy, "1", streams), &session);
                let mut client = begin(&gateway, &upstream, &request, streams).await;
                let body = cancel_because("1", &json!("enough")).replace(',', " , ");
                gateway.post(&who(post(&*body), &session)).await.accepted();
                is_cancelled(&mut client, "1", streams).await;
                upstream.probe.until(last_word).await;
                assert_eq!(upstream.probe.heard(), [body]);
                assert_eq!(upstream.outcomes.all()[1..], [("1".to_owned(), Outcome::Cancelled)]);
                assert_eq!(upstream.server.parked(), 0);
                // Its client goes on as if nothing had been.
                let next = who(post(call("2", &json!({ "name": "tool", "text": "next" }))), &session);
                assert_eq!(client.post(&next).await.result("2"), json!({ "text": "next" }));
            }
        }
    }
}

#[tokio::test]
async fn a_late_result_reaches_nobody() {
    let (gateway, upstream) = pair(POLITE).await;
    for streams in [false, true] {
        let late = format!("late {streams}");
        let mut request = json!({ "name": "tool", "gate": "gate", "stays_for": late, "text": "late" });
        request["notes"] = if streams { json!([1]) } else { json!([]) };
        let mut client = begin(&gateway, &upstream, &Era::Legacy.call("1", &request), streams).await;
        gateway.post(&post(cancel("1"))).await.accepted();
        is_cancelled(&mut client, "1", streams).await;
        upstream.parked(0).await;
        let before = upstream.probe.count("returned 1");
        upstream.probe.open(&late);
        until(|| upstream.probe.count("returned 1") == before + 1).await;
        let next = client.post(&post(call("2", &json!({ "name": "tool", "text": "next" })))).await;
        assert_eq!(next.result("2"), json!({ "text": "next" }));
    }
}

#[tokio::test]
async fn a_modern_client_that_leaves_stops_the_handler() {
    for (path, last_word) in [(POLITE, "returned 1"), (PLAIN, "dropped 1")] {
        for streams in [false, true] {
            let (gateway, upstream) = pair(path).await;
            drop(begin(&gateway, &upstream, &held(Era::Modern, "1", streams), streams).await);
            upstream.probe.until(last_word).await;
            assert_eq!(upstream.outcomes.all(), [("1".to_owned(), Outcome::Disconnected)]);
        }
    }
}

#[tokio::test]
async fn a_legacy_client_that_leaves_does_not_stop_the_handler() {
    for path in [POLITE, PLAIN] {
        for streams in [false, true] {
            let (gateway, upstream) = pair(path).await;
            drop(begin(&gateway, &upstream, &held(Era::Legacy, "1", streams), streams).await);
            // A second one, so that the gateway has noticed what is to be noticed by now.
            drop(gateway.post(&post(call("2", &json!({ "name": "tool" })))).await);
            assert_eq!(upstream.server.parked(), 1);
            upstream.probe.open("gate");
            upstream.probe.until("returned 1").await;
            upstream.parked(0).await;
            assert_eq!(upstream.outcomes.count(Outcome::Replied), 2);
        }
    }
}

#[tokio::test]
async fn a_legacy_client_that_has_left_can_still_cancel() {
    for (path, last_word) in [(POLITE, "returned 1"), (PLAIN, "dropped 1")] {
        for streams in [false, true] {
            for who in [nothing, with_session, with_authorization] {
                let (gateway, upstream) = pair(path).await;
                let session = session(&gateway).await;
                let request = who(held(Era::Legacy, "1", streams), &session);
                drop(begin(&gateway, &upstream, &request, streams).await);
                gateway.post(&who(post(cancel("1")), &session)).await.accepted();
                upstream.probe.until(last_word).await;
                assert_eq!(upstream.outcomes.all()[1..], [("1".to_owned(), Outcome::Cancelled)]);
            }
        }
    }
}

#[tokio::test]
async fn sessions_are_told_apart_at_both_also_behind_another_gateway() {
    let upstream = Live::new().await;
    let inner = before(&upstream, PLAIN).await;
    let outer = Gateway::before(inner.address).await;
    for gateway in [&inner, &outer] {
        let sessions = [session(gateway).await, session(gateway).await];
        assert_ne!(sessions[0], sessions[1]);
        let [mine, theirs] = [0, 1].map(|of| with_session(held(Era::Legacy, "1", false), &sessions[of]));
        let mut mine_parked = begin(gateway, &upstream, &mine, false).await;
        let mut theirs_parked = gateway.begin(&theirs).await;
        upstream.parked(2).await;
        gateway.post(&theirs).await.error(400, INVALID_REQUEST, "1");
        gateway.post(&with_session(post(cancel("1")), &sessions[1])).await.accepted();
        is_cancelled(&mut theirs_parked, "1", false).await;
        // It is the other one that is left.
        upstream.parked(1).await;
        gateway.post(&with_session(post(cancel("1")), &sessions[0])).await.accepted();
        is_cancelled(&mut mine_parked, "1", false).await;
        upstream.parked(0).await;
    }
    assert_eq!(upstream.outcomes.count(Outcome::Cancelled), 4);
}

#[tokio::test]
async fn the_id_of_two_parked_calls_is_ambiguous_at_both() {
    let (gateway, upstream) = pair(PLAIN).await;
    let parked = [1, 2].map(|_| gateway.park(&held(Era::Legacy, "1", false)));
    upstream.parked(2).await;
    gateway.post(&post(cancel("1"))).await.accepted();
    assert_eq!(upstream.probe.heard(), [cancel("1")]);
    assert_eq!(upstream.server.parked(), 2);
    upstream.probe.open("gate");
    for call in parked {
        call.answer().await.result("1");
    }
}

#[tokio::test]
async fn a_modern_cancel_goes_on_and_ends_nothing() {
    let (gateway, upstream) = pair(PLAIN).await;
    let parked = gateway.park(&held(Era::Modern, "1", false));
    upstream.parked(1).await;
    gateway.post(&post(cancel("1")).with("mcp-protocol-version", support::MODERN)).await.accepted();
    assert_eq!(upstream.probe.heard(), [cancel("1")]);
    assert_eq!(upstream.server.parked(), 1);
    upstream.probe.open("gate");
    parked.answer().await.result("1");
}

#[tokio::test]
async fn a_cancel_right_behind_its_call_finds_it_at_both() {
    let (gateway, upstream) = pair(PLAIN).await;
    let session = session(&gateway).await;
    let gateway = Arc::new(gateway);
    // No more than cancels are remembered for.
    for batch in 0..3 {
        let mut pairs = JoinSet::new();
        for id in batch * 20..batch * 20 + 20 {
            let (gateway, session, id) = (Arc::clone(&gateway), session.clone(), format!("\"{id}\""));
            pairs.spawn(async move {
                let parked = gateway.park(&with_session(held(Era::Legacy, &id, false), &session));
                gateway.post(&with_session(post(cancel(&id)), &session)).await.accepted();
                parked.answer().await.error(200, CANCELLED, &*id);
            });
        }
        while let Some(pair) = pairs.join_next().await {
            pair.unwrap();
        }
    }
    upstream.parked(0).await;
    assert_eq!(upstream.probe.heard().len(), 60);
}

#[tokio::test]
async fn a_reply_and_a_cancel_that_meet_are_one_answer() {
    let (gateway, upstream) = pair(PLAIN).await;
    for round in 0..60 {
        let (id, gate, streams) = (round.to_string(), format!("gate {round}"), round % 2 == 1);
        let notes: &[Value] = if streams { &[json!(1)] } else { &[] };
        let request = Era::Legacy.call(&id, &json!({ "name": "tool", "gate": gate, "notes": notes }));
        let mut client = begin(&gateway, &upstream, &request, streams).await;
        let mut cancelling = gateway.connect().await;
        let is_first = round % 4 < 2;
        if is_first {
            cancelling.send(post(cancel(&id)).bytes()).await;
        }
        for _ in 0..round / 4 {
            yield_now().await;
        }
        upstream.probe.open(&gate);
        for _ in 0..round / 4 {
            yield_now().await;
        }
        if !is_first {
            cancelling.send(post(cancel(&id)).bytes()).await;
        }
        let message = if streams {
            let last = client.event().await;
            client.end_of_stream().await;
            last.strip_prefix("data: ").unwrap().to_owned()
        } else {
            client.answer().await.text().to_owned()
        };
        if message.contains(r#""error":"#) {
            error_of(&message, CANCELLED, Some(&id));
        } else {
            result_of(&message, &id);
        }
        cancelling.answer().await.accepted();
        upstream.parked(0).await;
        // Nothing more comes on its connection.
        client.post(&post(call("\"next\"", &json!({ "name": "tool" })))).await.result("\"next\"");
    }
}
