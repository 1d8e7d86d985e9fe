use axum::extract::FromRequestParts;
use http::request::Parts;

use super::context::{Context, Subject};
use super::rejection::ExtractRejection;
use crate::jsonrpc::RequestId;
use crate::protocol::ProtocolVersion;

/// What is known of the message beside its params: for spans, logs and decisions.
///
/// ```
/// use mcp_layer::{ExchangeInfo, Reply};
/// use serde_json::{Value, json};
///
/// async fn initialize(info: ExchangeInfo) -> Reply<Value> {
///     // For `initialize` this is the version that was negotiated.
///     Reply(json!({
///         "protocolVersion": info.version().as_str(),
///         "capabilities": {},
///         "serverInfo": { "name": "example", "version": "1.0.0" },
///     }))
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(initialize);
/// ```
#[derive(Clone, Debug)]
pub struct ExchangeInfo {
    session: Option<http::HeaderValue>,
    subject: Subject,
    version: ProtocolVersion,
}

impl ExchangeInfo {
    /// The id of the request; `None` for a notification or a response.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.subject.message().request_id()
    }

    /// The method of the request or the notification. A response has none: `""`.
    #[must_use]
    pub fn method(&self) -> &str {
        self.subject.message().method().unwrap_or_default()
    }

    /// The session, if it is one that this layer opened. A session id of another make stays in the request's headers.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_ref()?.to_str().ok()
    }

    /// The version that the message is read as. For `initialize` it is the one to answer with: the version that the
    /// client asks for, if it is served, else the latest.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ExchangeInfo {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let Context { session, subject, version, .. } = Context::of(&parts.extensions)?.clone();
        Ok(Self { session, subject, version })
    }
}
