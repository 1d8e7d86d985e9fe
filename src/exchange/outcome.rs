use crate::jsonrpc::RequestId;
use crate::protocol::ProtocolVersion;

/// How an exchange ended. Each one ends in exactly one way.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// `notifications/cancelled` named it.
    Cancelled,
    /// Its client went away, and that ended it.
    Disconnected,
    /// Its handler answered it: with a result, an error, or a panic.
    Replied,
    /// The server was shut down.
    ShutDown,
    /// Its deadline passed.
    TimedOut,
}

/// An exchange that has ended, as an [`Observer`] sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ended<'a> {
    /// The id of the request.
    pub id: &'a RequestId,
    /// Its method. A client chose it: bound it before you use it as a label.
    pub method: &'a str,
    /// How it ended.
    pub outcome: Outcome,
    /// The version that it was parked under.
    pub version: ProtocolVersion,
}

/// Is told of every exchange that ends, once each, for metrics and logs.
///
/// It is called on the task that ended the exchange, after the answer is on its way: do little here, and never block.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use mcp_layer::{Ended, McpServer, Observer, Outcome};
///
/// #[derive(Default)]
/// struct Cancels(AtomicUsize);
///
/// impl Observer for Cancels {
///     fn ended(&self, exchange: Ended<'_>) {
///         if exchange.outcome == Outcome::Cancelled {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let server = McpServer::builder().observer(Cancels::default()).build();
/// ```
pub trait Observer: Send + Sync + 'static {
    /// An exchange has ended.
    fn ended(&self, exchange: Ended<'_>);
}

/// One that others look at, too.
impl<O: Observer + ?Sized> Observer for std::sync::Arc<O> {
    fn ended(&self, exchange: Ended<'_>) {
        (**self).ended(exchange);
    }
}
