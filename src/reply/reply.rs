use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use serde::Serialize;

use super::answer::JSON;
use crate::jsonrpc::McpError;

/// The result of a request: `Reply(value)` is answered as `{"jsonrpc":"2.0","id":…,"result":value}`.
///
/// The layer adds `jsonrpc` and the id. MCP wants the value to be an object. For a notification, which has no answer, the
/// value is thrown away. A value that `serde_json` cannot write becomes the error -32603.
///
/// ```
/// use mcp_layer::{McpError, McpMessage, Reply};
/// use serde_json::{Value, json};
///
/// async fn handle(message: McpMessage) -> Result<Reply<Value>, McpError> {
///     match message.method() {
///         "ping" => Ok(Reply(json!({}))),
///         other => Err(McpError::method_not_found(other)),
///     }
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(handle);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reply<T>(pub T);

/// Marks a response whose body is an object with this one member. The layer need not read it to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Member {
    /// With its code.
    Error(i64),
    Result,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Object<'a, T> {
    Error(&'a McpError),
    Result(&'a T),
}

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&Object::Result(&self.0)) {
            Ok(json) => marked(json, Member::Result),
            Err(error) => {
                tracing::error!(%error, "a reply cannot be written as JSON");
                McpError::internal_error("Internal error").into_response()
            }
        }
    }
}

impl IntoResponse for McpError {
    fn into_response(self) -> Response {
        // An error is made of JSON values: writing it cannot fail.
        let json = serde_json::to_vec(&Object::<()>::Error(&self)).unwrap_or_default();
        marked(json, Member::Error(self.code()))
    }
}

fn marked(json: Vec<u8>, member: Member) -> Response {
    let mut response = Response::new(Body::from(json));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response.extensions_mut().insert(member);
    response
}
