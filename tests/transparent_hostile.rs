//! `McpLayer::transparent` in front of services that do what they should not, and clients that do not wait.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::routing::post as on_post;
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use mcp_layer::{McpLayer, McpMessage, Notifier, Outcome, Reply};
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::timeout;
use tower::ServiceExt;

use support::foreign::{
    Foreign, NOTE, Reading, a_call, answer, event, has_headers, json_reply, only_event, reply, send,
};
use support::{
    BOUND, CANCELLED, Era, INTERNAL_ERROR, Post, Site, cancel, error_of, initialize, post, result_of, until,
};

const STREAM: (&str, &str) = ("content-type", "text/event-stream");

/// A stream of these frames, that has all of them at once.
fn frames(frames: impl IntoIterator<Item = impl Into<Bytes>>) -> Body {
    let frames: Vec<_> = frames.into_iter().map(|frame| Ok::<Bytes, io::Error>(frame.into())).collect();
    Body::from_stream(stream::iter(frames))
}

fn streams(body: impl Into<Body>) -> Response {
    reply(&[STREAM], body)
}

fn in_session(request: Post) -> Post {
    request.and("mcp-session-id", "one")
}

// Services that fail late.

#[tokio::test]
async fn a_service_that_panics_behind_its_answer_ends_its_stream() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for era in Era::BOTH {
        let panics = stream::once(async { std::panic::resume_unwind(Box::new("as asked")) });
        let pieces = stream::iter([Ok::<_, io::Error>(Bytes::from(event(&answer("1"))))]).chain(panics);
        foreign.replies(streams(Body::from_stream(pieces)));
        let call = Reading::of(&site, &a_call(era, "1")).await;
        assert_eq!(call.rest().await, event(&answer("1")));
    }
}

#[tokio::test]
async fn a_shutdown_takes_no_answer_from_a_client_that_reads_slowly() {
    for era in Era::BOTH {
        let foreign = Foreign::default();
        let site = foreign.site();
        let notes = vec![event(NOTE); 64];
        let pieces = [notes.clone(), vec![event(&answer("1"))]].concat();
        foreign.replies(streams(frames(pieces)));
        let call = Reading::of(&site, &a_call(era, "1")).await;
        site.parked(0).await;
        timeout(BOUND, site.server.shutdown(Duration::ZERO)).await.unwrap();
        let text = call.rest().await;
        let last = text.strip_prefix(&notes.concat()).unwrap();
        result_of(only_event(last), "1");
    }
}

#[tokio::test]
async fn a_stream_that_ends_within_its_answer_is_completed() {
    for era in Era::BOTH {
        for id in ["", "id: 1\n"] {
            for end in ["", "\n", "\r\n", "\r"] {
                let foreign = Foreign::default();
                let site = foreign.site();
                let text = format!("{id}data: {}{end}", answer("1"));
                foreign.replies(streams(frames([event(NOTE), text.clone()])));
                let call = Reading::of(&site, &a_call(era, "1")).await;
                let passed = call.rest().await;
                let last = passed.strip_prefix(&*event(NOTE)).unwrap();
                let added = last.strip_prefix(&*text).unwrap_or_else(|| panic!("{last:?}"));
                // As an event it has an empty line at its end.
                assert!(added.bytes().all(|byte| byte == b'\n'), "{added:?}");
                assert_eq!(last.replace("\r\n", "\n").replace('\r', "\n"), format!("{id}{}", event(&answer("1"))));
                assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
            }
        }
    }
}

#[tokio::test]
async fn an_answer_with_broken_characters_is_one() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let text = b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}\n\n".to_vec();
    foreign.replies(streams(frames([text.clone()])));
    assert_eq!(site.ask(&a_call(Era::Legacy, "1")).await.body, text);
}

