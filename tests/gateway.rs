//! The example `gateway`, in front of a server that does what a test says, byte for byte.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use support::gateway::{Gateway, Heard, Peer, Upstream};
use support::http2::{ask, connect_to, open, to};
use support::replies::{Sent, that_do_not_answer, that_pass};
use support::{
    Answer, BOUND, CANCELLED, Era, INTERNAL_ERROR, Post, call, cancel, cancel_because, chunk, error_of, example_path,
    post,
};

const TIMED_OUT: i64 = -32001;
const SHUT_DOWN: i64 = -32000;

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;

async fn pair() -> (Gateway, Upstream) {
    let upstream = Upstream::new().await;
    (Gateway::before(upstream.address()).await, upstream)
}

fn a_call(id: &str) -> Post {
    post(call(id, &json!({ "name": "tool" })))
}

fn answer(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"answer"}}}}"#)
}

fn event(message: &str) -> Vec<u8> {
    chunk(format!("data: {message}\n\n").as_bytes())
}

/// The next call finds its way, also where the one before was ended: over this connection of its client.
async fn serves_on(client: &mut support::Connection, upstream: &Upstream) {
    client.send(a_call("99").bytes()).await;
    let (mut peer, heard) = upstream.hears().await;
    assert!(heard.body.contains(r#""id":99"#), "{heard:?}");
    peer.replies_at_last(answer("99")).await;
    client.answer().await.result("99");
}

fn values(heard: &Heard, name: &str) -> Vec<String> {
    heard.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

// What passes.

#[tokio::test]
async fn a_request_goes_on_as_it_is_but_for_what_belongs_to_its_connection() {
    let upstream = Upstream::new().await;
    let address = upstream.address();
    for (path, asked, reached) in [
        ("/mcp", "/mcp", "/mcp"),
        ("/other/mcp", "/mcp?x=%20&y", "/other/mcp?x=%20&y"),
        ("/other?key=1", "/mcp", "/other?key=1"),
        ("/other?key=1", "/mcp?x=2", "/other?key=1&x=2"),
        ("", "/mcp", "/"),
    ] {
        let gateway = Gateway::with(&[], &format!("http://{address}{path}")).await;
        for (method, body) in [("POST", &*call("1", &json!({ "text": "ü" }))), ("GET", ""), ("DELETE", "")] {
            let request = post(body)
                .method(method)
                .to(asked)
                .and("connection", "x-once, keep-alive")
                .and("x-once", "1")
                .and("keep-alive", "timeout=5")
                .and("te", "trailers")
                .and("upgrade", "h2c")
                .and("proxy-authorization", "Basic eDp5")
                .and("proxy-connection", "keep-alive")
                .and("accept-encoding", "gzip, br")
                .and("mcp-session-id", "theirs")
                .and("authorization", "Bearer x")
                .and("last-event-id", "7")
                .and("x-own", "1")
                .and("x-own", "2")
                .and("x-forwarded-for", "192.0.2.1");
            let mut client = gateway.begin(&request).await;
            let (mut peer, heard) = upstream.hears().await;
            assert_eq!(heard.line, format!("{method} {reached} HTTP/1.1"));
            assert_eq!(heard.body, body);
            let all = [
                ("accept", &["application/json, text/event-stream"][..]),
                ("accept-encoding", &[]),
                ("authorization", &["Bearer x"]),
                ("connection", &[]),
                ("content-type", &["application/json"]),
                ("host", &[&address.to_string()]),
                ("keep-alive", &[]),
                ("last-event-id", &["7"]),
                ("mcp-protocol-version", &["2025-11-25"]),
                ("mcp-session-id", &["theirs"]),
                ("proxy-authorization", &[]),
                ("proxy-connection", &[]),
                ("te", &[]),
                ("transfer-encoding", &[]),
                ("upgrade", &[]),
                ("via", &["1.1 mcp-gateway"]),
                ("x-forwarded-for", &["192.0.2.1", "127.0.0.1"]),
                ("x-once", &[]),
                ("x-own", &["1", "2"]),
            ];
            for (name, expected) in all {
                assert_eq!(values(&heard, name), expected, "{method} {name}");
            }
            peer.send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            assert_eq!(client.answer().await.status, 404);
        }
    }
}

#[tokio::test]
async fn a_reply_comes_back_as_it_is_but_for_what_belongs_to_its_connection() {
    let (gateway, upstream) = pair().await;
    let reply = answer("1");
    for (method, body) in [("POST", &*call("1", &json!({}))), ("GET", ""), ("DELETE", "")] {
        for status in [200, 401, 404, 503] {
            let mut client = gateway.begin(&post(body).method(method)).await;
            let (mut peer, _) = upstream.hears().await;
            peer.send(format!(
                "HTTP/1.1 {status} Any\r\ncontent-type: application/json\r\ncontent-length: {}\r\nset-cookie: a=1\r\n\
                 set-cookie: b=2\r\nmcp-session-id: theirs\r\nwww-authenticate: Bearer\r\nretry-after: 7\r\n\
                 connection: close, x-once\r\nx-once: 1\r\nkeep-alive: timeout=5\r\nproxy-authenticate: Basic\r\n\
                 upgrade: h2c\r\n\r\n{reply}",
                reply.len()
            ))
            .await;
            let passed = client.answer().await;
            assert_eq!((passed.status, passed.text()), (status, &*reply));
            for (name, value) in [
                ("content-type", Some("application/json")),
                ("content-length", Some(&*reply.len().to_string())),
                ("mcp-session-id", Some("theirs")),
                ("www-authenticate", Some("Bearer")),
                ("retry-after", Some("7")),
                ("connection", None),
                ("keep-alive", None),
                ("proxy-authenticate", None),
                ("transfer-encoding", None),
                ("upgrade", None),
                ("x-once", None),
            ] {
                assert_eq!(passed.header(name), value, "{name}");
            }
            assert_eq!(passed.headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
        }
    }
}

#[tokio::test]
async fn streams_pass_event_by_event() {
    let (gateway, upstream) = pair().await;
    for request in [a_call("1"), post("").method("GET")] {
        let mut client = gateway.begin(&request).await;
        let (mut peer, _) = upstream.hears().await;
        peer.streams().await;
        assert_eq!(client.head().await.header("content-type"), Some("text/event-stream"));
        peer.send(event(NOTE)).await;
        assert_eq!(client.event().await, format!("data: {NOTE}"));
        peer.send(chunk(b"id: 7\ndata: 1\n\n")).await;
        assert_eq!(client.event().await, "id: 7\ndata: 1");
        peer.send(event(&answer("1"))).await;
        assert_eq!(client.event().await, format!("data: {}", answer("1")));
        peer.send("0\r\n\r\n").await;
        client.end_of_stream().await;
    }
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions() {
    let (gateway, upstream) = pair().await;
    let text = "x".repeat(3 << 20);
    let mut client = gateway.connect().await;
    let request = post(call("1", &json!({ "text": text })));
    let bytes = request.chunked(100_000);
    let sending = tokio::spawn(async move {
        client.send(bytes).await;
        client
    });
    let (mut peer, heard) = upstream.hears().await;
    assert_eq!(heard.body, call("1", &json!({ "text": text })));
    assert_eq!(values(&heard, "transfer-encoding"), [""; 0]);
    let reply = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{text}{text}"}}}}"#);
    let replying = tokio::spawn(async move {
        peer.replies_at_last(&reply).await;
        reply
    });
    let passed = sending.await.unwrap().answer().await;
    assert!(passed.text() == replying.await.unwrap());
}

#[tokio::test]
async fn an_expectation_is_met_here() {
    let (gateway, upstream) = pair().await;
    let request = a_call("1").and("expect", "100-continue");
    let mut client = gateway.connect().await;
    client.send(request.head()).await;
    assert_eq!(client.answer().await.status, 100);
    client.send(&request.bytes()[request.head().len()..]).await;
    let (mut peer, heard) = upstream.hears().await;
    assert_eq!(values(&heard, "expect"), [""; 0]);
    // One that says so without being asked.
    peer.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    peer.replies_at_last(answer("1")).await;
    client.answer().await.result("1");
}

#[tokio::test]
async fn replies_of_http_1_0_come_as_http_1_1() {
    let (gateway, upstream) = pair().await;
    let mut client = gateway.connect().await;
    for request in [a_call("1"), post("").method("GET")] {
        client.send(request.bytes()).await;
        let (mut peer, _) = upstream.hears().await;
        peer.send("HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await;
        assert_eq!(client.head().await.header("transfer-encoding"), Some("chunked"));
        peer.send(format!("data: {}\n\n", answer("1"))).await;
        assert_eq!(client.event().await, format!("data: {}", answer("1")));
        drop(peer);
        client.end_of_stream().await;
    }
}

#[tokio::test]
async fn an_http_2_client_is_served() {
    let (gateway, upstream) = pair().await;
    let sender = connect_to(gateway.address).await;
    let request = to("localhost", "/mcp?x=1", &a_call("1").and("cookie", "a=1").and("cookie", "b=2").without("host"));
    let asked = tokio::spawn({
        let sender = sender.clone();
        async move { ask(&sender, request).await }
    });
    let (mut peer, heard) = upstream.hears().await;
    assert_eq!(
        (&heard.line, &heard.body),
        (&"POST /mcp?x=1 HTTP/1.1".to_owned(), &call("1", &json!({ "name": "tool" })))
    );
    assert_eq!(values(&heard, "host"), [upstream.address().to_string()]);
    assert_eq!(values(&heard, "cookie"), ["a=1; b=2"]);
    peer.replies(answer("1")).await;
    asked.await.unwrap().result("1");

    // Its stream is reset, and its connection stays.
    let modern = Era::Modern.call("2", &json!({ "name": "tool" })).without("host");
    let (opened, mut peer) = tokio::join!(open(&sender, to("localhost", "/mcp", &modern)), async {
        let heard = peer.hears().await;
        assert!(heard.body.contains(r#""id":2"#));
        peer.streams().await;
        peer
    });
    drop(opened);
    peer.ends().await;
}

#[tokio::test]
async fn the_server_may_have_a_name_or_an_ipv6_address() {
    for (address, name) in [("127.0.0.1:0", "localhost"), ("[::1]:0", "[::1]")] {
        // Not every machine has IPv6.
        let Ok(upstream) = Upstream::on(address).await else { continue };
        let authority = format!("{name}:{}", upstream.address().port());
        let gateway = Gateway::with(&[], &format!("http://{authority}/mcp")).await;
        let mut client = gateway.begin(&a_call("1")).await;
        let (mut peer, heard) = upstream.hears().await;
        assert_eq!(values(&heard, "host"), [authority]);
        peer.replies_at_last(answer("1")).await;
        client.answer().await.result("1");
    }
}

#[tokio::test]
async fn what_is_no_endpoint_is_refused_at_the_start() {
    for upstream in ["https://localhost/mcp", "localhost:8001/mcp", "localhost:8001", "/mcp", "http://", ""] {
        let mut gateway = Command::new(example_path("gateway"));
        gateway.args(["--listen", "127.0.0.1:0", "--upstream", upstream]).kill_on_drop(true);
        let output = timeout(BOUND, gateway.output()).await.expect("an end in time").unwrap();
        assert_eq!(output.status.code(), Some(2), "{upstream}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--upstream"));
    }
}

// Cancels, and clients that leave.

/// How far a reply has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Nothing,
    HalfOfJson,
    Event,
}

impl Stage {
    const ALL: [Self; 3] = [Self::Nothing, Self::HalfOfJson, Self::Event];

    /// The server replies so far, and the client reads it.
    async fn reach(self, peer: &mut Peer, client: &mut support::Connection) {
        match self {
            Self::Nothing => {}
            Self::HalfOfJson => {
                peer.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{").await;
            }
            Self::Event => {
                peer.streams().await;
                client.head().await;
                peer.send(event(NOTE)).await;
                assert_eq!(client.event().await, format!("data: {NOTE}"));
            }
        }
    }

    /// The client is answered with this error.
    async fn ends(self, client: &mut support::Connection, code: i64, id: &str) {
        if self == Self::Event {
            let last = client.event().await;
            error_of(last.strip_prefix("data: ").unwrap(), code, Some(id));
            client.end_of_stream().await;
        } else {
            client.answer().await.error(200, code, id);
        }
    }
}

#[tokio::test]
async fn a_cancel_ends_the_call_and_its_connection_and_goes_on_once() {
    let (gateway, upstream) = pair().await;
    for stage in Stage::ALL {
        for id in ["1", "\"1\""] {
            let session = |post: Post| post.and("mcp-session-id", "theirs").and("authorization", "Bearer x");
            let mut client = gateway.begin(&session(a_call(id))).await;
            let (mut peer, _) = upstream.hears().await;
            stage.reach(&mut peer, &mut client).await;
            let body = cancel_because(id, &json!("enough")).replace(':', " : ");
            let cancelling = gateway.park(&session(post(&*body)));
            stage.ends(&mut client, CANCELLED, id).await;
            let told = upstream.accepts().await;
            assert_eq!(told.body, body);
            assert_eq!(values(&told, "mcp-session-id"), ["theirs"]);
            assert_eq!(values(&told, "authorization"), ["Bearer x"]);
            cancelling.answer().await.accepted();
            peer.ends().await;
            // As servers do that answer a cancelled call, too.
            peer.sends_late("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
            serves_on(&mut client, &upstream).await;
        }
    }
    upstream.hears_no_more().await;
}

#[tokio::test]
async fn a_result_that_meets_the_cancel_reaches_nobody() {
    let (gateway, upstream) = pair().await;
    let mut client = gateway.begin(&a_call("1")).await;
    let (mut peer, _) = upstream.hears().await;
    let cancelling = gateway.park(&post(cancel("1")));
    client.answer().await.error(200, CANCELLED, "1");
    peer.sends_late(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}", answer("1").len(), answer("1"))).await;
    upstream.accepts().await;
    cancelling.answer().await.accepted();
    serves_on(&mut client, &upstream).await;
}

#[tokio::test]
async fn a_cancel_of_nothing_goes_on_too() {
    let (gateway, upstream) = pair().await;
    for body in [cancel("7"), r#"{ "method":"notifications/cancelled","jsonrpc":"2.0" }"#.to_owned()] {
        let cancelling = gateway.park(&post(&*body));
        assert_eq!(upstream.accepts().await.body, body);
        cancelling.answer().await.accepted();
    }
}

#[tokio::test]
async fn a_cancel_does_not_overtake_its_call() {
    let (gateway, upstream) = pair().await;
    let mut client = gateway.begin(&a_call("1")).await;
    let (mut peer, _) = upstream.hears().await;
    let began = Instant::now();
    let cancelling = gateway.park(&post(cancel("1")));
    client.answer().await.error(200, CANCELLED, "1");
    peer.ends().await;
    upstream.accepts().await;
    assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
    cancelling.answer().await.accepted();
}

#[tokio::test]
async fn a_modern_client_that_leaves_ends_its_connection() {
    let (gateway, upstream) = pair().await;
    for stage in Stage::ALL {
        let mut client = gateway.begin(&Era::Modern.call("1", &json!({ "name": "tool" }))).await;
        let (mut peer, _) = upstream.hears().await;
        stage.reach(&mut peer, &mut client).await;
        drop(client);
        peer.ends().await;
    }
    upstream.hears_no_more().await;
}

#[tokio::test]
async fn a_legacy_client_that_leaves_ends_nothing_and_can_still_cancel() {
    let (gateway, upstream) = pair().await;
    for stage in Stage::ALL {
        let mut client = gateway.begin(&a_call("1")).await;
        let (mut peer, _) = upstream.hears().await;
        stage.reach(&mut peer, &mut client).await;
        drop(client);
        peer.stays().await;
        let cancelling = gateway.park(&post(cancel("1")));
        peer.ends().await;
        assert_eq!(upstream.accepts().await.body, cancel("1"));
        cancelling.answer().await.accepted();
    }
    upstream.hears_no_more().await;
}

#[tokio::test]
async fn a_client_that_leaves_its_get_ends_its_connection() {
    let (gateway, upstream) = pair().await;
    for has_head in [false, true] {
        let mut client = gateway.begin(&post("").method("GET")).await;
        let (mut peer, _) = upstream.hears().await;
        if has_head {
            peer.streams().await;
            client.head().await;
        }
        drop(client);
        peer.ends().await;
    }
}

// Servers that fail.

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_with_the_id() {
    let (gateway, upstream) = pair().await;
    drop(upstream);
    for era in Era::BOTH {
        let call = era.call("\"1\"", &json!({ "name": "tool" }));
        gateway.post(&call).await.error(502, INTERNAL_ERROR, "\"1\"");
        gateway.post(&call.with("accept", "text/event-stream")).await.error(502, INTERNAL_ERROR, "\"1\"");
    }
    gateway.post(&post(cancel("1"))).await.error(502, INTERNAL_ERROR, None);
    for method in ["GET", "DELETE"] {
        assert_eq!(gateway.post(&post("").method(method)).await.status, 502);
    }
}

#[tokio::test]
async fn a_server_that_replies_rubbish_or_nothing_is_an_error_with_the_id() {
    let (gateway, upstream) = pair().await;
    for reply in [
        "",
        "rubbish",
        "rubbish\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ] {
        let mut client = gateway.begin(&a_call("1")).await;
        let (mut peer, _) = upstream.hears().await;
        peer.send(reply).await;
        drop(peer);
        client.answer().await.error(502, INTERNAL_ERROR, "1");
        serves_on(&mut client, &upstream).await;
    }
    upstream.hears_no_more().await;
}

#[tokio::test]
async fn a_server_that_breaks_off_is_an_error_with_the_id() {
    let (gateway, upstream) = pair().await;
    for stage in [Stage::HalfOfJson, Stage::Event] {
        let mut client = gateway.begin(&a_call("1")).await;
        let (mut peer, _) = upstream.hears().await;
        stage.reach(&mut peer, &mut client).await;
        drop(peer);
        stage.ends(&mut client, INTERNAL_ERROR, "1").await;
        serves_on(&mut client, &upstream).await;
    }
}

/// The reply as it comes from a server that closes its connection behind it, which alone says where it ends.
async fn reply_to(gateway: &Gateway, upstream: &Upstream, request: &Post, sent: &Sent) -> Answer {
    let mut client = gateway.begin(request).await;
    let (mut peer, _) = upstream.hears().await;
    let headers: String = sent.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {} Any\r\n{headers}connection: close\r\n\r\n", sent.status);
    peer.send(head).await;
    // It may be enough before.
    peer.sends_late(&sent.body).await;
    drop(peer);
    client.answer().await
}

#[tokio::test]
async fn what_answers_and_what_is_no_success_passes() {
    let (gateway, upstream) = pair().await;
    for sent in that_pass() {
        let passed = reply_to(&gateway, &upstream, &a_call("7"), &sent).await;
        let shown = String::from_utf8_lossy(&sent.body[..sent.body.len().min(100)]);
        assert!((passed.status, &*passed.body) == (sent.status, &*sent.body), "{} {shown}", sent.status);
        for (name, value) in sent.headers {
            assert_eq!(passed.header(name), Some(value));
        }
    }
}

#[tokio::test]
async fn a_success_that_does_not_answer_is_an_error_with_the_id() {
    let (gateway, upstream) = pair().await;
    for sent in that_do_not_answer() {
        for era in Era::BOTH {
            let call = era.call("7", &json!({ "name": "tool" }));
            let answered = reply_to(&gateway, &upstream, &call, &sent).await;
            assert_eq!(answered.error(200, INTERNAL_ERROR, "7").message, "Internal error");
        }
    }
    upstream.hears_no_more().await;
}

#[tokio::test]
async fn a_length_that_says_nothing_is_left_out() {
    let (gateway, upstream) = pair().await;
    let whole = answer("7");
    let chunked = format!("{:x}\r\n{whole}\r\n0\r\n\r\n", whole.len());
    let mut client = gateway.connect().await;
    for (status, framing, body) in [
        (200, "content-length: 5\r\ntransfer-encoding: chunked\r\n".to_owned(), &chunked),
        (500, "content-length: 5\r\ntransfer-encoding: chunked\r\n".to_owned(), &chunked),
        (404, "transfer-encoding: chunked\r\ncontent-length: 500\r\n".to_owned(), &chunked),
        (200, format!("content-length: {0}, {0}\r\n", whole.len()), &whole),
        (401, format!("content-length: {0}\r\ncontent-length: {0}\r\n", whole.len()), &whole),
    ] {
        client.send(a_call("7").bytes()).await;
        let (mut peer, _) = upstream.hears().await;
        let head = format!("HTTP/1.1 {status} Any\r\ncontent-type: application/json\r\n{framing}\r\n{body}");
        peer.send(head).await;
        let answered = client.answer().await;
        assert_eq!((answered.status, answered.text()), (status, &*whole), "{framing}");
    }
}

#[tokio::test]
async fn an_answer_whose_id_is_spelled_otherwise_is_the_only_one() {
    let (gateway, upstream) = pair().await;
    for spelling in ["7.0", "7e0", r#""7""#] {
        let mut client = gateway.begin(&a_call("7")).await;
        let (mut peer, _) = upstream.hears().await;
        peer.streams().await;
        client.head().await;
        peer.send(event(&answer(spelling))).await;
        assert_eq!(client.event().await, format!("data: {}", answer(spelling)));
        peer.send("0\r\n\r\n").await;
        client.end_of_stream().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_not_waited_for() {
    let upstream = Upstream::new().await;
    let gateway = Gateway::with(&["--request-timeout-ms", "300"], &format!("http://{}/mcp", upstream.address())).await;
    for stage in Stage::ALL {
        let mut client = gateway.begin(&a_call("1")).await;
        let (mut peer, _) = upstream.hears().await;
        stage.reach(&mut peer, &mut client).await;
        stage.ends(&mut client, TIMED_OUT, "1").await;
        peer.ends().await;
        serves_on(&mut client, &upstream).await;
    }
}

#[tokio::test]
async fn a_connection_is_used_again_until_the_server_closes_it() {
    let (gateway, upstream) = pair().await;
    let mut client = gateway.begin(&a_call("1")).await;
    let (mut peer, _) = upstream.hears().await;
    peer.replies(answer("1")).await;
    client.answer().await.result("1");
    client.send(a_call("2").bytes()).await;
    assert!(peer.hears().await.body.contains(r#""id":2"#));
    peer.replies(answer("2")).await;
    client.answer().await.result("2");
    peer.closes().await;
    serves_on(&mut client, &upstream).await;
}

#[tokio::test]
async fn what_the_server_may_have_acted_on_is_not_sent_again() {
    let (gateway, upstream) = pair().await;
    let mut client = gateway.begin(&a_call("1")).await;
    let (mut peer, _) = upstream.hears().await;
    peer.replies(answer("1")).await;
    client.answer().await.result("1");
    client.send(a_call("2").bytes()).await;
    peer.hears().await;
    drop(peer);
    client.answer().await.error(502, INTERNAL_ERROR, "2");
    upstream.hears_no_more().await;
}

#[tokio::test]
async fn a_second_call_of_one_id_is_refused_in_its_session_only() {
    let (gateway, upstream) = pair().await;
    let of = |session: &str| a_call("1").and("mcp-session-id", session);
    let mut first = gateway.begin(&of("one")).await;
    let (mut peer, _) = upstream.hears().await;
    gateway.post(&of("one")).await.error(400, support::INVALID_REQUEST, "1");
    let mut other = gateway.begin(&of("two")).await;
    let (mut other_peer, _) = upstream.hears().await;
    let cancelling = gateway.park(&post(cancel("1")).and("mcp-session-id", "one"));
    first.answer().await.error(200, CANCELLED, "1");
    upstream.accepts().await;
    cancelling.answer().await.accepted();
    peer.ends().await;
    other_peer.replies_at_last(answer("1")).await;
    other.answer().await.result("1");
}

// The end.

#[tokio::test]
async fn a_shutdown_answers_everyone_and_waits_for_no_stranger() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let upstream = Upstream::new().await;
        let gateway = Gateway::with(&["--drain-ms", "300"], &format!("http://{}/mcp", upstream.address())).await;
        let mut half = gateway.connect().await;
        half.send("POST /mcp HTTP/1.1\r\nhost: loc").await;
        let mut parked = Vec::new();
        for stage in Stage::ALL {
            let mut client = gateway.begin(&a_call("1")).await;
            let (mut peer, _) = upstream.hears().await;
            stage.reach(&mut peer, &mut client).await;
            parked.push((stage, client, peer));
        }
        let mut quick = gateway.begin(&a_call("2")).await;
        let (mut quick_peer, _) = upstream.hears().await;
        gateway.signal(signal);
        quick_peer.replies_at_last(answer("2")).await;
        quick.answer().await.result("2");
        for (stage, client, peer) in &mut parked {
            stage.ends(client, SHUT_DOWN, "1").await;
            peer.ends().await;
        }
        gateway.exits().await;
    }
}
