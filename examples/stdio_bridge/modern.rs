//! What a legacy server's words are in MCP 2026-07-28.

use std::collections::BTreeMap;

use mcp_layer::McpError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::line::{Answer, raw};

/// In legacy versions: there is no such resource. Here it is an invalid param, and the code is forbidden.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The server knows these methods, and the version does not.
pub(crate) fn lacks(method: &str) -> bool {
    matches!(method, "initialize" | "logging/setLevel" | "ping" | "resources/subscribe" | "resources/unsubscribe")
}

/// The answer to `server/discover`: what the server has said to `initialize`.
pub(crate) fn discovered(initialized: &RawValue) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        #[serde(default)]
        capabilities: Map<String, Value>,
        #[serde(default)]
        instructions: Option<String>,
    }

    let Ok(Initialized { mut capabilities, instructions }) = serde_json::from_str(initialized.get()) else {
        return Err(McpError::internal_error("the server's answer to `initialize` cannot be read"));
    };
    // There are no subscriptions here, and levels and tasks are others.
    capabilities.remove("logging");
    capabilities.remove("tasks");
    for capability in capabilities.values_mut().filter_map(Value::as_object_mut) {
        capability.remove("listChanged");
        capability.remove("subscribe");
    }
    let supported: Vec<_> = mcp_layer::ProtocolVersion::ALL.iter().rev().map(|version| version.as_str()).collect();
    let mut result = json!({ "supportedVersions": supported, "capabilities": capabilities });
    if let Some(instructions) = instructions {
        result["instructions"] = instructions.into();
    }
    Ok(raw(&result))
}

/// Adds to an answer what every result has.
pub(crate) fn completed(method: &str, initialized: &RawValue, answer: Answer) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        server_info: Box<RawValue>,
    }

    let result = match answer {
        Ok(result) => result,
        Err(error) if error.code() == RESOURCE_NOT_FOUND => {
            let other = McpError::invalid_params(error.message().to_owned());
            return Err(match error.data() {
                Some(data) => other.with_data(data),
                None => other,
            });
        }
        Err(error) => return Err(error),
    };
    let Ok(mut members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(result.get()) else {
        return Err(McpError::internal_error("the server's result is not an object"));
    };
    let mut lacks = |name: &str, value: Value| {
        members.entry(name.to_owned()).or_insert_with(|| raw(&value));
    };
    lacks("resultType", "complete".into());
    if method.ends_with("/list") || matches!(method, "resources/read" | "server/discover") {
        // As good as no hint: stale at once, and nobody else's.
        lacks("ttlMs", 0.into());
        lacks("cacheScope", "private".into());
    }
    let meta = members.get("_meta").map_or("{}", |meta| meta.get());
    if let (Ok(Initialized { server_info }), Ok(mut meta)) =
        (serde_json::from_str(initialized.get()), serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(meta))
    {
        meta.entry("io.modelcontextprotocol/serverInfo".to_owned()).or_insert(server_info);
        members.insert("_meta".to_owned(), raw(&meta));
    }
    Ok(raw(&members))
}
