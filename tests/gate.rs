//! What is let in, by its head.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::Router;
use axum::http::Method;
use axum::routing::get;
use mcp_layer::McpLayer;
use serde_json::json;
use tokio::sync::mpsc;

use support::{INVALID_REQUEST, Live, Post, Site, call, cancel, initialize, post};

fn quick() -> Post {
    post(call("1", &json!({})))
}

/// An upload of which only the head is sent.
async fn refused_by_its_head(request: &Post, status: u16) {
    let live = Live::new().await;
    let mut connection = live.connect().await;
    connection.send(request.clone().with("content-length", "1000000").head_alone()).await;
    connection.answer().await.error(status, INVALID_REQUEST, None);
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test]
async fn a_stranger_is_refused_before_its_body_is_read() {
    refused_by_its_head(&quick().with("host", "evil.example"), 403).await;
    refused_by_its_head(&quick().and("origin", "https://evil.example"), 403).await;
    refused_by_its_head(&quick().with("content-type", "text/plain"), 415).await;
    refused_by_its_head(&quick().and("content-encoding", "gzip"), 415).await;
}

#[tokio::test]
async fn who_it_comes_from_is_checked_first() {
    let wrong = quick().with("content-type", "text/plain").with("accept", "text/html");
    let site = Site::new();
    site.ask(&wrong.clone().with("host", "evil.example")).await.error(403, INVALID_REQUEST, None);
    site.ask(&wrong.clone().with("content-length", "99999999")).await.error(415, INVALID_REQUEST, None);
    site.ask(&quick().with("host", "evil.example").method("GET")).await.error(403, INVALID_REQUEST, None);
    assert_eq!(site.probe.log(), [""; 0]);
}

#[tokio::test]
async fn only_loopback_hosts_by_default() {
    let site = Site::new();
    for good in [
        "localhost",
        "localhost:",
        "LocalHost:80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.1.2.3:9",
        "[::1]",
        "[::1]:",
        "[::1]:8080",
    ] {
        site.ask(&quick().with("host", good)).await.result("1");
    }
    for bad in [
        "evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "localhost@evil.example",
        "127.0.0.1.evil.example",
        "128.0.0.1",
        "[::2]",
        "localhost:port",
        "localhost::",
        "evil.example:",
        "localhost:99999",
        "localhost/",
        "localhost, localhost",
        "",
    ] {
        site.ask(&quick().with("host", bad)).await.error(403, INVALID_REQUEST, None);
    }
    site.ask(&quick().without("host")).await.error(403, INVALID_REQUEST, None);
    site.ask(&quick().and("host", "localhost")).await.error(403, INVALID_REQUEST, None);
}

#[tokio::test]
async fn listed_hosts_replace_the_default() {
    let site = Site::with(|it| it.allowed_hosts(["mcp.example.com", "other.example:8443", "[2001:db8::1]"]).unwrap());
    for good in ["mcp.example.com", "MCP.example.com:443", "mcp.example.com:1", "other.example:8443", "[2001:db8:0::1]"]
    {
        site.ask(&quick().with("host", good)).await.result("1");
    }
    for bad in ["localhost", "x.mcp.example.com", "mcp.example.com.evil.example", "other.example", "other.example:1"] {
        let error = site.ask(&quick().with("host", bad)).await.error(403, INVALID_REQUEST, None);
        assert!(error.message.contains("allowed_hosts"), "the setting is not named: {}", error.message);
        assert!(!error.message.contains("example"), "the list is told: {}", error.message);
    }
    let any = Site::with(mcp_layer::McpServerBuilder::allow_any_host);
    any.ask(&quick().with("host", "evil.example")).await.result("1");
    any.ask(&quick().without("host")).await.error(403, INVALID_REQUEST, None);
    any.ask(&quick().and("host", "localhost")).await.error(403, INVALID_REQUEST, None);
}

#[tokio::test]
async fn a_target_that_names_another_host_is_refused() {
    let live = Live::new().await;
    let absolute = |host: &str| quick().to(&format!("http://{host}/mcp"));
    live.post(&absolute("localhost")).await.result("1");
    live.post(&absolute("evil.example")).await.error(403, INVALID_REQUEST, None);
    live.post(&absolute("127.0.0.1")).await.error(403, INVALID_REQUEST, None);
    live.post(&absolute("localhost").with("host", "evil.example")).await.error(403, INVALID_REQUEST, None);
}

