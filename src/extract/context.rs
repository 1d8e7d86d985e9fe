use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;

use super::rejection::ExtractRejection;
use crate::exchange::Exchange;
use crate::jsonrpc::Message;
use crate::protocol::ProtocolVersion;
use crate::reply::Settled;

/// An exchange over HTTP.
pub(crate) type Call = Exchange<Settled>;

/// What the layer leaves in the extensions of a request for the extractors.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// Of a request; notifications and responses have none.
    pub(crate) exchange: Option<Arc<Call>>,
    pub(crate) message: Message,
    /// The session id, if it is one of ours.
    pub(crate) session: Option<HeaderValue>,
    /// The reply may be an event stream.
    pub(crate) streams: bool,
    pub(crate) version: ProtocolVersion,
}

impl Context {
    pub(super) fn of(parts: &Parts) -> Result<&Self, ExtractRejection> {
        parts.extensions.get().ok_or(ExtractRejection::MissingLayer)
    }
}
