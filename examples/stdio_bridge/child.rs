use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mcp_layer::{ClientError, McpError};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::asked::Asked;
use crate::caller::Caller;
use crate::line::{self, Answer, Line, beginning};
use crate::version;

/// What a child asks clients at once.
const MOST_QUESTIONS: usize = 64;
/// What a child that does not read may still be told.
const LAST_WORD: Duration = Duration::from_secs(5);

/// A process that speaks MCP, as its sessions see it.
#[derive(Debug)]
pub(crate) struct Child {
    calls: Mutex<Calls>,
    clients: Clients,
    end: CancellationToken,
    ended: OnceLock<Ended>,
    initialized: watch::Receiver<Option<Answer>>,
    lines: mpsc::Sender<String>,
    questions: Mutex<HashMap<String, AbortHandle>>,
    started: Instant,
}

/// Whose requests a child is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Clients {
    /// Of all that have no session and the same credentials: what belongs to none of their requests is nobody's.
    Many,
    /// Of one session.
    One,
}

#[derive(Debug, Default)]
struct Calls {
    in_progress: BTreeMap<u64, Entry>,
    is_over: bool,
    last_id: u64,
}

/// Where the answer of a call goes, and what comes before.
#[derive(Debug)]
struct Entry {
    answer: oneshot::Sender<Answer>,
    caller: Option<Arc<Caller>>,
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
        let child = Self {
            calls: Mutex::default(),
            clients,
            end: CancellationToken::new(),
            ended: OnceLock::new(),
            initialized,
            lines,
            questions: Mutex::default(),
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
            self.tell(line::notification("notifications/initialized", &json!({}))).await?;
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
        let (sender, answer) = oneshot::channel();
        let mut calls = lock(&self.calls);
        if calls.is_over {
            return Err(self.over());
        }
        calls.last_id += 1;
        let id = calls.last_id;
        calls.in_progress.insert(id, Entry { answer: sender, caller });
        Ok(Asked::new(Arc::clone(self), id, answer))
    }

    /// Nobody waits for it any more. Tells whether it had no answer yet.
    pub(crate) fn forget(&self, id: u64) -> bool {
        lock(&self.calls).in_progress.remove(&id).is_some()
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
    fn retort(&self, line: String) {
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
        self.end.cancel();
        let in_progress = {
            let mut calls = lock(&self.calls);
            calls.is_over = true;
            std::mem::take(&mut calls.in_progress)
        };
        drop(in_progress);
        for (_, question) in lock(&self.questions).drain() {
            question.abort();
        }
    }

    pub(crate) fn over(&self) -> McpError {
        let why = self.ended.get().map_or("the server is being ended", |ended| &ended.why);
        McpError::internal_error(why.to_owned())
    }
}

/// What it says.
impl Child {
    /// A line that its process has written.
    pub(crate) async fn heard(self: &Arc<Self>, text: &str) {
        let text = text.trim_start_matches('\u{feff}');
        match serde_json::from_str::<Vec<&RawValue>>(text) {
            // MCP 2025-03-26 has batches.
            Ok(messages) => {
                for message in messages {
                    self.heard_one(message.get()).await;
                }
            }
            Err(_) => self.heard_one(text).await,
        }
    }

    async fn heard_one(self: &Arc<Self>, text: &str) {
        match Line::read(text) {
            Ok(Line::Answer { id, answer }) => self.answered(id, answer),
            Ok(Line::Notification { method, params }) => {
                let none = line::raw(&json!({}));
                self.notified(&method, params.unwrap_or(&none)).await;
            }
            Ok(Line::Request { id, method, params }) => self.asked(id, &method, params),
            Err(error) => tracing::warn!(%error, line = beginning(text), "the server wrote what is no message"),
        }
    }

    fn answered(&self, id: u64, answer: Answer) {
        let entry = lock(&self.calls).in_progress.remove(&id);
        match entry {
            Some(entry) => drop(entry.answer.send(answer)),
            None => tracing::debug!(id, "an answer that nobody waits for"),
        }
    }

    async fn notified(&self, method: &str, params: &RawValue) {
        match method {
            "notifications/cancelled" => self.takes_back(params),
            "notifications/progress" => self.progresses(params),
            _ => match self.listener() {
                Some(caller) => caller.hear(method, params).await,
                None => tracing::info!(
                    method = beginning(method),
                    params = beginning(params.get()),
                    "a notification for nobody"
                ),
            },
        }
    }

    /// Who hears what is said of no call in particular.
    fn listener(&self) -> Option<Arc<Caller>> {
        let calls = lock(&self.calls);
        let mut callers = calls.in_progress.values().rev().filter_map(|entry| entry.caller.as_ref());
        let caller = callers.next();
        match self.clients {
            Clients::One => caller,
            // It may be any of them.
            Clients::Many => caller.filter(|caller| callers.next().is_none() && !caller.is_modern),
        }
        .cloned()
    }

    /// The bridge's tokens are its ids.
    fn progresses(&self, params: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress {
            progress_token: u64,
            progress: f64,
            total: Option<f64>,
            message: Option<String>,
        }

        let Ok(Progress { progress_token, progress, total, message }) = serde_json::from_str(params.get()) else {
            return tracing::warn!(params = beginning(params.get()), "the server's progress cannot be read");
        };
        let calls = lock(&self.calls);
        match calls.in_progress.get(&progress_token).and_then(|entry| entry.caller.as_ref()) {
            Some(caller) => caller.notifier.progress(progress, total, message.as_deref()),
            None => tracing::debug!(progress_token, "progress of a call that is over"),
        }
    }

    /// It asks something: the client whose call is the newest, on the stream of that call.
    fn asked(self: &Arc<Self>, id: &RawValue, method: &str, params: Option<&RawValue>) {
        if method == "ping" {
            return self.retort(line::response(id, Ok(line::raw(&json!({})))));
        }
        let refuse = |why: &'static str| {
            tracing::info!(method = beginning(method), why, "the server asks in vain");
            self.retort(line::response(id, Err(McpError::internal_error(why))));
        };
        if self.clients == Clients::Many {
            return refuse("the client declared no capabilities");
        }
        let Some(caller) = self.listener() else {
            return refuse("no call is in progress, so the client cannot be asked");
        };
        let mut questions = lock(&self.questions);
        if questions.len() >= MOST_QUESTIONS || questions.contains_key(id.get()) {
            return refuse("too many requests at once, or two with the same id");
        }
        let (child, own, method) = (Arc::clone(self), id.to_owned(), method.to_owned());
        let params = params.map_or_else(|| line::raw(&json!({})), ToOwned::to_owned);
        let task = tokio::spawn(async move {
            let answer = caller.client.request(&method, params).await.map_err(|error| match error {
                ClientError::Answered(error) => error,
                other => McpError::internal_error(other.to_string()),
            });
            let room = timeout(LAST_WORD, child.room()).await;
            lock(&child.questions).remove(own.get());
            match room {
                Ok(Ok(room)) => room.send(line::response(&own, answer)),
                Ok(Err(_)) => {}
                Err(_) => tracing::warn!("the server does not read: its request is not answered"),
            }
        });
        questions.insert(id.get().to_owned(), task.abort_handle());
    }

    /// It does not want to know any more. The client is told so as its question is dropped.
    fn takes_back(&self, params: &RawValue) {
        let id = line::members(params).and_then(|members| members.get("requestId").copied());
        if let Some(question) = id.and_then(|id| lock(&self.questions).remove(id.get())) {
            question.abort();
        }
    }
}

/// What is guarded is whole after each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