#[tokio::test]
async fn http_1_0_must_name_its_host_too() {
    let live = Live::new().await;
    let old = |request: Post| String::from_utf8(request.bytes()).unwrap().replacen("HTTP/1.1", "HTTP/1.0", 1);
    let mut connection = live.connect().await;
    connection.send(old(quick().without("host"))).await;
    connection.answer().await.error(403, INVALID_REQUEST, None);
    let mut connection = live.connect().await;
    connection.send(old(quick())).await;
    connection.answer().await.result("1");
}

#[tokio::test]
async fn only_loopback_origins_by_default() {
    let site = Site::new();
    for good in [
        "http://localhost",
        "http://localhost:",
        "https://localhost:1",
        "HTTP://LOCALHOST:3000",
        "http://127.0.0.1:6274",
        "http://127.0.0.1:",
        "http://[::1]:1",
        "http://[::1]:",
    ] {
        site.ask(&quick().and("origin", good)).await.result("1");
    }
    for bad in [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example:80",
        "http://user@localhost:1@evil.example",
        "http://localhost/",
        "vscode-webview://localhost",
        "localhost",
        "",
    ] {
        let error = site.ask(&quick().and("origin", bad)).await.error(403, INVALID_REQUEST, None);
        assert!(error.message.contains("allowed_origins"), "{}", error.message);
    }
    let twice = quick().and("origin", "http://localhost").and("origin", "http://localhost");
    site.ask(&twice).await.error(403, INVALID_REQUEST, None);
}

#[tokio::test]
async fn listed_origins_replace_the_default() {
    let listed = ["https://app.example.com", "vscode-webview://id1", "file://", "chrome-extension://id"];
    let site = Site::with(|it| it.allowed_origins(listed).unwrap());
    for good in [
        "https://app.example.com",
        "https://app.example.com:",
        "HTTPS://App.Example.com:443",
        "vscode-webview://id1",
        "file://",
        "chrome-extension://id",
    ] {
        site.ask(&quick().and("origin", good)).await.result("1");
    }
    for bad in [
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com.evil.example",
        "vscode-webview://id2",
        "http://localhost",
        "null",
    ] {
        site.ask(&quick().and("origin", bad)).await.error(403, INVALID_REQUEST, None);
    }
    site.ask(&quick()).await.result("1");
    let any = Site::with(mcp_layer::McpServerBuilder::allow_any_origin);
    for origin in ["https://evil.example", "file://", "null", "chrome-extension://id", "about:blank", "odd"] {
        any.ask(&quick().and("origin", origin)).await.result("1");
    }
    any.ask(&quick().and("origin", "file://").and("origin", "file://")).await.error(403, INVALID_REQUEST, None);
}

