use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Sender};

use crate::extract::{Change, Subscription, SubscriptionFilter};
use crate::reply::Reply;

/// Changes that wait for a subscriber. Of more it hears as one: see [`Subscriptions::listen`].
const MOST_WAITING: usize = 256;

/// The subscribers of a server: whoever tells of a [`Change`] here tells all open `subscriptions/listen` streams that want
/// to hear of it (2026-07-28, *Subscriptions*). Clones are the same.
///
/// Give it to [`McpRouter::subscriptions`](crate::McpRouter::subscriptions), or let a handler of yours
/// [`listen`](Self::listen).
///
/// It is of this process: several replicas have to tell each other of their changes.
///
/// ```
/// use mcp_layer::{Change, McpRouter, ServerInfo, Subscriptions};
///
/// let subscriptions = Subscriptions::new();
/// let mcp: McpRouter = McpRouter::new(ServerInfo::new("example", "1.0.0")).subscriptions(&subscriptions);
///
/// // Whenever it happens:
/// subscriptions.publish(Change::ToolsListChanged);
/// ```
#[derive(Clone, Debug)]
pub struct Subscriptions(Sender<Change>);

impl Default for Subscriptions {
    fn default() -> Self {
        Self(broadcast::channel(MOST_WAITING).0)
    }
}

impl Subscriptions {
    /// Without subscribers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells of a change. Waits for nobody.
    pub fn publish(&self, change: Change) {
        // Without subscribers there is nobody to tell.
        self.0.send(change).ok();
    }

    /// Serves one subscription, for as long as its client keeps it open. A client that reads too slowly to hear of each
    /// change hears once of everything that it wants to hear of.
    pub async fn listen(&self, subscription: Subscription) -> Reply<Value> {
        let requested = subscription.requested().clone();
        self.listen_for(subscription, requested).await
    }

    /// The same, of these changes.
    pub(super) async fn listen_for(&self, subscription: Subscription, honoured: SubscriptionFilter) -> Reply<Value> {
        // Before the client knows of it, so that it misses nothing from then on.
        let mut changes = self.0.subscribe();
        let stream = subscription.acknowledge(honoured).await;
        loop {
            match changes.recv().await {
                Ok(change) => stream.send(&change).await,
                Err(RecvError::Lagged(_)) => {
                    for change in stream.honoured().changes() {
                        stream.send(&change).await;
                    }
                }
                Err(RecvError::Closed) => return stream.close().await,
            }
        }
    }
}
