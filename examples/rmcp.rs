//! A server made with `rmcp`, behind `McpLayer::transparent`: a cancelled call is answered at once, and its tool is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use clap::{Parser, ValueEnum};
use mcp_layer::{McpLayer, McpServer};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, schemars, tool, tool_handler, tool_router};
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// How rmcp answers
    #[arg(long, default_value = "stateful")]
    mode: Mode,
    /// Leaves the layer out
    #[arg(long)]
    bare: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Mode {
    /// Without sessions, as JSON
    Json,
    /// Without sessions, as event streams
    Sse,
    /// With sessions, as event streams
    Stateful,
}

#[derive(Clone)]
struct Tools;

#[derive(Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Slow {
    ms: u64,
}

#[tool_router]
impl Tools {
    /// Gives the text back.
    #[tool]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    /// Sleeps, until it is cancelled.
    #[tool]
    async fn slow(&self, Parameters(Slow { ms }): Parameters<Slow>, context: RequestContext<RoleServer>) -> String {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(ms)) => format!("slept {ms} ms"),
            () = context.ct.cancelled() => {
                tracing::info!(id = %context.id, "cancelled");
                "cancelled".to_owned()
            }
        }
    }
}

#[tool_handler]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let options = Options::parse();

    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(options.mode == Mode::Stateful)
        .with_json_response(options.mode == Mode::Json);
    let service = StreamableHttpService::new(|| Ok(Tools), Arc::new(LocalSessionManager::default()), config);
    let (app, server) = (Router::new().route_service("/mcp", service), McpServer::new());
    let app = if options.bare { app } else { app.layer(McpLayer::transparent(server.clone())) };

    // Before anybody is told that this runs.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::warn!(%error, "TCP_NODELAY is not set");
        }
    });

    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        server.shutdown(Duration::from_secs(10)).await;
        // The last answers go out.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    tokio::select! {
        served = async { axum::serve(listener, app).await } => served?,
        () = shutdown => {}
    }
    Ok(())
}
