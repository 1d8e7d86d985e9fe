use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::HeaderValue;
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::child::Clients;
use crate::launcher::Launcher;
use crate::line::raw;
use crate::lock::lock;
use crate::options::Options;
use crate::refusal::Refusal;
use crate::session::{Session, Usage};

/// The sessions, and what callers without one share.
#[derive(Debug)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<Key, Arc<Session>>>,
    /// Credentials are not kept.
    hashes: RandomState,
    idle_timeout: Duration,
    launcher: Arc<Launcher>,
    most: usize,
    start_timeout: Duration,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Key {
    Session(Uuid),
    /// A keyed hash of the `Authorization`.
    Shared(Option<u64>),
}

/// A session whose client does not know of it yet. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    id: Uuid,
    is_kept: bool,
    sessions: &'a Sessions,
    pub(crate) usage: Usage,
}

impl Sessions {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            all: Mutex::default(),
            hashes: RandomState::new(),
            idle_timeout: options.idle_timeout,
            launcher: Arc::new(Launcher::new(options)),
            most: options.max_children,
            start_timeout: options.start_timeout,
        }
    }

    /// Opens a session, whose children are initialized with these params.
    pub(crate) fn open(&self, initialize: Box<RawValue>) -> Result<Opening<'_>, Refusal> {
        let id = Uuid::new_v4();
        let usage = self.add(Key::Session(id), || initialize, Clients::One(Arc::default()))?;
        Ok(Opening { id, is_kept: false, sessions: self, usage })
    }

    /// The session of this id.
    pub(crate) fn of(&self, id: &HeaderValue) -> Result<Usage, Refusal> {
        let key = key(id)?;
        let usage = lock(&self.all).get(&key).map(Usage::of).ok_or(Refusal::UnknownSession)?;
        usage.session().take_up();
        Ok(usage)
    }

    /// What callers with this Authorization share that have no session, if there is something yet.
    pub(crate) fn find_shared(&self, authorization: Option<&HeaderValue>) -> Option<Usage> {
        lock(&self.all).get(&self.shared_key(authorization)).map(Usage::of)
    }

    /// What they share from now on.
    pub(crate) fn shared(&self, authorization: Option<&HeaderValue>) -> Result<Usage, Refusal> {
        let key = self.shared_key(authorization);
        let initialize = || {
            raw(&json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "stdio_bridge", "version": env!("CARGO_PKG_VERSION") },
            }))
        };
        self.add(key, initialize, Clients::Many)
    }

    /// The session ends.
    pub(crate) fn end(&self, id: &HeaderValue) -> Result<(), Refusal> {
        let session = lock(&self.all).remove(&key(id)?).ok_or(Refusal::UnknownSession)?;
        session.end();
        Ok(())
    }

    fn shared_key(&self, authorization: Option<&HeaderValue>) -> Key {
        Key::Shared(authorization.map(|value| self.hashes.hash_one(value)))
    }

    fn add(&self, key: Key, initialize: impl FnOnce() -> Box<RawValue>, clients: Clients) -> Result<Usage, Refusal> {
        let mut all = lock(&self.all);
        if let Some(session) = all.get(&key) {
            return Ok(Usage::of(session));
        }
        if all.len() >= self.most || self.launcher.is_full() {
            return Err(Refusal::Full);
        }
        let session = Arc::new(Session::new(Arc::clone(&self.launcher), initialize().into(), clients));
        let usage = Usage::of(&session);
        all.insert(key, session);
        Ok(usage)
    }

    /// Ends what is idle, for ever.
    pub(crate) async fn sweep(&self) {
        let shortest = self.idle_timeout.min(self.start_timeout);
        let mut beats = tokio::time::interval((shortest / 4).max(Duration::from_millis(50)));
        loop {
            beats.tick().await;
            // Under the lock, so that nobody begins to use one that ends.
            lock(&self.all).retain(|_, session| {
                let is_idle = session.is_idle(self.idle_timeout, self.start_timeout);
                if is_idle {
                    session.end();
                }
                !is_idle
            });
        }
    }

    /// Ends all of them, and waits for their processes.
    pub(crate) async fn shutdown(&self) {
        for (_, session) in lock(&self.all).drain() {
            session.end();
        }
        self.launcher.ended().await;
    }
}

/// Session ids are opaque: only the spelling that was given out names the session, although a UUID has others.
fn key(id: &HeaderValue) -> Result<Key, Refusal> {
    let uuid = Uuid::try_parse_ascii(id.as_bytes()).map_err(|_| Refusal::UnknownSession)?;
    let is_as_given_out = uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes() == id.as_bytes();
    is_as_given_out.then_some(Key::Session(uuid)).ok_or(Refusal::UnknownSession)
}

impl Opening<'_> {
    /// The session's id, for its client.
    pub(crate) fn keep(mut self) -> String {
        self.is_kept = true;
        self.id.to_string()
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            lock(&self.sessions.all).remove(&Key::Session(self.id));
            self.usage.session().end();
        }
    }
}
