//! A server that ends in order on SIGTERM or Ctrl-C: calls in progress have five seconds to finish, and whoever is still
//! waiting then gets an error instead of a broken connection.
//!
//! Start it, call its only tool with both of these, and stop it with Ctrl-C:
//!
//! ```sh
//! curl -s http://127.0.0.1:8000/mcp -H 'Content-Type: application/json' -d \
//!   '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"seconds":3}}}' &
//! curl -s http://127.0.0.1:8000/mcp -H 'Content-Type: application/json' -d \
//!   '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"seconds":60}}}' &
//! ```

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use mcp_layer::{McpError, McpLayer, McpMessage, McpServer, Reply};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

const DRAIN: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let server = McpServer::new();
    let app = Router::new().route("/mcp", post(handle)).layer(McpLayer::new(server.clone()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    println!("listening on http://127.0.0.1:8000/mcp");

    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async {
        stopped.await.ok();
    });
    let mut terminate = signal(SignalKind::terminate())?;
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        // New requests get 503 from now on. Connections are still taken, because cancels still work.
        server.shutdown(DRAIN).await;
        // Everybody has an answer. axum sends what is on its way; who does not read it, or never finished asking, is not
        // waited for.
        stop.send(()).ok();
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    tokio::select! {
        served = async { serving.await } => served,
        () = shutdown => Ok(()),
    }
}

async fn handle(message: McpMessage) -> Result<Reply<Value>, McpError> {
    if message.method() != "tools/call" {
        return Err(McpError::method_not_found(message.method()));
    }
    let params: Value = message.params()?;
    let seconds = params["arguments"]["seconds"].as_u64().unwrap_or(1);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok(Reply(json!({ "content": [{ "type": "text", "text": format!("slept {seconds} s") }] })))
}
