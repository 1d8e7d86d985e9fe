//! The tools that the official conformance suite calls. It knows them by their names.

use std::sync::Arc;
use std::time::Duration;

use mcp_layer::{Arguments, CallToolResult, ExchangeInfo, McpError, McpMessage, McpRouter, Notifier, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::content;
use crate::counted::Counted;
use crate::debug::Debug;
use crate::logging::log_thrice;

/// The first one must be callable without arguments: the suite takes whichever is listed first.
pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    McpRouter::default()
        .tool(Tool::new("test_simple_text", "Returns a text", Counted(simple_text)))
        .tool(Tool::new("test_image_content", "Returns an image", Counted(image)))
        .tool(Tool::new("test_audio_content", "Returns a sound", Counted(audio)))
        .tool(Tool::new("test_embedded_resource", "Returns a resource", Counted(embedded_resource)))
        .tool(Tool::new("test_multiple_content_types", "Returns a text, an image and a resource", Counted(multiple)))
        .tool(Tool::new("test_error_handling", "Fails, and tells the model", Counted(error)))
        .tool(Tool::new("test_tool_with_logging", "Sends messages for the client's log", Counted(log_thrice)))
        .tool(Tool::new("test_logging_tool", "Sends messages for the client's log, if asked to", Counted(log_thrice)))
        .tool(Tool::new("test_tool_with_progress", "Reports its progress", Counted(progress)))
        .tool(Tool::new("test_reconnection", "Answers where it is called", Counted(simple_text)))
        .tool(Tool::new("test_missing_capability", "Needs a client that can sample", Counted(needs_sampling)))
        .tool(Tool::new("test_custom_header", "Takes a value that is in a header, too", Counted(custom_header)))
        .tool(Tool::with_schema("json_schema_2020_12_tool", "Has a rich schema", rich_schema(), Counted(rich)))
}

async fn simple_text() -> CallToolResult {
    CallToolResult::text("a text")
}

async fn image() -> CallToolResult {
    CallToolResult::new().with(content::image())
}

async fn audio() -> CallToolResult {
    CallToolResult::new().with(content::audio())
}

async fn embedded_resource() -> CallToolResult {
    CallToolResult::new().with(content::resource("test://embedded", "text/plain", "the text of a resource"))
}

async fn multiple() -> CallToolResult {
    let resource = content::resource("test://embedded", "application/json", r#"{"is":"a resource"}"#);
    CallToolResult::text("a text").with(content::image()).with(resource)
}

async fn error() -> CallToolResult {
    CallToolResult::error("failed, as it always does")
}

async fn progress(notifier: Notifier) -> CallToolResult {
    notifier.progress(0.0, Some(100.0), None);
    for percent in [50.0, 100.0] {
        sleep(Duration::from_millis(50)).await;
        notifier.progress(percent, Some(100.0), None);
    }
    CallToolResult::text("done")
}

async fn needs_sampling(info: ExchangeInfo, message: McpMessage) -> Result<CallToolResult, McpError> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
        capabilities: Value,
    }

    // Legacy clients say what they can do when they initialize, and nothing here remembers that.
    if info.version().is_modern() {
        let Params { meta: Meta { capabilities } } = message.params()?;
        if capabilities.get("sampling").is_none() {
            return Err(McpError::missing_capabilities(json!({ "sampling": {} })));
        }
    }
    Ok(CallToolResult::text("the client can sample"))
}

#[derive(Deserialize, JsonSchema)]
struct CustomHeader {
    /// What is in the header `Mcp-Param-Value`, too
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

async fn custom_header(Arguments(CustomHeader { value }): Arguments<CustomHeader>) -> CallToolResult {
    CallToolResult::text(value)
}

async fn rich(Arguments(arguments): Arguments<Value>) -> CallToolResult {
    CallToolResult::structured(arguments)
}

/// Keywords that a server could lose on the way to its clients.
fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "address": {
                "$anchor": "address",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "answer_by": { "enum": ["email", "phone"] },
            "email": { "type": "string" },
            "phone": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["email"] }, { "required": ["phone"] }] }],
        "if": { "properties": { "answer_by": { "const": "phone" } }, "required": ["answer_by"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
