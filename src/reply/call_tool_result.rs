use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::reply::Reply;

/// The result of a `tools/call` (MCP, *Tools*, Tool Result).
///
/// ```
/// use mcp_layer::CallToolResult;
///
/// async fn divide(by: f64) -> CallToolResult {
///     if by == 0.0 {
///         // A model reads this, and can do better.
///         return CallToolResult::error("nothing can be divided by zero");
///     }
///     CallToolResult::text(format!("{}", 1.0 / by))
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

impl CallToolResult {
    /// A result without content: add some.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One block of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().with_text(text)
    }

    /// The tool has failed, for a reason that a model can read: `isError` is set. A
    /// [`McpError`](crate::McpError) instead goes to the client, and seldom further.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// A value as `structuredContent`, and the same as text, for clients that know only that. Legacy clients know no structured
    /// content but objects, and get any other value as text alone. What cannot be written as JSON becomes an
    /// [`error`](Self::error).
    #[must_use]
    pub fn structured(value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self { structured_content: Some(value.clone()), ..Self::text(value.to_string()) },
            Err(error) => {
                tracing::error!(%error, "a tool's result cannot be written as JSON");
                Self::error("Internal error")
            }
        }
    }

    /// One more block of text.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.with(json!({ "type": "text", "text": text.into() }))
    }

    /// One more block of content, of any type: an image, a resource, a link.
    ///
    /// ```
    /// use mcp_layer::CallToolResult;
    /// use serde_json::json;
    ///
    /// let link = json!({ "type": "resource_link", "uri": "file:///a.rs", "name": "a.rs" });
    /// let result = CallToolResult::text("found").with(link);
    /// ```
    #[must_use]
    pub fn with(mut self, block: impl Into<Value>) -> Self {
        self.content.push(block.into());
        self
    }
}

impl IntoResponse for CallToolResult {
    fn into_response(mut self) -> Response {
        let mut response = Reply(&self).into_response();
        if self.structured_content.take_if(|value| !value.is_object()).is_some() {
            response.extensions_mut().insert(ForLegacy(self));
        }
        response
    }
}

/// Goes to legacy clients in place of the response that it is an extension of.
#[derive(Clone, Debug)]
pub(super) struct ForLegacy(pub(super) CallToolResult);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_written_as_the_specification_has_it() {
        let of = |result: CallToolResult| serde_json::to_value(result).unwrap();
        let text = |text| json!({ "type": "text", "text": text });
        assert_eq!(of(CallToolResult::new()), json!({ "content": [] }));
        assert_eq!(of(CallToolResult::text("a").with_text("b")), json!({ "content": [text("a"), text("b")] }));
        assert_eq!(of(CallToolResult::error("a")), json!({ "content": [text("a")], "isError": true }));
        assert_eq!(of(CallToolResult::structured([1])), json!({ "content": [text("[1]")], "structuredContent": [1] }));
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let odd = std::collections::HashMap::from([((1, 2), 3)]);
        assert_eq!(CallToolResult::structured(odd), CallToolResult::error("Internal error"));
    }
}