#[tokio::test]
async fn a_client_cannot_come_back_with_an_id_that_is_empty() {
    for text in ["id\ndata:\n\n", "id:\ndata:\n\n", "id: \ndata:\n\n", "id: a\0b\ndata:\n\n"] {
        let foreign = Foreign::default();
        let site = foreign.site();
        foreign.replies(streams(frames([text])));
        let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
        let passed = call.rest().await;
        error_of(only_event(passed.strip_prefix(text).unwrap()), INTERNAL_ERROR, Some("1"));
    }
}

#[tokio::test]
async fn a_stream_that_says_it_is_not_encoded_is_not() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for coding in ["identity", "Identity", "none"] {
        let headers = [STREAM, ("content-encoding", coding)];
        let feed = foreign.feeds_with(&headers);
        let mut call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
        has_headers(&call.response.headers, &headers);
        send(&feed, event(NOTE)).await;
        call.has(event(NOTE).len()).await;
        site.ask(&post(cancel("1"))).await.accepted();
        error_of(only_event(&call.rest().await), CANCELLED, Some("1"));
    }
}

#[tokio::test]
async fn a_handler_among_them_that_knows_this_crate_is_not_held_up() {
    async fn notes(_: McpMessage, notifier: Notifier) -> Reply<serde_json::Value> {
        for data in 0..100 {
            notifier.notify("notifications/message", json!({ "level": "info", "data": data })).await.unwrap();
        }
        Reply(json!({ "text": "answer" }))
    }
    let site = Site::build(
        |options| options,
        |server, _| Router::new().route("/mcp", on_post(notes)).layer(McpLayer::transparent(server.clone())),
    );
    for era in Era::BOTH {
        let asked = site.begin(&a_call(era, "1"));
        assert_eq!(asked.answer().await.result("1")["text"], "answer");
    }
}

#[tokio::test]
async fn a_stream_for_initialize_that_is_closed_on_purpose_is_handed_over() {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "", "version": "" } });
    for primed in ["id: 1\nretry: 10\ndata:\n\n", ": \n\n"] {
        let foreign = Foreign::default();
        let site = foreign.site();
        let feed = foreign.streams();
        let request = post(initialize("1", &params));
        let opening = site.begin(&request);
        send(&feed, primed).await;
        drop(feed);
        let opened = opening.answer().await;
        let last = opened.text().strip_prefix(primed).unwrap();
        if primed.starts_with("id") {
            assert_eq!(last, "");
        } else {
            error_of(only_event(last), INTERNAL_ERROR, Some("1"));
        }
        assert_eq!(opened.header("mcp-session-id"), None);
    }
}

// What passes.

fn with_trailers(data: &str) -> Body {
    let trailers = HeaderMap::from_iter([("x-own".parse().unwrap(), HeaderValue::from_static("1"))]);
    let frames = [Frame::data(Bytes::from(data.to_owned())), Frame::trailers(trailers)];
    Body::new(StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>))))
}

#[tokio::test]
async fn trailers_pass() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(4 * 1024 * 1024));
    for (kind, text) in [
        ("application/json", answer("1")),
        ("application/json", large),
        ("text/plain", answer("1")),
        ("text/event-stream", event(&answer("1"))),
        ("text/event-stream", format!("id: 1\n{}", event(NOTE))),
    ] {
        foreign.replies(reply(&[("content-type", kind)], with_trailers(&text)));
        let response = site.app.clone().oneshot(a_call(Era::Legacy, "1").request()).await.unwrap();
        let body = timeout(BOUND, response.into_body().collect()).await.unwrap().unwrap();
        assert_eq!(body.trailers().map(|trailers| &trailers["x-own"]), Some(&HeaderValue::from_static("1")), "{kind}");
        assert_eq!(body.to_bytes(), text);
    }
    // An event of ours is the end.
    foreign.replies(streams(with_trailers(&event(NOTE))));
    let response = site.app.clone().oneshot(a_call(Era::Legacy, "1").request()).await.unwrap();
    let body = timeout(BOUND, response.into_body().collect()).await.unwrap().unwrap();
    assert!(body.trailers().is_none());
}

