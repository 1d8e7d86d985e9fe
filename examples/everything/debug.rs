use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use mcp_layer::{Ended, McpServer, Observer, Outcome};
use serde::Serialize;
use serde_json::{Value, json};

use crate::counted::Counts;

const MOST_NOTIFICATIONS: usize = 100;

/// What `GET /debug` shows. It is the state of all handlers.
#[derive(Default)]
pub(crate) struct Debug {
    pub(crate) handlers: Counts,
    notifications: Mutex<VecDeque<String>>,
    outcomes: Outcomes,
}

#[derive(Default, Serialize)]
struct Outcomes {
    replied: AtomicUsize,
    cancelled: AtomicUsize,
    disconnected: AtomicUsize,
    timed_out: AtomicUsize,
    shut_down: AtomicUsize,
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
}

/// Counts how exchanges end.
pub(crate) struct CountOutcomes(pub(crate) Arc<Debug>);

impl Observer for CountOutcomes {
    fn ended(&self, exchange: Ended<'_>) {
        let outcomes = &self.0.outcomes;
        let count = match exchange.outcome {
            Outcome::Cancelled => &outcomes.cancelled,
            Outcome::Disconnected => &outcomes.disconnected,
            Outcome::ShutDown => &outcomes.shut_down,
            Outcome::TimedOut => &outcomes.timed_out,
            _ => &outcomes.replied,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) async fn page(State((server, debug)): State<(McpServer, Arc<Debug>)>) -> Json<Value> {
    let notifications = debug.notifications.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Json(json!({
        "parked": server.parked(),
        "outcomes": debug.outcomes,
        "handlers": debug.handlers,
        "notifications": notifications,
    }))
}
