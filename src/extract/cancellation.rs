use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::context::{Call, Context};
use super::rejection::ExtractRejection;
use crate::exchange::{End, Outcome};

/// The token of the exchange: it fires when the exchange ends before its handler does.
///
/// To take it is to ask for time: the client is answered at once, and what is left of the handler runs on in the
/// background for the [grace time](crate::McpServerBuilder::cancel_grace), so that it can stop in order. What it still
/// returns goes nowhere. A handler that does not take it is dropped where it waits.
///
/// The token of a notification or a response never fires.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_layer::{Cancellation, McpError, Reply};
///
/// async fn slow(cancellation: Cancellation) -> Result<Reply<&'static str>, McpError> {
///     tokio::select! {
///         () = tokio::time::sleep(Duration::from_secs(60)) => Ok(Reply("done")),
///         outcome = cancellation.cancelled() => {
///             // Give back what was taken; nobody reads what is returned here.
///             tracing::info!(?outcome, reason = ?cancellation.reason(), "stopped");
///             Err(McpError::internal_error("stopped"))
///         }
///     }
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(slow);
/// ```
#[derive(Clone, Debug)]
pub struct Cancellation(Option<Arc<Call>>);

impl Cancellation {
    /// Waits until the token fires, and tells how the exchange ended. It may be awaited in several places and again.
    ///
    /// Where the token never fires this waits for ever: select between it and the work.
    pub async fn cancelled(&self) -> Outcome {
        match &self.0 {
            Some(exchange) => exchange.fired().await.outcome,
            None => std::future::pending().await,
        }
    }

    /// The token has fired.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.end().is_some()
    }

    /// The reason that the client gave, once the token has fired; of a longer one the first 1,024 bytes. It is the
    /// client's text: escape it wherever it is shown.
    #[must_use]
    pub fn reason(&self) -> Option<Arc<str>> {
        self.end()?.reason
    }

    fn end(&self) -> Option<End> {
        self.0.as_ref()?.end().filter(|end| end.outcome != Outcome::Replied)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Cancellation {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let exchange = Context::of(&parts.extensions)?.subject.exchange().cloned();
        if let Some(exchange) = &exchange {
            exchange.ask();
        }
        Ok(Self(exchange))
    }
}
