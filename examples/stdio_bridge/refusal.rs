use axum::http::StatusCode;
use axum::http::header::{ALLOW, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use mcp_layer::McpError;

/// Why a request is not for any process here.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There are as many sessions as there may be.
    Full,
    /// A GET or a DELETE that does not say of what, or says several things.
    NoSession,
    /// A GET of a version that has no such stream, or a HEAD.
    NoStream,
    /// A GET that does not accept events.
    NotAcceptable,
    /// A session that has ended, or never was. MCP: the client opens another one.
    UnknownSession,
    /// A GET of an unknown version.
    Version,
}

const INVALID_REQUEST: i64 = -32600;
const SERVER_ERROR: i64 = -32000;

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let invalid = |why| McpError::new(INVALID_REQUEST, why);
        match self {
            Self::Full => {
                let error = McpError::new(SERVER_ERROR, "Too many sessions: try again later");
                (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "10")], error).into_response()
            }
            Self::NoSession => {
                (StatusCode::BAD_REQUEST, invalid("Mcp-Session-Id is missing or repeated")).into_response()
            }
            Self::NoStream => {
                let error = invalid("GET streams exist only in versions of MCP that have sessions");
                (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "POST")], error).into_response()
            }
            Self::NotAcceptable => {
                (StatusCode::NOT_ACCEPTABLE, invalid("Accept must allow text/event-stream")).into_response()
            }
            Self::UnknownSession => {
                (StatusCode::NOT_FOUND, invalid("Unknown session: send initialize again")).into_response()
            }
            Self::Version => {
                (StatusCode::BAD_REQUEST, invalid("MCP-Protocol-Version is unknown or repeated")).into_response()
            }
        }
    }
}
