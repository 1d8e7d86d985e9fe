use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::context::Context;
use super::rejection::ExtractRejection;

/// What a modern client brings when it tries again after an [`InputRequired`](crate::InputRequired) (2026-07-28,
/// *Multi Round-Trip Requests*). At its first try there is nothing.
///
/// Everything in it is the client's word. A [`state`](Self::state) that decides over anything must be protected, by an HMAC
/// say, and bound to its user, its request and a short time.
///
/// ```
/// use axum::response::{IntoResponse, Response};
/// use mcp_layer::{CallToolResult, InputRequired, InputResponses};
/// use serde_json::json;
///
/// async fn greet(responses: InputResponses) -> Response {
///     match responses.get("name").and_then(|response| response["content"]["name"].as_str()) {
///         Some(name) => CallToolResult::text(format!("Hello, {name}!")).into_response(),
///         None => InputRequired::of("name", "elicitation/create", json!({
///             "mode": "form",
///             "message": "What is your name?",
///             "requestedSchema": {
///                 "type": "object",
///                 "properties": { "name": { "type": "string" } },
///                 "required": ["name"],
///             },
///         }))
///         .into_response(),
///     }
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(greet);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputResponses {
    input_responses: Option<Map<String, Value>>,
    request_state: Option<String>,
}

impl InputResponses {
    /// The client's result for the request of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.input_responses.as_ref()?.get(key)
    }

    /// The state that the last [`InputRequired`](crate::InputRequired) had, if the client has not changed it.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.request_state.as_deref()
    }
}

/// Responses that are no object, or a state that is no string, are answered by the error -32602.
impl<S: Send + Sync> FromRequestParts<S> for InputResponses {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Context::of(&parts.extensions)?.subject.message().params_as().map_err(ExtractRejection::Params)
    }
}
