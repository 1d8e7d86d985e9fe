use std::convert::Infallible;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::request::Parts;
use serde::Deserialize;

use super::context::{Context, Subject};
use super::rejection::ExtractRejection;
use crate::jsonrpc::{Kind, McpError, RequestId};

/// The JSON-RPC message that was posted: a request, a notification or a response.
///
/// ```
/// use mcp_layer::{McpError, McpMessage, Reply};
/// use serde::Deserialize;
/// use serde_json::{Value, json};
///
/// #[derive(Deserialize)]
/// struct Page {
///     cursor: Option<String>,
/// }
///
/// async fn handle(message: McpMessage) -> Result<Reply<Value>, McpError> {
///     match message.method() {
///         "tools/list" => {
///             let page: Page = message.params()?;
///             Ok(Reply(json!({ "tools": [], "nextCursor": page.cursor })))
///         }
///         _ if !message.is_request() => Ok(Reply(Value::Null)), // the client gets 202
///         other => Err(McpError::method_not_found(other)),
///     }
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(handle);
/// ```
#[derive(Clone, Debug)]
pub struct McpMessage(Subject);

impl McpMessage {
    /// The method of a request or a notification. A response has none: `""`.
    #[must_use]
    pub fn method(&self) -> &str {
        self.0.message().method().unwrap_or_default()
    }

    /// The id: of a request the client's, of a response that of the request which this server sent.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        match self.0.message().kind() {
            Kind::Notification { .. } => None,
            Kind::Request { id, .. } | Kind::Response { id, .. } => Some(id),
        }
    }

    /// It wants an answer.
    #[must_use]
    pub fn is_request(&self) -> bool {
        matches!(self.0.message().kind(), Kind::Request { .. })
    }

    /// It wants none.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        matches!(self.0.message().kind(), Kind::Notification { .. })
    }

    /// It answers a request of this server.
    #[must_use]
    pub fn is_response(&self) -> bool {
        matches!(self.0.message().kind(), Kind::Response { .. })
    }

    /// Reads the params of a request or a notification. Absent ones and an empty array are read as `{}`, or as `null` where
    /// that suits the type better. Structs and maps are read from objects only.
    ///
    /// # Errors
    ///
    /// -32602, if they are not a `P`, or an array with elements.
    pub fn params<'a, P: Deserialize<'a>>(&'a self) -> Result<P, McpError> {
        self.0.message().params_as()
    }

    /// The `result` of a response as JSON, or its `error`. `None` for requests and notifications.
    #[must_use]
    pub fn response(&self) -> Option<Result<&str, &str>> {
        match self.0.message().kind() {
            Kind::Response { result, .. } => Some(result.as_deref().map_err(AsRef::as_ref)),
            Kind::Notification { .. } | Kind::Request { .. } => None,
        }
    }

    /// The message as it was posted, byte for byte.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.message().text()
    }
}

/// For middleware that meets requests of other methods than POST, too.
impl<S: Send + Sync> OptionalFromRequestParts<S> for McpMessage {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(Context::of(&parts.extensions).ok().map(|context| Self(context.subject.clone())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for McpMessage {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(Context::of(&parts.extensions)?.subject.clone()))
    }
}
