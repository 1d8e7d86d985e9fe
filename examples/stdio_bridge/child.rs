use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mcp_layer::McpError;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::asked::Asked;
use crate::caller::Caller;
use crate::calls::Calls;
use crate::line::{self, Answer};
use crate::outlet::Outlet;
use crate::questions::Questions;
use crate::version;

/// How long a line waits for a child that does not read.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(5);

/// A process that speaks MCP, as its sessions see it.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) calls: Calls,
    pub(crate) clients: Clients,
    end: CancellationToken,
    ended: OnceLock<Ended>,
    initialized: watch::Receiver<Option<Answer>>,
    lines: mpsc::Sender<String>,
    /// Among the servers of its session.
    number: u64,
    pub(crate) questions: Questions,
    started: Instant,
}

/// Whose requests a child is sent.
#[derive(Clone, Debug)]
pub(crate) enum Clients {
    /// Of all that have no session and the same credentials: what belongs to none of their requests is nobody's.
    Many,
    /// Of one session: what belongs to none of its requests goes to its GET stream.
    One(Arc<Outlet>),
}

#[derive(Debug)]
struct Ended {
    at: Instant,
    why: String,
}

impl Child {
    /// A child whose process reads these lines, and what is to be told once it is initialized.
    pub(crate) fn new(lines: mpsc::Sender<String>, clients: Clients) -> (Arc<Self>, watch::Sender<Option<Answer>>) {
        let (sender, initialized) = watch::channel(None);
        let number = match &clients {
            Clients::Many => 0,
            Clients::One(outlet) => outlet.begin(),
        };
        let child = Self {
            calls: Calls::default(),
            clients,
            end: CancellationToken::new(),
            ended: OnceLock::new(),
            initialized,
            lines,
            number,
            questions: Questions::default(),
            started: Instant::now(),
        };
        (Arc::new(child), sender)
    }

    /// MCP, *Lifecycle*, Initialization. A child that cannot be initialized is ended.
    pub(crate) async fn initialize(
        self: Arc<Self>,
        params: Arc<RawValue>,
        within: Duration,
        initialized: watch::Sender<Option<Answer>>,
    ) {
        let answer = async {
            let asked = self.ask(None)?;
            asked.send("initialize", &params).await?;
            let result = asked.answered().await?;
            version::check(&result)?;
            self.tell(line::notification("notifications/initialized", Some(&line::raw(&json!({}))))).await?;
            Ok(result)
        };
        let answer = timeout(within, answer).await.unwrap_or_else(|_| {
            Err(McpError::internal_error(format!("the server has not answered `initialize` within {within:?}")))
        });
        if answer.is_err() {
            self.end();
        }
        initialized.send_replace(Some(answer));
    }

    /// Waits for its answer to `initialize`.
    pub(crate) async fn initialized(&self) -> Answer {
        match self.initialized.clone().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(answer)) => answer.clone(),
            Ok(None) | Err(_) => Err(self.over()),
        }
    }

    /// Adds a request, which is yet to be sent.
    pub(crate) fn ask(self: &Arc<Self>, caller: Option<Arc<Caller>>) -> Result<Asked, McpError> {
        let (id, answer) = self.calls.add(caller).ok_or_else(|| self.over())?;
        Ok(Asked::new(Arc::clone(self), id, answer))
    }

    /// Waits until there is room for a line.
    pub(crate) async fn room(&self) -> Result<mpsc::Permit<'_, String>, McpError> {
        self.lines.reserve().await.map_err(|_| self.over())
    }

    /// Writes a line, as soon as there is room for it.
    pub(crate) async fn tell(&self, line: String) -> Result<(), McpError> {
        self.room().await?.send(line);
        Ok(())
    }

    /// Writes a line if there is room for it: a child that asks without reading is not waited for.
    pub(crate) fn retort(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            tracing::warn!("the server does not read: its request is not answered");
        }
    }

    /// Writes a line that nobody waits for. Where there is no room for it soon, it is dropped.
    pub(crate) fn mention(self: &Arc<Self>, line: String) {
        let Err(mpsc::error::TrySendError::Full(line)) = self.lines.try_send(line) else { return };
        let child = Arc::clone(self);
        tokio::spawn(async move {
            if timeout(LAST_WORD, child.tell(line)).await.is_err() {
                tracing::warn!("the server does not read: something is not told to it");
            }
        });
    }

    /// Has its process ended.
    pub(crate) fn end(&self) {
        self.end.cancel();
    }

    pub(crate) async fn asked_to_end(&self) {
        self.end.cancelled().await;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.is_cancelled()
    }

    /// When it ended, and how long it lived.
    pub(crate) fn lived(&self) -> (Instant, Duration) {
        let end = self.ended.get().map_or_else(Instant::now, |ended| ended.at);
        (end, end.duration_since(self.started))
    }

    /// Answers all that waits, with an error that says why.
    pub(crate) fn close(&self, why: String) {
        self.ended.set(Ended { at: Instant::now(), why }).ok();
        // Before a successor can be started: a stream that is opened for one goes on.
        if let Clients::One(outlet) = &self.clients {
            outlet.interrupt(self.number);
        }
        self.end.cancel();
        self.calls.close();
        self.questions.close();
    }

    pub(crate) fn over(&self) -> McpError {
        let why = self.ended.get().map_or("the server is being stopped", |ended| &ended.why);
        McpError::internal_error(why.to_owned())
    }
}