#[tokio::test]
async fn the_length_of_a_reply_to_head_passes() {
    let foreign = Foreign::default();
    let live = foreign.site().listen().await;
    for kind in ["application/json", "text/event-stream"] {
        foreign.replies(reply(&[("content-type", kind), ("content-length", "42")], Body::empty()));
        let mut connection = live.connect().await;
        connection.send(post("").method("HEAD").bytes()).await;
        let head = connection.head().await;
        assert_eq!(
            (head.status, head.header("content-type"), head.header("content-length")),
            (200, Some(kind), Some("42"))
        );
        // Nothing is in the way of the next.
        foreign.replies(json_reply(answer("1")));
        connection.post(&a_call(Era::Legacy, "1")).await.result("1");
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Mark(u8);

#[tokio::test]
async fn extensions_pass() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for kind in ["application/json", "text/event-stream", "text/plain"] {
        let text = if kind == "text/event-stream" { event(&answer("1")) } else { answer("1") };
        let mut reply = reply(&[("content-type", kind)], text);
        reply.extensions_mut().insert(Mark(7));
        foreign.replies(reply);
        let response = site.app.clone().oneshot(a_call(Era::Legacy, "1").request()).await.unwrap();
        assert_eq!(response.extensions().get::<Mark>(), Some(&Mark(7)));
    }
}

#[tokio::test]
async fn a_status_passes_that_is_no_success() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for era in Era::BOTH {
        for status in [303, 307, 308, 401, 403, 404, 410, 429, 500, 502, 503] {
            let headers = [
                ("www-authenticate", "Bearer a"),
                ("www-authenticate", "Basic b"),
                ("retry-after", "1"),
                ("vary", "accept"),
                ("vary", "origin"),
            ];
            let mut response = reply(&headers, "");
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            foreign.replies(response);
            let passed = site.ask(&a_call(era, "1")).await;
            assert_eq!((passed.status, passed.text()), (status, ""));
            has_headers(&passed.headers, &headers);
        }
    }
}

/// xorshift64*: the same numbers every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    /// Bytes, most of which mean something in an event stream, without an answer.
    fn stream(&mut self) -> Vec<u8> {
        const TOKENS: [&[u8]; 14] = [
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\r\r",
            b"data:",
            b"data: {}",
            b"id:",
            b" ",
            b"1",
            b": \n\n",
            b"\xef\xbb\xbf",
            b"\xff\0",
            b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}",
        ];
        let tokens = self.below(60);
        (0..tokens).flat_map(|_| TOKENS[self.below(TOKENS.len())].to_vec()).collect()
    }

    fn cut(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let (mut frames, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let (frame, after) = rest.split_at(1 + self.below(rest.len().min(12)));
            frames.push(frame.to_vec());
            rest = after;
        }
        frames
    }
}

#[tokio::test]
async fn whatever_bytes_come_before_and_behind_the_answer_pass() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let mut numbers = Numbers(0x5EED);
    for round in 0..3_000 {
        let before = [numbers.stream(), b"\n\n".to_vec()].concat();
        let text = [before, event(&answer("1")).into_bytes(), numbers.stream()].concat();
        foreign.replies(streams(frames(numbers.cut(&text))));
        let era = Era::BOTH[round % 2];
        let passed = site.ask(&a_call(era, "1")).await;
        assert_eq!(passed.body, text, "round {round}: {:?}", String::from_utf8_lossy(&text));
        assert_eq!(site.server.parked(), 0);
    }
    assert_eq!(site.outcomes.count(Outcome::Replied), 3_000);
}

/// The events of a stream as the standard has it, each with its lines; what is no event at the end is none.
fn whole_events(bytes: &[u8]) -> usize {
    let (mut end, mut line_is_empty, mut at) = (0, true, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\r' | b'\n' => {
                at += 1 + usize::from(bytes[at..].starts_with(b"\r\n"));
                if line_is_empty {
                    end = at;
                }
                line_is_empty = true;
            }
            _ => {
                line_is_empty = false;
                at += 1;
            }
        }
    }
    end
}

