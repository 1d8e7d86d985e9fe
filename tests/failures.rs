//! Handlers that panic and services that fail: their client gets an answer, and others do not notice.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::convert::Infallible;
use std::future::{Future, Ready, pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use axum::routing::post as on_post;
use http::Request;
use mcp_layer::{Cancellation, McpLayer, McpServer, Outcome};
use serde_json::json;
use tower::{Layer, Service, ServiceExt, service_fn};

use support::{Answer, CANCELLED, INTERNAL_ERROR, Live, Post, Site, call, cancel, initialize, post, until};

fn quick() -> Post {
    post(call("1", &json!({})))
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_says_nothing() {
    let live = Live::new().await;
    for path in ["/mcp", "/polite"] {
        let mut connection = live.connect().await;
        let panics = call("4", &json!({ "panic": true }));
        let answer = connection.post(&post(panics.clone()).to(path)).await;
        let error = answer.error(200, INTERNAL_ERROR, "4");
        assert!(!format!("{answer:?}").contains("secret"), "{answer:?}");
        assert_eq!(error.data, None);
        let answer = connection.post(&post(panics).to(path).with("accept", "text/event-stream")).await;
        support::error_of(answer.event(), INTERNAL_ERROR, Some("4"));
        connection.post(&quick()).await.result("1");
    }
    live.post(&post(initialize("0", &json!({ "panic": true })))).await.error(200, INTERNAL_ERROR, "0");
    assert_eq!(live.server.parked(), 0);
    assert_eq!(live.outcomes.count(Outcome::Replied), 7);
}

#[tokio::test]
async fn a_panic_after_a_wait_is_one_too() {
    let live = Live::new().await;
    let parked = live.park(&post(call("4", &json!({ "gate": "gate", "panic": true }))));
    live.parked(1).await;
    live.probe.open("gate");
    parked.answer().await.error(200, INTERNAL_ERROR, "4");
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_handler_is_dropped_reaches_nobody() {
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "as asked");
        }
    }

    let never = async || {
        let _bomb = Bomb;
        pending::<Response>().await
    };
    let asks = async |_token: Cancellation| {
        let _bomb = Bomb;
        pending::<Response>().await
    };
    let site = Site::over(on_post(never));
    for site in [site, Site::over(on_post(asks))] {
        let parked = site.begin(&quick());
        site.parked(1).await;
        // Its own handler never returns either, so this would wait for a second.
        let cancelling = site.begin(&post(cancel("1")));
        parked.answer().await.error(200, CANCELLED, "1");
        cancelling.answer().await.accepted();
        assert_eq!(site.server.parked(), 0);
    }
}

/// A service without axum.
async fn answers<S>(service: S, request: &Post) -> (Answer, McpServer)
where
    S: Service<Request<Body>, Response = Response> + Clone + Send + 'static,
    S::Error: Into<axum::BoxError>,
    S::Future: Send + 'static,
{
    let server = McpServer::new();
    let response = McpLayer::new(server.clone()).layer(service).oneshot(request.request()).await.unwrap();
    (Answer::of(response).await, server)
}

#[tokio::test]
async fn a_service_that_fails_is_an_internal_error() {
    let fails = service_fn(|_: Request<Body>| ready(Err::<Response, _>(std::io::Error::other("a secret"))));
    let (answer, server) = answers(fails, &quick()).await;
    answer.error(200, INTERNAL_ERROR, "1");
    assert!(!answer.text().contains("secret"));
    assert_eq!(server.parked(), 0);
    let (answer, _) = answers(fails, &post(cancel("1"))).await;
    answer.accepted();
    let (answer, _) = answers(fails, &quick().method("GET")).await;
    answer.error(500, INTERNAL_ERROR, None);
}

#[derive(Clone, Copy)]
enum Broken {
    NeverReady,
    PanicsWhenAsked,
    PanicsWhenCalled,
    Unready,
}

impl Service<Request<Body>> for Broken {
    type Response = Response;
    type Error = std::io::Error;
    type Future = Ready<Result<Response, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self {
            Self::NeverReady => Poll::Pending,
            Self::PanicsWhenAsked => panic!("a secret"),
            Self::PanicsWhenCalled => Poll::Ready(Ok(())),
            Self::Unready => Poll::Ready(Err(std::io::Error::other("a secret"))),
        }
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        panic!("a secret")
    }
}

#[tokio::test]
async fn a_service_that_breaks_before_it_has_a_future_is_an_internal_error() {
    for broken in [Broken::PanicsWhenAsked, Broken::PanicsWhenCalled, Broken::Unready] {
        let (answer, server) = answers(broken, &quick()).await;
        answer.error(200, INTERNAL_ERROR, "1");
        assert!(!answer.text().contains("secret"));
        assert_eq!(server.parked(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_can_be_cancelled() {
    let server = McpServer::new();
    let service = McpLayer::new(server.clone()).layer(Broken::NeverReady);
    let waiting = tokio::spawn(service.clone().oneshot(quick().request()));
    until(|| server.parked() == 1).await;
    Answer::of(service.oneshot(post(cancel("1")).request()).await.unwrap()).await.accepted();
    Answer::of(waiting.await.unwrap().unwrap()).await.error(200, CANCELLED, "1");
}

/// A future that panics with what is no text.
struct Odd;

impl Future for Odd {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        std::panic::panic_any(Payload)
    }
}

/// A payload whose own destructor panics.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a secret");
    }
}

#[tokio::test]
async fn a_panic_of_any_kind_is_an_internal_error() {
    let (answer, server) = answers(service_fn(|_: Request<Body>| Odd), &quick()).await;
    answer.error(200, INTERNAL_ERROR, "1");
    assert_eq!(server.parked(), 0);
}
