//! The example `stdio_bridge`, in front of a child that misbehaves on demand. Cargo builds the example for a whole
//! `cargo test`; for this file alone, build it before.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use support::{
    Answer, BOUND, CANCELLED, Connection, INTERNAL_ERROR, INVALID_REQUEST, Post, cancel_because, initialize, modern,
    post, request,
};

const TIMED_OUT: i64 = -32001;
const SHUT_DOWN: i64 = -32000;

/// The example, and the child's words.
struct Bridge {
    address: SocketAddr,
    process: Child,
}

/// A client, with or without a session.
struct Session<'a> {
    bridge: &'a Bridge,
    id: Option<String>,
}

impl Bridge {
    async fn new(options: &[&str], words: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bridge/child.py");
        Self::before(options, &[&["python3", "-B", script], words].concat()).await
    }

    async fn before(options: &[&str], command: &[&str]) -> Self {
        let test = std::env::current_exe().unwrap();
        let example = test.parent().and_then(Path::parent).unwrap().join("examples/stdio_bridge");
        let mut process = Command::new(example)
            .args(["--listen", "127.0.0.1:0", "--grace", "0.3"])
            .args(options)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("cargo build --example stdio_bridge");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let address = line.trim().strip_prefix("listening on http://").and_then(|line| line.strip_suffix("/mcp"));
        Self { address: address.unwrap().parse().unwrap(), process }
    }

    async fn post(&self, post: &Post) -> Answer {
        Connection::open(self.address).await.post(post).await
    }

