//! A small MCP server by hand: `initialize`, `tools/list`, and `tools/call` with one slow tool.
//! Run it, and try the three commands that it prints.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use mcp_layer::{Cancellation, ExchangeInfo, McpError, McpLayer, McpMessage, McpServer, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let app = Router::new().route("/mcp", post(handle)).layer(McpLayer::new(McpServer::new()));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    println!("{}", include_str!("quickstart.txt"));
    axum::serve(listener, app).await
}

async fn handle(message: McpMessage, info: ExchangeInfo, cancellation: Cancellation) -> Result<Reply<Value>, McpError> {
    match message.method() {
        "initialize" => Ok(Reply(json!({
            "protocolVersion": info.version().as_str(),
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "quickstart", "version": "1.0.0" },
        }))),
        "ping" => Ok(Reply(json!({}))),
        "tools/list" => Ok(Reply(json!({ "tools": [{
            "name": "slow",
            "description": "Sleeps for some seconds",
            "inputSchema": {
                "type": "object",
                "properties": { "seconds": { "type": "integer", "minimum": 0 } },
                "required": ["seconds"],
            },
        }] }))),
        "tools/call" => slow(message.params()?, cancellation).await.map(Reply),
        _ if !message.is_request() => Ok(Reply(Value::Null)), // has no answer: the client gets 202
        other => Err(McpError::method_not_found(other)),
    }
}

#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Slow,
}

#[derive(Deserialize)]
struct Slow {
    seconds: u64,
}

async fn slow(call: Call, cancellation: Cancellation) -> Result<Value, McpError> {
    if call.name != "slow" {
        return Err(McpError::invalid_params("Unknown tool"));
    }
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(call.arguments.seconds)) => {}
        _ = cancellation.cancelled() => println!("stopped: {:?}", cancellation.reason()),
    }
    Ok(json!({ "content": [{ "type": "text", "text": format!("slept {} s", call.arguments.seconds) }] }))
}
