use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_layer::{Client, Notifier};
use serde_json::value::RawValue;
use tokio::time::timeout;

/// A client that has not read what waits for it is waited for this long, once, and with it all that its server says.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// Who waits for a call.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    /// Progress is all that it may hear.
    pub(crate) is_modern: bool,
    lags: AtomicBool,
    pub(crate) notifier: Notifier,
}

impl Caller {
    pub(crate) fn new(client: Client, notifier: Notifier, is_modern: bool) -> Self {
        Self { client, is_modern, lags: AtomicBool::new(false), notifier }
    }

    /// Passes a notification on, as soon as there is room for it. For one that lags behind there has to be at once. Tells
    /// whether there was.
    pub(crate) async fn hear(&self, method: &str, params: Option<&RawValue>) -> bool {
        let patience = if self.lags.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE };
        let heard = timeout(patience, self.notifier.notify(method, params)).await;
        if let Ok(Err(error)) = &heard {
            tracing::warn!(%error, "a notification is not passed on");
        }
        let lagged = self.lags.swap(heard.is_err(), Ordering::Relaxed);
        if heard.is_err() && !lagged {
            tracing::warn!("a client does not read: notifications are dropped until it does");
        }
        heard.is_ok()
    }
}
