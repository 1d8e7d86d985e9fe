//! A server for web pages that other servers serve: which pages may call it, what they may send, and what they may read.
//!
//! Start it for the pages of an origin, and call it from the console of one of them:
//!
//! ```sh
//! cargo run --example browser -- --allowed-origin http://localhost:3000
//! ```
//! ```js
//! await (await fetch("http://127.0.0.1:8000/mcp", { method: "POST", headers: { "Content-Type": "application/json" }, body:
//!   JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }) })).json()
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, InvalidHeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use clap::Parser;
use mcp_layer::{Arguments, CallToolResult, Cancellation, McpLayer, McpRouter, McpServer, Notifier, ServerInfo, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::trace::TraceLayer;

#[derive(Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Whose pages may call: an origin as browsers write it, `https://app.example.com`
    #[arg(long, num_args = 1.., required = true)]
    allowed_origin: Vec<String>,
    /// The bearer token that callers must have; none by default
    #[arg(long)]
    token: Option<String>,
    /// How many calls each of them may have in progress
    #[arg(long, default_value_t = 1_000)]
    max_parked_per_caller: usize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::DEBUG).init();
    let server = McpServer::builder()
        .allowed_origins(&options.allowed_origin)?
        .max_parked_per_caller(options.max_parked_per_caller)
        .build();
    let mcp = McpRouter::new(ServerInfo::new("browser", env!("CARGO_PKG_VERSION")))
        .tool(Tool::new("count", "Counts slowly", count))
        .tool(Tool::new("state", "What has become of a count", state))
        .with_state(Counts::default());
    let app = Router::new()
        .route_service("/mcp", mcp)
        .layer(McpLayer::new(server))
        .layer(middleware::from_fn_with_state(options.token, authenticate))
        .layer(cors(&options.allowed_origin)?)
        .layer(TraceLayer::new_for_http()); // the last one stands outside of all

    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// What browsers let pages of these origins do. It stands outside of the layer, whose refusals pages are to read too, and
/// outside of authentication, because a browser asks for permission (`OPTIONS`) without a token.
fn cors(origins: &[String]) -> Result<CorsLayer, InvalidHeaderValue> {
    let origins = origins.iter().map(|origin| origin.parse()).collect::<Result<Vec<_>, _>>()?;
    Ok(CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            HeaderName::from_static("mcp-method"),
            HeaderName::from_static("mcp-name"),
            HeaderName::from_static("mcp-param-label"), // each parameter that has a header
            HeaderName::from_static("mcp-protocol-version"),
            HeaderName::from_static("mcp-session-id"),
        ])
        .expose_headers([HeaderName::from_static("mcp-session-id"), RETRY_AFTER, WWW_AUTHENTICATE])
        .max_age(Duration::from_secs(60 * 60))) // or there are two requests to every call
}

/// Who has no token is told where to get one (MCP, *Authorization*).
async fn authenticate(State(token): State<Option<String>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(AUTHORIZATION);
    if token.is_none_or(|token| given.is_some_and(|given| given == format!("Bearer {token}").as_str())) {
        return next.run(request).await;
    }
    let metadata = r#"Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource""#;
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, metadata)]).into_response()
}

/// What has become of each count.
type Counts = Arc<Mutex<BTreeMap<String, String>>>;

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// What to call it. Clients repeat it in a header, `Mcp-Param-Label`
    #[schemars(extend("x-mcp-header" = "Label"))]
    label: String,
    /// The last number
    to: u32,
    /// The milliseconds from one number to the next
    every: u64,
}

async fn count(
    State(counts): State<Counts>,
    notifier: Notifier,
    cancellation: Cancellation,
    Arguments(Count { label, to, every }): Arguments<Count>,
) -> CallToolResult {
    let now = |state: String| counts.lock().unwrap_or_else(PoisonError::into_inner).insert(label.clone(), state);
    now("counting".to_owned());
    for number in 1..=to {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(every)) => {}
            outcome = cancellation.cancelled() => {
                now(format!("{outcome:?}"));
                return CallToolResult::new(); // nobody reads it
            }
        }
        notifier.progress(number.into(), Some(to.into()), None);
    }
    now("counted".to_owned());
    CallToolResult::text(format!("counted to {to}"))
}

#[derive(Deserialize, JsonSchema)]
struct Label {
    label: String,
}

async fn state(State(counts): State<Counts>, Arguments(Label { label }): Arguments<Label>) -> CallToolResult {
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    CallToolResult::text(counts.get(&label).map_or("unknown", String::as_str))
}