#[tokio::test]
async fn whatever_bytes_a_cancelled_stream_has_sent_end_with_whole_events() {
    let mut numbers = Numbers(0xF00D);
    for round in 0..1_000 {
        let foreign = Foreign::default();
        let site = foreign.site();
        let (text, feed) = (numbers.stream(), foreign.streams());
        let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
        let cancelled = cancel("1");
        let sending = async {
            for frame in numbers.cut(&text) {
                send(&feed, frame).await;
            }
            send(&feed, "").await;
            send(&feed, "").await;
            site.ask(&post(cancelled)).await.accepted();
        };
        let mut read = Vec::new();
        let mut body = call.body;
        let reading = async {
            while let Some(frame) = timeout(BOUND, body.frame()).await.unwrap() {
                read.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
        };
        tokio::join!(sending, reading);
        let end = whole_events(&text);
        // A line feed that is not there yet changes nothing.
        let begun = if read.starts_with(&text[..end]) { end } else { end - 1 };
        assert_eq!(read[..begun], text[..begun], "round {round}");
        let last = std::str::from_utf8(&read[begun..]).unwrap();
        error_of(only_event(last), CANCELLED, Some("1"));
    }
}

// Streams that are closed on purpose.

#[tokio::test]
async fn what_is_handed_over_is_no_business_of_the_layer_any_more() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let request = in_session(a_call(Era::Legacy, "1"));
    let primed = "id: 1\nretry: 10\ndata:\n\n";
    foreign.replies(streams(frames([primed])));
    assert_eq!(site.ask(&request).await.text(), primed);
    assert_eq!((site.server.parked(), site.outcomes.count(Outcome::Replied)), (0, 1));
    // Its id is free: a second request is not refused.
    foreign.replies(json_reply(answer("1")));
    site.ask(&request).await.result("1");
    site.ask(&in_session(post(cancel("1")))).await.accepted();
    assert_eq!(foreign.heard().last(), Some(&cancel("1")));
    // What its client comes back for is the service's, and passes also once a cancel has come.
    let feed = foreign.streams();
    let get = in_session(post("").method("GET").with("accept", "text/event-stream").and("last-event-id", "1"));
    let mut resumed = Reading::of(&site, &get).await;
    site.ask(&in_session(post(cancel("1")))).await.accepted();
    send(&feed, event(&answer("1"))).await;
    resumed.has(event(&answer("1")).len()).await;
    drop(feed);
    assert_eq!(resumed.rest().await, "");
    assert_eq!(site.outcomes.all().len(), 2);
}

// Cancels that come early.

#[tokio::test]
async fn a_cancel_that_comes_during_the_upload_of_its_request_ends_it() {
    let foreign = Foreign::default();
    let live = foreign.site().listen().await;
    let request = in_session(a_call(Era::Legacy, "1"));
    let mut connection = live.connect().await;
    let bytes = request.bytes();
    let (begin, rest) = bytes.split_at(bytes.len() - 5);
    connection.send(begin).await;
    live.post(&in_session(post(cancel("1")))).await.accepted();
    connection.send(rest).await;
    connection.answer().await.error(200, CANCELLED, "1");
    assert_eq!(foreign.heard(), [cancel("1")], "the service has not been called");
    live.parked(0).await;
}

// Subscriptions.

fn listen(id: &str) -> Post {
    Era::Modern.request(id, "subscriptions/listen", &json!({ "notifications": {} }))
}

