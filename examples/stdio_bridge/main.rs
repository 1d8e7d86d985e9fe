//! Any MCP server that speaks over stdio, served over Streamable HTTP:
//!
//! ```sh
//! cargo run --example stdio_bridge -- --listen 127.0.0.1:8000 -- npx -y @modelcontextprotocol/server-everything
//! ```
//!
//! Each `initialize` starts a process of its own, for one session (`Mcp-Session-Id`). DELETE ends it, and so does being
//! idle, or a client that does not go on with it; a process that dies is started again, and initialized as before, by the
//! next request of its session. While a call is in progress, its client hears the server's notifications and is asked what
//! the server asks, both on the stream of the newest call.
//!
//! Outside of calls both go to the session's GET stream. A session has one such stream: a newer one replaces it, because a
//! client that lost its connection comes back before the bridge can know. It ends with the process and with the session; a
//! session that is listened to is not idle. Without a stream the server's requests are refused, changes of lists and of
//! resources are kept for the next stream, the newest of each, and other notifications are logged. A client that does not
//! read its stream is waited for briefly; after that the oldest notifications are dropped, and the server's requests are
//! refused once 4 MiB of them wait.
//!
//! Callers without a session share one process for each `Authorization`, or for having none. The bridge initializes it, and
//! declares no capabilities, so that it asks nothing: there would be no telling whom. Modern requests (2026-07-28), which
//! have no session, are served so, with `server/discover` answered by the bridge: a client that speaks nothing else could not
//! use a stdio server otherwise. One that speaks both does better with a session, which `--no-modern` makes it open.
//!
//! The bridge authenticates nobody. Put a layer before it that does, where others than you can reach it.

mod accept;
mod asked;
mod call;
mod caller;
mod calls;
mod child;
mod heard;
mod http;
mod launcher;
mod line;
mod lines;
mod listen;
mod lock;
mod messages;
mod modern;
mod named;
mod number;
mod object;
mod options;
mod outlet;
mod process;
mod questions;
mod refusal;
mod session;
mod sessions;
mod text;
mod version;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::map_request;
use axum::routing::get;
use axum::serve::ListenerExt;
use clap::Parser;
use mcp_layer::McpLayer;
use tokio::signal::unix::{SignalKind, signal};

use crate::options::Options;
use crate::sessions::Sessions;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let options = Options::parse();
    let server = options.server()?;
    let sessions = Arc::new(Sessions::new(&options));

    let methods = get(listen::get).post(http::post).delete(http::delete);
    // Without a handler of its own a HEAD would be a GET, and end the stream that there is.
    let methods = methods.head(http::other).fallback(http::other);
    let app = Router::new()
        .route("/mcp", methods)
        .with_state(Arc::clone(&sessions))
        .layer(McpLayer::new(server.clone()))
        .layer(map_request(named::keep_name));

    // Before the address is printed: whoever waits for that line may send a signal at once.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // When the terminal closes, a child that does not wait for its input would outlive the bridge.
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
        server.shutdown(options.drain).await;
        stop.send(()).ok();
        // A peer that does not read, or sends half a head, is not waited for. A child is, until it is killed.
        tokio::join!(tokio::time::sleep(Duration::from_secs(1)), sessions.shutdown());
    };
    let sweeping = sessions.sweep();
    let serving = async {
        match serving.await {
            // The children have still to end.
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    };
    tokio::select! {
        error = serving => Err(error.into()),
        () = shutdown => Ok(()),
        () = sweeping => Ok(()),
    }
}
