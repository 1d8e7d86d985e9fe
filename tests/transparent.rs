//! `McpLayer::transparent` in front of a service that knows nothing of it, and does what rmcp does not.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use futures_util::{FutureExt, StreamExt, stream};
use http::StatusCode;
use mcp_layer::{CancelledStream, McpLayer, Outcome};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;
use tower::ServiceExt;

use support::foreign::{
    Foreign, NOTE, Reading, a_call, answer, breaks, event, handle, has_headers, json_reply, only_event, reply, send,
};
use support::{
    Answer, BOUND, CANCELLED, Era, INTERNAL_ERROR, INVALID_REQUEST, Site, cancel, error_of, initialize, post,
    result_of, until,
};

// A reply that is JSON.

#[tokio::test]
async fn a_json_reply_passes_as_it_is() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for (body, coding) in [(&*answer("1"), "identity"), ("no JSON, as far as can be seen", "x-own")] {
        let headers = [
            ("content-type", "application/json; charset=utf-8"),
            ("content-encoding", coding),
            ("etag", "\"1\""),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("mcp-session-id", "own"),
        ];
        foreign.replies(reply(&headers, body.to_owned()));
        let passed = site.ask(&a_call(Era::Legacy, "1")).await;
        assert_eq!((passed.status, passed.text()), (200, body));
        has_headers(&passed.headers, &headers);
    }
    assert_eq!(site.outcomes.count(Outcome::Replied), 2);
}

#[tokio::test]
async fn what_is_no_success_passes_as_it_is() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for era in Era::BOTH {
        for (status, kind) in
            [(401, "application/json"), (404, "text/plain"), (500, "text/event-stream"), (302, "text/plain")]
        {
            let headers = [("content-type", kind), ("www-authenticate", "Bearer"), ("location", "/there")];
            let mut response = reply(&headers, "as it is");
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            foreign.replies(response);
            let passed = site.ask(&a_call(era, "1")).await;
            assert_eq!((passed.status, passed.text()), (status, "as it is"));
            has_headers(&passed.headers, &headers);
        }
    }
}

#[tokio::test]
async fn a_json_reply_that_is_not_whole_is_replaced_by_a_cancel() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let headers = [
        ("content-type", "application/json"),
        ("content-length", "40"),
        ("content-encoding", "x-own"),
        ("etag", "\"1\""),
        ("digest", "x"),
        ("content-digest", "x"),
        ("repr-digest", "x"),
        ("last-modified", "x"),
    ];
    for length in [0, 1, 39, 4 * 1024 * 1024] {
        let feed = foreign.feeds_with(&headers);
        let call = site.begin(&a_call(Era::Legacy, "1"));
        send(&feed, vec![b' '; length]).await;
        send(&feed, "").await;
        site.parked(1).await;
        assert!(!call.is_answered());
        site.ask(&post(cancel("1"))).await.accepted();
        let answer = call.answer().await;
        answer.error(200, CANCELLED, "1");
        assert_eq!(answer.header("content-length"), Some(&*answer.body.len().to_string()));
        has_headers(&answer.headers, &[("content-type", "application/json")]);
        until(|| feed.is_closed()).await;
        until(|| foreign.alive() == 0).await;
    }
    assert_eq!(site.outcomes.count(Outcome::Cancelled), 4);
}

#[tokio::test]
async fn a_json_reply_that_is_too_large_to_be_held_passes_bit_by_bit() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.feeds("application/json");
    let (body, more) = (vec![b'x'; 4 * 1024 * 1024 + 1], "more");
    let sent = body.clone();
    let feeding = tokio::spawn(async move {
        send(&feed, sent).await;
        feed
    });
    let mut call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    call.has(body.len()).await;
    let feed = feeding.await.unwrap();
    // It is answered, so there is nothing to cancel.
    site.ask(&post(cancel("1"))).await.accepted();
    send(&feed, more).await;
    drop(feed);
    assert_eq!(call.rest().await, more);
    assert_eq!((site.outcomes.count(Outcome::Replied), site.outcomes.count(Outcome::Cancelled)), (1, 0));
}

#[tokio::test]
async fn a_json_reply_that_breaks_off_is_an_error() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for era in Era::BOTH {
        let feed = foreign.feeds("application/json");
        let call = site.begin(&a_call(era, "1"));
        send(&feed, r#"{"jsonrpc""#).await;
        breaks(&feed).await;
        call.answer().await.error(200, INTERNAL_ERROR, "1");
    }
}