#[tokio::test]
async fn accept_decides_the_form() {
    let site = Site::new();
    for json in [
        "application/json, text/event-stream",
        "text/event-stream,application/json;q=0.9",
        "*/*",
        "application/*, text/*",
        "Application/JSON , TEXT/event-stream;q=0.5",
        "application/json",
        "application/json;;q=1, text/event-stream;",
    ] {
        site.ask(&quick().with("accept", json)).await.result("1");
    }
    site.ask(&quick().without("accept")).await.result("1");
    for event in ["text/event-stream", "application/json;q=0, text/event-stream", "TEXT/*"] {
        let answer = site.ask(&quick().with("accept", event)).await;
        support::result_of(answer.event(), "1");
    }
    for bad in ["text/html", "application/jsonp", "application/json;q=0, text/event-stream;q=0.0", "*/*;q=0"] {
        site.ask(&quick().with("accept", bad)).await.error(406, INVALID_REQUEST, "1");
        site.ask(&post(cancel("1")).with("accept", bad)).await.accepted();
    }
    site.ask(&post(cancel("1")).without("accept")).await.accepted();
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn only_json_is_read() {
    let site = Site::new();
    for good in [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON;charset=UTF-8",
        "application/json;",
        "application/json;;charset=utf-8",
    ] {
        site.ask(&quick().with("content-type", good)).await.result("1");
    }
    for bad in
        ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json-patch+json", ""]
    {
        site.ask(&quick().with("content-type", bad)).await.error(415, INVALID_REQUEST, None);
        site.ask(&post(cancel("1")).with("content-type", bad)).await.error(415, INVALID_REQUEST, None);
    }
    site.ask(&quick().without("content-type")).await.error(415, INVALID_REQUEST, None);
    site.ask(&quick().and("content-type", "application/json")).await.error(415, INVALID_REQUEST, None);
}

#[tokio::test]
async fn a_body_that_is_encoded_is_refused_whatever_is_in_it() {
    let site = Site::new();
    for coding in ["gzip", "GZip", "deflate", "br", "zstd", "aws-chunked", "identity, gzip", "none"] {
        for request in [quick(), post(cancel("1")), post(b"\x1f\x8b\x08\x00")] {
            let answer = site.ask(&request.and("content-encoding", coding)).await;
            answer.error(415, INVALID_REQUEST, None);
            assert_eq!(answer.header("accept-encoding"), Some("identity"), "{coding}");
        }
    }
    let twice = quick().and("content-encoding", "identity").and("content-encoding", "gzip");
    site.ask(&twice).await.error(415, INVALID_REQUEST, None);
    assert_eq!(site.probe.log(), [""; 0]);
    for coding in ["identity", "Identity", ""] {
        site.ask(&quick().and("content-encoding", coding)).await.result("1");
    }
    // Only a POST has a body to be read.
    assert_eq!(site.ask(&post("").method("GET").and("content-encoding", "gzip")).await.status, 405);
    let other = site.ask(&quick().with("content-type", "text/plain")).await;
    assert_eq!((other.status, other.header("accept-encoding")), (415, None));
}

#[tokio::test]
async fn other_methods_are_the_services_business() {
    let live = Live::new().await;
    for method in ["GET", "DELETE", "PUT", "PATCH", "HEAD"] {
        let mut connection = live.connect().await;
        let answer =
            connection.post(&post("").method(method).without("content-type").with("accept", "text/html")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
    assert_eq!(live.outcomes.all(), []);
}

#[tokio::test]
async fn a_get_passes_and_is_never_parked() {
    let site = Site::build(
        |options| options,
        |server, _| {
            let server = server.clone();
            let parked = server.clone();
            let routes = Router::new().route("/mcp", get(async move || parked.parked().to_string()));
            routes.layer(McpLayer::new(server))
        },
    );
    let answer = site.ask(&post("").method("GET")).await;
    assert_eq!((answer.status, answer.text()), (200, "0"));
    assert_eq!(site.outcomes.all(), []);
}

#[tokio::test]
async fn options_are_left_alone() {
    let (sees, mut seen) = mpsc::unbounded_channel();
    let route = axum::routing::any(async move |method: Method| sees.send(method).unwrap());
    let site = Site::over(route);
    let foreign = post("").method("OPTIONS").with("host", "evil.example").and("origin", "https://evil.example");
    assert_eq!(site.ask(&foreign).await.status, 200);
    assert_eq!(seen.recv().await.unwrap(), Method::OPTIONS);
}

#[tokio::test]
async fn a_client_that_waits_to_send_is_told_to_go_on_or_not() {
    let live = Live::new().await;
    let mut connection = live.connect().await;
    let waits = quick().and("expect", "100-continue");
    connection.send(waits.head()).await;
    assert_eq!(connection.answer().await.status, 100);
    connection.send(call("1", &json!({}))).await;
    connection.answer().await.result("1");

    for (refused, status) in
        [(waits.clone().with("host", "evil.example"), 403), (waits.clone().with("content-type", "text/plain"), 415)]
    {
        let mut connection = live.connect().await;
        connection.send(refused.head()).await;
        connection.answer().await.error(status, INVALID_REQUEST, None);
        connection.closed().await;
    }
}

#[tokio::test]
async fn the_version_must_be_one_that_is_served() {
    let site = Site::new();
    for good in ["2025-03-26", "2025-06-18", "2025-11-25", "2024-11-05"] {
        site.ask(&quick().with("mcp-protocol-version", good)).await.result("1");
    }
    site.ask(&quick().without("mcp-protocol-version")).await.result("1");
    for bad in ["1999-01-01", "junk", "", "2025-11-25, 2025-11-25"] {
        site.ask(&quick().with("mcp-protocol-version", bad)).await.error(400, INVALID_REQUEST, "1");
        site.ask(&post(cancel("1")).with("mcp-protocol-version", bad)).await.error(400, INVALID_REQUEST, None);
    }
    site.ask(&quick().and("mcp-protocol-version", "2025-11-25")).await.error(400, INVALID_REQUEST, "1");
    // It negotiates instead.
    let newer = initialize("1", &json!({ "protocolVersion": "2099-01-01" }));
    site.ask(&post(newer).with("mcp-protocol-version", "2099-01-01")).await.result("1");
}
