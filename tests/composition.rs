//! The layer among the routers, extractors and layers of others.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::Duration;

use axum::error_handling::HandleErrorLayer;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post as on_post};
use axum::{BoxError, Extension, Json, Router};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use mcp_layer::{Cancellation, ExchangeInfo, ExtractRejection, McpLayer, McpMessage, McpServer, Params, Reply};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tower_http::cors::CorsLayer;
use tower_http::decompression::{DecompressionLayer, RequestDecompressionLayer};
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use support::{Answer, CANCELLED, INTERNAL_ERROR, INVALID_REQUEST, Post, Site, call, cancel, held, post};

fn quick() -> Post {
    post(call("1", &json!({ "text": "x" })))
}

fn site(app: impl FnOnce(McpLayer, Router) -> Router) -> Site {
    Site::build(|options| options, |server, probe| app(McpLayer::new(server.clone()), Site::routes(probe)))
}

/// A request to this path is answered, and one is cancelled.
async fn works(site: &Site, path: &str) {
    assert_eq!(site.ask(&quick().to(path)).await.result("1"), json!({ "text": "x" }), "{path}");
    let parked = site.begin(&post(held("2")).to(path));
    site.parked(1).await;
    site.ask(&post(cancel("2")).to(path)).await.accepted();
    parked.answer().await.error(200, CANCELLED, "2");
}

#[tokio::test]
async fn routers_carry_it_anywhere() {
    works(&site(|layer, routes| routes.layer(layer)), "/mcp").await;
    works(&site(|layer, routes| routes.route_layer(layer)), "/mcp").await;
    works(&site(|layer, routes| routes.layer(layer.clone()).layer(layer)), "/mcp").await;
    works(&site(|layer, routes| Router::new().nest("/a/b", routes.layer(layer))), "/a/b/mcp").await;
    works(&site(|layer, routes| Router::new().nest("/a/b", routes).layer(layer)), "/a/b/mcp").await;
    works(&site(|layer, routes| Router::new().nest_service("/a", layer.layer(routes))), "/a/mcp").await;
    works(&site(|layer, routes| Router::new().route_service("/mcp", layer.layer(routes))), "/mcp").await;
    works(&site(|layer, routes| Router::new().fallback_service(layer.layer(routes))), "/mcp").await;
    let merged = site(|layer, routes| Router::new().route("/health", get("ok")).merge(routes.layer(layer)));
    works(&merged, "/mcp").await;
    let health = merged.ask(&post("").method("GET").to("/health").with("host", "evil.example")).await;
    assert_eq!((health.status, health.text()), (200, "ok"));
}

#[tokio::test]
async fn a_layer_on_one_method_router_is_enough() {
    let site = Site::build(
        |options| options,
        |server, probe| {
            let handler = on_post(async |message: McpMessage| Reply(json!(message.method())));
            let layered = handler.layer(McpLayer::new(server.clone()));
            Router::new().route("/alone", layered).merge(Site::routes(probe))
        },
    );
    assert_eq!(site.ask(&quick().to("/alone")).await.result("1"), json!("tools/call"));
}

