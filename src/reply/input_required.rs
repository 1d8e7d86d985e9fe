use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::reply::Reply;

/// The answer to a modern client that must bring more before its request can be done: it asks its user, its model, or
/// itself, and sends the request again (2026-07-28, *Multi Round-Trip Requests*). [`InputResponses`](crate::InputResponses)
/// reads what it brings.
///
/// Only `tools/call`, `prompts/get` and `resources/read` may be answered so, and only with requests that the client has
/// declared: see [`Client::capabilities`](crate::Client::capabilities). Legacy clients do not know it.
/// [`Client::ask`](crate::Client::ask) asks clients of both kinds.
///
/// ```
/// use mcp_layer::InputRequired;
/// use serde_json::json;
///
/// let required = InputRequired::of("roots", "roots/list", json!({})).state("first round");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct InputRequired {
    result_type: &'static str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    input_requests: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
}

impl InputRequired {
    /// Asks for one thing, under a key of your choice: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub fn of(key: impl Into<String>, method: &str, params: impl Into<Value>) -> Self {
        Self { result_type: "input_required", input_requests: Map::new(), request_state: None }.and(key, method, params)
    }

    /// Asks for nothing: the client is to come again with this [state](Self::state).
    pub fn later(state: impl Into<String>) -> Self {
        Self { result_type: "input_required", input_requests: Map::new(), request_state: Some(state.into()) }
    }

    /// Asks for one thing more.
    pub fn and(mut self, key: impl Into<String>, method: &str, params: impl Into<Value>) -> Self {
        // JSON-RPC has no params that are null.
        let request = match params.into() {
            Value::Null => json!({ "method": method }),
            params => json!({ "method": method, "params": params }),
        };
        self.input_requests.insert(key.into(), request);
        self
    }

    /// What the client sends back unread, so that this server need not remember anything. Others than the client may read
    /// it, and the client may change it: protect what matters.
    pub fn state(mut self, state: impl Into<String>) -> Self {
        self.request_state = Some(state.into());
        self
    }
}

impl IntoResponse for InputRequired {
    fn into_response(self) -> Response {
        Reply(self).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_the_specification_has_it() {
        let of = |required: InputRequired| serde_json::to_value(required).unwrap();
        assert_eq!(of(InputRequired::later("s")), json!({ "resultType": "input_required", "requestState": "s" }));
        assert_eq!(
            of(InputRequired::of("a", "roots/list", json!({})).and("b", "x", json!({ "c": 1 })).state("s")),
            json!({
                "resultType": "input_required",
                "inputRequests": {
                    "a": { "method": "roots/list", "params": {} },
                    "b": { "method": "x", "params": { "c": 1 } },
                },
                "requestState": "s",
            })
        );
    }
}
