use serde_json::{Map, Value, json};

use super::methods::Methods;
use crate::protocol::ProtocolVersion;

/// What a server can do, as far as its methods tell; the rest is declared.
pub(super) fn capabilities<S>(
    methods: &Methods<S>,
    has_tools: bool,
    declared: &Map<String, Value>,
    version: ProtocolVersion,
) -> Map<String, Value> {
    let has = |method| methods.has_request(method) && !version.lacks(method);
    let mut capabilities = Map::new();
    for (name, is_there) in [
        ("completions", has("completion/complete")),
        ("logging", has("logging/setLevel")),
        ("prompts", has("prompts/list")),
        ("resources", has("resources/list") || has("resources/read") || has("resources/templates/list")),
        ("tools", has_tools || has("tools/list")),
    ] {
        if is_there {
            capabilities.insert(name.to_owned(), json!({}));
        }
    }
    if has("resources/subscribe") {
        capabilities.insert("resources".to_owned(), json!({ "subscribe": true }));
    }
    capabilities.extend(declared.clone());
    capabilities
}
