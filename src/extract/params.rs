use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::rejection::ExtractRejection;

/// The params of the message, as a type of yours. Params that are not a `P` are answered with the error -32602.
///
/// MCP's params are an object. Absent ones, and the empty array that some languages write for an empty object, are read as
/// `{}`, or as `null` where that suits the type better. The same holds for the structs and maps within them, which are never
/// read from an array with elements, except within `#[serde(untagged)]` and `#[serde(flatten)]` and the variants of
/// internally tagged enums, which serde reads by its own rules.
///
/// ```
/// use mcp_layer::{Params, Reply};
/// use serde::Deserialize;
/// use serde_json::{Value, json};
///
/// #[derive(Deserialize)]
/// struct Call {
///     name: String,
/// }
///
/// async fn call_tool(Params(call): Params<Call>) -> Reply<Value> {
///     Reply(json!({ "content": [{ "type": "text", "text": call.name }] }))
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(call_tool);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Params<P>(pub P);

impl<P: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<P> {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Context::of(&parts.extensions)?.subject.message().params_as().map(Self).map_err(ExtractRejection::Params)
    }
}
