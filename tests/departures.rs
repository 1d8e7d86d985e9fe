//! Clients that go away. In the legacy versions that is no cancellation: the handler runs on.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use mcp_layer::{McpLayer, Outcome};
use serde_json::json;
use tower::ServiceExt;
use tower::util::MapRequestLayer;

use support::{CANCELLED, Live, Post, Probe, Site, call, cancel, held, post, until};

/// Says "left" when the future is dropped that it is in, unless that has given its answer.
struct Seat {
    answered: bool,
    probe: Arc<Probe>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.answered {
            self.probe.note("left");
        }
    }
}

/// A server whose log tells when a response future is dropped, with this many other middlewares about.
async fn watched(middlewares: usize) -> Live {
    let site = Site::build(
        |options| options,
        |server, probe| {
            let mut app = Site::routes(probe).layer(McpLayer::new(server.clone()));
            for _ in 0..middlewares {
                app = app.layer(from_fn(async |request: Request, next: Next| next.run(request).await));
                app = app.layer(MapRequestLayer::new(|request: Request| request));
            }
            let probe = Arc::clone(probe);
            let watches = from_fn(move |request: Request, next: Next| {
                let mut seat = Seat { answered: false, probe: Arc::clone(&probe) };
                async move {
                    let response = next.run(request).await;
                    seat.answered = true;
                    seat.probe.note(format!("answered {}", response.status().as_u16()));
                    response
                }
            });
            Router::new().merge(app).layer(watches)
        },
    );
    site.listen().await
}

async fn leaves(live: &Live, request: &Post) {
    drop(live.send_and_park(request, 1).await);
    live.probe.until("left").await;
}

#[tokio::test]
async fn its_handler_runs_on_to_its_end() {
    for (middlewares, path) in [(0, "/mcp"), (1, "/polite"), (3, "/mcp")] {
        let live = watched(middlewares).await;
        leaves(&live, &post(held("1")).to(path)).await;
        assert_eq!((live.server.parked(), live.probe.log()), (1, vec!["started 1".to_owned(), "left".to_owned()]));
        live.probe.open("gate");
        live.probe.until("returned 1").await;
        live.parked(0).await;
        assert_eq!(live.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
    }
}

#[tokio::test]
async fn a_cancel_from_a_new_connection_still_ends_it() {
    for middlewares in [0, 1, 3] {
        for (path, ends) in [("/mcp", "dropped 1"), ("/polite", "fired 1: Cancelled None")] {
            let live = watched(middlewares).await;
            leaves(&live, &post(held("1")).to(path)).await;
            live.post(&post(cancel("1"))).await.accepted();
            live.probe.until(ends).await;
            assert_eq!(live.server.parked(), 0);
            assert_eq!(live.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
        }
    }
}

#[tokio::test]
async fn its_caller_may_not_use_the_id_as_if_it_were_free() {
    let live = watched(1).await;
    leaves(&live, &post(held("1"))).await;
    let again = live.park(&post(call("1", &json!({ "gate": "again" }))));
    live.parked(2).await;
    // Ambiguous: the one that was left is parked as well.
    live.post(&post(cancel("1"))).await.accepted();
    assert_eq!(live.server.parked(), 2);
    live.probe.open("gate");
    live.parked(1).await;
    live.post(&post(cancel("1"))).await.accepted();
    again.answer().await.error(200, CANCELLED, "1");
}

#[tokio::test]
async fn a_handler_that_fails_after_its_client_left_harms_nobody() {
    for wish in ["fail", "panic"] {
        let live = watched(1).await;
        leaves(&live, &post(call("1", &json!({ "gate": "gate", wish: true })))).await;
        live.probe.open("gate");
        live.parked(0).await;
        assert_eq!(live.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
        live.post(&post(call("2", &json!({})))).await.result("2");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_parks_nothing() {
    let live = watched(1).await;
    let request = post(held("1"));
    for bytes in [request.bytes(), request.chunked(20)] {
        let mut connection = live.connect().await;
        connection.send(&bytes[..bytes.len() - 10]).await;
        drop(connection);
    }
    // hyper tells of the end as an error of the body, so there is an answer, though nobody to read it.
    until(|| live.probe.count("answered 400") == 2).await;
    assert_eq!((live.server.parked(), live.probe.count("started 1")), (0, 0));
    live.post(&post(call("2", &json!({})))).await.result("2");
}

#[tokio::test]
async fn many_that_leave_leave_nothing() {
    let live = watched(1).await;
    let mut connections = Vec::new();
    for id in 0..100 {
        let mut connection = live.connect().await;
        connection.send(post(held(&id.to_string())).bytes()).await;
        connections.push(connection);
    }
    live.parked(100).await;
    drop(connections);
    until(|| live.probe.count("left") == 100).await;
    assert_eq!(live.server.parked(), 100);
    for id in 0..50_u32 {
        live.post(&post(cancel(&id.to_string()))).await.accepted();
    }
    live.probe.open("gate");
    live.parked(0).await;
    assert_eq!((live.outcomes.count(Outcome::Cancelled), live.outcomes.count(Outcome::Replied)), (50, 50));
}

#[tokio::test]
async fn a_client_that_leaves_takes_no_place_for_ever() {
    let site = Site::with(|options| options.max_parked(1));
    for _ in 0..3 {
        let asked = site.begin(&post(held("1")));
        site.parked(1).await;
        asked.abort();
        site.ask(&post(call("2", &json!({})))).await.error(503, support::INTERNAL_ERROR, "2");
        site.ask(&post(cancel("1"))).await.accepted();
        site.parked(0).await;
    }
    site.ask(&post(call("2", &json!({})))).await.result("2");
}

#[tokio::test]
async fn a_client_that_is_never_served_again_holds_up_no_end() {
    for (path, ends) in [("/mcp", "dropped 1"), ("/polite", "fired 1: Cancelled None")] {
        let site = Site::new();
        // Its future is kept, but nobody polls it any more.
        let mut response = pin!(site.app.clone().oneshot(post(held("1")).to(path).request()));
        assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        site.ask(&post(cancel("1"))).await.accepted();
        assert_eq!(site.server.parked(), 0);
        assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
        site.probe.until(ends).await;
        support::Answer::of(response.await.unwrap()).await.error(200, CANCELLED, "1");
    }
}

#[test]
fn a_runtime_that_ends_ends_its_exchanges() {
    for mut builder in [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()] {
        let runtime = builder.enable_all().build().unwrap();
        let site = Site::new();
        runtime.block_on(async {
            // One is driven by its client, the other by the background.
            drop(site.begin(&post(held("1"))));
            let asked = site.begin(&post(held("2")));
            site.parked(2).await;
            asked.abort();
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert_eq!(site.server.parked(), 0);
        assert_eq!(site.outcomes.count(Outcome::Disconnected), 2);
        assert_eq!((site.probe.count("dropped 1"), site.probe.count("dropped 2")), (1, 1));
    }
}

#[test]
fn without_a_runtime_a_departure_ends_the_exchange() {
    let site = Site::new();
    {
        let mut response = pin!(site.app.clone().oneshot(post(held("1")).request()));
        assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(site.server.parked(), 1);
    }
    assert_eq!(site.server.parked(), 0);
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Disconnected)]);
    assert_eq!(site.probe.count("dropped 1"), 1);
}
