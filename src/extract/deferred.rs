use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use serde::Serialize;
use tokio::sync::oneshot;

use super::context::{Call, Context};
use super::notifier::Notifier;
use super::rejection::ExtractRejection;
use crate::exchange::Outcome;
use crate::jsonrpc::McpError;
use crate::reply::{Later, Reply};

/// Answers a request from elsewhere: from a queue, a child process, another task.
///
/// The handler takes the [ticket](ReplyTicket) out, hands it on, and returns what is left. The exchange stays parked until
/// the ticket is used: it can still be cancelled, has its deadline, and ends at shutdown. As with
/// [`Cancellation`](crate::Cancellation), a handler that is still at work then has its grace time.
///
/// ```
/// use axum::extract::State;
/// use mcp_layer::{Deferred, DeferredReply, McpError, ReplyTicket};
/// use tokio::sync::mpsc::Sender;
///
/// async fn handle(State(jobs): State<Sender<ReplyTicket>>, deferred: Deferred) -> Result<DeferredReply, McpError> {
///     let (ticket, reply) = deferred.split();
///     jobs.send(ticket).await.map_err(|_| McpError::internal_error("nobody works here"))?;
///     Ok(reply)
/// }
/// # let _: axum::routing::MethodRouter<_> = axum::routing::post(handle);
/// ```
#[derive(Debug)]
pub struct Deferred {
    exchange: Arc<Call>,
    notifier: Notifier,
}

/// What a handler returns whose answer comes by a [`ReplyTicket`].
#[derive(Debug)]
pub struct DeferredReply(oneshot::Receiver<Response>);

/// Answers a request, once. Dropped unused, it answers with the error -32603.
///
/// ```
/// use mcp_layer::ReplyTicket;
/// use serde_json::json;
///
/// async fn work(ticket: ReplyTicket) {
///     tokio::select! {
///         outcome = ticket.ended() => tracing::info!(?outcome, "nobody waits any more"),
///         () = tokio::time::sleep(std::time::Duration::from_secs(60)) => {
///             if let Err(late) = ticket.reply(json!({ "content": [] })) {
///                 tracing::info!(%late, "done for nothing");
///             }
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct ReplyTicket {
    answer: oneshot::Sender<Response>,
    exchange: Arc<Call>,
    notifier: Notifier,
}

/// A [`ReplyTicket`] was used when its exchange had ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooLate {
    outcome: Outcome,
}

impl Deferred {
    /// The ticket, and what the handler has to return.
    #[must_use]
    pub fn split(self) -> (ReplyTicket, DeferredReply) {
        let Self { exchange, notifier } = self;
        let (answer, answered) = oneshot::channel();
        (ReplyTicket { answer, exchange, notifier }, DeferredReply(answered))
    }
}

impl ReplyTicket {
    /// Answers with a result. One of a tool goes by [`answer`](Self::answer), which knows what legacy clients do not.
    ///
    /// # Errors
    ///
    /// If the exchange has ended: says how. An end that comes at the same moment may still win; then nothing of this is sent.
    pub fn reply(self, result: impl Serialize) -> Result<(), TooLate> {
        self.answer(Reply(result))
    }

    /// Answers with an error.
    ///
    /// # Errors
    ///
    /// As [`reply`](Self::reply).
    pub fn error(self, error: McpError) -> Result<(), TooLate> {
        self.answer(error)
    }

    /// Answers with whatever a handler may return: a [`Reply`], a [`CallToolResult`](crate::CallToolResult), a
    /// [`ClientError`](crate::ClientError), a `Result` of them.
    ///
    /// # Errors
    ///
    /// As [`reply`](Self::reply).
    pub fn answer(self, answer: impl IntoResponse) -> Result<(), TooLate> {
        let late = |outcome| Err(TooLate { outcome });
        if let Some(end) = self.exchange.end() {
            return late(end.outcome);
        }
        match self.answer.send(answer.into_response()) {
            Ok(()) => Ok(()),
            // The handler has answered by itself, or is gone with its exchange.
            Err(_) => late(self.exchange.end().map_or(Outcome::Replied, |end| end.outcome)),
        }
    }

    /// Sends notifications ahead of the answer.
    #[must_use]
    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Waits until the exchange ends without this ticket: it is cancelled, its time is up, the server shuts down, its (modern)
    /// client leaves, or its handler answers by itself. Where it never does, this waits for ever.
    pub async fn ended(&self) -> Outcome {
        self.exchange.ended().await.outcome
    }
}

impl TooLate {
    /// How the exchange ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }
}

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the exchange has ended: {:?}", self.outcome)
    }
}

impl std::error::Error for TooLate {}

impl IntoResponse for DeferredReply {
    fn into_response(self) -> Response {
        Later::new(self.0).into_response()
    }
}

/// A message that is no request has no answer to wait for: its client gets 202, and the handler is not called, unless it
/// takes `Option<Deferred>`.
impl<S: Send + Sync> FromRequestParts<S> for Deferred {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let exchange = Context::of(&parts.extensions)?.subject.exchange().cloned();
        let exchange = exchange.ok_or(ExtractRejection::NoRequest)?;
        // Whoever holds the ticket hears of the end.
        exchange.ask();
        Ok(Self { exchange, notifier: Notifier::from_request_parts(parts, state).await? })
    }
}

/// `None` for a notification or a response: for a handler of all messages.
impl<S: Send + Sync> OptionalFromRequestParts<S> for Deferred {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, Self::Rejection> {
        match <Self as FromRequestParts<S>>::from_request_parts(parts, state).await {
            Err(ExtractRejection::NoRequest) => Ok(None),
            deferred => deferred.map(Some),
        }
    }
}