// A reply that is a stream.

/// Several events of every kind; the last one is the answer.
fn events(line_end: &str, with_ids: bool) -> Vec<String> {
    let id = if with_ids { "id: 7\n" } else { "" };
    let texts = [
        // It keeps the connection open, and does not wait for more.
        ": a comment\n".to_owned(),
        "\n".to_owned(),
        format!("{id}retry: 3000\ndata:\n\n"),
        format!("event: message\n{id}data: {NOTE}\n\n"),
        // Lines that look like what they are not, and an answer to another request.
        format!("data:{{\"jsonrpc\":\"2.0\",\ndata: \"id\":2,\"result\":{{}}}}\n{id}\n"),
        format!("{id}data: {{\"jsonrpc\":\"2.0\",\ndata:\"id\":1,\"result\":{{\"text\":\"ü\"}}}}\n\n"),
    ];
    texts.map(|text| text.replace('\n', line_end)).into()
}

#[tokio::test]
async fn a_stream_passes_as_it_is_wherever_it_is_cut() {
    for line_end in ["\n", "\r\n", "\r"] {
        let text = events(line_end, true).concat();
        let tail = format!(": after{line_end}{line_end}data: half of an event");
        for era in Era::BOTH {
            for cut in 0..=text.len() {
                let foreign = Foreign::default();
                let site = foreign.site();
                let frames = [&text.as_bytes()[..cut], &text.as_bytes()[cut..], tail.as_bytes()];
                let frames = frames.map(|frame| Ok::<_, io::Error>(Bytes::copy_from_slice(frame)));
                let headers = [("content-type", "text/event-stream"), ("cache-control", "no-store"), ("x-own", "1")];
                foreign.replies(reply(&headers, Body::from_stream(stream::iter(frames))));
                let call = Reading::of(&site, &a_call(era, "1")).await;
                has_headers(&call.response.headers, &headers);
                assert_eq!(call.rest().await, format!("{text}{tail}"), "{line_end:?} {cut}");
                assert_eq!(site.outcomes.all().len(), 1);
                assert_eq!(site.outcomes.count(Outcome::Replied), 1);
            }
        }
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_error_wherever_it_is_cut() {
    for (line_end, with_ids) in [("\n", true), ("\n", false), ("\r\n", true), ("\r", true)] {
        let events = events(line_end, with_ids);
        let (text, answer_at) = (events.concat(), events[..5].concat().len());
        let mut ends = vec![0];
        for event in &events {
            ends.push(ends.last().unwrap() + event.len());
        }
        if line_end == "\r\n" {
            // The line feed after an empty line may be late, and changes nothing.
            ends.extend(ends.clone().into_iter().skip(1).map(|end| end - 1));
        }
        let last = text.len() - line_end.len();
        for cut in (0..=last).filter(|cut| *cut != last || line_end == "\n") {
            let foreign = Foreign::default();
            let site = foreign.site();
            let feed = foreign.streams();
            let mut call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
            send(&feed, text.as_bytes()[..cut].to_vec()).await;
            // Then the piece before is read.
            send(&feed, "").await;
            let passes = ends.iter().copied().filter(|end| *end <= cut).max().unwrap();
            call.has(passes).await;
            assert_eq!(call.read, text.as_bytes()[..passes]);
            site.ask(&post(cancel("1"))).await.accepted();
            let last = call.rest().await;
            error_of(only_event(&last), CANCELLED, Some("1"));
            // The event behind the comment has the first id.
            assert_eq!(last.starts_with("id: mcpl-"), with_ids && passes >= ends[3] - 1, "{line_end:?} {cut} {last}");
            assert!(passes <= answer_at);
            until(|| feed.is_closed()).await;
            assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
        }
    }
}

#[tokio::test]
async fn an_answer_that_has_come_is_not_cancelled() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let mut call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    let answer = event(&answer("1"));
    send(&feed, answer.clone()).await;
    site.parked(0).await;
    site.ask(&post(cancel("1"))).await.accepted();
    call.has(answer.len()).await;
    // Nor is what comes behind it.
    for piece in ["da", "ta: ", "x", "\n\n", ": \n"] {
        send(&feed, piece).await;
    }
    drop(feed);
    assert_eq!(call.rest().await, "data: x\n\n: \n");
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
}

#[tokio::test]
async fn a_byte_order_mark_hides_no_answer() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let text = format!("\u{feff}{}", event(&answer("1")));
    foreign.replies(reply(&[("content-type", "text/event-stream")], text.clone()));
    assert_eq!(site.ask(&a_call(Era::Legacy, "1")).await.text(), text);
}

