//! Messages for the client's log.

use std::sync::Arc;
use std::time::Duration;

use mcp_layer::{CallToolResult, ExchangeInfo, McpError, McpMessage, McpRouter, Notifier, Params, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::debug::Debug;

pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    // Declared, because modern clients have no method that tells of it: they ask for messages in each request.
    McpRouter::default().request("logging/setLevel", set_level).capability("logging", json!({}))
}

/// The least severe first.
#[derive(Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

#[derive(Deserialize)]
struct SetLevel {
    #[serde(rename = "level")]
    _level: Level,
}

/// A level is accepted, and not remembered: this server keeps nothing of a session.
async fn set_level(_: Params<SetLevel>) -> Reply<Value> {
    Reply(json!({}))
}

/// The handler of a tool.
pub(crate) async fn log_thrice(
    info: ExchangeInfo,
    message: McpMessage,
    notifier: Notifier,
) -> Result<CallToolResult, McpError> {
    let is_wanted = !info.version().is_modern() || asked_for(&message).is_some_and(|level| level <= Level::Info);
    for line in ["begun", "half done", "done"] {
        if is_wanted {
            notifier.notify("notifications/message", json!({ "level": "info", "data": line })).await?;
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(CallToolResult::text("logged"))
}

/// The level that a modern request asks for. If it names none, it wants no messages.
fn asked_for(message: &McpMessage) -> Option<Level> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/logLevel")]
        level: Option<Level>,
    }

    message.params().ok().and_then(|Params { meta }| meta.level)
}