#[tokio::test]
async fn a_subscription_ends_with_its_client_or_the_server() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let mut leaving = Reading::of(&site, &listen("1")).await;
    send(&feed, event(NOTE)).await;
    leaving.has(event(NOTE).len()).await;
    drop(leaving);
    timeout(BOUND, feed.closed()).await.unwrap();
    site.parked(0).await;
    until(|| foreign.alive() == 0).await;
    assert_eq!(site.outcomes.count(Outcome::Disconnected), 1);

    let feed = foreign.streams();
    let mut call = Reading::of(&site, &listen("2")).await;
    send(&feed, event(NOTE)).await;
    call.has(event(NOTE).len()).await;
    // At once, though there is time to drain.
    timeout(BOUND, site.server.shutdown(Duration::from_secs(3_600))).await.unwrap();
    let text = call.rest().await;
    let (closing, result) = text.split_at(text.find("\n\n").unwrap() + 2);
    assert!(only_event(closing).contains("notifications/cancelled"), "{text}");
    result_of(only_event(result), "2");
    until(|| foreign.alive() == 0).await;
    assert_eq!(site.outcomes.count(Outcome::ShutDown), 1);
}

// HTTP/2.

#[tokio::test]
async fn over_http_2_a_call_is_cancelled() {
    use support::http2::{ask, connect, local, open};
    for era in Era::BOTH {
        let foreign = Foreign::default();
        let live = foreign.site_with(|options| options.honour_modern_cancel(true)).listen().await;
        let sender = connect(&live).await;
        // Before its head.
        let (request, own) = (local(&a_call(era, "1")), sender.clone());
        let silent = tokio::spawn(async move { ask(&own, request).await });
        live.parked(1).await;
        ask(&sender, local(&post(cancel("1")))).await.accepted();
        silent.await.unwrap().error(200, era.cancelled(), "1");
        // And behind it.
        let feed = foreign.streams();
        let mut body = open(&sender, local(&a_call(era, "2"))).await.into_body();
        send(&feed, event(NOTE)).await;
        let note = timeout(BOUND, body.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(note.into_data().unwrap(), event(NOTE));
        ask(&sender, local(&post(cancel("2")))).await.accepted();
        let rest = timeout(BOUND, body.collect()).await.unwrap().unwrap().to_bytes();
        error_of(only_event(std::str::from_utf8(&rest).unwrap()), era.cancelled(), Some("2"));
        until(|| foreign.alive() == 0).await;
        live.parked(0).await;
        assert_eq!(live.outcomes.count(Outcome::Cancelled), 2);
    }
}

#[tokio::test]
async fn over_http_2_a_reset_is_a_departure() {
    use support::http2::{ask, connect, local, open};
    for era in Era::BOTH {
        for after_head in [false, true] {
            let foreign = Foreign::default();
            let live = foreign.site().listen().await;
            let sender = connect(&live).await;
            let feed = after_head.then(|| foreign.streams());
            if after_head {
                drop(open(&sender, local(&a_call(era, "1"))).await);
            } else {
                let (request, own) = (local(&a_call(era, "1")), sender.clone());
                let silent = tokio::spawn(async move { ask(&own, request).await });
                live.parked(1).await;
                silent.abort();
            }
            if era == Era::Modern {
                live.parked(0).await;
                assert_eq!(live.outcomes.count(Outcome::Disconnected), 1);
            } else {
                // The reset is before this on the same connection.
                foreign.replies(json_reply(answer("2")));
                ask(&sender, local(&a_call(era, "2"))).await.result("2");
                assert_eq!(live.server.parked(), 1);
                live.post(&post(cancel("1"))).await.accepted();
                assert_eq!(live.outcomes.count(Outcome::Cancelled), 1);
            }
            until(|| foreign.alive() == 0).await;
            drop(feed);
        }
    }
}

// Leaks.

#[tokio::test]
async fn thousands_of_exchanges_leave_nothing() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let long = format!("data: {}", "x".repeat(1024 * 1024));
    for era in Era::BOTH {
        for (way, rounds) in [
            ("leaves at the head", 300),
            ("leaves behind the answer, which is not the end", 300),
            ("does not read, is answered, leaves", 300),
            ("does not read, leaves, is answered", 300),
            ("is handed over", 300),
            ("encoded, ends", 300),
            ("encoded, leaves", 300),
            ("long event, ends", 20),
            ("early cancel", 300),
            ("duplicate", 300),
        ] {
            for round in 0..rounds {
                let headers =
                    if way.starts_with("encoded") { &[STREAM, ("content-encoding", "gzip")][..] } else { &[STREAM] };
                let request = in_session(a_call(era, "1"));
                let feed = foreign.feeds_with(headers);
                if way == "leaves at the head" {
                    let mut call = Box::pin(Reading::of(&site, &request));
                    // The head is there at the first poll, or the client leaves before that.
                    if round % 2 == 0 {
                        assert!((&mut call).now_or_never().is_some());
                    }
                    drop(call);
                    foreign.forget();
                    drop(feed);
                } else if way == "early cancel" && era == Era::Legacy {
                    site.ask(&in_session(post(cancel("1")))).await.accepted();
                    site.begin(&request).answer().await.error(200, CANCELLED, "1");
                    foreign.forget();
                } else {
                    let call = Reading::of(&site, &request).await;
                    match way {
                        "leaves behind the answer, which is not the end" => {
                            let mut call = call;
                            send(&feed, event(&answer("1"))).await;
                            call.has(event(&answer("1")).len()).await;
                            drop(call);
                            timeout(BOUND, feed.closed()).await.unwrap();
                        }
                        "does not read, is answered, leaves" => {
                            for _ in 0..60 {
                                send(&feed, event(NOTE)).await;
                            }
                            send(&feed, event(&answer("1"))).await;
                            send(&feed, "more").await;
                            site.parked(0).await;
                            drop((call, feed));
                        }
                        "does not read, leaves, is answered" => {
                            for _ in 0..60 {
                                send(&feed, event(NOTE)).await;
                            }
                            drop(call);
                            feed.send(Ok(event(&answer("1")).into())).await.ok();
                        }
                        "is handed over" => {
                            send(&feed, "id: 1\ndata:\n\n").await;
                            drop(feed);
                            call.rest().await;
                        }
                        "encoded, ends" => {
                            send(&feed, "\x1f").await;
                            drop(feed);
                            assert_eq!(call.rest().await, "\x1f");
                        }
                        "long event, ends" => {
                            send(&feed, long.clone()).await;
                            drop(feed);
                            assert_eq!(call.rest().await, long);
                        }
                        "duplicate" if era == Era::Legacy => {
                            site.ask(&request).await.error(400, support::INVALID_REQUEST, "1");
                            send(&feed, event(&answer("1"))).await;
                            drop(feed);
                            call.rest().await;
                        }
                        _ => drop((call, feed)),
                    }
                }
                site.parked(0).await;
            }
            until(|| foreign.alive() == 0).await;
            until(|| tasks() == before).await;
        }
    }
}

