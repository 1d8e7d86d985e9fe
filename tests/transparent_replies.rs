//! `McpLayer::transparent` in front of a service whose replies do not answer, or in words of its own.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use mcp_layer::Outcome;
use serde_json::json;
use tokio::time::timeout;

use support::foreign::{
    Foreign, NOTE, Reading, a_call, answer, breaks, event, has_headers, json_reply, only_event, reply, send,
};
use support::replies::{Sent, that_do_not_answer, that_pass};
use support::{BOUND, CANCELLED, Era, INTERNAL_ERROR, cancel, error_of, initialize, post, until};

fn response(sent: &Sent) -> Response {
    with_status(sent.status, reply(&sent.headers, sent.body.clone()))
}

fn with_status(status: u16, mut reply: Response) -> Response {
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    reply
}

// Replies that are not streams.

#[tokio::test]
async fn a_reply_that_answers_and_one_that_is_no_success_pass_as_they_are() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for sent in that_pass() {
        for era in Era::BOTH {
            foreign.replies(response(&sent));
            let passed = site.ask(&a_call(era, "7")).await;
            let shown = String::from_utf8_lossy(&sent.body[..sent.body.len().min(100)]);
            assert!((passed.status, &*passed.body) == (sent.status, &*sent.body), "{} {shown}", sent.status);
            has_headers(&passed.headers, &sent.headers);
        }
    }
    assert_eq!(site.outcomes.count(Outcome::Replied), 2 * that_pass().len());
}

#[tokio::test]
async fn a_success_that_does_not_answer_is_an_internal_error() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for sent in that_do_not_answer() {
        for era in Era::BOTH {
            for id in ["7", r#""7""#] {
                let alike = [r#""07""#, r#""7.1""#].iter().any(|alike| sent.body == answer(alike).into_bytes());
                if alike && id != "7" {
                    continue;
                }
                foreign.replies(response(&sent));
                let answered = site.ask(&a_call(era, id)).await;
                let error = answered.error(200, INTERNAL_ERROR, id);
                assert_eq!((&*error.message, error.data), ("Internal error", None));
            }
        }
    }
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn an_answer_behind_202_is_a_success_that_clients_read() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for era in Era::BOTH {
        foreign.replies(with_status(202, json_reply(answer("7"))));
        site.ask(&a_call(era, "7")).await.result("7");
        let event = event(&answer("7"));
        foreign.replies(with_status(202, reply(&[("content-type", "text/event-stream")], event.clone())));
        let streamed = site.ask(&a_call(era, "7")).await;
        assert_eq!((streamed.status, streamed.text()), (200, &*event));
    }
    // Of a notification it says that there is no answer.
    foreign.replies(with_status(202, reply(&[], "")));
    site.ask(&post(cancel("7"))).await.accepted();
}

#[tokio::test]
async fn a_reply_has_the_length_that_it_has() {
    let foreign = Foreign::default();
    let live = foreign.site().listen().await;
    let mut connection = live.connect().await;
    for length in ["0", "5", "500", "36, 36", "x"] {
        let headers = [("content-type", "application/json"), ("content-length", length)];
        foreign.replies(reply(&headers, answer("7")));
        let answered = connection.post(&a_call(Era::Legacy, "7")).await;
        assert_eq!(answered.header("content-length"), Some(&*answer("7").len().to_string()), "{length}");
        answered.result("7");
    }
}

#[tokio::test]
async fn an_internal_error_keeps_the_headers_of_the_service_but_for_those_of_its_body() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let of_the_body = [
        ("content-type", "text/html"),
        ("content-encoding", "identity"),
        ("content-length", "6"),
        ("content-range", "bytes 0-5/6"),
        ("etag", "\"1\""),
        ("last-modified", "x"),
        ("digest", "x"),
        ("content-digest", "x"),
        ("repr-digest", "x"),
    ];
    let kept = [("mcp-session-id", "own"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-own", "1")];
    foreign.replies(with_status(201, reply(&[&of_the_body[..], &kept].concat(), "<html>")));
    let answered = site.ask(&a_call(Era::Legacy, "1")).await;
    answered.error(200, INTERNAL_ERROR, "1");
    has_headers(&answered.headers, &[&[("content-type", "application/json")][..], &kept].concat());
    // Also where its body breaks off.
    let feed = foreign.feeds_with(&[&of_the_body[..1], &kept].concat());
    let call = site.begin(&a_call(Era::Legacy, "1"));
    send(&feed, "<").await;
    breaks(&feed).await;
    let answered = call.answer().await;
    answered.error(200, INTERNAL_ERROR, "1");
    has_headers(&answered.headers, &[&[("content-type", "application/json")][..], &kept].concat());
}

#[tokio::test]
async fn a_session_is_not_opened_by_what_is_no_answer() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "", "version": "" } });
    for (body, mints) in [(answer("2"), false), (answer("1")[..9].to_owned(), false), (answer("1.0"), true)] {
        foreign.replies(json_reply(body));
        let opened = site.ask(&post(initialize("1", &params))).await;
        assert_eq!(opened.header("mcp-session-id").is_some(), mints, "{opened:?}");
    }
}