#[tokio::test]
async fn a_client_that_leaves_after_the_answer_ends_the_rest() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for era in Era::BOTH {
        let feed = foreign.streams();
        let mut call = Reading::of(&site, &a_call(era, "1")).await;
        let answer = event(&answer("1"));
        send(&feed, answer.clone()).await;
        call.has(answer.len()).await;
        drop(call);
        timeout(BOUND, feed.closed()).await.unwrap();
        until(|| foreign.alive() == 0).await;
    }
    assert_eq!(site.outcomes.count(Outcome::Replied), 2);
}

#[tokio::test]
async fn an_event_that_is_too_long_passes_and_none_of_ours_follows() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let mut call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    let begun = format!("data: {}", "x".repeat(1024 * 1024));
    send(&feed, begun.clone()).await;
    call.has(begun.len()).await;
    site.ask(&post(cancel("1"))).await.accepted();
    assert_eq!(call.rest().await, "");
    until(|| feed.is_closed()).await;
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test]
async fn an_event_of_the_largest_size_is_held() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    send(&feed, format!("data: {}", "x".repeat(1024 * 1024 - 6))).await;
    send(&feed, "").await;
    site.ask(&post(cancel("1"))).await.accepted();
    error_of(only_event(&call.rest().await), CANCELLED, Some("1"));
}

#[tokio::test]
async fn a_long_answer_passes_and_ends_its_exchange() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(3 * 1024 * 1024));
    let pieces: Vec<_> = event(&answer).into_bytes().chunks(10_000).map(Bytes::copy_from_slice).collect();
    let pieces = stream::iter(pieces).map(Ok::<_, io::Error>);
    foreign.replies(reply(&[("content-type", "text/event-stream")], Body::from_stream(pieces)));
    let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    assert_eq!(only_event(&call.rest().await), answer);
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
}

#[tokio::test]
async fn an_encoded_stream_passes_and_none_of_ours_follows() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for ends in [true, false] {
        let feed = foreign.feeds_with(&[("content-type", "text/event-stream"), ("content-encoding", "gzip")]);
        let mut call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
        assert_eq!(call.header("content-encoding"), Some("gzip"));
        let bytes = b"\x1f\x8b\x08\n\n half".to_vec();
        send(&feed, bytes.clone()).await;
        call.has(bytes.len()).await;
        if ends {
            drop(feed);
        } else {
            site.ask(&post(cancel("1"))).await.accepted();
        }
        assert_eq!(call.rest().await, "");
    }
    assert_eq!((site.outcomes.count(Outcome::Replied), site.outcomes.count(Outcome::Cancelled)), (1, 1));
}

