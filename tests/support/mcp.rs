use mcp_layer::{McpRouter, ServerInfo};
use serde_json::{Value, json};

use super::Era;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// A router of a server whose name the tests know.
pub(crate) fn mcp<S: Clone + Send + Sync + 'static>() -> McpRouter<S> {
    McpRouter::new(ServerInfo::new("test", "1.2.3"))
}

/// What a result of that router's becomes on its way.
pub(crate) fn completed(era: Era, own: &Value) -> Value {
    let mut result = own.clone();
    if era == Era::Modern {
        result["resultType"] = "complete".into();
        result["_meta"][SERVER_INFO] = json!({ "name": "test", "version": "1.2.3" });
    }
    result
}

/// The same of a method whose results say how long they may be kept.
pub(crate) fn cacheable(era: Era, own: &Value) -> Value {
    let mut result = completed(era, own);
    if era == Era::Modern {
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
    result
}
