use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Response};
use mcp_layer::McpError;
use serde::Serialize;

use crate::line::raw;

/// Why a request is not for any process here.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There are as many sessions as there may be.
    Full,
    /// A method that there is not. HEAD is one.
    Method,
    /// A GET or a DELETE that does not say of what, or says several things.
    NoSession,
    /// A GET of a version that has no such stream.
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

/// The refusal of a request that is no POST. The layer adds to those only what makes an error a JSON-RPC message.
#[derive(Debug)]
pub(crate) struct Whole(Refusal);

impl From<Refusal> for Whole {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Whole {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Message<'a> {
            jsonrpc: &'static str,
            error: &'a McpError,
        }

        let (status, header, error) = self.0.parts();
        let message = raw(&Message { jsonrpc: "2.0", error: &error }).get().to_owned();
        (status, AppendHeaders(header), [(CONTENT_TYPE, "application/json")], message).into_response()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, header, error) = self.parts();
        (status, AppendHeaders(header), error).into_response()
    }
}

impl Refusal {
    fn parts(self) -> (StatusCode, Option<(HeaderName, &'static str)>, McpError) {
        let invalid = |why| McpError::new(INVALID_REQUEST, why);
        match self {
            Self::Full => (
                StatusCode::SERVICE_UNAVAILABLE,
                Some((RETRY_AFTER, "10")),
                McpError::new(SERVER_ERROR, "Too many sessions: try again later"),
            ),
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                Some((ALLOW, "GET, POST, DELETE")),
                invalid("The method must be GET, POST or DELETE"),
            ),
            Self::NoSession => (StatusCode::BAD_REQUEST, None, invalid("Mcp-Session-Id is missing or repeated")),
            Self::NoStream => (
                StatusCode::METHOD_NOT_ALLOWED,
                Some((ALLOW, "POST")),
                invalid("GET streams exist only in versions of MCP that have sessions"),
            ),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, None, invalid("Accept must allow text/event-stream")),
            Self::UnknownSession => (StatusCode::NOT_FOUND, None, invalid("Unknown session: send initialize again")),
            Self::Version => (StatusCode::BAD_REQUEST, None, invalid("MCP-Protocol-Version is unknown or repeated")),
        }
    }
}
