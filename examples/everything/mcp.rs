use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use mcp_layer::{Cancellation, ExchangeInfo, McpError, McpMessage, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::debug::Debug;

/// What any params may ask of this server, for checks.
#[derive(Default, Deserialize)]
struct Wishes {
    #[serde(default, rename = "_meta")]
    meta: Meta,
    #[serde(default, rename = "example/onNotification")]
    on_notification: Option<String>,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default, rename = "example/delayMs")]
    delay_ms: u64,
}

pub(crate) async fn handle(
    State(debug): State<Arc<Debug>>,
    message: McpMessage,
    info: ExchangeInfo,
    cancellation: Cancellation,
) -> Result<Reply<Value>, McpError> {
    let wishes: Wishes = message.params().unwrap_or_default();
    if message.is_notification() {
        debug.note(message.as_str());
        return match wishes.on_notification.as_deref() {
            Some("fail") => Err(McpError::internal_error("as asked")),
            Some("panic") => panic!("as asked"),
            _ => Ok(Reply(Value::Null)),
        };
    }
    if wishes.meta.delay_ms > 0 {
        sleep(Duration::from_millis(wishes.meta.delay_ms)).await;
    }
    match message.method() {
        "initialize" => Ok(Reply(json!({
            "protocolVersion": info.version().as_str(),
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "everything", "version": env!("CARGO_PKG_VERSION") },
        }))),
        "ping" => Ok(Reply(json!({}))),
        "tools/list" => Ok(Reply(tools())),
        "tools/call" => {
            let tool: Tool = message.params()?;
            let call = debug.start(&cancellation);
            let result = tool.call(&cancellation).await;
            call.returned();
            Ok(Reply(result))
        }
        _ if message.is_response() => Ok(Reply(Value::Null)),
        other => Err(McpError::method_not_found(other)),
    }
}

#[derive(Deserialize)]
#[serde(tag = "name", content = "arguments", rename_all = "lowercase")]
enum Tool {
    Echo {
        text: String,
    },
    Fail {},
    Panic {},
    Slow {
        ms: u64,
        #[serde(default)]
        ignore_cancel: bool,
    },
}

impl Tool {
    async fn call(self, cancellation: &Cancellation) -> Value {
        match self {
            Self::Echo { text } => content(&text),
            Self::Fail {} => json!({ "content": [{ "type": "text", "text": "failed, as asked" }], "isError": true }),
            Self::Panic {} => panic!("as asked"),
            Self::Slow { ms, ignore_cancel } => {
                tokio::select! {
                    () = sleep(Duration::from_millis(ms)) => {}
                    _ = cancellation.cancelled(), if !ignore_cancel => {}
                }
                content(&format!("slept {ms} ms"))
            }
        }
    }
}

fn content(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn tools() -> Value {
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": { "type": "object", "properties": properties, "required": required },
        })
    };
    json!({ "tools": [
        tool("echo", "Returns its text", json!({ "text": { "type": "string" } }), &["text"]),
        tool("fail", "Fails", json!({}), &[]),
        tool("panic", "Panics", json!({}), &[]),
        tool(
            "slow",
            "Sleeps, unless it is cancelled",
            json!({ "ms": { "type": "integer", "minimum": 0 }, "ignore_cancel": { "type": "boolean" } }),
            &["ms"],
        ),
    ] })
}
