use std::sync::Arc;

use mcp_layer::{ExchangeInfo, McpError, McpRouter, Params, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::content::PNG;
use crate::debug::Debug;

pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    McpRouter::default()
        .request("resources/list", list)
        .request("resources/read", read)
        .request("resources/subscribe", subscribe)
        .request("resources/templates/list", templates)
        .request("resources/unsubscribe", subscribe)
}

async fn list() -> Reply<Value> {
    Reply(json!({ "resources": [
        {
            "uri": "test://static-text",
            "name": "text",
            "mimeType": "text/plain",
            "description": "A text that stays the same",
        },
        {
            "uri": "test://static-binary",
            "name": "image",
            "mimeType": "image/png",
            "description": "An image that stays the same",
        },
        {
            "uri": "test://watched-resource",
            "name": "watched",
            "mimeType": "text/plain",
            "description": "A text to subscribe to",
        },
    ] }))
}

async fn templates() -> Reply<Value> {
    Reply(json!({ "resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data",
        "name": "data",
        "mimeType": "application/json",
        "description": "The data of an id",
    }] }))
}

#[derive(Deserialize)]
struct Named {
    uri: String,
}

async fn read(info: ExchangeInfo, Params(Named { uri }): Params<Named>) -> Result<Reply<Value>, McpError> {
    let mut content = content(&uri).ok_or_else(|| not_found(&info, &uri))?;
    content["uri"] = uri.into();
    Ok(Reply(json!({ "contents": [content] })))
}

/// Nothing here ever changes, so there is no subscriber to remember, and unsubscribing is the same.
async fn subscribe(info: ExchangeInfo, Params(Named { uri }): Params<Named>) -> Result<Reply<Value>, McpError> {
    content(&uri).map(|_| Reply(json!({}))).ok_or_else(|| not_found(&info, &uri))
}

fn content(uri: &str) -> Option<Value> {
    match uri {
        "test://static-text" => Some(json!({ "mimeType": "text/plain", "text": "a text that stays the same" })),
        "test://static-binary" => Some(json!({ "mimeType": "image/png", "blob": PNG })),
        "test://watched-resource" => Some(json!({ "mimeType": "text/plain", "text": "a text to subscribe to" })),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            if id.is_empty() || id.contains('/') {
                return None;
            }
            let data = json!({ "id": id, "data": format!("the data of {id}") });
            Some(json!({ "mimeType": "application/json", "text": data.to_string() }))
        }
    }
}

/// Up to 2025-11-25 this had a code of its own, which 2026-07-28 forbids.
fn not_found(info: &ExchangeInfo, uri: &str) -> McpError {
    let code = if info.version().is_modern() { -32602 } else { -32002 };
    McpError::new(code, "Resource not found").with_data(json!({ "uri": uri }))
}
