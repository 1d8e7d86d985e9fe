use std::panic::{AssertUnwindSafe, catch_unwind};

use mcp_layer::{McpRouter, ServerInfo};
use serde_json::{Value, json};

use super::{Era, MODERN, Post, call, modern, post};

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

pub(crate) const LEGACY: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A tool call with the id 1 in each version, beside the version's name.
pub(crate) fn calls(params: &Value) -> Vec<(&'static str, Post)> {
    let legacy = LEGACY.map(|version| (version, post(call("1", params)).with("mcp-protocol-version", version)));
    legacy.into_iter().chain([(MODERN, modern("1", "tools/call", params))]).collect()
}

/// The texts of a tool's result.
#[track_caller]
pub(crate) fn texts(result: &Value) -> Vec<&str> {
    let content = result["content"].as_array().unwrap_or_else(|| panic!("no content: {result}"));
    content.iter().map(|block| block["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))).collect()
}

/// Why something cannot be put together.
#[track_caller]
pub(crate) fn panics<T>(puts_together: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(puts_together)) else { panic!("it can") };
    match panic.downcast::<String>() {
        Ok(why) => *why,
        Err(panic) => (*panic.downcast::<&str>().expect("a text")).to_owned(),
    }
}
