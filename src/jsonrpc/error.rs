use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// A JSON-RPC error object, and what a handler returns to answer its request with one.
///
/// Behind [`McpLayer`](crate::McpLayer) it becomes `{"jsonrpc":"2.0","id":…,"error":{…}}` with the id of the request and
/// HTTP status 200. For modern versions -32601 becomes 404, and -32020, -32021 and -32022 become 400, unless the reply is
/// a stream that has begun. From a notification's handler it is logged and the client gets 202, because a notification has
/// no answer.
///
/// ```
/// use mcp_layer::McpError;
///
/// let error = McpError::invalid_params("`city` is missing");
/// assert_eq!(error.code(), -32602);
/// assert_eq!(error.to_string(), "`city` is missing (-32602)");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct McpError {
    code: i64,
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl McpError {
    pub(crate) const PARSE_ERROR: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL_ERROR: i64 = -32603;
    /// Revision 2026-07-28, *Error Codes*.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error with a code of your own. JSON-RPC keeps -32768 to -32000 for itself and for MCP.
    #[must_use]
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// -32603: something went wrong here. The message goes to the client, so it should hold no secrets.
    #[must_use]
    pub fn internal_error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INTERNAL_ERROR, message)
    }

    /// -32602: the params are not what the method takes.
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// -32600: the message is no request that can be answered so.
    pub(crate) fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    /// -32601: there is no such method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("Method not found: {}", shortened(method, 128)))
    }

    /// -32021: the client lacks capabilities that the request needs (2026-07-28, *Error Codes*). For modern versions the HTTP
    /// status is 400.
    ///
    /// ```
    /// # use mcp_layer::McpError;
    /// # use serde_json::json;
    /// let error = McpError::missing_capabilities(json!({ "sampling": {} }));
    /// assert_eq!(error.data().unwrap()["requiredCapabilities"], json!({ "sampling": {} }));
    /// ```
    #[must_use]
    pub fn missing_capabilities(required: impl Into<Value>) -> Self {
        Self::new(Self::MISSING_CAPABILITY, "The client lacks a capability that this request needs")
            .with_data(json!({ "requiredCapabilities": required.into() }))
    }

    /// Adds the `data` member.
    ///
    /// ```
    /// # use mcp_layer::McpError;
    /// let error = McpError::invalid_params("no such file").with_data("file:///a");
    /// assert_eq!(serde_json::to_value(&error).unwrap()["data"], "file:///a");
    /// ```
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Value>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> i64 {
        self.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The `data` member, if there is one.
    #[must_use]
    pub fn data(&self) -> Option<&Value> {
        self.data.as_ref()
    }
}

impl fmt::Display for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for McpError {}

/// At most `most` bytes of what a client sent, for a message, a log line or a handler, cut between characters.
pub(crate) fn shortened(text: &str, most: usize) -> &str {
    let end = text.char_indices().map(|(start, char)| start + char.len_utf8()).take_while(|end| *end <= most).last();
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_cuts_between_characters() {
        assert_eq!(shortened("aé", 2), "a");
        assert_eq!(shortened("aé", 3), "aé");
        assert_eq!(shortened("", 0), "");
    }
}