#[tokio::test]
async fn a_stream_without_its_answer_ends_with_an_error_or_its_client_comes_back() {
    for era in Era::BOTH {
        for (text, has_id) in [
            ("", false),
            (": a comment\n\n", false),
            (&*event(NOTE), false),
            ("id: 1\ndata:\n\n", true),
            (&*format!("id: 1\ndata: {NOTE}\n\n"), true),
            // No event, so no id.
            ("id: 1\n", false),
            (&*event(&answer("2")), false),
        ] {
            for breaks_off in [false, true] {
                let foreign = Foreign::default();
                let site = foreign.site();
                let feed = foreign.streams();
                let mut call = Reading::of(&site, &a_call(era, "1")).await;
                if !text.is_empty() {
                    send(&feed, text.to_owned()).await;
                }
                if breaks_off {
                    breaks(&feed).await;
                }
                drop(feed);
                let passes = if text.ends_with("\n\n") { text.len() } else { 0 };
                call.has(passes).await;
                let last = call.rest().await;
                if has_id && era == Era::Legacy {
                    assert_eq!(last, "", "{era:?} {text:?}");
                    // Handed over: what it is told goes to the service alone.
                    assert_eq!(site.server.parked(), 0);
                    site.ask(&post(cancel("1"))).await.accepted();
                    assert_eq!(foreign.heard().last(), Some(&cancel("1")));
                } else {
                    assert!(!last.starts_with("id:"));
                    error_of(only_event(&last), INTERNAL_ERROR, Some("1"));
                }
                assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_stream_may_just_end() {
    let foreign = Foreign::default();
    let site = foreign.site_with(|options| options.cancelled_stream(CancelledStream::End));
    let feed = foreign.streams();
    let mut call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    send(&feed, event(NOTE)).await;
    call.has(event(NOTE).len()).await;
    site.ask(&post(cancel("1"))).await.accepted();
    assert_eq!(call.rest().await, "");
}

#[tokio::test]
async fn a_client_that_comes_back_with_our_id_is_told_that_nothing_follows() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
    send(&feed, "id: 1\ndata:\n\n").await;
    send(&feed, "").await;
    site.ask(&post(cancel("1"))).await.accepted();
    let last = call.rest().await;
    let id = last.split("id: ").last().unwrap().split_once('\n').unwrap().0;
    let get = post("").method("GET").with("accept", "text/event-stream");
    let refused = site.ask(&get.clone().and("last-event-id", id)).await;
    refused.error(405, INVALID_REQUEST, None);
    assert_eq!(refused.header("allow"), Some("POST"));
    // Every other id is the service's.
    for id in ["1", "", "MCPL-1", "x-mcpl-1"] {
        foreign.replies(reply(&[("content-type", "text/event-stream")], "data: theirs\n\n"));
        let passed = site.ask(&get.clone().and("last-event-id", id)).await;
        assert_eq!((passed.status, passed.text()), (200, "data: theirs\n\n"));
    }
}

// Clients that do not read, or leave.

#[tokio::test]
async fn a_client_that_does_not_read_holds_little_and_can_be_ended() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for (size, most) in [(100, 70), (100_000, 8)] {
        let feed = foreign.streams();
        let call = Reading::of(&site, &a_call(Era::Legacy, "1")).await;
        let note = event(&"x".repeat(size));
        let mut taken = 0;
        while timeout(Duration::from_millis(200), feed.send(Ok(note.clone().into()))).await.is_ok() {
            taken += 1;
            assert!(taken <= most, "{taken} events of {size} bytes");
        }
        site.ask(&post(cancel("1"))).await.accepted();
        timeout(BOUND, feed.closed()).await.unwrap();
        // What waited may be read before, if it is at once.
        let text = call.rest().await;
        let last = text.rfind("data: ").unwrap();
        error_of(only_event(&text[last..]), CANCELLED, Some("1"));
        assert_eq!(text[..last].replace(&note, ""), "");
    }
}

#[tokio::test]
async fn a_legacy_client_that_leaves_stops_nothing() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for kind in ["application/json", "text/event-stream"] {
        for after_head in [false, true] {
            for ends in [Outcome::Replied, Outcome::Cancelled] {
                let before = site.outcomes.count(ends);
                let feed = foreign.feeds(kind);
                if after_head && kind == "text/event-stream" {
                    drop(Reading::of(&site, &a_call(Era::Legacy, "1")).await);
                } else {
                    let call = site.begin(&a_call(Era::Legacy, "1"));
                    site.parked(1).await;
                    if after_head {
                        send(&feed, " ").await;
                    }
                    call.abort();
                }
                // More than waits for a client.
                for _ in 0..200 {
                    send(&feed, ": \n\n").await;
                }
                assert_eq!(site.server.parked(), 1);
                if ends == Outcome::Cancelled {
                    site.ask(&post(cancel("1"))).await.accepted();
                    timeout(BOUND, feed.closed()).await.unwrap();
                } else {
                    send(&feed, event(&answer("1"))).await;
                    drop(feed);
                }
                site.parked(0).await;
                until(|| foreign.alive() == 0).await;
                assert_eq!(site.outcomes.count(ends), before + 1, "{kind} {after_head}");
            }
        }
    }
}

#[tokio::test]
async fn a_modern_client_that_leaves_stops_the_service() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let mut left = 0;
    for kind in ["application/json", "text/event-stream"] {
        let feed = foreign.feeds(kind);
        if kind == "text/event-stream" {
            drop(Reading::of(&site, &a_call(Era::Modern, "1")).await);
        } else {
            let call = site.begin(&a_call(Era::Modern, "1"));
            site.parked(1).await;
            send(&feed, " ").await;
            call.abort();
        }
        left += 1;
        timeout(BOUND, feed.closed()).await.unwrap();
        until(|| foreign.alive() == 0).await;
        assert_eq!(site.outcomes.count(Outcome::Disconnected), left);
    }
    // Before there is any head.
    let call = site.begin(&a_call(Era::Modern, "1"));
    site.parked(1).await;
    call.abort();
    site.parked(0).await;
    until(|| foreign.alive() == 0).await;
}

