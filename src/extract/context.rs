use std::sync::Arc;

use http::{Extensions, HeaderValue};

use super::rejection::ExtractRejection;
use crate::exchange::Exchange;
use crate::jsonrpc::Message;
use crate::protocol::{ProtocolVersion, Served};
use crate::reply::Settled;

/// An exchange over HTTP.
pub(crate) type Call = Exchange<Settled>;

/// What the layer leaves in the extensions of a request for the extractors.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The session id, if it is one of ours.
    pub(crate) session: Option<HeaderValue>,
    /// The reply may be an event stream.
    pub(crate) streams: bool,
    pub(crate) served: Served,
    pub(crate) subject: Subject,
    pub(crate) version: ProtocolVersion,
}

/// The message that was posted, where it is kept.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// A request, in its exchange.
    Request(Arc<Call>),
    /// A notification or a response, which have none.
    Unanswered(Arc<Message>),
}

impl Context {
    pub(crate) fn of(extensions: &Extensions) -> Result<&Self, ExtractRejection> {
        extensions.get().ok_or(ExtractRejection::MissingLayer)
    }
}

impl Subject {
    pub(crate) fn message(&self) -> &Message {
        match self {
            Self::Request(exchange) => exchange.request(),
            Self::Unanswered(message) => message,
        }
    }

    pub(crate) fn exchange(&self) -> Option<&Arc<Call>> {
        match self {
            Self::Request(exchange) => Some(exchange),
            Self::Unanswered(_) => None,
        }
    }
}
