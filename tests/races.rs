//! Replies, cancels and departures that meet. Whichever wins, there is one answer and one outcome, and nothing is left.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::panic::resume_unwind;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post as on_post;
use mcp_layer::{Cancellation, McpError, McpLayer, McpMessage, Outcome, Reply};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;

use support::{CANCELLED, INTERNAL_ERROR, Post, Site, call, cancel, post, until};

/// One race of a request: it has started, and it may end.
#[derive(Default)]
struct Lane {
    started: Notify,
    ends: Notify,
}

type Lanes = Arc<Vec<Lane>>;

#[derive(serde::Deserialize)]
struct Wish {
    lane: usize,
    how: usize,
}

async fn run(State(lanes): State<Lanes>, message: McpMessage) -> Result<Reply<Value>, McpError> {
    if !message.is_request() {
        return Ok(Reply(Value::Null));
    }
    let Wish { lane, how } = message.params()?;
    lanes[lane].started.notify_one();
    lanes[lane].ends.notified().await;
    match how {
        0 => Ok(Reply(json!({ "lane": lane }))),
        1 => Err(McpError::new(-1, "failed")),
        // Past the panic hook: thousands of these would bury the output.
        _ => resume_unwind(Box::new("as asked")),
    }
}

async fn run_politely(
    lanes: State<Lanes>,
    _token: Cancellation,
    message: McpMessage,
) -> Result<Reply<Value>, McpError> {
    run(lanes, message).await
}

fn site(lanes: &Lanes) -> Site {
    Site::build(
        |options| options,
        |server, _| {
            let routes = Router::new().route("/mcp", on_post(run)).route("/polite", on_post(run_politely));
            routes.with_state(Arc::clone(lanes)).layer(McpLayer::new(server.clone()))
        },
    )
}

fn lanes(number: usize) -> Lanes {
    Arc::new(std::iter::repeat_with(Lane::default).take(number).collect())
}

/// Every way to reply, and both kinds of handler.
fn lane_call(lane: usize) -> Post {
    let path = if lane.is_multiple_of(2) { "/mcp" } else { "/polite" };
    post(call(&lane.to_string(), &json!({ "lane": lane, "how": lane / 2 % 3 }))).to(path)
}

