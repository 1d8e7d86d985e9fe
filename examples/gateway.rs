//! A gateway: everything goes to another MCP server and back as it is. A cancel ends the call here at once, whatever that
//! server makes of it, and goes on to it.
//!
//! ```sh
//! cargo run --example gateway -- --listen 127.0.0.1:8000 --upstream http://127.0.0.1:8001/mcp
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::serve::ListenerExt;
use clap::Parser;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcp_layer::{McpError, McpLayer, McpServer};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// The MCP endpoint of the other server
    #[arg(long)]
    upstream: Uri,
}

#[derive(Clone)]
struct Upstream {
    client: Client<HttpConnector, Body>,
    uri: Uri,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let options = Options::parse();
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    // This one speaks plain HTTP; for https wrap the connector, with `hyper-rustls` say.
    let upstream = Upstream { client: Client::builder(TokioExecutor::new()).build(connector), uri: options.upstream };
    let server = McpServer::new();
    let app =
        Router::new().route("/mcp", any(forward)).with_state(upstream).layer(McpLayer::transparent(server.clone()));

    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = async { axum::serve(listener, app).await } => served,
        () = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            server.shutdown(Duration::from_secs(10)).await;
            // What has been answered is sent.
            tokio::time::sleep(Duration::from_millis(100)).await;
        } => Ok(()),
    }
}

/// The layer drops this when the call ends before, and with it the request to the other server.
async fn forward(State(upstream): State<Upstream>, mut request: Request) -> Response {
    *request.uri_mut() = upstream.uri;
    *request.version_mut() = axum::http::Version::HTTP_11;
    remove_hop_by_hop(request.headers_mut());
    // The client names the other server here.
    request.headers_mut().remove(header::HOST);
    match upstream.client.request(request).await {
        Ok(response) => {
            let mut response = response.map(Body::new);
            remove_hop_by_hop(response.headers_mut());
            response
        }
        Err(error) => {
            tracing::error!(%error, "the other server does not answer");
            let error = McpError::internal_error("The server behind this gateway does not answer");
            (StatusCode::BAD_GATEWAY, error).into_response()
        }
    }
}

/// Headers of a connection, not of what goes over it (RFC 9110, 7.6.1).
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value: &HeaderValue| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    for name in named.into_iter().chain(always) {
        headers.remove(name);
    }
}
