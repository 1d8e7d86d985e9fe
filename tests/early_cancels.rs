//! Cancels that overtake their requests.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use mcp_layer::Outcome;
use serde_json::json;
use tokio::time::advance;

use support::{CANCELLED, Post, Site, call, cancel, cancel_because, initialize, post};

fn in_session(session: &str, body: String) -> Post {
    post(body).and("mcp-session-id", session)
}

fn quick(id: &str) -> String {
    call(id, &json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_comes_first_is_used_once() {
    let site = Site::new();
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    assert_eq!(site.probe.heard(), [cancel("9")]);
    site.ask(&in_session("s", quick("8"))).await.result("8");
    site.ask(&in_session("s", quick("9"))).await.error(200, CANCELLED, "9");
    assert_eq!(site.probe.count("started 9"), 0);
    assert_eq!(site.outcomes.all()[1], ("9".to_owned(), Outcome::Cancelled));
    assert_eq!(site.server.parked(), 0);
    site.ask(&in_session("s", quick("9"))).await.result("9");
}

#[tokio::test(start_paused = true)]
async fn said_twice_it_is_still_used_once() {
    let site = Site::new();
    for _ in 0..2 {
        site.ask(&in_session("s", cancel_because("9", &json!("r")))).await.accepted();
    }
    site.ask(&in_session("s", quick("9"))).await.error(200, CANCELLED, "9");
    site.ask(&in_session("s", quick("9"))).await.result("9");
}

#[tokio::test(start_paused = true)]
async fn it_is_kept_for_a_second() {
    let site = Site::new();
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    advance(Duration::from_millis(999)).await;
    site.ask(&in_session("s", quick("9"))).await.error(200, CANCELLED, "9");
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    advance(Duration::from_millis(1_000)).await;
    site.ask(&in_session("s", quick("9"))).await.result("9");
}

#[tokio::test(start_paused = true)]
async fn the_time_can_be_set() {
    let site = Site::with(|options| options.early_cancels(Duration::from_secs(30)));
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    advance(Duration::from_secs(29)).await;
    site.ask(&in_session("s", quick("9"))).await.error(200, CANCELLED, "9");

    let site = Site::with(|options| options.early_cancels(Duration::ZERO));
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    site.ask(&in_session("s", quick("9"))).await.result("9");
}

#[tokio::test(start_paused = true)]
async fn without_a_session_none_is_kept() {
    let site = Site::new();
    let who: [fn(String) -> Post; 2] = [|body| post(body), |body| post(body).and("authorization", "Bearer a")];
    for who in who {
        site.ask(&who(cancel("9"))).await.accepted();
        site.ask(&who(quick("9"))).await.result("9");
    }
    let both = |body| in_session("s", body).and("authorization", "Bearer a");
    site.ask(&both(cancel("9"))).await.accepted();
    site.ask(&both(quick("9"))).await.error(200, CANCELLED, "9");
}

#[tokio::test(start_paused = true)]
async fn it_is_for_its_caller_only() {
    let site = Site::new();
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    site.ask(&in_session("t", quick("9"))).await.result("9");
    site.ask(&in_session("s", quick("9")).and("authorization", "Bearer a")).await.result("9");
    site.ask(&post(quick("9"))).await.result("9");
    site.ask(&in_session("s", quick(r#""9""#))).await.result(r#""9""#);
    site.ask(&in_session("s", quick("9"))).await.error(200, CANCELLED, "9");
}

#[tokio::test(start_paused = true)]
async fn initialize_is_not_cancelled_before_it_comes_either() {
    let site = Site::new();
    site.ask(&in_session("s", cancel("0"))).await.accepted();
    site.ask(&in_session("s", initialize("0", &json!({})))).await.result("0");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_found_its_request_is_not_kept_too() {
    let site = Site::new();
    let parked = site.begin(&in_session("s", support::held("9")));
    site.parked(1).await;
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "9");
    site.ask(&in_session("s", quick("9"))).await.result("9");
}

#[tokio::test(start_paused = true)]
async fn one_caller_has_64_kept_and_the_first_ones_stay() {
    let site = Site::new();
    for id in 0..200 {
        site.ask(&in_session("s", cancel(&id.to_string()))).await.accepted();
    }
    for id in 0..200 {
        let answer = site.ask(&in_session("s", quick(&id.to_string()))).await;
        match id < 64 {
            true => drop(answer.error(200, CANCELLED, id.to_string().as_str())),
            false => drop(answer.result(&id.to_string())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_uses_none_up() {
    let site = Site::new();
    site.ask(&in_session("s", cancel("9"))).await.accepted();
    site.ask(&in_session("s", quick("9")).with("accept", "text/html")).await.error(406, support::INVALID_REQUEST, "9");
    site.ask(&in_session("s", quick("9"))).await.error(200, CANCELLED, "9");
}

#[tokio::test(start_paused = true)]
async fn those_that_were_used_take_no_room() {
    let site = Site::new();
    for id in 0..5_000_u32 {
        let (id, session) = (id.to_string(), format!("session-{id}"));
        site.ask(&in_session(&session, cancel(&id))).await.accepted();
        site.ask(&in_session(&session, quick(&id))).await.error(200, CANCELLED, id.as_str());
    }
}
