use std::ops::Range;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
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

/// Marks a response whose body is an object with the one member that it holds. The layer need not read it to know.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) holds: Holds,
    json: Bytes,
}

/// What an answer holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Holds {
    /// With its code.
    Error(i64),
    Result,
}

impl Mark {
    /// Where in the body the result is, if there is one.
    pub(super) fn result(&self) -> Option<Range<usize>> {
        const BEGIN: usize = br#"{"result":"#.len();

        (self.holds == Holds::Result).then(|| BEGIN..self.json.len() - 1)
    }

    /// It is the very body that was marked: no service in between has put another in its place.
    pub(super) fn is_of(&self, body: &Bytes) -> bool {
        self.json.as_ptr() == body.as_ptr() && self.json.len() == body.len()
    }
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
            Ok(json) => marked(json, Holds::Result),
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
        marked(json, Holds::Error(self.code()))
    }
}

fn marked(json: Vec<u8>, holds: Holds) -> Response {
    let json = Bytes::from(json);
    let mut response = Response::new(Body::from(json.clone()));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response.extensions_mut().insert(Mark { holds, json });
    response
}