// Deadlines and shutdown.

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_it_in_every_form() {
    let foreign = Foreign::default();
    let site = foreign.site_with(|options| options.request_timeout(Some(Duration::from_secs(5))));
    for era in Era::BOTH {
        let silent = site.begin(&a_call(era, "1"));
        silent.answer().await.error(200, era.timed_out(), "1");
        let _feed = foreign.feeds("application/json");
        site.begin(&a_call(era, "2")).answer().await.error(200, era.timed_out(), "2");
        let feed = foreign.streams();
        let mut call = Reading::of(&site, &a_call(era, "3")).await;
        send(&feed, event(NOTE)).await;
        call.has(event(NOTE).len()).await;
        error_of(only_event(&call.rest().await), era.timed_out(), Some("3"));
    }
    assert_eq!(site.outcomes.count(Outcome::TimedOut), 6);
    until(|| foreign.alive() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_reply_does_not_become_a_stream() {
    let foreign = Foreign::default();
    let site = foreign.site_with(|options| options.request_timeout(None));
    for era in Era::BOTH {
        let feed = foreign.feeds("application/json");
        let call = site.begin(&a_call(era, "1"));
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert!(!call.is_answered());
        send(&feed, answer("1")).await;
        drop(feed);
        call.answer().await.result("1");
    }
}

#[tokio::test]
async fn a_shutdown_ends_it_in_every_form() {
    for era in Era::BOTH {
        let foreign = Foreign::default();
        let site = foreign.site();
        let silent_feed = foreign.feeds("application/json");
        let held = site.begin(&a_call(era, "1"));
        site.parked(1).await;
        send(&silent_feed, " ").await;
        let feed = foreign.streams();
        let mut call = Reading::of(&site, &a_call(era, "2")).await;
        send(&feed, event(NOTE)).await;
        call.has(event(NOTE).len()).await;
        // Its answer is there, and the service says more for ever.
        let rest_feed = foreign.streams();
        let mut answered = Reading::of(&site, &a_call(era, "3")).await;
        send(&rest_feed, event(&answer("3"))).await;
        answered.has(event(&answer("3")).len()).await;
        let get_feed = foreign.streams();
        let get = Reading::of(&site, &post("").method("GET").with("accept", "text/event-stream")).await;
        timeout(BOUND, site.server.shutdown(Duration::ZERO)).await.unwrap();
        held.answer().await.error(200, era.shut_down(), "1");
        error_of(only_event(&call.rest().await), era.shut_down(), Some("2"));
        assert_eq!((answered.rest().await, get.rest().await), (String::new(), String::new()));
        until(|| foreign.alive() == 0).await;
        drop((silent_feed, feed, rest_feed, get_feed));
        assert_eq!(site.outcomes.count(Outcome::ShutDown), 2);
    }
}

// Sessions and callers.

#[tokio::test]
async fn a_session_is_minted_with_the_answer_to_initialize() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#;
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "", "version": "" } });
    let primed = format!("id: 0\nretry: 3000\ndata:\n\n: \n\n{}", event(&answer("1")));
    for (kind, body, headers, mints) in [
        ("application/json", answer("1"), &[][..], true),
        ("application/json", answer("1"), &[("mcp-session-id", "own")], false),
        ("application/json", error.to_owned(), &[], false),
        ("text/plain", answer("1"), &[], false),
        ("text/event-stream", event(&answer("1")), &[], true),
        ("text/event-stream", primed.clone(), &[], true),
        ("text/event-stream", primed, &[("mcp-session-id", "own")], false),
        ("text/event-stream", event(error), &[], false),
        ("text/event-stream", format!("{}{}", event(NOTE), event(&answer("1"))), &[], false),
        ("text/event-stream", ": \n\n".repeat(9) + &event(&answer("1")), &[], false),
        ("text/event-stream", event(&answer("1")), &[("content-encoding", "x-own")], false),
    ] {
        for sessions in [true, false] {
            let foreign = Foreign::default();
            let site = foreign.site_with(|options| options.sessions(sessions));
            let headers = [&[("content-type", kind)], headers].concat();
            foreign.replies(reply(&headers, body.clone()));
            let mut opened = site.ask(&post(initialize("1", &params)).without("mcp-protocol-version")).await;
            assert_eq!((opened.status, opened.text()), (200, &*body));
            if mints && sessions {
                let session = opened.headers.remove("mcp-session-id").unwrap();
                assert!(session.to_str().unwrap().starts_with("mcpl-"), "{session:?}");
            }
            has_headers(&opened.headers, &headers);
        }
    }
}