/// Lets each of the two be first at times.
fn head_start(turn: usize) {
    for _ in 0..turn * 25 {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reply_and_a_cancel_that_meet_give_one_answer() {
    const RACES: usize = 10_000;
    let lanes = lanes(RACES);
    let site = Arc::new(site(&lanes));
    let (mut replied, mut cancelled) = (0, 0);
    for batch in (0..RACES).collect::<Vec<_>>().chunks(200) {
        let mut races = JoinSet::new();
        for lane in batch.iter().copied() {
            let (lanes, site) = (Arc::clone(&lanes), Arc::clone(&site));
            races.spawn(async move {
                let asked = site.begin(&lane_call(lane));
                lanes[lane].started.notified().await;
                let barrier = Arc::new(Barrier::new(2));
                let cancelling = tokio::spawn({
                    let (barrier, site) = (Arc::clone(&barrier), Arc::clone(&site));
                    async move {
                        barrier.wait().await;
                        head_start(lane % 7);
                        site.ask(&post(cancel(&lane.to_string()))).await.accepted();
                    }
                });
                barrier.wait().await;
                head_start(lane % 11);
                lanes[lane].ends.notify_one();
                cancelling.await.unwrap();
                (lane, asked.answer().await)
            });
        }
        while let Some(race) = races.join_next().await {
            let (lane, answer) = race.unwrap();
            let id = lane.to_string();
            if answer.text().contains(&CANCELLED.to_string()) {
                cancelled += 1;
                answer.error(200, CANCELLED, id.as_str());
                continue;
            }
            replied += 1;
            match lane / 2 % 3 {
                0 => assert_eq!(answer.result(&id), json!({ "lane": lane })),
                1 => drop(answer.error(200, -1, id.as_str())),
                _ => drop(answer.error(200, INTERNAL_ERROR, id.as_str())),
            }
        }
    }
    assert_eq!(replied + cancelled, RACES);
    assert!(replied > 0 && cancelled > 0, "no race: {replied} replied, {cancelled} cancelled");
    assert_eq!(site.server.parked(), 0);
    assert_outcomes(&site, RACES);
    assert_eq!(site.outcomes.count(Outcome::Replied), replied);
    assert_eq!(site.outcomes.count(Outcome::Cancelled), cancelled);
}

/// One outcome for each id.
fn assert_outcomes(site: &Site, number: usize) {
    let mut ids: Vec<_> = site.outcomes.all().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), number);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), number);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_departure_that_meets_a_reply_and_a_cancel_leaves_nothing() {
    const RACES: usize = 2_000;
    let lanes = lanes(RACES);
    let site = Arc::new(site(&lanes));
    let mut races = JoinSet::new();
    for lane in 0..RACES {
        let (lanes, site) = (Arc::clone(&lanes), Arc::clone(&site));
        races.spawn(async move {
            let asked = site.begin(&lane_call(lane));
            lanes[lane].started.notified().await;
            let barrier = Arc::new(Barrier::new(3));
            let cancelling = tokio::spawn({
                let (barrier, site) = (Arc::clone(&barrier), Arc::clone(&site));
                async move {
                    barrier.wait().await;
                    head_start(lane % 5);
                    site.ask(&post(cancel(&lane.to_string()))).await.accepted();
                }
            });
            let leaving = tokio::spawn({
                let barrier = Arc::clone(&barrier);
                async move {
                    barrier.wait().await;
                    head_start(lane % 7);
                    asked.abort();
                }
            });
            barrier.wait().await;
            head_start(lane % 11);
            lanes[lane].ends.notify_one();
            cancelling.await.unwrap();
            leaving.await.unwrap();
        });
    }
    while let Some(race) = races.join_next().await {
        race.unwrap();
    }
    site.parked(0).await;
    // The observer hears of an end a little after the table.
    until(|| site.outcomes.all().len() == RACES).await;
    assert_outcomes(&site, RACES);
    assert_eq!(site.outcomes.count(Outcome::Disconnected), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_session_a_cancel_ends_its_request_whichever_comes_first() {
    // No more: 4,096 cancels are kept within a second, those that were used among them.
    const RACES: usize = 4_000;
    let lanes = lanes(RACES);
    let site = Arc::new(site(&lanes));
    for batch in (0..RACES).collect::<Vec<_>>().chunks(100) {
        let mut races = JoinSet::new();
        for lane in batch.iter().copied() {
            let site = Arc::clone(&site);
            races.spawn(async move {
                // A session each: a caller may have only so many cancels kept.
                let session = format!("session-{lane}");
                let barrier = Arc::new(Barrier::new(2));
                let cancelling = tokio::spawn({
                    let (barrier, site, session) = (Arc::clone(&barrier), Arc::clone(&site), session.clone());
                    async move {
                        barrier.wait().await;
                        head_start(lane % 7);
                        site.ask(&post(cancel(&lane.to_string())).and("mcp-session-id", &session)).await.accepted();
                    }
                });
                barrier.wait().await;
                head_start(lane % 11);
                let asked = site.begin(&lane_call(lane).and("mcp-session-id", &session));
                // Nothing else would ever end it.
                asked.answer().await.error(200, CANCELLED, lane.to_string().as_str());
                cancelling.await.unwrap();
            });
        }
        while let Some(race) = races.join_next().await {
            race.unwrap();
        }
    }
    assert_eq!(site.server.parked(), 0);
    assert_outcomes(&site, RACES);
    assert_eq!(site.outcomes.count(Outcome::Cancelled), RACES);
}
