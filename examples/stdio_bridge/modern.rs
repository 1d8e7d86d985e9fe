//! What a legacy server's words are in MCP 2026-07-28.

use std::borrow::Cow;

use mcp_layer::{McpError, ProtocolVersion};
use serde_json::json;
use serde_json::value::RawValue;

use crate::line::{Answer, raw};
use crate::object::{self, Object};

/// In legacy versions: there is no such resource. Here it is an invalid param, and the code is forbidden.
const RESOURCE_NOT_FOUND: i64 = -32002;
const INVALID_PARAMS: &str = "-32602";

/// The server knows these methods, and the version does not.
pub(crate) fn lacks(method: &str) -> bool {
    matches!(method, "initialize" | "logging/setLevel" | "ping" | "resources/subscribe" | "resources/unsubscribe")
}

/// The answer to `server/discover`: what the server has said to `initialize`.
pub(crate) fn discovered(initialized: &RawValue) -> Answer {
    let Some(initialized) = Object::read(initialized) else {
        return Err(McpError::internal_error("the server's answer to `initialize` must be an object"));
    };
    // There are no streams outside of calls here, and levels and tasks are others.
    let capabilities = initialized.get("capabilities").and_then(Object::read).map_or_else(
        || "{}".to_owned(),
        |capabilities| {
            without(&capabilities, &["logging", "tasks"], |capability| match Object::read(capability) {
                Some(members) => without(&members, &["listChanged", "subscribe"], |it| it.get().into()).into(),
                None => capability.get().into(),
            })
        },
    );
    let versions: Vec<_> = ProtocolVersion::ALL.iter().rev().map(|version| version.as_str()).collect();
    let discovered = raw(&json!({ "supportedVersions": versions }));
    let discovered = with(&discovered, "capabilities", &capabilities);
    Ok(match initialized.get("instructions") {
        Some(instructions) => with(&discovered, "instructions", instructions.get()),
        None => discovered,
    })
}

/// An object without these members, and with the others as they are made.
fn without<'a>(object: &Object<'a>, names: &[&str], make: impl Fn(&'a RawValue) -> Cow<'a, str>) -> String {
    let kept = object.members().filter(|(key, _)| !names.iter().any(|name| object::is(key, name)));
    let kept: Vec<_> = kept.map(|(key, value)| format!("{key}:{}", make(value))).collect();
    format!("{{{}}}", kept.join(","))
}

/// An object with this member.
fn with(object: &RawValue, name: &str, value: &str) -> Box<RawValue> {
    Object::read(object).map(|members| members.with(name, value)).unwrap_or_default()
}

/// Adds to an answer what every result has.
pub(crate) fn completed(method: &str, initialized: &RawValue, answer: Answer) -> Answer {
    let result = match answer {
        Ok(result) => result,
        Err(error) if error.code() == RESOURCE_NOT_FOUND => {
            let other = McpError::from_json(&with(&raw(&error), "code", INVALID_PARAMS));
            return Err(other.unwrap_or(error));
        }
        Err(error) => return Err(error),
    };
    let Some(members) = Object::read(&result) else {
        return Err(McpError::internal_error("the server's result must be an object"));
    };
    let mut lacking = vec![("resultType", r#""complete""#)];
    if method.ends_with("/list") || matches!(method, "resources/read" | "server/discover") {
        // As good as no hint: stale at once, and nobody else's.
        lacking.extend([("ttlMs", "0"), ("cacheScope", r#""private""#)]);
    }
    lacking.retain(|(name, _)| members.get(name).is_none());
    let meta = members.get("_meta").map(ToOwned::to_owned).unwrap_or_else(|| raw(&json!({})));
    let meta = info(initialized).and_then(|info| added(&meta, "io.modelcontextprotocol/serverInfo", info));
    drop(members);
    let mut result = result;
    for (name, value) in lacking.into_iter().chain(meta.as_ref().map(|meta| ("_meta", meta.get()))) {
        result = with(&result, name, value);
    }
    Ok(result)
}

fn info(initialized: &RawValue) -> Option<&RawValue> {
    Object::read(initialized)?.get("serverInfo")
}

/// The object with this member, if it is one, and has none of this name.
fn added(object: &RawValue, name: &str, value: &RawValue) -> Option<Box<RawValue>> {
    let members = Object::read(object).filter(|members| members.get(name).is_none())?;
    Some(members.with(name, value.get()))
}
