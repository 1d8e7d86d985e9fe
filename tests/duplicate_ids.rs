//! Clients that give several requests one id: some give all of them the same.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use mcp_layer::{AmbiguousCancel, DuplicateId, Outcome};
use serde_json::json;

use support::{Asked, CANCELLED, INVALID_REQUEST, Live, Site, call, cancel, post};

/// Two parked requests of one id, the handlers behind a gate each.
async fn two_parked(live: &Live) -> (Asked, Asked) {
    let one = live.park(&post(call("1", &json!({ "gate": "one", "text": "one" }))));
    live.parked(1).await;
    let two = live.park(&post(call("1", &json!({ "gate": "two", "text": "two" }))));
    live.parked(2).await;
    (one, two)
}

#[tokio::test]
async fn each_gets_its_own_answer_in_either_order() {
    for order in [["one", "two"], ["two", "one"]] {
        let live = Live::new().await;
        let (one, two) = two_parked(&live).await;
        live.probe.open(order[0]);
        live.parked(1).await;
        live.probe.open(order[1]);
        assert_eq!(one.answer().await.result("1"), json!({ "text": "one" }));
        assert_eq!(two.answer().await.result("1"), json!({ "text": "two" }));
        assert_eq!(live.outcomes.count(Outcome::Replied), 2);
    }
}

#[tokio::test]
async fn an_ambiguous_cancel_ends_none() {
    let live = Live::new().await;
    let (one, two) = two_parked(&live).await;
    live.post(&post(cancel("1"))).await.accepted();
    assert_eq!(live.server.parked(), 2);
    live.probe.open("one");
    assert_eq!(one.answer().await.result("1"), json!({ "text": "one" }));
    // Now it is clear which one is meant.
    live.post(&post(cancel("1"))).await.accepted();
    two.answer().await.error(200, CANCELLED, "1");
}

#[tokio::test]
async fn an_ambiguous_cancel_may_end_the_newest() {
    let live = Site::with(|options| options.ambiguous_cancel(AmbiguousCancel::Newest)).listen().await;
    let (one, two) = two_parked(&live).await;
    live.post(&post(cancel("1"))).await.accepted();
    two.answer().await.error(200, CANCELLED, "1");
    live.probe.open("one");
    assert_eq!(one.answer().await.result("1"), json!({ "text": "one" }));
}

#[tokio::test]
async fn the_newest_is_the_one_that_was_parked_last() {
    let live = Site::with(|options| options.ambiguous_cancel(AmbiguousCancel::Newest)).listen().await;
    let (one, two) = two_parked(&live).await;
    let three = live.park(&post(call("1", &json!({ "gate": "three" }))));
    live.parked(3).await;
    live.probe.open("one");
    assert_eq!(one.answer().await.result("1"), json!({ "text": "one" }));
    live.post(&post(cancel("1"))).await.accepted();
    three.answer().await.error(200, CANCELLED, "1");
    live.post(&post(cancel("1"))).await.accepted();
    two.answer().await.error(200, CANCELLED, "1");
}

#[tokio::test]
async fn an_ambiguous_cancel_may_end_all() {
    let live = Site::with(|options| options.ambiguous_cancel(AmbiguousCancel::All)).listen().await;
    let (one, two) = two_parked(&live).await;
    live.post(&post(cancel("1"))).await.accepted();
    one.answer().await.error(200, CANCELLED, "1");
    two.answer().await.error(200, CANCELLED, "1");
    assert_eq!(live.outcomes.count(Outcome::Cancelled), 2);
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test]
async fn initialize_is_spared_where_all_are_ended() {
    let live = Site::with(|options| options.ambiguous_cancel(AmbiguousCancel::All)).listen().await;
    let first = live.park(&post(support::initialize("1", &json!({ "gate": "first" }))));
    live.parked(1).await;
    let one = live.park(&post(call("1", &json!({ "gate": "one" }))));
    live.parked(2).await;
    live.post(&post(cancel("1"))).await.accepted();
    one.answer().await.error(200, CANCELLED, "1");
    live.probe.open("first");
    first.answer().await.result("1");
}

#[tokio::test]
async fn duplicates_may_be_refused() {
    let live = Site::with(|options| options.duplicate_id(DuplicateId::Reject)).listen().await;
    for id in ["1", r#""a""#] {
        let first = live.park(&post(call(id, &json!({ "gate": id }))));
        live.parked(1).await;
        let started = format!("started {id}");
        live.probe.until(&started).await;
        live.post(&post(call(id, &json!({})))).await.error(400, INVALID_REQUEST, id);
        assert_eq!(live.probe.count(&started), 1);
        // Those of another caller are none.
        live.post(&post(call(id, &json!({}))).and("authorization", "Bearer other")).await.result(id);
        assert!(!first.is_answered());
        live.probe.open(id);
        first.answer().await.result(id);
        live.post(&post(call(id, &json!({})))).await.result(id);
    }
    assert_eq!(live.outcomes.count(Outcome::Replied), 6);
}

#[tokio::test]
async fn an_id_is_free_again_once_it_is_cancelled() {
    let live = Site::with(|options| options.duplicate_id(DuplicateId::Reject)).listen().await;
    // Its handler runs on in its grace time, which is nobody's business.
    let stubborn = call("1", &json!({ "gate": "gate", "stays_for": "stay" }));
    let first = live.park(&post(stubborn).to("/polite"));
    live.parked(1).await;
    live.post(&post(cancel("1"))).await.accepted();
    first.answer().await.error(200, CANCELLED, "1");
    live.post(&post(call("1", &json!({})))).await.result("1");
    assert_eq!(live.probe.log().iter().filter(|line| line.starts_with("dropped")).count(), 0);
}
