use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::reply::Reply;
use crate::inbound::declared_capabilities;
use crate::jsonrpc::{McpError, Message};
use crate::protocol::{ProtocolVersion, capability_for};

/// The answer to a modern client that must bring more before its request can be done: it asks its user, its model, or
/// itself, and sends the request again (2026-07-28, *Multi Round-Trip Requests*). [`InputResponses`](crate::InputResponses)
/// reads what it brings.
///
/// Only `tools/call`, `prompts/get` and `resources/read` may be answered so, and only with requests that the client has
/// declared: see [`Client::capabilities`](crate::Client::capabilities). Legacy clients do not know it.
/// [`Client::ask`](crate::Client::ask) asks clients of both kinds.
///
/// The layer checks that when a handler returns it, or a [`ReplyTicket`](crate::ReplyTicket) answers with it. A client that
/// has not declared a capability that it needs gets the error -32021, which names what is missing. For a legacy client, another
/// method, or an input request of a method that MCP does not have there, the handler is at fault: the client gets the error
/// -32603, and the reason is logged. Wrapped in a [`Reply`] it is a value like any other, and is not checked.
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
        let mut response = Reply(&self).into_response();
        response.extensions_mut().insert(Needs::of(&self));
        response
    }
}

/// What an [`InputRequired`] needs of the client, as an extension of its response.
#[derive(Clone, Debug)]
pub(super) struct Needs {
    capabilities: Map<String, Value>,
    /// All of its input requests are of methods that MCP has for them.
    is_valid: bool,
}

/// Why a request must not be answered by an [`InputRequired`].
#[derive(Debug, PartialEq)]
pub(super) enum Unfit {
    /// The client has to know.
    Client(McpError),
    /// The handler should not have returned it.
    Handler(&'static str),
}

impl Needs {
    fn of(required: &InputRequired) -> Self {
        let mut needs = Self { capabilities: Map::new(), is_valid: true };
        for request in required.input_requests.values() {
            match request["method"].as_str().and_then(capability_for) {
                Some(capability) => drop(needs.capabilities.insert(capability.to_owned(), json!({}))),
                None => needs.is_valid = false,
            }
        }
        needs
    }

    /// This request may be answered so.
    pub(super) fn check(mut self, request: &Message, version: ProtocolVersion) -> Result<(), Unfit> {
        if !version.is_modern() {
            return Err(Unfit::Handler("a legacy client does not know InputRequired"));
        }
        if !version.may_require_input(request.method().unwrap_or_default()) {
            return Err(Unfit::Handler("its method cannot be answered by InputRequired"));
        }
        if !self.is_valid {
            return Err(Unfit::Handler("its InputRequired has a request of a method that MCP does not have there"));
        }
        if !self.capabilities.is_empty() {
            let declared = declared_capabilities(request);
            self.capabilities.retain(|capability, _| !declared.contains_key(capability));
        }
        if self.capabilities.is_empty() {
            return Ok(());
        }
        Err(Unfit::Client(McpError::missing_capabilities(self.capabilities)))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn it_fits_the_requests_that_mcp_has_it_for() {
        const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
        let modern = ProtocolVersion::V2026_07_28;
        let check = |required: &InputRequired, version, method: &str, meta: &Value| {
            let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": meta } });
            let request = Message::decode(&Bytes::from(request.to_string())).unwrap();
            Needs::of(required).check(&request, version)
        };
        let elicits = || InputRequired::of("a", "elicitation/create", json!({}));
        let all =
            elicits().and("b", "roots/list", ()).and("c", "sampling/createMessage", ()).and("d", "roots/list", ());
        let can_all = json!({ CAPABILITIES: { "elicitation": {}, "roots": {}, "sampling": {}, "other": 1 } });

        for method in ["tools/call", "prompts/get", "resources/read"] {
            assert_eq!(check(&all, modern, method, &can_all), Ok(()), "{method}");
            assert_eq!(check(&InputRequired::later("s"), modern, method, &json!({})), Ok(()), "{method}");
        }
        for (required, meta, missing) in [
            (&all, json!({ CAPABILITIES: {} }), json!({ "elicitation": {}, "roots": {}, "sampling": {} })),
            (
                &all,
                json!({ CAPABILITIES: { "roots": { "listChanged": true } } }),
                json!({ "elicitation": {}, "sampling": {} }),
            ),
            (&elicits(), json!({ CAPABILITIES: { "Elicitation": {} } }), json!({ "elicitation": {} })),
            // No capabilities, in whatever spelling.
            (&elicits(), json!({ CAPABILITIES: [] }), json!({ "elicitation": {} })),
            (&elicits(), json!({ CAPABILITIES: ["elicitation"] }), json!({ "elicitation": {} })),
            (&elicits(), json!({ CAPABILITIES: null }), json!({ "elicitation": {} })),
            (&elicits(), json!({ CAPABILITIES: "elicitation" }), json!({ "elicitation": {} })),
            (&elicits(), json!({}), json!({ "elicitation": {} })),
            (&elicits(), json!([]), json!({ "elicitation": {} })),
            (&elicits(), json!(null), json!({ "elicitation": {} })),
            (&elicits(), json!(7), json!({ "elicitation": {} })),
        ] {
            let refused = Err(Unfit::Client(McpError::missing_capabilities(missing)));
            assert_eq!(check(required, modern, "tools/call", &meta), refused, "{meta}");
        }
        for (required, version, method) in [
            (&all, ProtocolVersion::V2025_11_25, "tools/call"),
            (&InputRequired::later("s"), ProtocolVersion::V2025_03_26, "tools/call"),
            (&all, modern, "tools/list"),
            (&InputRequired::later("s"), modern, "completion/complete"),
            (&elicits().and("b", "ping", ()), modern, "tools/call"),
            (&InputRequired::of("a", "", ()), modern, "tools/call"),
            (&InputRequired::of("a", "Roots/list", ()), modern, "tools/call"),
        ] {
            let refused = check(required, version, method, &can_all);
            assert!(matches!(refused, Err(Unfit::Handler(_))), "{method}: {refused:?}");
        }
    }

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
