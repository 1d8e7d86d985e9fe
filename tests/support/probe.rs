use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use mcp_layer::{Cancellation, Ended, McpError, McpMessage, Notifier, Observer, Outcome, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::BOUND;

/// What a message may ask of its handler, in its params.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Wishes {
    /// Waits until the test opens this gate, or until its token fires, where it took it.
    gate: Option<String>,
    /// Then, if the token has fired, for this one.
    stays_for: Option<String>,
    /// Sends these first.
    notes: Vec<Value>,
    /// Sends these after the gate.
    then_notes: Vec<Value>,
    fail: bool,
    panic: bool,
    status: Option<u16>,
    text: String,
}

/// The state of the handlers: the gates that hold them, and what became of each.
#[derive(Debug)]
pub(crate) struct Probe {
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
    log: watch::Sender<Vec<String>>,
}

impl Default for Probe {
    fn default() -> Self {
        Self { gates: Mutex::default(), log: watch::Sender::new(Vec::new()) }
    }
}

impl Probe {
    /// Lets the handlers through, those that come later too.
    pub(crate) fn open(&self, gate: &str) {
        self.gate(gate).add_permits(Semaphore::MAX_PERMITS / 2);
    }

    pub(crate) async fn pass(&self, gate: &str) {
        drop(self.gate(gate).acquire_owned().await);
    }

    fn gate(&self, name: &str) -> Arc<Semaphore> {
        let mut gates = self.gates.lock().expect("no panic under this lock");
        Arc::clone(gates.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
    }

    pub(crate) fn note(&self, line: impl Into<String>) {
        self.log.send_modify(|log| log.push(line.into()));
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }

    /// How often this line stands in the log.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.log.borrow().iter().filter(|other| *other == line).count()
    }

    /// The bodies of notifications and responses that reached their handler.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.log.borrow().iter().filter_map(|line| line.strip_prefix("heard ")).map(str::to_owned).collect()
    }

    /// Waits until this line stands in the log.
    pub(crate) async fn until(&self, line: &str) {
        let mut log = self.log.subscribe();
        let found = timeout(BOUND, log.wait_for(|log| log.iter().any(|other| other == line))).await.is_ok();
        assert!(found, "never {line:?}: {:?}", self.log());
    }

    /// Waits until this handler has been dropped, however long that takes.
    pub(crate) async fn until_dropped(&self, name: &str) {
        let (mut log, line) = (self.log.subscribe(), format!("dropped {name}"));
        drop(log.wait_for(|log| log.contains(&line)).await.expect("the probe is there"));
    }

    async fn handle(self: Arc<Self>, message: McpMessage, notifier: Notifier, token: Option<Cancellation>) -> Response {
        let wishes: Wishes = message.params().unwrap_or_default();
        if !message.is_request() {
            self.note(format!("heard {}", message.as_str()));
        }
        let name = message.id().map_or_else(|| message.method().to_owned(), ToString::to_string);
        self.note(format!("started {name}"));
        let mut at_work = AtWork { probe: Arc::clone(&self), name: name.clone(), returns: false };
        send(&notifier, wishes.notes).await;
        if let Some(gate) = &wishes.gate {
            tokio::select! {
                () = self.pass(gate) => {}
                outcome = fired(token.as_ref()) => {
                    let reason = token.and_then(|token| token.reason());
                    self.note(format!("fired {name}: {outcome:?} {reason:?}"));
                    if let Some(gate) = &wishes.stays_for {
                        self.pass(gate).await;
                    }
                }
            }
        }
        send(&notifier, wishes.then_notes).await;
        assert!(!wishes.panic, "a secret of the handler");
        at_work.returns = true;
        match wishes.status {
            Some(status) => (StatusCode::from_u16(status).expect("a status"), wishes.text).into_response(),
            None if wishes.fail => McpError::new(-1, "failed, as asked").into_response(),
            None => Reply(json!({ "text": wishes.text })).into_response(),
        }
    }
}

async fn send(notifier: &Notifier, notes: Vec<Value>) {
    for note in notes {
        notifier.notify("notifications/message", message_params(&note)).await.expect("it is JSON");
    }
}

fn message_params(data: &Value) -> Value {
    json!({ "level": "info", "data": data })
}

/// A note of the probe's, as it is to stand on the wire.
pub(crate) fn note(data: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{}}}"#, message_params(data))
}

async fn fired(token: Option<&Cancellation>) -> Outcome {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Says how a handler went.
struct AtWork {
    probe: Arc<Probe>,
    name: String,
    returns: bool,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let how = match self.returns {
            true => "returned",
            false if std::thread::panicking() => "panicked",
            false => "dropped",
        };
        self.probe.note(format!("{how} {}", self.name));
    }
}

/// A handler that does not take the token.
pub(crate) async fn plain(State(probe): State<Arc<Probe>>, notifier: Notifier, message: McpMessage) -> Response {
    probe.handle(message, notifier, None).await
}

/// A handler that takes the token.
pub(crate) async fn polite(
    State(probe): State<Arc<Probe>>,
    token: Cancellation,
    notifier: Notifier,
    message: McpMessage,
) -> Response {
    probe.handle(message, notifier, Some(token)).await
}

/// The outcomes of all exchanges, in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes(Arc<Mutex<Vec<(String, Outcome)>>>);

impl Observer for Outcomes {
    fn ended(&self, exchange: Ended<'_>) {
        self.0.lock().expect("no panic under this lock").push((exchange.id.to_string(), exchange.outcome));
    }
}

impl Outcomes {
    pub(crate) fn all(&self) -> Vec<(String, Outcome)> {
        self.0.lock().expect("no panic under this lock").clone()
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.all().into_iter().filter(|(_, other)| *other == outcome).count()
    }
}