#[tokio::test]
async fn axums_extractors_work_beside_its_own() {
    #[expect(clippy::too_many_arguments, reason = "they are the point")]
    async fn all(
        State(state): State<&'static str>,
        Extension(user): Extension<u8>,
        Path(tenant): Path<String>,
        Query(query): Query<Value>,
        method: Method,
        message: McpMessage,
        info: ExchangeInfo,
        Params(params): Params<Value>,
        token: Cancellation,
        Json(body): Json<Value>,
    ) -> Reply<Value> {
        assert!(!token.is_cancelled());
        Reply(json!({
            "state": state, "user": user, "tenant": tenant, "query": query, "http": method.as_str(),
            "method": message.method(), "id": message.id().unwrap().to_string(), "info": [info.id().unwrap().to_string(), info.method(), info.version().as_str()],
            "params": params, "body": body, "text": message.as_str(),
        }))
    }

    let site = site(|layer, _| {
        let route = Router::new().route("/{tenant}/mcp", on_post(all)).with_state("state").layer(layer);
        route.layer(Extension(7_u8))
    });
    let text = call("\"a\"", &json!({ "x": [1] }));
    let seen = site.ask(&post(text.clone()).to("/acme/mcp?a=b")).await.result("\"a\"");
    let expected = json!({
        "state": "state", "user": 7, "tenant": "acme", "query": { "a": "b" }, "http": "POST",
        "method": "tools/call", "id": "\"a\"", "info": ["\"a\"", "tools/call", "2025-11-25"],
        "params": { "x": [1] }, "body": serde_json::from_str::<Value>(&text).unwrap(), "text": text,
    });
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn extractors_without_the_layer_say_what_is_missing() {
    let routes = Router::new()
        .route("/message", on_post(async |_: McpMessage| ()))
        .route("/info", on_post(async |_: ExchangeInfo| ()))
        .route("/token", on_post(async |_: Cancellation| ()))
        .route("/params", on_post(async |_: Params<Value>| ()))
        .route(
            "/caught",
            on_post(async |message: Result<McpMessage, ExtractRejection>| message.unwrap_err().to_string()),
        );
    for path in ["/message", "/info", "/token", "/params"] {
        let answer = Answer::of(routes.clone().oneshot(quick().to(path).request()).await.unwrap()).await;
        assert_eq!(answer.status, 500, "{path}");
        assert!(answer.text().contains("McpLayer"), "{}", answer.text());
    }
    let caught = Answer::of(routes.oneshot(quick().to("/caught").request()).await.unwrap()).await;
    assert!(caught.text().contains("McpLayer"));
}

#[tokio::test]
async fn a_tower_service_without_axum_is_served() {
    let server = McpServer::new();
    let service =
        ServiceBuilder::new().layer(McpLayer::new(server)).service_fn(async |request: Request<axum::body::Body>| {
            let message = request.extensions();
            assert!(!message.is_empty());
            let whole = r#"{"jsonrpc":"2.0","id":1,"result":"plain"}"#;
            Ok::<_, std::io::Error>(http::Response::new(Full::new(bytes::Bytes::from(whole))))
        });
    let (parts, _) = quick().request().into_parts();
    let request = Request::from_parts(parts, Full::new(bytes::Bytes::from(call("1", &json!({})))));
    assert_eq!(Answer::of(service.oneshot(request).await.unwrap()).await.result("1"), json!("plain"));
}

#[tokio::test]
async fn a_page_can_read_why_it_was_refused() {
    let site = Site::build(
        |options| options.allowed_origins(["https://app.example"]).unwrap().max_body_bytes(1_000),
        |server, probe| {
            let layers = ServiceBuilder::new()
                .layer(TraceLayer::new_for_http())
                .layer(CorsLayer::permissive())
                .layer(McpLayer::new(server.clone()));
            Site::routes(probe).layer(layers)
        },
    );
    let app = |request: Post| request.and("origin", "https://app.example");
    for (request, status) in [
        (post("{"), 400),
        (quick().with("host", "evil.example"), 403),
        (quick().with("accept", "text/html"), 406),
        (post("x".repeat(1_001)), 413),
        (quick().with("content-type", "text/plain"), 415),
        (quick(), 200),
        (post(cancel("1")), 202),
    ] {
        let answer = site.ask(&app(request)).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, Some("*")));
    }
    let parked = site.begin(&app(post(held("2"))));
    site.parked(1).await;
    site.ask(&app(post(cancel("2")))).await.accepted();
    let cancelled = parked.answer().await;
    cancelled.error(200, CANCELLED, "2");
    assert_eq!(cancelled.header("access-control-allow-origin"), Some("*"));
}

#[tokio::test]
async fn a_preflight_passes_whether_cors_is_outside_or_inside() {
    let preflight = post("")
        .method("OPTIONS")
        .without("content-type")
        .and("origin", "https://app.example")
        .and("access-control-request-method", "POST");
    let outside = site(|layer, routes| routes.layer(layer).layer(CorsLayer::permissive()));
    let inside = site(|layer, routes| routes.layer(CorsLayer::permissive()).layer(layer));
    for site in [outside, inside] {
        let answer = site.ask(&preflight).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("*")));
    }
}

