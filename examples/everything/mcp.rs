use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use mcp_layer::{Cancellation, ExchangeInfo, McpError, McpMessage, Notifier, ProtocolVersion, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::debug::Debug;

/// Nothing sleeps longer.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

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
    notifier: Notifier,
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
        sleep(Duration::from_millis(wishes.meta.delay_ms).min(A_DAY)).await;
    }
    let result = match message.method() {
        "initialize" if !info.version().is_modern() => json!({
            "protocolVersion": info.version().as_str(),
            "capabilities": { "tools": {} },
            "serverInfo": server_info(),
        }),
        "ping" if !info.version().is_modern() => json!({}),
        "server/discover" if info.version().is_modern() => json!({
            "supportedVersions": ProtocolVersion::ALL.map(ProtocolVersion::as_str),
            "capabilities": { "tools": {} },
            "ttlMs": 60_000,
            "cacheScope": "public",
        }),
        "tools/list" => tools(),
        "tools/call" => {
            let tool = Tool::try_from(message.params::<ToolCall>()?)?;
            let call = debug.start(&cancellation);
            let result = tool.call(&cancellation, &notifier).await;
            call.returned();
            result
        }
        _ if message.is_response() => Value::Null,
        other => return Err(McpError::method_not_found(other)),
    };
    Ok(Reply(if info.version().is_modern() { complete(result) } else { result }))
}

fn server_info() -> Value {
    json!({ "name": "everything", "version": env!("CARGO_PKG_VERSION") })
}

/// What results of modern versions hold beside their own.
fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["_meta"]["io.modelcontextprotocol/serverInfo"] = server_info();
    result
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
}

fn no_arguments() -> Value {
    json!({})
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Deserialize)]
struct Slow {
    ms: u64,
    #[serde(default)]
    steps: u32,
    #[serde(default)]
    ignore_cancel: bool,
}

/// A tool with its arguments.
enum Tool {
    Echo(Echo),
    Fail,
    Panic,
    Slow(Slow),
}

impl TryFrom<ToolCall> for Tool {
    type Error = McpError;

    fn try_from(ToolCall { name, arguments }: ToolCall) -> Result<Self, McpError> {
        let tool = match name.as_str() {
            "echo" => serde_json::from_value(arguments).map(Self::Echo),
            "fail" => Ok(Self::Fail),
            "panic" => Ok(Self::Panic),
            "slow" => serde_json::from_value(arguments).map(Self::Slow),
            _ => return Err(McpError::invalid_params("Unknown tool")),
        };
        tool.map_err(|error| McpError::invalid_params(format!("Invalid arguments: {error}")))
    }
}

impl Tool {
    async fn call(self, cancellation: &Cancellation, notifier: &Notifier) -> Value {
        match self {
            Self::Echo(Echo { text }) => content(&text),
            Self::Fail => json!({ "content": [{ "type": "text", "text": "failed, as asked" }], "isError": true }),
            Self::Panic => panic!("as asked"),
            Self::Slow(Slow { ms, steps, ignore_cancel }) => {
                let time = Duration::from_millis(ms).min(A_DAY);
                tokio::select! {
                    () = in_steps(time, steps, notifier) => {}
                    _ = cancellation.cancelled(), if !ignore_cancel => {}
                }
                content(&format!("slept {ms} ms"))
            }
        }
    }
}

/// Sleeps for this long, and says so as often.
async fn in_steps(time: Duration, steps: u32, notifier: &Notifier) {
    let began = tokio::time::Instant::now();
    for step in 1..=steps {
        tokio::time::sleep_until(began + time.mul_f64(f64::from(step) / f64::from(steps))).await;
        notifier.progress(f64::from(step), Some(f64::from(steps)), None);
    }
    tokio::time::sleep_until(began + time).await;
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
    json!({ "ttlMs": 60_000, "cacheScope": "public", "tools": [
        tool("echo", "Returns its text", json!({ "text": { "type": "string" } }), &["text"]),
        tool("fail", "Fails", json!({}), &[]),
        tool("panic", "Panics", json!({}), &[]),
        tool(
            "slow",
            "Sleeps, unless it is cancelled, and reports its progress",
            json!({
                "ms": { "type": "integer", "minimum": 0 },
                "steps": { "type": "integer", "minimum": 0 },
                "ignore_cancel": { "type": "boolean" },
            }),
            &["ms"],
        ),
    ] })
}