#[tokio::test]
async fn a_reply_of_any_type_is_replaced_by_a_cancel_while_it_is_not_whole() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for headers in [&[][..], &[("content-type", "text/html")], &[("content-type", "text/plain")]] {
        let feed = foreign.feeds_with(headers);
        let call = site.begin(&a_call(Era::Legacy, "1"));
        send(&feed, answer("1")).await;
        send(&feed, "").await;
        assert!(!call.is_answered());
        site.ask(&post(cancel("1"))).await.accepted();
        call.answer().await.error(200, CANCELLED, "1");
        timeout(BOUND, feed.closed()).await.unwrap();
        until(|| foreign.alive() == 0).await;
    }
    assert_eq!(site.outcomes.count(Outcome::Cancelled), 3);
}

#[tokio::test]
async fn a_page_without_end_is_not_read_to_its_end() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let endless = stream::repeat(Bytes::from(vec![b'x'; 64 * 1024])).map(Ok::<_, std::io::Error>);
    foreign.replies(reply(&[("content-type", "text/html")], Body::from_stream(endless)));
    site.ask(&a_call(Era::Legacy, "1")).await.error(200, INTERNAL_ERROR, "1");
    // Nor is one that is encoded, of which nothing is.
    let _feed = foreign.feeds_with(&[("content-type", "text/html"), ("content-encoding", "gzip")]);
    site.ask(&a_call(Era::Legacy, "1")).await.error(200, INTERNAL_ERROR, "1");
    until(|| foreign.alive() == 0).await;
}

#[tokio::test]
async fn notifications_and_responses_have_no_answer_to_miss() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for body in [cancel("1"), NOTE.to_owned(), answer("1")] {
        site.ask(&post(body)).await.accepted();
    }
}

// Streams.

/// Ids, and how a service may spell them in its answer.
const SPELLINGS: [(&str, &[&str]); 6] = [
    ("7", &["7", "7.0", "7e0", "70e-1", r#""7""#, r#""7.0""#]),
    (r#""7""#, &[r#""7""#, "7", "7.0"]),
    ("-1", &["-1.0", r#""-1""#]),
    ("0", &["-0", "0e999999999999", r#""0""#]),
    ("9007199254740993", &["9007199254740993.0", r#""9007199254740993""#]),
    ("18446744073709551615", &["18446744073709551615.0", "184467440737095516150e-1"]),
];

const OTHERS: [(&str, &[&str]); 5] = [
    ("7", &[r#""07""#, r#""7.1""#, "70", "7.5", "1e999999999", "null"]),
    (r#""07""#, &["7", r#""7""#]),
    ("9007199254740993", &["9007199254740992", "9007199254740992.0"]),
    ("18446744073709551615", &["18446744073709551616", "1.8446744073709552e19"]),
    ("0", &[r#""+0""#, "1e-999999999"]),
];

/// What follows the events of a service's stream, once that has ended.
async fn follows(era: Era, id: &str, events: &str) -> String {
    let foreign = Foreign::default();
    let site = foreign.site();
    foreign.replies(reply(&[("content-type", "text/event-stream")], events.to_owned()));
    let passed = Reading::of(&site, &a_call(era, id)).await.rest().await;
    assert_eq!(site.outcomes.all().len(), 1);
    passed.strip_prefix(events).unwrap_or_else(|| panic!("{passed:?}")).to_owned()
}

#[tokio::test]
async fn an_event_whose_id_is_spelled_otherwise_is_the_answer() {
    for era in Era::BOTH {
        for (id, spellings) in SPELLINGS {
            for spelling in spellings {
                let answer = answer(spelling);
                for events in [event(&answer), event(&format!("[{NOTE},{answer}]")), event(NOTE) + &event(&answer)] {
                    assert_eq!(follows(era, id, &events).await, "", "{id} as {spelling}");
                }
            }
        }
        for (id, others) in OTHERS {
            for other in others {
                let last = follows(era, id, &event(&answer(other))).await;
                error_of(only_event(&last), INTERNAL_ERROR, Some(id));
            }
        }
    }
}

#[tokio::test]
async fn an_answer_whose_id_is_spelled_otherwise_is_not_cancelled() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let mut call = Reading::of(&site, &a_call(Era::Legacy, "7")).await;
    let answer = event(&answer("7.0"));
    send(&feed, answer.clone()).await;
    site.parked(0).await;
    site.ask(&post(cancel("7"))).await.accepted();
    call.has(answer.len()).await;
    drop(feed);
    assert_eq!(call.rest().await, "");
    assert_eq!(site.outcomes.all(), [("7".to_owned(), Outcome::Replied)]);
}

#[tokio::test]
async fn a_stream_behind_a_status_without_a_body_is_an_internal_error() {
    let foreign = Foreign::default();
    let site = foreign.site();
    for status in [204, 205] {
        foreign.replies(with_status(status, reply(&[("content-type", "text/event-stream")], event(&answer("1")))));
        site.ask(&a_call(Era::Legacy, "1")).await.error(200, INTERNAL_ERROR, "1");
        // Nor is JSON sent there.
        foreign.replies(with_status(status, json_reply(answer("1"))));
        site.ask(&a_call(Era::Legacy, "1")).await.error(200, INTERNAL_ERROR, "1");
    }
    // Behind any other it is one as behind 200.
    for status in [201, 203, 206] {
        foreign.replies(with_status(status, reply(&[("content-type", "text/event-stream")], event(NOTE))));
        let answered = site.ask(&a_call(Era::Legacy, "1")).await;
        assert_eq!(answered.status, status);
        let last = answered.text().strip_prefix(&event(NOTE)).unwrap();
        error_of(only_event(last), INTERNAL_ERROR, Some("1"));
    }
}