#[tokio::test]
async fn a_session_that_a_layer_behind_has_minted_comes_back_to_it() {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "", "version": "" } });
    for theirs in ["mcpl-1", "mcpl-mcpl-1", "mcpl-"] {
        for (kind, body) in [("application/json", answer("1")), ("text/event-stream", event(&answer("1")))] {
            let foreign = Foreign::default();
            let site = foreign.site();
            foreign.replies(reply(&[("content-type", kind), ("mcp-session-id", theirs)], body));
            let opened = site.ask(&post(initialize("1", &params))).await;
            let session = opened.header("mcp-session-id").unwrap();
            for (method, body) in [("POST", cancel("1")), ("POST", answer("2")), ("GET", String::new())] {
                foreign.replies(reply(&[("mcp-session-id", theirs)], ""));
                let asked = site.ask(&post(body).method(method).and("mcp-session-id", session)).await;
                assert_eq!(asked.header("mcp-session-id"), Some(session).filter(|_| method == "GET"));
            }
            let heard: Vec<_> = foreign.0.heard.lock().unwrap().iter().map(|(headers, _)| headers.clone()).collect();
            assert_eq!(heard[0].get("mcp-session-id"), None);
            assert!(heard[1..].iter().all(|headers| headers["mcp-session-id"] == theirs), "{heard:?}");
        }
    }
}

#[tokio::test]
async fn initialize_is_not_cancelled() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "", "version": "" } });
    let feed = foreign.streams();
    let opening = site.begin(&post(initialize("1", &params)));
    site.parked(1).await;
    send(&feed, "id: 0\ndata:\n\n").await;
    site.ask(&post(cancel("1"))).await.accepted();
    assert_eq!(site.server.parked(), 1);
    send(&feed, event(&answer("1"))).await;
    drop(feed);
    let opened = opening.answer().await;
    assert_eq!(opened.text(), format!("id: 0\ndata:\n\n{}", event(&answer("1"))));
    assert!(opened.header("mcp-session-id").unwrap().starts_with("mcpl-"));
}