#[tokio::test]
async fn compression_outside_compresses_and_inside_does_nothing() {
    let compress = || CompressionLayer::new().compress_when(SizeAbove::new(16));
    let asks = quick().and("accept-encoding", "gzip");
    let outside = site(|layer, routes| routes.layer(layer).layer(compress()));
    assert_eq!(outside.ask(&asks).await.header("content-encoding"), Some("gzip"));
    let decompressed = DecompressionLayer::new().layer(outside.app).oneshot(quick().request()).await.unwrap();
    Answer::of(decompressed.map(axum::body::Body::new)).await.result("1");

    let inside = site(|layer, routes| routes.layer(compress()).layer(layer));
    let answer = inside.ask(&asks).await;
    answer.result("1");
    assert_eq!(answer.header("content-encoding"), None);
}

#[tokio::test]
async fn a_decompression_layer_outside_reads_encoded_bodies() {
    let body = call("1", &json!({ "a": "x".repeat(10_000) }));
    let plain = tower::service_fn(async |_: axum::extract::Request| {
        Ok::<_, std::convert::Infallible>(axum::response::Response::new(axum::body::Body::from(body.clone())))
    });
    let asks = axum::extract::Request::builder().header("accept-encoding", "gzip").body(axum::body::Body::empty());
    let compressed = CompressionLayer::new().layer(plain).oneshot(asks.unwrap()).await.unwrap();
    let compressed = http_body_util::BodyExt::collect(compressed.into_body()).await.unwrap().to_bytes();
    assert!(compressed.len() < 1_000, "{}", compressed.len());

    let encoded = post(&compressed[..]).and("content-encoding", "gzip");
    let bare = site(|layer, routes| routes.layer(layer));
    bare.ask(&encoded).await.error(415, INVALID_REQUEST, None);
    let outside = site(|layer, routes| routes.layer(layer).layer(RequestDecompressionLayer::new()));
    outside.ask(&encoded).await.result("1");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_is_a_departure() {
    let timeout = TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(3));
    let site = site(|layer, routes| routes.layer(layer).layer(timeout));
    let began = Instant::now();
    assert_eq!(site.ask(&post(held("1"))).await.status, 504);
    assert_eq!(began.elapsed().as_secs(), 3);
    // Its handler runs on, and can be cancelled.
    assert_eq!((site.server.parked(), site.probe.count("dropped 1")), (1, 0));
    site.ask(&post(cancel("1"))).await.accepted();
    site.probe.until("dropped 1").await;
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_inside_is_the_handlers_answer() {
    let timeout = TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(3));
    let site = site(|layer, routes| routes.layer(timeout).layer(layer));
    assert_eq!(site.ask(&post(held("1"))).await.status, 504);
    assert_eq!((site.server.parked(), site.probe.count("dropped 1")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_tower_inside_is_a_failure() {
    let server = McpServer::new();
    let slow = service_fn(async |_: Request<axum::body::Body>| {
        std::future::pending::<()>().await;
        Ok::<Response, BoxError>(StatusCode::OK.into_response())
    });
    let layers = ServiceBuilder::new().layer(McpLayer::new(server.clone())).timeout(Duration::from_secs(3));
    let response = layers.service(slow).oneshot(quick().request()).await.unwrap();
    Answer::of(response).await.error(200, INTERNAL_ERROR, "1");
    assert_eq!(server.parked(), 0);
}

#[tokio::test]
async fn what_sheds_load_below_the_layer_answers_through_it() {
    let shed = || {
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE))
            .load_shed()
            .concurrency_limit(1)
    };
    let site = site(|layer, routes| routes.layer(shed()).layer(layer));
    let parked = site.begin(&post(held("1")));
    site.parked(1).await;
    assert_eq!(site.ask(&quick()).await.status, 503);
    // Whatever becomes of its notification, the cancel counts.
    site.ask(&post(cancel("1"))).await;
    parked.answer().await.error(200, CANCELLED, "1");
}

#[tokio::test]
async fn catch_panic_outside_has_nothing_to_catch_and_inside_it_answers() {
    let panics = post(call("1", &json!({ "panic": true })));
    let outside = site(|layer, routes| routes.layer(layer).layer(CatchPanicLayer::new()));
    outside.ask(&panics).await.error(200, INTERNAL_ERROR, "1");
    let inside = site(|layer, routes| routes.layer(CatchPanicLayer::new()).layer(layer));
    assert_eq!(inside.ask(&panics).await.status, 500);
    assert_eq!(inside.server.parked(), 0);
}
