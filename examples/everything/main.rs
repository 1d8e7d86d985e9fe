//! An MCP server with every option of this crate as a flag, for checks from outside: this crate's own, and the official
//! conformance suite.

mod asking;
mod conformance;
mod content;
mod counted;
mod debug;
mod listening;
mod logging;
mod mcp;
mod options;
mod prompts;
mod resources;
mod rounds;
mod tools;
mod wishes;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use clap::Parser;
use mcp_layer::McpLayer;
use tokio::signal::unix::{SignalKind, signal};

use crate::debug::Debug;
use crate::options::Options;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let options = Options::parse();
    let debug = Arc::new(Debug::default());
    let server = options.server(Arc::clone(&debug))?;

    let grant_wishes = from_fn_with_state(Arc::clone(&debug), wishes::grant);
    let app = Router::new()
        .route("/mcp", post(mcp::router()).route_layer(grant_wishes))
        .with_state(Arc::clone(&debug))
        .layer(McpLayer::new(server.clone()))
        .route("/debug", get(debug::page).with_state((server.clone(), debug)));

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
