//! Every refusal, in one table.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT_ENCODING, ALLOW, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::json;

use crate::exchange::Refused;
use crate::jsonrpc::{Malformed, McpError};

/// Why a request was not let in. What a client sent is never part of the text.
#[derive(Debug, PartialEq)]
pub(crate) enum Rejection {
    /// The byte budget for bodies that are being received is exhausted.
    BodyBudget,
    BodyTimeout(Duration),
    BodyTooLarge {
        limit: Option<usize>,
    },
    BodyUnreadable,
    /// The body is encoded.
    ContentEncoding,
    ContentType,
    HeaderMismatch(&'static str),
    HostNotAllowed,
    /// A function or a service of the server's own failed.
    Internal,
    InvalidMeta(&'static str),
    Malformed(Malformed),
    NotAcceptable,
    /// A stream that this crate has ended.
    NothingFollows,
    OriginNotAllowed,
    /// A header `Mcp-Param-…`.
    ParamHeaderMismatch(String),
    /// The params of a request are an array with elements.
    PositionalParams,
    Refused(Refused),
    RepeatedHeader(&'static str),
    RepeatedParam,
    UnsupportedModernVersion {
        supported: Vec<&'static str>,
        requested: String,
    },
    UnsupportedVersion,
}

impl Rejection {
    pub(crate) fn status(&self) -> StatusCode {
        self.row().0
    }

    pub(crate) fn error(&self) -> McpError {
        let (_, code, text) = self.row();
        let error = McpError::new(code, text);
        match self {
            Self::UnsupportedModernVersion { supported, requested } => {
                error.with_data(json!({ "supported": supported, "requested": requested }))
            }
            _ => error,
        }
    }

    /// The header that says what may be done instead.
    pub(crate) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::ContentEncoding => Some((ACCEPT_ENCODING, HeaderValue::from_static("identity"))),
            Self::NothingFollows => Some((ALLOW, HeaderValue::from_static("POST"))),
            // In seconds.
            Self::BodyBudget | Self::Refused(Refused::Full | Refused::OwnerFull) => {
                Some((RETRY_AFTER, HeaderValue::from_static("1")))
            }
            _ => None,
        }
    }

    fn row(&self) -> (StatusCode, i64, Cow<'static, str>) {
        let invalid = McpError::INVALID_REQUEST;
        match self {
            Self::BodyBudget => (
                StatusCode::SERVICE_UNAVAILABLE,
                McpError::INTERNAL_ERROR,
                "Too much request body data is being received".into(),
            ),
            Self::BodyTimeout(limit) => (
                StatusCode::REQUEST_TIMEOUT,
                invalid,
                format!("Request body not received within {} ms", limit.as_millis()).into(),
            ),
            Self::BodyTooLarge { limit: Some(limit) } => {
                (StatusCode::PAYLOAD_TOO_LARGE, invalid, format!("Request body is larger than {limit} bytes").into())
            }
            Self::BodyTooLarge { limit: None } => {
                (StatusCode::PAYLOAD_TOO_LARGE, invalid, "Request body is too large".into())
            }
            Self::BodyUnreadable => (StatusCode::BAD_REQUEST, invalid, "Request body was cut short".into()),
            Self::ContentEncoding => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                invalid,
                "Content-Encoding must be identity: encoded request bodies are not supported".into(),
            ),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, invalid, "Content-Type must be application/json".into())
            }
            Self::HeaderMismatch(name) => (StatusCode::BAD_REQUEST, McpError::HEADER_MISMATCH, mismatch(name)),
            Self::HostNotAllowed => (
                StatusCode::FORBIDDEN,
                invalid,
                "Host is not allowed; the server operator can allow it with `allowed_hosts`".into(),
            ),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, McpError::INTERNAL_ERROR, "Internal error".into()),
            Self::InvalidMeta(name) => (
                StatusCode::BAD_REQUEST,
                McpError::INVALID_PARAMS,
                format!("Invalid params: `_meta` must contain {name}").into(),
            ),
            Self::Malformed(malformed) => (StatusCode::BAD_REQUEST, malformed.code, malformed.why.into()),
            Self::NotAcceptable => {
                (StatusCode::NOT_ACCEPTABLE, invalid, "Accept must allow application/json or text/event-stream".into())
            }
            Self::NothingFollows => {
                (StatusCode::METHOD_NOT_ALLOWED, invalid, "The event stream of this Last-Event-ID has ended".into())
            }
            Self::OriginNotAllowed => (
                StatusCode::FORBIDDEN,
                invalid,
                "Origin is not allowed; the server operator can allow it with `allowed_origins`".into(),
            ),
            Self::ParamHeaderMismatch(name) => (StatusCode::BAD_REQUEST, McpError::HEADER_MISMATCH, mismatch(name)),
            Self::PositionalParams => (StatusCode::OK, McpError::INVALID_PARAMS, "params must be an object".into()),
            Self::Refused(Refused::Duplicate) => {
                (StatusCode::BAD_REQUEST, invalid, "A request with this id is already in progress".into())
            }
            Self::Refused(Refused::Full) => {
                (StatusCode::SERVICE_UNAVAILABLE, McpError::INTERNAL_ERROR, "Too many concurrent requests".into())
            }
            Self::Refused(Refused::OwnerFull) => {
                (StatusCode::TOO_MANY_REQUESTS, invalid, "Too many concurrent requests for this principal".into())
            }
            Self::Refused(Refused::ShuttingDown) => {
                (StatusCode::SERVICE_UNAVAILABLE, McpError::INTERNAL_ERROR, "Server is shutting down".into())
            }
            Self::RepeatedHeader(name) => {
                (StatusCode::BAD_REQUEST, invalid, format!("Header {name} must not be repeated").into())
            }
            Self::RepeatedParam => {
                (StatusCode::BAD_REQUEST, invalid, "Invalid Request: repeated member in params".into())
            }
            Self::UnsupportedModernVersion { .. } => {
                (StatusCode::BAD_REQUEST, McpError::UNSUPPORTED_VERSION, "Unsupported protocol version".into())
            }
            Self::UnsupportedVersion => (StatusCode::BAD_REQUEST, invalid, "Unsupported MCP-Protocol-Version".into()),
        }
    }
}

/// 2026-07-28, *Server Validation*.
fn mismatch(name: &str) -> Cow<'static, str> {
    format!("Header mismatch: {name} is missing, repeated, malformed, or differs from the request body").into()
}

impl From<Malformed> for Rejection {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Refused> for Rejection {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named() {
        assert_eq!(
            Rejection::BodyTooLarge { limit: Some(65_536) }.error().message(),
            "Request body is larger than 65536 bytes"
        );
        let late = Rejection::BodyTimeout(Duration::from_secs(30));
        assert_eq!(
            (late.status().as_u16(), late.error().message()),
            (408, "Request body not received within 30000 ms")
        );
    }

    #[test]
    fn only_refusals_that_pass_say_when_to_try_again() {
        let header = |rejection: Rejection| rejection.header().map(|(name, _)| name);
        assert_eq!(header(Rejection::Refused(Refused::Full)), Some(RETRY_AFTER));
        assert_eq!(header(Rejection::BodyBudget), Some(RETRY_AFTER));
        assert_eq!(header(Rejection::Refused(Refused::Duplicate)), None);
    }
}
