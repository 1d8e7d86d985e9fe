//! A service that knows nothing of this crate may answer what has an answer of ours on the stream of a GET.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use http_body_util::BodyExt;
use mcp_layer::Departure;
use serde_json::json;

use support::foreign::{Foreign, NOTE, Reading, a_call, answer, breaks, event, json_reply, send};
use support::{CANCELLED, Era, Post, Site, cancel, cancel_because, post, until};

const ERROR: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"late"}}"#;

fn of_session(post: Post) -> Post {
    post.and("mcp-session-id", "theirs")
}

fn get() -> Post {
    of_session(post("").method("GET").with("accept", "text/event-stream"))
}

/// Ends the call of this id by a cancel.
async fn cancelled(foreign: &Foreign, site: &Site, id: &str) {
    let heard = foreign.heard().len();
    let call = site.begin(&of_session(a_call(Era::Legacy, id)));
    until(|| foreign.heard().len() == heard + 1).await;
    site.ask(&of_session(post(cancel(id)))).await.accepted();
    call.answer().await.error(200, CANCELLED, id);
}

#[tokio::test]
async fn a_late_answer_is_left_out_of_the_stream_of_a_get_whatever_its_form() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let feed = foreign.streams();
    let mut listening = Reading::of(&site, &get()).await;
    cancelled(&foreign, &site, "1").await;
    cancelled(&foreign, &site, r#""1""#).await;
    let kept = event(NOTE) + ": kept\n\n";
    for late in [event(&answer("1")), event(&answer(r#""1""#)), event(ERROR)] {
        send(&feed, event(NOTE) + &late + ": kept\n\n").await;
        listening.has(listening.read.len() + kept.len()).await;
    }
    assert_eq!(String::from_utf8(listening.read.clone()).unwrap(), kept.repeat(3));
    // What has not ended here is no business of ours: who lost its POST gets its answer so.
    send(&feed, event(&answer("2")) + "data: unfinished").await;
    drop(feed);
    assert_eq!(listening.rest().await, event(&answer("2")) + "data: unfinished");
}

#[tokio::test]
async fn a_late_answer_is_left_out_however_its_id_is_spelled() {
    for (id, spellings, others) in [
        ("7", &["7", "7.0", "7e0", "70e-1", r#""7""#, r#""\u0037""#][..], &["8", r#""07""#, "7.5", "1e999999999"][..]),
        (r#""7""#, &[r#""7""#, "7", "7.0", r#""7.0""#], &["8", r#""07""#, r#""7.1""#]),
        ("9007199254740993", &["9007199254740993.0"], &["9007199254740992", "9007199254740992.0"]),
    ] {
        let foreign = Foreign::default();
        let site = foreign.site();
        cancelled(&foreign, &site, id).await;
        for (spellings, passes) in [(spellings, false), (others, true)] {
            for spelling in spellings {
                let feed = foreign.streams();
                let listening = Reading::of(&site, &get()).await;
                let late = event(&answer(spelling));
                send(&feed, late.clone() + ": kept\n\n").await;
                drop(feed);
                let kept = if passes { late } else { String::new() } + ": kept\n\n";
                assert_eq!(listening.rest().await, kept, "{id} as {spelling}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_to_another_call_with_the_same_digits_is_not_late() {
    for (ended, alive, spellings) in [("7", r#""7""#, &[r#""7""#][..]), (r#""7""#, "7", &["7", "7.0", "7e0"])] {
        for way in ["begins first", "begins later", "is handed over"] {
            let foreign = Foreign::default();
            let site = foreign.site();
            let begins = async || {
                let feed = foreign.streams();
                (feed, Reading::of(&site, &of_session(a_call(Era::Legacy, alive))).await)
            };
            let mut in_flight = None;
            if way == "begins first" {
                in_flight = Some(begins().await);
            }
            cancelled(&foreign, &site, ended).await;
            if way == "begins later" {
                in_flight = Some(begins().await);
            }
            if way == "is handed over" {
                let (feed, reading) = begins().await;
                send(&feed, "id: 7\ndata:\n\n").await;
                drop(feed);
                reading.rest().await;
            }
            assert_eq!(site.server.parked(), in_flight.iter().len());
            for spelling in spellings {
                let feed = foreign.streams();
                let listening = Reading::of(&site, &get()).await;
                let own = event(&answer(spelling));
                send(&feed, event(&answer(ended)) + &own).await;
                drop(feed);
                assert_eq!(listening.rest().await, own, "{alive} as {spelling} {way}");
            }
        }
    }
}

#[tokio::test]
async fn its_id_is_told_so_that_its_client_does_not_come_back_for_it() {
    let foreign = Foreign::default();
    let site = foreign.site();
    cancelled(&foreign, &site, "1").await;
    let feed = foreign.streams();
    let listening = Reading::of(&site, &get()).await;
    send(&feed, format!("retry: 9\nid: 7/ü\n{}", event(&answer("1")))).await;
    drop(feed);
    assert_eq!(listening.rest().await, "id: 7/ü\ndata:\n\n");
}

#[tokio::test]
async fn an_answer_to_a_later_call_of_the_same_id_is_not_late() {
    let foreign = Foreign::default();
    let site = foreign.site();
    cancelled(&foreign, &site, "1").await;
    cancelled(&foreign, &site, "2").await;
    // This one is handed over: its answer is to come by a GET.
    let primed = foreign.streams();
    let again = Reading::of(&site, &of_session(a_call(Era::Legacy, "1"))).await;
    send(&primed, "id: 7\ndata:\n\n").await;
    drop(primed);
    assert_eq!(again.rest().await, "id: 7\ndata:\n\n");
    let feed = foreign.streams();
    let listening = Reading::of(&site, &get()).await;
    send(&feed, event(&answer("1")) + &event(&answer("2"))).await;
    drop(feed);
    assert_eq!(listening.rest().await, event(&answer("1")));
}

#[tokio::test]
async fn who_left_has_no_answer_and_may_have_it_later() {
    for departure in [Departure::CarryOn, Departure::Cancel] {
        let foreign = Foreign::default();
        let site = foreign.site_with(|options| options.legacy_departure(departure));
        let primed = foreign.streams();
        let mut call = Reading::of(&site, &of_session(a_call(Era::Legacy, "1"))).await;
        send(&primed, event(NOTE)).await;
        call.has(event(NOTE).len()).await;
        drop(call);
        site.parked(usize::from(departure == Departure::CarryOn)).await;
        site.ask(&of_session(post(cancel("1")))).await.accepted();
        site.parked(0).await;
        let feed = foreign.streams();
        let listening = Reading::of(&site, &get()).await;
        send(&feed, event(&answer("1"))).await;
        drop(feed);
        assert_eq!(listening.rest().await, event(&answer("1")), "{departure:?}");
    }
}

#[tokio::test]
async fn it_is_left_out_of_a_stream_that_is_opened_later_for_a_minute() {
    tokio::time::pause();
    let foreign = Foreign::default();
    let site = foreign.site();
    cancelled(&foreign, &site, "1").await;
    for (after, sent) in [(Duration::from_secs(59), String::new()), (Duration::from_secs(1), event(&answer("1")))] {
        tokio::time::sleep(after).await;
        let feed = foreign.streams();
        let listening = Reading::of(&site, &get()).await;
        send(&feed, event(&answer("1"))).await;
        drop(feed);
        assert_eq!(listening.rest().await, sent);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_late_behind_a_deadline_too() {
    let foreign = Foreign::default();
    let site = foreign.site_with(|options| options.request_timeout(Some(Duration::from_secs(5))));
    let feed = foreign.streams();
    let listening = Reading::of(&site, &get()).await;
    let call = site.begin(&of_session(a_call(Era::Legacy, "1")));
    call.answer().await.error(200, Era::Legacy.timed_out(), "1");
    send(&feed, event(&answer("1")) + &event(NOTE)).await;
    drop(feed);
    assert_eq!(listening.rest().await, event(NOTE));
}

#[tokio::test]
async fn of_another_caller_it_passes_and_so_does_a_request_of_that_id() {
    let foreign = Foreign::default();
    let site = foreign.site();
    cancelled(&foreign, &site, "1").await;
    let question = event(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let other_session = post("").method("GET").with("accept", "text/event-stream").and("mcp-session-id", "other");
    for (listens, sent) in [
        (other_session, event(&answer("1"))),
        (get().and("authorization", "Bearer x"), event(&answer("1"))),
        (post("").method("GET").with("accept", "text/event-stream"), event(&answer("1"))),
        (get(), question),
    ] {
        let feed = foreign.streams();
        let listening = Reading::of(&site, &listens).await;
        send(&feed, sent.clone()).await;
        drop(feed);
        assert_eq!(listening.rest().await, sent);
    }
}

#[tokio::test]
async fn a_call_that_was_answered_or_whose_client_left_has_no_late_answer() {
    let foreign = Foreign::default();
    let site = foreign.site();
    foreign.replies(json_reply(answer("1")));
    site.ask(&of_session(a_call(Era::Legacy, "1"))).await.result("1");
    site.ask(&of_session(post(cancel_because("1", &json!("late"))))).await.accepted();
    let left = site.begin(&of_session(a_call(Era::Legacy, "2")));
    until(|| foreign.heard().len() == 3).await;
    left.abort();
    let feed = foreign.streams();
    let listening = Reading::of(&site, &get()).await;
    let both = event(&answer("1")) + &event(&answer("2"));
    send(&feed, both.clone()).await;
    drop(feed);
    assert_eq!(listening.rest().await, both);
}

#[tokio::test]
async fn everything_else_of_such_a_stream_passes() {
    let foreign = Foreign::default();
    let site = foreign.site();
    cancelled(&foreign, &site, "1").await;
    // What keeps it open does not wait.
    let feed = foreign.streams();
    let mut listening = Reading::of(&site, &get()).await;
    for piece in [": ping\n", ":\r\n", &event(NOTE)] {
        send(&feed, piece.to_owned()).await;
        listening.has(listening.read.len() + piece.len()).await;
    }
    send(&feed, "data: half").await;
    let ((), half) = tokio::join!(breaks(&feed), listening.body.frame());
    assert_eq!(half.unwrap().unwrap().into_data().unwrap(), "data: half");
    assert!(listening.body.frame().await.unwrap().is_err(), "it breaks off");
    until(|| foreign.alive() == 0).await;
    // What is no plain stream is not read.
    for headers in
        [&[("content-type", "text/event-stream"), ("content-encoding", "gzip")][..], &[("content-type", "text/plain")]]
    {
        let feed = foreign.feeds_with(headers);
        let listening = Reading::of(&site, &get()).await;
        send(&feed, event(&answer("1"))).await;
        drop(feed);
        assert_eq!(listening.rest().await, event(&answer("1")));
    }
    // Nobody listens any more.
    let feed = foreign.streams();
    drop(Reading::of(&site, &get()).await);
    until(|| foreign.alive() == 0).await;
    drop(feed);
}