    async fn initialize(&self) -> Answer {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test", "version": "7" },
        });
        self.post(&post(initialize("0", &params))).await
    }

    async fn open(&self) -> Session<'_> {
        let answer = self.initialize().await;
        assert_eq!(answer.result("0")["serverInfo"]["name"], "child");
        let id = answer.header("mcp-session-id").expect("a session").to_owned();
        let session = Session { bridge: self, id: Some(id) };
        session.send(&post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await.accepted();
        session
    }

    /// A client without a session.
    fn anonymous(&self) -> Session<'_> {
        Session { bridge: self, id: None }
    }

    async fn exits(mut self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(self.process.id().unwrap().cast_signed()).unwrap(),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        let status = timeout(BOUND, self.process.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Session<'_> {
    fn with_session(&self, post: &Post) -> Post {
        self.id.as_ref().map_or(post.clone(), |id| post.clone().with("mcp-session-id", id))
    }

    async fn send(&self, post: &Post) -> Answer {
        self.bridge.post(&self.with_session(post)).await
    }

    /// Sends a call and leaves it open.
    async fn begin(&self, id: &str, name: &str, arguments: &Value) -> Connection {
        let mut connection = Connection::open(self.bridge.address).await;
        connection.send(self.with_session(&call(id, name, arguments)).bytes()).await;
        connection
    }

    async fn call(&self, id: &str, name: &str, arguments: &Value) -> Answer {
        self.send(&call(id, name, arguments)).await
    }

    async fn value(&self, name: &str) -> Value {
        self.call("99", name, &json!({})).await.result("99")["value"].clone()
    }

    /// What the child has heard, once it holds.
    async fn hears(&self, mut holds: impl FnMut(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let heard = self.value("heard").await;
            if heard.as_array().unwrap().iter().any(&mut holds) {
                return;
            }
            assert!(began.elapsed() < BOUND, "never heard; but: {heard}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn call(id: &str, name: &str, arguments: &Value) -> Post {
    post(request(id, "tools/call", &json!({ "name": name, "arguments": arguments })))
}

/// The message of the next event.
async fn message(connection: &mut Connection) -> Value {
    let event = connection.event().await;
    serde_json::from_str(event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event}"))).unwrap()
}

async fn gone(pid: &Value) {
    let began = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(began.elapsed() < BOUND, "process {pid} is still there");
        sleep(Duration::from_millis(10)).await;
    }
}

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
async fn an_unknown_session_gets_404_and_a_get_405() {
    let bridge = Bridge::new(&[], &[]).await;
    for id in ["x", "mcpl-7f3c", "9a4d3f0e-1c52-4d35-9f5e-2f1f5b8a8f11"] {
        let session = Session { bridge: &bridge, id: Some(id.to_owned()) };
        session.call("1", "pid", &json!({})).await.error(404, INVALID_REQUEST, "1");
        let notification = session.send(&post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)).await;
        assert_eq!(notification.status, 404);
    }
    assert_eq!(bridge.post(&post("").method("GET")).await.status, 405);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn callers_without_a_session_share_a_child_for_each_authorization() {
    let bridge = Bridge::new(&[], &[]).await;
    let pid = |authorization: Option<&'static str>| {
        let post = call("1", "pid", &json!({}));
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
                assert_eq!(note["params"], json!({ "progressToken": token, "progress": step, "total": 3 }));
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
    let post = client.with_session(&call("1", "ask", &json!({}))).with("accept", "application/json");
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
    let client = bridge.open().await;
    for _ in 0..2 {
        let error = client.call("1", "exit", &json!({})).await.error(200, INTERNAL_ERROR, "1");
        assert!(error.message.contains("exit status: 3"), "{}", error.message);
    }
    let error = client.call("1", "pid", &json!({})).await.error(200, INTERNAL_ERROR, "1");
    assert!(error.message.contains("keeps failing"), "{}", error.message);
    sleep(Duration::from_millis(300)).await;
    client.value("pid").await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn rubbish_and_second_answers_are_no_harm() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    let pid = client.value("pid").await;
    assert_eq!(client.value("rubbish").await, "not rubbish");
    assert_eq!(client.value("twice").await, "once");
    client.call("1", "broken", &json!({})).await.error(200, INTERNAL_ERROR, "1");
    let error = client.call("1", "error", &json!({})).await.error(200, -32002, "1");
    assert_eq!((error.message.as_str(), error.data), ("no such thing", Some(json!({ "x": 1 }))));
    assert_eq!(client.value("pid").await, pid);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn the_last_words_of_a_child_are_heard() {
    let bridge = Bridge::new(&[], &[]).await;
    assert_eq!(bridge.open().await.value("last words").await, "last words");
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
async fn a_child_that_hangs_is_overtaken_by_the_deadline_and_told() {
    let bridge = Bridge::new(&["--request-timeout", "0.5"], &[]).await;
    let client = bridge.open().await;
    client.call("1", "hang", &json!({})).await.error(200, TIMED_OUT, "1");
    client.hears(|line| line["method"] == "notifications/cancelled").await;
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
        let padding = json!({ "padding": "x".repeat(100_000) });
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
        connection.answer().await.error(200, SHUT_DOWN, (at + 1).to_string().as_str());
    }
    gone(&pid).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_child_that_cannot_be_initialized_opens_no_session() {
    for (words, code, why) in [
        (["dies"], INTERNAL_ERROR, "the server has exited (exit status: 1)"),
        (["refuses"], -7, "not today"),
        (["silent"], INTERNAL_ERROR, "has not answered `initialize`"),
    ] {
        let bridge = Bridge::new(&["--start-timeout", "1", "--max-children", "1"], &words).await;
        for _ in 0..2 {
            let answer = bridge.initialize().await;
            let error = answer.error(200, code, "0");
            assert!(error.message.contains(why), "{}", error.message);
            assert!(!answer.header("mcp-session-id").is_some_and(|id| !id.starts_with("mcpl-")));
            // Its process has its place until it has ended.
            sleep(Duration::from_secs(1)).await;
        }
        // What is shared is tried again too, but not without a rest.
        let client = bridge.anonymous();
        for _ in 0..2 {
            let error = client.call("1", "pid", &json!({})).await.error(200, code, "1");
            assert!(error.message.contains(why), "{}", error.message);
            sleep(Duration::from_secs(1)).await;
        }
    }
    let bridge = Bridge::before(&[], &["/nonexistent/server"]).await;
    let error = bridge.initialize().await.error(200, INTERNAL_ERROR, "0");
    assert_eq!(error.message, "the server cannot be started");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn there_are_no_more_children_than_there_may_be_and_idle_ones_end() {
    let bridge = Bridge::new(&["--max-children", "2", "--idle-timeout", "1"], &[]).await;
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
    for words in [&[][..], &["stubborn"]] {
        let bridge = Bridge::new(&["--drain", "0.3"], words).await;
        let (client, shared) = (bridge.open().await, bridge.anonymous());
        let pids = [client.value("pid").await, shared.value("pid").await];
        let mut parked = client.begin("1", "hang", &json!({})).await;
        client.hears(|line| line["params"]["name"] == "hang").await;
        bridge.exits().await;
        parked.answer().await.error(200, SHUT_DOWN, "1");
        for pid in &pids {
            gone(pid).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn modern_clients_are_served_without_a_session() {
    let bridge = Bridge::new(&[], &[]).await;
    let discovered = bridge.post(&modern("1", "server/discover", &json!({}))).await.result("1");
    assert_eq!(discovered["capabilities"], json!({ "tools": {} }));
    assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
    assert_eq!((&discovered["instructions"], &discovered["resultType"]), (&json!("none"), &json!("complete")));
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "child");

    let listed = bridge.post(&modern("1", "tools/list", &json!({}))).await.result("1");
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
        bridge.post(&modern("1", method, &json!({}))).await.error(404, -32601, "1");
    }
    bridge.post(&modern("1", "tools/call", &json!({ "name": "error" }))).await.error(200, -32602, "1");
    // A modern client cancels by leaving.
    let mut leaves = Connection::open(bridge.address).await;
    leaves.send(modern("1", "tools/call", &json!({ "name": "hang" })).bytes()).await;
    let client = bridge.anonymous();
    client.hears(|line| line["params"]["name"] == "hang").await;
    drop(leaves);
    client.hears(|line| line["method"] == "notifications/cancelled").await;

    let bridge = Bridge::new(&["--no-modern"], &[]).await;
    bridge.post(&modern("1", "tools/list", &json!({}))).await.error(400, INVALID_REQUEST, "1");
}
