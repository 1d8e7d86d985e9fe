//! What goes through the example `stdio_bridge`, in both directions.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use serde_json::{Value, json};
use support::bridge::{Bridge, message, tool};
use support::{
    CANCELLED, Connection, INTERNAL_ERROR, INVALID_REQUEST, cancel_because, initialize, modern, post, request,
};

const TIMED_OUT: i64 = -32001;

#[tokio::test]
#[ignore = "needs python3"]
async fn equal_ids_do_not_meet_and_answers_may_come_in_any_order() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.anonymous();
    let ids = ["1", "1", "\"1\"", "18446744073709551615"];
    let mut held = Vec::new();
    for id in ids {
        held.push(client.begin(id, "hold", &json!({ "id": id })).await);
    }
    client.hears(|line| line["params"]["arguments"]["id"] == ids[3]).await;
    assert_eq!(client.value("release").await, "released");
    let mut seen = Vec::new();
    for (id, connection) in ids.iter().zip(&mut held) {
        seen.push(connection.answer().await.result(id)["value"]["held"].as_u64().unwrap());
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), ids.len());
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_cancel_is_answered_at_once_and_told_to_the_child_with_its_own_id() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut parked = client.begin("\"mine\"", "hang", &json!({})).await;
    let mut its_id = Value::Null;
    client
        .hears(|line| {
            line["params"]["name"] == "hang" && {
                its_id = line["id"].clone();
                true
            }
        })
        .await;
    client.send(&post(cancel_because("\"mine\"", &json!("enough")))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "\"mine\"");
    let told = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": its_id, "reason": "enough" },
    });
    client.hears(|line| *line == told).await;
    let mut cancels = 0;
    client
        .hears(|line| {
            cancels += usize::from(line["method"] == "notifications/cancelled");
            line["id"] == its_id
        })
        .await;
    assert!(cancels <= 1);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn progress_goes_to_its_call_with_the_token_of_the_client() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.anonymous();
    for token in [json!("t"), json!(1)] {
        let params = json!({ "name": "progress", "arguments": {}, "_meta": { "progressToken": token, "other": 1.50 } });
        let mut streams = Vec::new();
        for _ in 0..3 {
            let mut stream = Connection::open(bridge.address).await;
            stream.send(client.with_session(&post(request("1", "tools/call", &params))).bytes()).await;
            streams.push(stream);
        }
        for stream in &mut streams {
            stream.head().await;
            for step in 1..=3 {
                let note = message(stream).await;
                let expected = json!({ "progressToken": token, "other": 1.5, "progress": step, "total": 3 });
                assert_eq!(note["params"], expected);
            }
            let answer = message(stream).await;
            assert_eq!((&answer["id"], &answer["result"]["value"]["other"]), (&json!(1), &json!(1.5)));
            assert_ne!(answer["result"]["value"]["progressToken"], token);
            stream.end_of_stream().await;
        }
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_a_child_says_goes_to_the_call_in_progress() {
    let bridge = Bridge::new(&[], &[]).await;
    for client in [bridge.open().await, bridge.anonymous()] {
        let mut stream = client.begin("1", "log", &json!({ "a": [1] })).await;
        stream.head().await;
        let note = message(&mut stream).await;
        assert_eq!((&note["method"], &note["params"]["data"]), (&json!("notifications/message"), &json!({ "a": [1] })));
        assert_eq!(message(&mut stream).await["result"]["value"], "logged");
    }
    // Of two callers without a session nobody knows whose it is.
    let client = bridge.anonymous();
    let mut parked = client.begin("1", "hold", &json!({})).await;
    client.hears(|line| line["params"]["name"] == "hold").await;
    assert_eq!(client.value("log").await, "logged");
    client.value("release").await;
    parked.answer().await.result("1");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_client_that_reads_hears_all_that_a_child_says_in_a_burst() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.begin("1", "log", &json!({ "more": 1_000 })).await;
    stream.head().await;
    for _ in 0..1_000 {
        assert_eq!(message(&mut stream).await["params"]["data"].as_str().map(str::len), Some(10_000));
    }
    assert_eq!(message(&mut stream).await["params"]["data"]["more"], 1_000);
    assert_eq!(message(&mut stream).await["result"]["value"], "logged");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_client_that_does_not_read_a_stream_can_call_again() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.begin("1", "log", &json!({ "more": 3_000 })).await;
    stream.head().await;
    let other = client.with_session(&tool("2", "pid", &json!({}))).with("accept", "application/json");
    bridge.post(&other).await.result("2");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_a_child_asks_reaches_the_client_and_the_answer_returns() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    for (id, answer) in [
        (json!("q"), json!({ "result": { "action": "accept", "n": 1.50 } })),
        (json!(1), json!({ "error": { "code": -1, "message": "User rejected", "data": 7 } })),
    ] {
        let mut stream = client.begin("1", "ask", &json!({ "id": id })).await;
        stream.head().await;
        let question = message(&mut stream).await;
        assert_eq!(
            (&question["method"], &question["params"]),
            (&json!("elicitation/create"), &json!({ "message": "?" }))
        );
        let mut response = answer.clone();
        response["jsonrpc"] = "2.0".into();
        response["id"] = question["id"].clone();
        client.send(&post(response.to_string())).await.accepted();
        let mut told = answer;
        told["jsonrpc"] = "2.0".into();
        told["id"] = id;
        assert_eq!(message(&mut stream).await["result"]["value"], told);
        stream.end_of_stream().await;
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_asks_in_vain_is_told_so() {
    let bridge = Bridge::new(&[], &["eager"]).await;
    let client = bridge.open().await;
    // It asked before there was a call; and its ping was answered here.
    client.hears(|line| line["id"] == "p" && line["result"] == json!({})).await;
    client.hears(|line| line["id"] == "early" && line["error"]["message"].as_str().unwrap().contains("no call")).await;
    // Who shares a child is not asked.
    let told = bridge.anonymous().value("ask").await;
    assert_eq!(told["error"]["code"], INTERNAL_ERROR);
    // A client that takes no stream cannot be.
    let post = client.with_session(&tool("1", "ask", &json!({}))).with("accept", "application/json");
    let told = bridge.post(&post).await.result("1");
    assert_eq!(told["value"]["error"]["code"], INTERNAL_ERROR);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_question_that_the_child_takes_back_is_taken_back_from_the_client() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.begin("1", "ask", &json!({})).await;
    stream.head().await;
    let question = message(&mut stream).await;
    assert_eq!(client.value("forget").await, "forgotten");
    let taken_back = message(&mut stream).await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn rubbish_and_second_answers_are_no_harm() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let pid = client.value("pid").await;
    assert_eq!(client.value("rubbish").await, "not rubbish");
    assert_eq!(client.value("twice").await, "once");
    // Its id comes as a string.
    assert_eq!(client.value("spell").await, "spelled");
    assert_eq!(client.value("batch").await, "one of several");
    client.call("1", "broken", &json!({})).await.error(200, INTERNAL_ERROR, "1");
    let error = client.call("1", "error", &json!({})).await.error(200, -32002, "1");
    assert_eq!((error.message.as_str(), error.data), ("no such thing", Some(json!({ "x": 1 }))));
    assert_eq!(client.value("pid").await, pid);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_version_that_the_bridge_does_not_speak_is_not_asked_for() {
    let bridge = Bridge::new(&[], &[]).await;
    for (asked, agreed) in [("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")] {
        let params =
            json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        assert_eq!(bridge.post(&post(initialize("0", &params))).await.result("0")["protocolVersion"], agreed);
    }
    // A byte order mark before the answer is no part of it.
    Bridge::new(&[], &["marks"]).await.open().await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn the_last_words_of_a_child_are_heard() {
    let bridge = Bridge::new(&[], &[]).await;
    assert_eq!(bridge.open().await.value("last words").await, "last words");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_hangs_is_overtaken_by_the_deadline_and_told() {
    let bridge = Bridge::new(&["--request-timeout", "2"], &[]).await;
    let client = bridge.open().await;
    client.call("1", "hang", &json!({})).await.error(200, TIMED_OUT, "1");
    client.hears(|line| line["method"] == "notifications/cancelled").await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn modern_clients_are_served_without_a_session() {
    let bridge = Bridge::new(&[], &[]).await;
    // On a slow machine the reply would be a stream before the child has started.
    let plain = |method: &str, params| modern("1", method, &params).with("accept", "application/json");
    let discovered = bridge.post(&plain("server/discover", json!({}))).await.result("1");
    assert_eq!(discovered["capabilities"], json!({ "resources": {}, "tools": {} }));
    assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
    assert_eq!((&discovered["instructions"], &discovered["resultType"]), (&json!("none"), &json!("complete")));
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "child");

    let listed = bridge.post(&plain("tools/list", json!({}))).await.result("1");
    assert_eq!((&listed["tools"], &listed["ttlMs"], &listed["cacheScope"]), (&json!([]), &json!(0), &json!("private")));
    let params = json!({ "name": "progress", "_meta": { "progressToken": "t" } });
    let mut stream = Connection::open(bridge.address).await;
    stream.send(modern("1", "tools/call", &params).bytes()).await;
    stream.head().await;
    for _ in 1..=3 {
        assert_eq!(message(&mut stream).await["params"]["progressToken"], "t");
    }
    let answer = message(&mut stream).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["value"]["io.modelcontextprotocol/clientCapabilities"], json!({}));

    for method in ["ping", "subscriptions/listen", "nosuch"] {
        bridge.post(&plain(method, json!({}))).await.error(404, -32601, "1");
    }
    bridge.post(&plain("tools/call", json!({ "name": "error" }))).await.error(200, -32602, "1");
    // A modern client cancels by leaving.
    let mut leaves = Connection::open(bridge.address).await;
    leaves.send(modern("1", "tools/call", &json!({ "name": "hang" })).bytes()).await;
    let client = bridge.anonymous();
    client.hears(|line| line["params"]["name"] == "hang").await;
    drop(leaves);
    client.hears(|line| line["method"] == "notifications/cancelled").await;

    let bridge = Bridge::new(&["--no-modern"], &[]).await;
    bridge.post(&plain("tools/list", json!({}))).await.error(400, INVALID_REQUEST, "1");
}
