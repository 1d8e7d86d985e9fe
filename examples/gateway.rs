//! A gateway: what comes to it goes on to another MCP server, and that server's replies come back as they are. A success that
//! does not answer its request (a page, an empty body, half of a JSON document) becomes the error -32603. A cancel ends its
//! call here at once, whatever that server makes of it: the connection to it is dropped, and the cancel goes on to it.
//!
//! ```sh
//! cargo run --example gateway -- --listen 127.0.0.1:8000 --upstream http://127.0.0.1:8001/mcp
//! ```

use std::error::Error;
use std::io;
use std::iter::successors;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{StatusCode, Uri, Version};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::serve::ListenerExt;
use clap::Parser;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mcp_layer::{ConfigError, McpError, McpLayer, McpMessage, McpServer};
use tokio::signal::unix::{SignalKind, signal};

/// A cancel and its request go to the other server over two connections. One that comes right behind its request is held
/// back this long, so that it finds it there.
const BEHIND_ITS_REQUEST: Duration = Duration::from_millis(50);

/// Stands in front of an MCP server that speaks Streamable HTTP.
#[derive(Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// The MCP endpoint of the other server
    #[arg(long, value_parser = endpoint)]
    upstream: Uri,
    /// Host to answer to, instead of loopback; may be repeated
    #[arg(long)]
    allowed_host: Vec<String>,
    /// Web origin to answer to, instead of loopback; may be repeated. The other server hears of it, too
    #[arg(long)]
    allowed_origin: Vec<String>,
    #[arg(long, default_value_t = 4 << 20)]
    max_body_bytes: usize,
    #[arg(long, default_value_t = 600_000)]
    request_timeout_ms: u64,
    /// How long requests have to finish on SIGTERM, SIGINT or SIGHUP
    #[arg(long, default_value_t = 10_000)]
    drain_ms: u64,
}

impl Options {
    fn server(&self) -> Result<McpServer, ConfigError> {
        let mut server = McpServer::builder()
            .max_body_bytes(self.max_body_bytes)
            .request_timeout(Some(Duration::from_millis(self.request_timeout_ms)));
        if !self.allowed_host.is_empty() {
            server = server.allowed_hosts(&self.allowed_host)?;
        }
        if !self.allowed_origin.is_empty() {
            server = server.allowed_origins(&self.allowed_origin)?;
        }
        Ok(server.build())
    }
}

/// This gateway speaks plain HTTP to the other server. For https wrap the connector, with `hyper-rustls` say.
fn endpoint(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) => Ok(uri),
        _ => Err("not http://HOST[:PORT]/PATH".to_owned()),
    }
}

#[derive(Clone)]
struct Upstream {
    client: Client<HttpConnector, Body>,
    uri: Uri,
}

impl Upstream {
    fn new(uri: Uri) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_secs(10)));
        // A machine that has vanished ends no stream.
        connector.set_keepalive(Some(Duration::from_secs(60)));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            // Servers close idle connections, many after 5 s. A request that meets that is lost: it cannot be sent again.
            .pool_idle_timeout(Duration::from_secs(3))
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, uri }
    }

    /// With the client's query behind its own.
    fn uri(&self, query: Option<&str>) -> Uri {
        let Some(query) = query else { return self.uri.clone() };
        let separator = if self.uri.query().is_some() { '&' } else { '?' };
        format!("{}{separator}{query}", self.uri).parse().unwrap_or_else(|_| self.uri.clone())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let options = Options::parse();
    let server = options.server()?;
    let app = Router::new()
        .route("/mcp", any(forward))
        .with_state(Upstream::new(options.upstream))
        .layer(McpLayer::transparent(server.clone()));

    // Before anybody is told that this runs.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::warn!(%error, "TCP_NODELAY is not set");
        }
    });

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async {
        stopped.await.ok();
    });
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        server.shutdown(Duration::from_millis(options.drain_ms)).await;
        stop.send(()).ok();
        // A peer that does not read, or sends half a head, is not waited for.
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    tokio::select! {
        served = async { serving.await } => served?,
        () = shutdown => {}
    }
    Ok(())
}

/// The layer drops this when the call has ended here, and with it the connection to the other server.
async fn forward(
    State(upstream): State<Upstream>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    message: Option<McpMessage>,
    request: Request,
) -> Response {
    if message.as_ref().is_some_and(|message| message.method() == "notifications/cancelled") {
        tokio::time::sleep(BEHIND_ITS_REQUEST).await;
    }
    // Version and extensions are those of the client's connection, and of the other server's below.
    let (parts, body) = request.into_parts();
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    *request.uri_mut() = upstream.uri(parts.uri.query());
    *request.headers_mut() = for_upstream(parts.headers, parts.version, client);
    match upstream.client.request(request).await {
        Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            tracing::error!("the other server switched to a protocol that was not requested");
            no_answer(message.as_ref(), StatusCode::BAD_GATEWAY)
        }
        Ok(response) => {
            let (mut parts, body) = response.into_parts();
            // RFC 9112, 6.3: beside a transfer coding, or repeated, a length says nothing. hyper knows what it read.
            let lengths = parts.headers.get_all(header::CONTENT_LENGTH);
            if parts.headers.contains_key(header::TRANSFER_ENCODING)
                || lengths.iter().count() > 1
                || lengths.iter().any(|length| length.as_bytes().contains(&b','))
            {
                parts.headers.remove(header::CONTENT_LENGTH);
            }
            remove_hop_by_hop(&mut parts.headers);
            (parts.status, parts.headers, Body::new(body)).into_response()
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn Error, "no valid response from the other server");
            let status = if is_late(&error) { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
            no_answer(message.as_ref(), status)
        }
    }
}

/// The layer completes the error with the id of its message. GET and DELETE have none.
fn no_answer(message: Option<&McpMessage>, status: StatusCode) -> Response {
    let text = "No valid response from the upstream server";
    match message {
        Some(_) => (status, McpError::internal_error(text)).into_response(),
        None => (status, text).into_response(),
    }
}

fn is_late(error: &(dyn Error + 'static)) -> bool {
    let mut causes = successors(Some(error), |&error| error.source());
    causes.any(|error| error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut))
}

fn for_upstream(mut headers: HeaderMap, version: Version, client: SocketAddr) -> HeaderMap {
    remove_hop_by_hop(&mut headers);
    // The client names the other server in `Host`, the layer has read the body that an `Expect` holds back, and it could not read
    // an encoded reply, nor end one with an event.
    for name in [header::HOST, header::EXPECT, header::ACCEPT_ENCODING] {
        headers.remove(name);
    }
    // HTTP/2 clients may send it in pieces (RFC 9113, 8.2.3).
    let cookies: Vec<_> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
        && cookies.len() > 1
    {
        headers.insert(header::COOKIE, cookie);
    }
    // RFC 9110, 7.6.3.
    let by = if version == Version::HTTP_2 { "2.0 mcp-gateway" } else { "1.1 mcp-gateway" };
    headers.append(header::VIA, HeaderValue::from_static(by));
    // Whoever has forwarded the request before comes first. That is as good as the client's word.
    if let Ok(client) = HeaderValue::try_from(client.ip().to_canonical().to_string()) {
        headers.append("x-forwarded-for", client);
    }
    headers
}

/// Headers of a connection, not of what goes over it (RFC 9110, 7.6.1).
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
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