#[tokio::test]
async fn the_service_sees_what_its_client_sent() {
    let foreign = Foreign::default();
    let site = foreign.site();
    foreign.replies(json_reply(answer("1")));
    let call = post(r#"{"jsonrpc":"2.0", "id":1,"method":"tools/call" }"#);
    let call = call.and("accept-encoding", "gzip").and("authorization", "Bearer x").and("x-own", "1");
    site.ask(&call.clone().and("mcp-session-id", "theirs")).await.result("1");
    foreign.replies(json_reply(answer("1")));
    site.ask(&call.clone().and("mcp-session-id", "mcpl-1")).await.result("1");
    let heard = foreign.0.heard.lock().unwrap().clone();
    for ((headers, body), session) in heard.iter().zip([Some("theirs"), None]) {
        assert_eq!(body, r#"{"jsonrpc":"2.0", "id":1,"method":"tools/call" }"#);
        for name in ["accept", "accept-encoding", "authorization", "x-own", "mcp-protocol-version"] {
            assert_eq!(headers.get(name).map(|value| value.to_str().unwrap()), call.header(name), "{name}");
        }
        assert_eq!(headers.get("mcp-session-id").map(|value| value.to_str().unwrap()), session);
    }
}

#[tokio::test]
async fn an_id_that_is_parked_is_refused_in_a_session_only() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let call = a_call(Era::Legacy, "1");
    let (one, two) = (call.clone().and("mcp-session-id", "one"), call.clone().and("mcp-session-id", "two"));
    let parked = [site.begin(&one), site.begin(&two), site.begin(&call), site.begin(&call)];
    site.parked(4).await;
    site.ask(&one).await.error(400, INVALID_REQUEST, "1");
    site.ask(&two).await.error(400, INVALID_REQUEST, "1");
    assert_eq!(site.server.parked(), 4);
    site.ask(&post(cancel("1")).and("mcp-session-id", "one")).await.accepted();
    let [one, two, ..] = parked;
    one.answer().await.error(200, CANCELLED, "1");
    assert!(!two.is_answered());
}

// Services that fail.

#[tokio::test]
async fn a_service_that_fails_is_an_error() {
    async fn fails(request: Request) -> Result<Response, io::Error> {
        let how = request.headers()["x-how"].to_str().unwrap().to_owned();
        let pieces = stream::iter([Ok::<_, io::Error>(Bytes::from(event(NOTE)))]);
        let panics = pieces.chain(stream::once(async { std::panic::resume_unwind(Box::new("as asked")) }));
        match &*how {
            "error" => Err(io::ErrorKind::Other.into()),
            "panic" => std::panic::resume_unwind(Box::new("as asked")),
            _ => Ok(reply(&[("content-type", "text/event-stream")], Body::from_stream(panics))),
        }
    }
    let site = Site::build(
        |options| options,
        |server, _| {
            let layer = McpLayer::transparent(server.clone());
            let service = tower::ServiceBuilder::new().layer(layer).service(tower::service_fn(fails));
            Router::new().route_service("/mcp", service)
        },
    );
    for how in ["error", "panic"] {
        site.ask(&a_call(Era::Legacy, "1").and("x-how", how)).await.error(200, INTERNAL_ERROR, "1");
    }
    let call = Reading::of(&site, &a_call(Era::Legacy, "1").and("x-how", "later")).await;
    let text = call.rest().await;
    error_of(only_event(text.strip_prefix(&event(NOTE)).unwrap()), INTERNAL_ERROR, Some("1"));
    assert_eq!(site.server.parked(), 0);
}

// Races and leaks.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_and_a_cancel_that_meet_are_one_answer() {
    const ROUNDS: usize = 10_000;
    const AT_ONCE: usize = 50;
    let foreign = Foreign::default();
    let site = Arc::new(foreign.site_with(|options| options.max_parked_per_caller(10_000)));
    let won = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut lanes = JoinSet::new();
    for lane in 0..AT_ONCE {
        let (site, won) = (Arc::clone(&site), Arc::clone(&won));
        lanes.spawn(async move {
            for round in 0..ROUNDS / AT_ONCE {
                let streams = (lane + round).is_multiple_of(2);
                let id = (lane * ROUNDS + round).to_string();
                let request = a_call(Era::Legacy, &id);
                // Its own reply: other lanes take from the same queue.
                let (feed, pieces) = mpsc::channel::<io::Result<Bytes>>(1);
                let pieces = stream::unfold(pieces, |mut pieces| async { Some((pieces.recv().await?, pieces)) });
                let kind = if streams { "text/event-stream" } else { "application/json" };
                let body = reply(&[("content-type", kind)], Body::from_stream(pieces));
                let own = Foreign::default();
                own.replies(body);
                let routes = Router::new().route("/mcp", any(handle)).with_state(own);
                let app = routes.layer(McpLayer::transparent(site.server.clone()));
                let call = tokio::spawn(async move {
                    let response = app.oneshot(request.request()).await.unwrap();
                    Answer::of(response).await
                });
                let text = if streams { event(&answer(&id)) } else { answer(&id) };
                let answering = tokio::spawn(async move {
                    for _ in 0..round % 7 {
                        yield_now().await;
                    }
                    feed.send(Ok(text.into())).await.ok();
                });
                for _ in 0..lane % 5 {
                    yield_now().await;
                }
                site.ask(&post(cancel(&id))).await.accepted();
                answering.await.unwrap();
                let answered = timeout(BOUND, call).await.expect("an answer in time").unwrap();
                let is_stream = answered.header("content-type") == Some("text/event-stream");
                let message = if is_stream { only_event(answered.text()) } else { answered.text() };
                let is_error = message.contains(r#""error":"#);
                if is_error {
                    error_of(message, CANCELLED, Some(&id));
                } else {
                    result_of(message, &id);
                }
                won[usize::from(is_error)].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.unwrap();
    }
    let [answers, cancels] = [0, 1].map(|which| won[which].load(Ordering::Relaxed));
    assert_eq!(answers + cancels, ROUNDS);
    assert_eq!((site.outcomes.count(Outcome::Replied), site.outcomes.count(Outcome::Cancelled)), (answers, cancels));
    assert!(answers > 0 && cancels > 0, "{answers} answers, {cancels} cancels");
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn every_way_to_end_leaves_nothing() {
    let foreign = Foreign::default();
    let site = foreign.site_with(|options| options.request_timeout(Some(Duration::from_millis(50))));
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for era in Era::BOTH {
        for kind in ["application/json", "text/event-stream"] {
            let streams = kind == "text/event-stream";
            for how in ["answer", "cancel", "leave", "leave, then cancel", "deadline", "end", "break", "stall"] {
                for _ in 0..20 {
                    let feed = foreign.feeds(kind);
                    let request = a_call(era, "1");
                    let mut call = Box::pin(Reading::of(&site, &request));
                    let open = if streams {
                        let mut open = call.await;
                        send(&feed, event(NOTE)).await;
                        if how != "stall" {
                            open.has(event(NOTE).len()).await;
                        }
                        Ok(open)
                    } else {
                        assert!((&mut call).now_or_never().is_none());
                        Err(call)
                    };
                    match how {
                        "answer" => send(&feed, if streams { event(&answer("1")) } else { answer("1") }).await,
                        "cancel" | "stall" => site.ask(&post(cancel("1"))).await.accepted(),
                        "break" => breaks(&feed).await,
                        _ => {}
                    }
                    if how.starts_with("leave") {
                        drop(open);
                        if how.ends_with("cancel") {
                            site.ask(&post(cancel("1"))).await.accepted();
                        }
                        if era == Era::Legacy && how == "leave" {
                            send(&feed, event(&answer("1"))).await;
                        }
                        drop(feed);
                    } else {
                        let ends_late = how == "deadline" || (era == Era::Modern && ["cancel", "stall"].contains(&how));
                        let feed = Some(feed).filter(|_| ends_late);
                        let call = match open {
                            Ok(open) => open,
                            Err(call) => call.await,
                        };
                        call.rest().await;
                        drop(feed);
                    }
                    site.parked(0).await;
                }
            }
        }
    }
    until(|| foreign.alive() == 0).await;
    until(|| tasks() == before).await;
    assert_eq!(site.outcomes.all().len(), 2 * 2 * 8 * 20);
}

// Over sockets.

#[tokio::test]
async fn over_a_socket_a_stream_ends_properly_and_the_connection_is_kept() {
    let foreign = Foreign::default();
    let live = foreign.site().listen().await;
    // Its length is that of what the service wanted to say.
    for headers in [
        &[("content-type", "text/event-stream")][..],
        &[("content-type", "text/event-stream"), ("content-length", "500")],
    ] {
        let feed = foreign.feeds_with(headers);
        let mut connection = live.connect().await;
        connection.send(a_call(Era::Legacy, "1").bytes()).await;
        let head = connection.head().await;
        assert_eq!((head.header("content-length"), head.header("transfer-encoding")), (None, Some("chunked")));
        send(&feed, event(NOTE)).await;
        assert_eq!(connection.event().await, format!("data: {NOTE}"));
        live.post(&post(cancel("1"))).await.accepted();
        let last = connection.event().await;
        error_of(last.strip_prefix("data: ").unwrap(), CANCELLED, Some("1"));
        connection.end_of_stream().await;
        foreign.replies(json_reply(answer("2")));
        let next = connection.post(&a_call(Era::Legacy, "2")).await;
        assert_eq!(next.result("2"), json!({ "text": "answer" }));
    }
}

#[tokio::test]
async fn over_a_socket_a_client_that_does_not_read_can_be_ended() {
    let foreign = Foreign::default();
    let live = foreign.site().listen().await;
    let feed = foreign.streams();
    let mut connection = live.connect().await;
    connection.send(a_call(Era::Legacy, "1").bytes()).await;
    connection.head().await;
    let note = event(&format!(r#"{{"jsonrpc":"2.0","method":"x","params":{}}}"#, Value::from("x".repeat(100_000))));
    // Until the buffers of the socket are full, and what waits before them.
    while timeout(Duration::from_millis(500), feed.send(Ok(note.clone().into()))).await.is_ok() {}
    live.post(&post(cancel("1"))).await.accepted();
    timeout(BOUND, feed.closed()).await.unwrap();
    live.parked(0).await;
    loop {
        let event = connection.event().await;
        if event.contains(r#""error":"#) {
            error_of(event.strip_prefix("data: ").unwrap(), CANCELLED, Some("1"));
            break;
        }
        assert_eq!(event, note.trim_end());
    }
    connection.end_of_stream().await;
}
