use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use mcp_layer::{Cancellation, Ended, McpServer, Observer, Outcome};
use serde_json::{Value, json};

const MOST_NOTIFICATIONS: usize = 100;

/// What `GET /debug` shows.
#[derive(Default)]
pub(crate) struct Debug {
    replied: AtomicUsize,
    cancelled: AtomicUsize,
    disconnected: AtomicUsize,
    timed_out: AtomicUsize,
    shut_down: AtomicUsize,
    handlers_started: AtomicUsize,
    handlers_completed: AtomicUsize,
    handlers_cancelled: AtomicUsize,
    handlers_dropped: AtomicUsize,
    notifications: Mutex<VecDeque<String>>,
}

/// Counts how exchanges end.
pub(crate) struct Outcomes(pub(crate) Arc<Debug>);

impl Observer for Outcomes {
    fn ended(&self, exchange: Ended<'_>) {
        let count = match exchange.outcome {
            Outcome::Cancelled => &self.0.cancelled,
            Outcome::Disconnected => &self.0.disconnected,
            Outcome::ShutDown => &self.0.shut_down,
            Outcome::TimedOut => &self.0.timed_out,
            _ => &self.0.replied,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

impl Debug {
    /// Keeps a notification as it came.
    pub(crate) fn note(&self, raw: &str) {
        let mut notifications = self.notifications.lock().unwrap_or_else(PoisonError::into_inner);
        if notifications.len() == MOST_NOTIFICATIONS {
            notifications.pop_front();
        }
        notifications.push_back(raw.to_owned());
    }

    /// Counts a tool call, and how it ends.
    pub(crate) fn start(self: &Arc<Self>, cancellation: &Cancellation) -> ToolCall {
        self.handlers_started.fetch_add(1, Ordering::SeqCst);
        ToolCall { debug: Arc::clone(self), cancellation: cancellation.clone(), returned: false }
    }
}

/// A tool call at work. Dropped before it returned, it counts as dropped.
pub(crate) struct ToolCall {
    debug: Arc<Debug>,
    cancellation: Cancellation,
    returned: bool,
}

impl ToolCall {
    pub(crate) fn returned(mut self) {
        self.returned = true;
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        let count = match (self.cancellation.is_cancelled(), self.returned) {
            (true, true) => &self.debug.handlers_cancelled,
            (_, false) => &self.debug.handlers_dropped,
            (false, true) => &self.debug.handlers_completed,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) async fn page(State((server, debug)): State<(McpServer, Arc<Debug>)>) -> Json<Value> {
    let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    let notifications = debug.notifications.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Json(json!({
        "parked": server.parked(),
        "outcomes": {
            "replied": of(&debug.replied),
            "cancelled": of(&debug.cancelled),
            "disconnected": of(&debug.disconnected),
            "timed_out": of(&debug.timed_out),
            "shut_down": of(&debug.shut_down),
        },
        "handlers": {
            "started": of(&debug.handlers_started),
            "completed": of(&debug.handlers_completed),
            "cancelled": of(&debug.handlers_cancelled),
            "dropped": of(&debug.handlers_dropped),
        },
        "notifications": notifications,
    }))
}
