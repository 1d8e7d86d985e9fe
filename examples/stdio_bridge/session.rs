use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp_layer::McpError;
use serde_json::value::RawValue;

use crate::child::{Child, Clients};
use crate::launcher::Launcher;
use crate::lock::lock;
use crate::outlet::Outlet;

/// A child that lived for so long did not fail to start.
const STEADY: Duration = Duration::from_secs(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What requests are sent to: one child after another, where they die.
#[derive(Debug)]
pub(crate) struct Session {
    clients: Clients,
    /// The params of `initialize`.
    initialize: Arc<RawValue>,
    launcher: Arc<Launcher>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    child: Option<Arc<Child>>,
    /// Children in a row that died young.
    failures: u32,
    is_over: bool,
    /// The client has gone on after `initialize`. One that has not may never have heard of the session.
    is_taken_up: bool,
    last_used: Instant,
    /// Not before then.
    next_start: Instant,
    uses: usize,
}

/// A session that is in use does not end for being idle.
#[derive(Debug)]
pub(crate) struct Usage(Arc<Session>);

impl Session {
    pub(crate) fn new(launcher: Arc<Launcher>, initialize: Arc<RawValue>, clients: Clients) -> Self {
        let now = Instant::now();
        let is_taken_up = matches!(clients, Clients::Many);
        let state =
            State { child: None, failures: 0, is_over: false, is_taken_up, last_used: now, next_start: now, uses: 0 };
        Self { clients, initialize, launcher, state: Mutex::new(state) }
    }

    /// The child that lives, or a new one.
    pub(crate) fn child(&self) -> Result<Arc<Child>, McpError> {
        let mut state = lock(&self.state);
        if state.is_over {
            return Err(McpError::internal_error("the session has ended"));
        }
        if let Some(child) = &state.child {
            if !child.is_over() {
                return Ok(Arc::clone(child));
            }
            let (ended, lived) = child.lived();
            state.failures = if lived < STEADY { state.failures + 1 } else { 0 };
            state.next_start = ended + pause(state.failures);
            state.child = None;
        }
        let pause = state.next_start.saturating_duration_since(Instant::now());
        if !pause.is_zero() {
            let why = format!("the server keeps failing: try again in {} ms", pause.as_millis() + 1);
            return Err(McpError::internal_error(why));
        }
        let child = self.launcher.launch(Arc::clone(&self.initialize), self.clients.clone())?;
        state.child = Some(Arc::clone(&child));
        Ok(child)
    }

    /// The child, if one lives.
    pub(crate) fn living(&self) -> Option<Arc<Child>> {
        lock(&self.state).child.as_ref().filter(|child| !child.is_over()).cloned()
    }

    /// Where the messages of its servers outside of calls go, if the session has one client.
    pub(crate) fn outlet(&self) -> Option<&Arc<Outlet>> {
        match &self.clients {
            Clients::Many => None,
            Clients::One(outlet) => Some(outlet),
        }
    }

    pub(crate) fn end(&self) {
        if let Some(outlet) = self.outlet() {
            outlet.close();
        }
        let mut state = lock(&self.state);
        state.is_over = true;
        if let Some(child) = &state.child {
            child.end();
        }
    }

    pub(crate) fn take_up(&self) {
        lock(&self.state).is_taken_up = true;
    }

    /// Nobody has used it for so long, or has taken it up.
    pub(crate) fn is_idle(&self, timeout: Duration, until_taken_up: Duration) -> bool {
        let state = lock(&self.state);
        let timeout = if state.is_taken_up { timeout } else { timeout.min(until_taken_up) };
        state.uses == 0 && state.last_used.elapsed() >= timeout
    }
}

/// The first time a child may have had bad luck.
fn pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => SHORTEST_PAUSE.saturating_mul(2_u32.saturating_pow(more - 2)).min(LONGEST_PAUSE),
    }
}

impl Usage {
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        lock(&session.state).uses += 1;
        Self(Arc::clone(session))
    }

    pub(crate) fn session(&self) -> &Session {
        &self.0
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.uses -= 1;
        state.last_used = Instant::now();
    }
}
