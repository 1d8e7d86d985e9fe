//! The GET stream of a session behind the example `stdio_bridge`: what its child says and asks outside of calls.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Instant;

use serde_json::{Value, json};
use support::bridge::{Bridge, Session, gone, listening, message, text, tool};
use support::{BOUND, Connection, INVALID_REQUEST, MODERN, post};

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const PROMPTS: &str = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"n":1.50}}"#;

fn log(n: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"n":{n}.50}}}}"#)
}

fn updated(uri: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#)
}

fn question(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{ "n":1.50 }}}}"#)
}

/// The child writes these lines during a call that accepts no events.
async fn says_to_nobody(client: &Session<'_>, lines: &[&str]) {
    let say = json!({ "name": "say", "arguments": { "lines": ([lines, &[ANSWER]].concat()) } });
    client.send(&post(support::call("1", &say)).with("accept", "application/json")).await.result("1");
}

/// The child answers a call, and then writes these lines.
async fn says_later(client: &Session<'_>, lines: &[&str]) {
    let lines = [&[ANSWER], lines].concat();
    client.says("1", &lines).await.answer().await.result("1");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_a_child_says_outside_of_calls_goes_to_the_get_stream_as_it_is() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    let lines = [&log(1), PROMPTS, TOOLS, &updated("a"), &log(2)];
    says_later(&client, &lines).await;
    for line in lines {
        assert_eq!(text(&mut stream).await, *line);
    }
    // Nobody else hears it.
    let other = bridge.open().await;
    let mut its_stream = other.listen().await;
    says_later(&client, &[&log(3)]).await;
    says_later(&other, &[&log(4)]).await;
    assert_eq!(text(&mut stream).await, log(3));
    assert_eq!(text(&mut its_stream).await, log(4));
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_client_that_reads_its_get_stream_hears_all_of_a_burst() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    let lines: Vec<_> = (0..500).map(log).chain((0..500).map(|n| updated(&n.to_string()))).collect();
    says_later(&client, &lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for line in &lines {
        assert_eq!(text(&mut stream).await, *line);
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_changed_before_the_stream_is_told_to_it_once() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    says_to_nobody(&client, &[TOOLS, &log(1), &updated("a"), &updated("b"), TOOLS, PROMPTS, &updated("a")]).await;
    let mut stream = client.listen().await;
    for line in [&updated("b"), TOOLS, PROMPTS, &updated("a")] {
        assert_eq!(text(&mut stream).await, *line);
    }
    says_later(&client, &[&log(2)]).await;
    assert_eq!(text(&mut stream).await, log(2));
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_is_said_during_a_call_is_told_once() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    // Without a GET stream the call's stream is all there is.
    let mut call = client.says("1", &[TOOLS, &log(1), ANSWER]).await;
    call.head().await;
    assert_eq!([text(&mut call).await, text(&mut call).await], [TOOLS.to_owned(), log(1)]);
    assert_eq!(message(&mut call).await["result"]["ok"], 1);

    let mut stream = client.listen().await;
    let mut call = client.says("1", &[TOOLS, &log(2), ANSWER, &log(3)]).await;
    call.head().await;
    assert_eq!(text(&mut call).await, log(2));
    assert_eq!(message(&mut call).await["result"]["ok"], 1);
    call.end_of_stream().await;
    assert_eq!([text(&mut stream).await, text(&mut stream).await], [TOOLS.to_owned(), log(3)]);
    // A call that accepts no events is no place for them.
    says_to_nobody(&client, &[&log(4), &question("1")]).await;
    assert_eq!(text(&mut stream).await, log(4));
    assert_eq!(message(&mut stream).await["method"], "elicitation/create");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_a_child_asks_outside_of_calls_is_answered_by_its_own_client_only() {
    let bridge = Bridge::new(&[], &[]).await;
    let (client, other) = (bridge.open().await, bridge.open().await);
    let (mut stream, _its_stream) = (client.listen().await, other.listen().await);
    for (id, answer) in [
        ("1.0", r#""result":{"action":"accept","n":1.23456789012345678901e29}"#),
        ("\"q\"", r#""error":{"code":-1.0,"message":"cut \ud83d","more":1.50}"#),
        ("1", r#""error":{"code":"x"}"#),
    ] {
        says_later(&client, &[&question(id)]).await;
        let asked = message(&mut stream).await;
        assert_eq!((&asked["method"], &asked["params"]), (&json!("elicitation/create"), &json!({ "n": 1.5 })));
        let response = post(format!(r#"{{"jsonrpc":"2.0","id":{},{answer}}}"#, asked["id"]));
        // Neither another session nor somebody without one.
        other.send(&response).await.accepted();
        bridge.anonymous().send(&response).await.accepted();
        client.send(&post(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await.accepted();
        client.send(&post(r#"{"jsonrpc":"2.0","id":"q","result":{}}"#)).await.accepted();
        client.value("pid").await;
        let begins = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        let told = async || -> Vec<String> {
            let lines = client.value("lines").await;
            let lines = lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap().trim_end().to_owned());
            lines.filter(|line| line.starts_with(&begins) && !line.contains("method")).collect()
        };
        assert_eq!(told().await, [""; 0]);
        client.send(&response).await.accepted();
        client.send(&response).await.accepted();
        let began = Instant::now();
        while told().await.is_empty() {
            assert!(began.elapsed() < BOUND);
        }
        let told = told().await;
        match answer.contains("\"x\"") {
            true => assert!(told[0].contains("-32603") && told[0].contains(r#""data":{"code":"x"}"#), "{told:?}"),
            false => assert_eq!(told, [format!("{begins}{answer}}}")]),
        }
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_question_is_taken_back_with_the_id_that_the_client_knows() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    says_later(&client, &[&question("7")]).await;
    let id = message(&mut stream).await["id"].clone();
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"late","requestId":7.0}}"#;
    says_later(&client, &[cancel]).await;
    let cancelled = message(&mut stream).await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"], json!({ "reason": "late", "requestId": id }));
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_ping_is_answered_here_and_too_many_questions_are_refused() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    let questions: Vec<_> = (100..165).map(|id| question(&id.to_string())).collect();
    let ping = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;
    says_later(&client, &questions.iter().map(String::as_str).chain([ping]).collect::<Vec<_>>()).await;
    for _ in 0..64 {
        assert_eq!(message(&mut stream).await["method"], "elicitation/create");
    }
    client.hears(|line| line["id"] == "ping" && line["result"] == json!({})).await;
    client.hears(|line| line["id"] == 164 && line["error"]["message"].as_str().unwrap().contains("too many")).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn large_questions_that_nobody_reads_are_refused_and_those_that_are_read_are_not() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    let refused = async || {
        // The first answer comes after all questions. On the stream of a call they would go there.
        let call = |name| tool("1", name, &json!({})).with("accept", "application/json");
        client.send(&call("pid")).await.result("1");
        let heard = client.send(&call("heard")).await.result("1")["value"].clone();
        let whys = heard.as_array().unwrap().iter().filter_map(|line| line["error"]["message"].as_str());
        whys.filter(|why| why.contains("too many")).count()
    };
    client.call("1", "ask much", &json!({ "count": 20, "bytes": 3_000_000 })).await.result("1");
    let unread = refused().await;
    // One waits, and some are on their way in buffers.
    assert!((15..20).contains(&unread), "{unread}");
    for _ in unread..20 {
        assert!(text(&mut stream).await.contains("elicitation/create"));
    }
    client.call("1", "ask much", &json!({ "count": 40, "bytes": 300_000 })).await.result("1");
    for _ in 0..40 {
        assert!(text(&mut stream).await.contains("elicitation/create"));
    }
    assert_eq!(refused().await, unread);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_request_with_a_long_id_or_method_is_refused() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    let long = "x".repeat(70_000);
    let method = question("7").replace("elicitation/create", &long);
    says_later(&client, &[&question(&format!("\"{long}\"")), &method, &question("8")]).await;
    assert_eq!(message(&mut stream).await["method"], "elicitation/create");
    for id in [json!(long), json!(7)] {
        client.hears(|line| line["id"] == id && line["error"]["message"].as_str().unwrap().contains("long")).await;
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_client_that_comes_back_replaces_its_stream() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut streams = vec![client.listen().await];
    for _ in 0..3 {
        let mut new = client.listen().await;
        streams.pop().unwrap().end_of_stream().await;
        says_later(&client, &[&log(1)]).await;
        assert_eq!(text(&mut new).await, log(1));
        streams.push(new);
    }
    // One that went away without a word does not hear what comes later.
    streams.clear();
    let mut stream = client.listen().await;
    says_later(&client, &[&log(2)]).await;
    assert_eq!(text(&mut stream).await, log(2));
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_question_that_nobody_can_be_asked_is_refused() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let stream = client.listen().await;
    drop(stream);
    let began = Instant::now();
    // The end of the connection takes a moment to be seen.
    let refused = |line: &Value| line["error"]["message"].as_str().is_some_and(|why| why.contains("no GET stream"));
    for id in 0.. {
        says_to_nobody(&client, &[&question(&id.to_string())]).await;
        if client.value("heard").await.as_array().unwrap().iter().any(refused) {
            break;
        }
        assert!(began.elapsed() < BOUND);
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn the_stream_ends_with_the_process_with_the_session_and_with_the_bridge() {
    let bridge = Bridge::new(&["--drain", "0.3"], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    client.call("1", "exit", &json!({})).await;
    stream.end_of_stream().await;
    // The session goes on, and its next process speaks on the next stream.
    let mut stream = client.listen().await;
    says_later(&client, &[&log(1)]).await;
    assert_eq!(text(&mut stream).await, log(1));

    let other = bridge.open().await;
    let mut its_stream = other.listen().await;
    assert_eq!(other.send(&post("").method("DELETE")).await.status, 204);
    its_stream.end_of_stream().await;
    assert_eq!(other.send(&listening()).await.status, 404);

    let pid = client.value("pid").await;
    bridge.exits().await;
    stream.end_of_stream().await;
    gone(&pid).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_session_that_is_listened_to_is_not_idle() {
    let bridge = Bridge::new(&["--idle-timeout", "1", "--start-timeout", "1"], &[]).await;
    let (client, other) = (bridge.open().await, bridge.open().await);
    let (pid, other_pid) = (client.value("pid").await, other.value("pid").await);
    let stream = client.listen().await;
    gone(&other_pid).await;
    assert_eq!(client.value("pid").await, pid);
    drop(stream);
    gone(&pid).await;
    assert_eq!(client.send(&listening()).await.status, 404);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_get_that_cannot_be_served_says_why() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let mut stream = client.listen().await;
    bridge.post(&listening()).await.error(400, INVALID_REQUEST, None);
    for id in ["x", "mcpl-7f3c", "9a4d3f0e-1c52-4d35-9f5e-2f1f5b8a8f11"] {
        bridge.post(&listening().with("mcp-session-id", id)).await.error(404, INVALID_REQUEST, None);
    }
    for (get, status) in [
        (listening().with("accept", "application/json"), 406),
        (listening().with("accept", "text/event-stream;q=0, */*"), 406),
        (listening().with("mcp-protocol-version", MODERN), 405),
        (listening().with("mcp-protocol-version", "2099-01-01"), 400),
        (listening().and("mcp-protocol-version", "2025-11-25"), 400),
        (listening().with("host", "example.com"), 403),
    ] {
        client.send(&get).await.error(status, INVALID_REQUEST, None);
    }
    assert_eq!(client.send(&listening().with("mcp-protocol-version", MODERN)).await.header("allow"), Some("POST"));
    let repeated = client.with_session(&listening()).and("mcp-session-id", "x");
    bridge.post(&repeated).await.error(400, INVALID_REQUEST, None);
    for method in ["HEAD", "PUT", "PATCH", "OPTIONS"] {
        let mut connection = Connection::open(bridge.address).await;
        connection.send(client.with_session(&listening().method(method)).bytes()).await;
        let head = connection.head().await;
        assert_eq!((head.status, head.header("allow")), (405, Some("GET, POST, DELETE")), "{method}");
    }
    // None of them took the stream away.
    says_later(&client, &[&log(1)]).await;
    assert_eq!(text(&mut stream).await, log(1));
    for get in [
        listening().with("accept", "*/*"),
        listening().without("accept"),
        listening().without("mcp-protocol-version"),
        listening().with("mcp-protocol-version", "2024-11-05"),
    ] {
        let mut connection = Connection::open(bridge.address).await;
        connection.send(client.with_session(&get).bytes()).await;
        assert_eq!(connection.head().await.status, 200);
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn capabilities_say_what_is_true() {
    let bridge = Bridge::new(&[], &[]).await;
    let told = bridge.initialize().await.result("0")["capabilities"].clone();
    let expected = json!({ "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true }, "logging": {} });
    assert_eq!(told, expected);
}