// Clients that do not read.

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_gets_its_end_at_the_deadline_and_at_shutdown() {
    for era in Era::BOTH {
        for (outcome, code) in [(Outcome::TimedOut, era.timed_out()), (Outcome::ShutDown, era.shut_down())] {
            let foreign = Foreign::default();
            let site = foreign.site_with(|options| options.request_timeout(Some(Duration::from_secs(5))));
            let feed = foreign.streams();
            let call = Reading::of(&site, &a_call(era, "1")).await;
            while timeout(Duration::from_millis(10), feed.send(Ok(event(NOTE).into()))).await.is_ok() {}
            if outcome == Outcome::ShutDown {
                site.server.shutdown(Duration::from_millis(10)).await;
            }
            timeout(BOUND, feed.closed()).await.unwrap();
            site.parked(0).await;
            assert_eq!(site.outcomes.all(), [("1".to_owned(), outcome)]);
            let text = call.rest().await;
            error_of(only_event(&text[text.rfind("data: ").unwrap()..]), code, Some("1"));
            until(|| foreign.alive() == 0).await;
        }
    }
}

#[tokio::test]
async fn what_nobody_has_read_when_the_cancel_comes_is_not_sent() {
    for era in Era::BOTH {
        let foreign = Foreign::default();
        let site = foreign.site_with(|options| options.honour_modern_cancel(true));
        let feed = foreign.streams();
        let mut call = Reading::of(&site, &a_call(era, "1")).await;
        send(&feed, event(NOTE)).await;
        call.has(event(NOTE).len()).await;
        for _ in 0..10 {
            send(&feed, event(NOTE)).await;
        }
        site.ask(&post(cancel("1"))).await.accepted();
        // Until the task behind the stream has seen it.
        for _ in 0..100 {
            yield_now().await;
        }
        error_of(only_event(&call.rest().await), era.cancelled(), Some("1"));
    }
}

