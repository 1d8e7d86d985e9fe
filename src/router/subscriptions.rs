use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use serde_json::Value;
use tokio::sync::Notify;

use crate::extract::{Change, Subscription, SubscriptionFilter};
use crate::reply::Reply;

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
#[derive(Clone, Debug, Default)]
pub struct Subscriptions(Arc<Subscribers>);

#[derive(Debug, Default)]
struct Subscribers {
    all: DashMap<u64, Arc<Subscriber>>,
    next: AtomicU64,
}

/// Of a client that reads slowly no more is kept than which of the things have changed that it wants to hear of.
#[derive(Debug)]
struct Subscriber {
    honoured: Arc<SubscriptionFilter>,
    /// With their order.
    untold: Mutex<HashMap<Change, usize>>,
    changed: Notify,
}

/// One that listens, until this is dropped.
#[derive(Debug)]
struct Listening<'a> {
    among: &'a Subscribers,
    number: u64,
    subscriber: Arc<Subscriber>,
}

impl Subscriptions {
    /// Without subscribers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells of a change. Waits for nobody.
    #[expect(clippy::needless_pass_by_value, reason = "who publishes has made it for this")]
    pub fn publish(&self, change: Change) {
        for subscriber in &self.0.all {
            subscriber.hears_of(&change);
        }
    }

    /// Serves one subscription, for as long as its client keeps it open. The client hears of every change that it wants to
    /// hear of; what changes again before it could be told, because it reads slowly say, it hears of once.
    pub async fn listen(&self, subscription: Subscription) -> Reply<Value> {
        let requested = subscription.requested().clone();
        self.listen_for(subscription, requested).await
    }

    /// The same, of these changes.
    pub(super) async fn listen_for(&self, subscription: Subscription, honoured: SubscriptionFilter) -> Reply<Value> {
        let honoured = Arc::new(honoured.and(subscription.requested()));
        // Before the client knows of it, so that it misses nothing from then on.
        let listening = self.0.add(Arc::clone(&honoured));
        let stream = subscription.begin(honoured).await;
        loop {
            for change in listening.subscriber.untold().await {
                stream.send(&change).await;
            }
        }
    }
}

impl Subscribers {
    fn add(&self, honoured: Arc<SubscriptionFilter>) -> Listening<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let subscriber = Arc::new(Subscriber { honoured, untold: Mutex::default(), changed: Notify::new() });
        self.all.insert(number, Arc::clone(&subscriber));
        Listening { among: self, number, subscriber }
    }
}

impl Subscriber {
    fn hears_of(&self, change: &Change) {
        if self.honoured.has(change) {
            let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
            let at = untold.len();
            untold.entry(change.clone()).or_insert(at);
            drop(untold);
            self.changed.notify_one();
        }
    }

    /// What has changed, once something has, in order.
    async fn untold(&self) -> impl Iterator<Item = Change> + use<> {
        self.changed.notified().await;
        let untold = std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        let mut untold: Vec<_> = untold.into_iter().collect();
        untold.sort_unstable_by_key(|(_, at)| *at);
        untold.into_iter().map(|(change, _)| change)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.among.all.remove(&self.number);
    }
}
