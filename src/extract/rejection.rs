use std::fmt;

use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::jsonrpc::McpError;
use crate::protocol::ProtocolVersion;
use crate::reply::CallToolResult;

/// Why an extractor of this crate has nothing to give.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExtractRejection {
    /// The request did not come through [`McpLayer`](crate::McpLayer), or was no POST: HTTP status 500.
    MissingLayer,
    /// The arguments of a tool are not what [`Arguments`](crate::Arguments) was to read: since 2025-11-25 a result with
    /// `isError`, before it the JSON-RPC error -32602.
    Arguments {
        /// What is wrong.
        error: McpError,
        /// The version of the request.
        version: ProtocolVersion,
    },
    /// The message is no request, so there is nothing to answer: its client gets 202, as for any notification.
    NoRequest,
    /// The method is none of this version's: the JSON-RPC error -32601.
    NotInVersion(ProtocolVersion),
    /// The client accepts no event stream, where only a stream is an answer: the JSON-RPC error -32600, with HTTP status 406.
    NoStream,
    /// The params are not what [`Params`](crate::Params) was to read: the JSON-RPC error -32602.
    Params(McpError),
}

impl fmt::Display for ExtractRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingLayer => {
                f.write_str("no MCP message in this request: is McpLayer on this route, and is it a POST?")
            }
            Self::NoRequest => f.write_str("only a request has a response"),
            Self::NotInVersion(version) => write!(f, "MCP {version} has no such method"),
            Self::NoStream => f.write_str("Accept must allow text/event-stream for this method"),
            Self::Arguments { error, .. } | Self::Params(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExtractRejection {}

impl IntoResponse for ExtractRejection {
    fn into_response(self) -> Response {
        match self {
            Self::MissingLayer => (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response(),
            Self::NoRequest => McpError::invalid_request(self.to_string()).into_response(),
            Self::NotInVersion(_) => McpError::new(McpError::METHOD_NOT_FOUND, self.to_string()).into_response(),
            Self::NoStream => (StatusCode::NOT_ACCEPTABLE, McpError::invalid_request(self.to_string())).into_response(),
            Self::Arguments { error, version } if version.shows_invalid_arguments() => {
                CallToolResult::error(error.message()).into_response()
            }
            Self::Arguments { error, .. } | Self::Params(error) => error.into_response(),
        }
    }
}
