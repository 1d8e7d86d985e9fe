//! Every refusal, in one table.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use crate::exchange::Refused;
use crate::jsonrpc::{Malformed, McpError};

/// Why a request was not let in. What a client sent is never part of the text.
#[derive(Debug, PartialEq)]
pub(crate) enum Rejection {
    /// Of all requests together too much is being received.
    BodiesFull,
    BodyTimeout(Duration),
    BodyTooLarge {
        limit: Option<usize>,
    },
    BodyUnreadable,
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
        let message = match self {
            Self::BodyTimeout(limit) => format!("{text} {} ms", limit.as_millis()).into(),
            Self::BodyTooLarge { limit: Some(limit) } => format!("{text}: more than {limit} bytes").into(),
            Self::HeaderMismatch(name) | Self::InvalidMeta(name) | Self::RepeatedHeader(name) => {
                format!("{text} {name}").into()
            }
            Self::ParamHeaderMismatch(name) => format!("{text} {name}").into(),
            _ => Cow::Borrowed(text),
        };
        let error = McpError::new(code, message);
        match self {
            Self::UnsupportedModernVersion { supported, requested } => {
                error.with_data(json!({ "supported": supported, "requested": requested }))
            }
            _ => error,
        }
    }

    /// How long to wait before the next try, in seconds, where a try may then succeed.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        matches!(self, Self::BodiesFull | Self::Refused(Refused::Full | Refused::OwnerFull)).then_some(1)
    }

    /// The methods that are allowed instead.
    pub(crate) fn allow(&self) -> Option<&'static str> {
        matches!(self, Self::NothingFollows).then_some("POST")
    }

    fn row(&self) -> (StatusCode, i64, &'static str) {
        let invalid = McpError::INVALID_REQUEST;
        match self {
            Self::BodiesFull => (
                StatusCode::SERVICE_UNAVAILABLE,
                McpError::INTERNAL_ERROR,
                "Too many bytes of request bodies are being received",
            ),
            Self::BodyTimeout(_) => (StatusCode::REQUEST_TIMEOUT, invalid, "The body was not whole within"),
            Self::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, invalid, "The body is too large"),
            Self::BodyUnreadable => (StatusCode::BAD_REQUEST, invalid, "The body broke off"),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, invalid, "The Content-Type must be application/json")
            }
            Self::HeaderMismatch(_) | Self::ParamHeaderMismatch(_) => (
                StatusCode::BAD_REQUEST,
                McpError::HEADER_MISMATCH,
                "Header mismatch: missing, repeated, malformed, or not what the body says:",
            ),
            Self::HostNotAllowed => (
                StatusCode::FORBIDDEN,
                invalid,
                "The Host is not allowed; the server's operator can allow it with `allowed_hosts`",
            ),
            Self::InvalidMeta(_) => {
                (StatusCode::BAD_REQUEST, McpError::INVALID_PARAMS, "Invalid params: the _meta lacks")
            }
            Self::Malformed(malformed) => (StatusCode::BAD_REQUEST, malformed.code, malformed.why),
            Self::NotAcceptable => (
                StatusCode::NOT_ACCEPTABLE,
                invalid,
                "The Accept header must allow application/json or text/event-stream",
            ),
            Self::NothingFollows => (StatusCode::METHOD_NOT_ALLOWED, invalid, "Nothing follows the event of this id"),
            Self::OriginNotAllowed => (
                StatusCode::FORBIDDEN,
                invalid,
                "The Origin is not allowed; the server's operator can allow it with `allowed_origins`",
            ),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, McpError::INTERNAL_ERROR, "Internal error"),
            Self::Refused(Refused::Duplicate) => {
                (StatusCode::BAD_REQUEST, invalid, "A request with this id is in progress")
            }
            Self::Refused(Refused::Full) => {
                (StatusCode::SERVICE_UNAVAILABLE, McpError::INTERNAL_ERROR, "Too many requests are in progress")
            }
            Self::Refused(Refused::OwnerFull) => {
                (StatusCode::TOO_MANY_REQUESTS, invalid, "Too many requests of yours are in progress")
            }
            Self::Refused(Refused::ShuttingDown) => {
                (StatusCode::SERVICE_UNAVAILABLE, McpError::INTERNAL_ERROR, "The server is shutting down")
            }
            Self::RepeatedHeader(_) => (StatusCode::BAD_REQUEST, invalid, "A header is repeated:"),
            Self::RepeatedParam => {
                (StatusCode::BAD_REQUEST, invalid, "Invalid Request: a repeated or unreadable key in the params")
            }
            Self::UnsupportedModernVersion { .. } => {
                (StatusCode::BAD_REQUEST, McpError::UNSUPPORTED_VERSION, "Unsupported protocol version")
            }
            Self::UnsupportedVersion => {
                (StatusCode::BAD_REQUEST, invalid, "The MCP-Protocol-Version is not one that is served here")
            }
        }
    }
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
            "The body is too large: more than 65536 bytes"
        );
        let late = Rejection::BodyTimeout(Duration::from_secs(30));
        assert_eq!((late.status().as_u16(), late.error().message()), (408, "The body was not whole within 30000 ms"));
    }

    #[test]
    fn only_refusals_that_pass_say_when_to_try_again() {
        assert_eq!(Rejection::Refused(Refused::Full).retry_after(), Some(1));
        assert_eq!(Rejection::BodiesFull.retry_after(), Some(1));
        assert_eq!(Rejection::Refused(Refused::Duplicate).retry_after(), None);
    }
}
