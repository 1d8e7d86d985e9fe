//! HTTP/2 without TLS, as a reverse proxy speaks it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::Request;
use mcp_layer::{McpLayer, Outcome};
use serde_json::json;

use support::http2::{ask, connect, to};
use support::{CANCELLED, INVALID_REQUEST, Live, Post, Site, call, cancel, held, post};

fn quick() -> Post {
    post(call("1", &json!({})))
}

#[tokio::test]
async fn the_authority_stands_for_the_host() {
    let site = Site::build(
        |options| options,
        |server, probe| {
            let layer = McpLayer::new(server.clone());
            let nested = Router::new().nest("/a", Site::routes(probe).layer(layer.clone()));
            Site::routes(probe).layer(layer).merge(nested)
        },
    );
    let live = site.listen().await;
    let sender = connect(&live).await;
    let no_host = quick().without("host");
    for path in ["/mcp", "/a/mcp"] {
        ask(&sender, to("localhost:1", path, &no_host)).await.result("1");
        ask(&sender, to("evil.example", path, &no_host)).await.error(403, INVALID_REQUEST, None);
        ask(&sender, to("localhost", path, &quick())).await.result("1");
        ask(&sender, to("evil.example", path, &quick())).await.error(403, INVALID_REQUEST, None);
        ask(&sender, to("localhost", path, &quick().with("host", "127.0.0.1"))).await.error(403, INVALID_REQUEST, None);
    }
}

#[tokio::test]
async fn a_cancel_on_the_same_connection_ends_its_stream_only() {
    let live = Live::new().await;
    let sender = connect(&live).await;
    let park = |id: &'static str| {
        let sender = sender.clone();
        tokio::spawn(async move { ask(&sender, to("localhost", "/mcp", &post(held(id)))).await })
    };
    let (ended, spared) = (park("1"), park("2"));
    live.parked(2).await;
    ask(&sender, to("localhost", "/mcp", &post(cancel("1")))).await.accepted();
    ended.await.unwrap().error(200, CANCELLED, "1");
    assert!(!spared.is_finished());
    live.probe.open("gate");
    spared.await.unwrap().result("2");
}

#[tokio::test]
async fn a_stream_that_is_reset_is_a_departure() {
    let live = Live::new().await;
    let sender = connect(&live).await;
    let leaving = tokio::spawn({
        let sender = sender.clone();
        async move { ask(&sender, to("localhost", "/mcp", &post(held("1")))).await }
    });
    live.parked(1).await;
    leaving.abort();
    // The reset is before this on the same connection.
    ask(&sender, to("localhost", "/mcp", &post(call("2", &json!({}))))).await.result("2");
    assert_eq!((live.server.parked(), live.probe.count("dropped 1")), (1, 0));
    live.probe.open("gate");
    live.probe.until("returned 1").await;
    live.parked(0).await;
    assert_eq!(live.outcomes.count(Outcome::Replied), 2);
}

#[tokio::test]
async fn a_refusal_during_an_upload_is_read() {
    let live = Site::with(|options| options.max_body_bytes(1_000)).listen().await;
    let sender = connect(&live).await;
    ask(&sender, to("localhost", "/mcp", &post(vec![b'x'; 1 << 20]))).await.error(413, INVALID_REQUEST, None);
    let piece =
        || futures_util::stream::iter((0..64).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 16_000]))));
    let (parts, _) = to("localhost", "/mcp", &quick()).into_parts();
    ask(&sender, Request::from_parts(parts, Body::from_stream(piece()))).await.error(413, INVALID_REQUEST, None);
    ask(&sender, to("localhost", "/mcp", &quick())).await.result("1");
}