#[tokio::test]
async fn over_http_2_a_client_that_does_not_read_can_be_ended() {
    use support::http2::{ask, connect, local, open};
    let foreign = Foreign::default();
    let live = foreign.site().listen().await;
    let sender = connect(&live).await;
    let feed = foreign.streams();
    let body = open(&sender, local(&a_call(Era::Legacy, "1"))).await.into_body();
    let note = event(&"x".repeat(100_000));
    let mut sent = 0;
    while timeout(Duration::from_millis(300), feed.send(Ok(note.clone().into()))).await.is_ok() {
        sent += 1;
        assert!(sent < 1_000, "nothing holds the service back");
    }
    // On the same connection.
    ask(&sender, local(&post(cancel("1")))).await.accepted();
    timeout(BOUND, feed.closed()).await.unwrap();
    live.parked(0).await;
    let text = timeout(BOUND, body.collect()).await.unwrap().unwrap().to_bytes();
    let text = std::str::from_utf8(&text).unwrap();
    let last = text.rfind("data: ").unwrap();
    error_of(only_event(&text[last..]), CANCELLED, Some("1"));
    assert_eq!(text[..last].replace(&note, ""), "");
}

#[tokio::test]
async fn after_the_answer_the_service_is_not_read_ahead_either() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    send(&feed, event(&answer("1"))).await;
    let mut sent = 0;
    while timeout(Duration::from_millis(200), feed.send(Ok(event(&"x".repeat(100_000)).into()))).await.is_ok() {
        sent += 1;
        assert!(sent < 10, "nothing holds the service back");
    }
    assert_eq!(site.server.parked(), 0);
    drop(call);
    timeout(BOUND, feed.closed()).await.unwrap();
    until(|| foreign.alive() == 0).await;
}

// Clients that leave what they can come back for.

/// Servers made with the TypeScript SDK refuse the client that comes back as long as its first stream is open.
#[tokio::test]
async fn the_service_sees_that_the_client_of_a_resumable_stream_has_left() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let in_session = |post: Post| post.and("mcp-session-id", "theirs");
    let feed = foreign.streams();
    let mut call = Reading::of(&site, &in_session(a_call(Era::Legacy, "1"))).await;
    let primer = "id: 7\ndata:\n\n";
    send(&feed, primer).await;
    call.has(primer.len()).await;
    assert_eq!(site.server.parked(), 1);
    drop(call);
    until(|| feed.is_closed()).await;
    site.parked(0).await;
    assert_eq!(site.outcomes.count(Outcome::Replied), 1);
    // It goes on there, and a cancel reaches it. Nothing else has told it to stop.
    let heard = foreign.heard().len();
    site.ask(&in_session(post(cancel("1")))).await.accepted();
    assert_eq!(foreign.heard()[heard..], [cancel("1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_end_that_is_always_ready_can_be_ended_when_its_client_is_gone() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let notes = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(event(NOTE))));
    foreign.replies(reply(&[("content-type", "text/event-stream")], Body::from_stream(notes)));
    let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    drop(call);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(site.server.parked(), 1);
    site.ask(&post(cancel("1"))).await.accepted();
    site.parked(0).await;
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
    timeout(BOUND, site.server.shutdown(Duration::ZERO)).await.unwrap();
}
