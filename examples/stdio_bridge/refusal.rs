use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use mcp_layer::McpError;

/// Why a message is not for any process here.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There are as many sessions as there may be.
    Full,
    /// A DELETE that does not say of what.
    NoSession,
    /// A session that has ended, or never was. MCP: the client opens another one.
    UnknownSession,
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
            Self::NoSession => (StatusCode::BAD_REQUEST, invalid("Mcp-Session-Id is missing")).into_response(),
            Self::UnknownSession => {
                (StatusCode::NOT_FOUND, invalid("Unknown session: send initialize again")).into_response()
            }
        }
    }
}
