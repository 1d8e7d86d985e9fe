use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mcp_layer::McpError;
use tokio::sync::oneshot;

use crate::caller::Caller;
use crate::line::{Answer, beginning};
use crate::lock::lock;

/// What a child is asked, and has not yet answered.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_progress: BTreeMap<u64, Entry>,
    is_over: bool,
    last_id: u64,
}

/// Where the answer of a call goes, and what comes before.
#[derive(Debug)]
struct Entry {
    answer: oneshot::Sender<Answer>,
    caller: Option<Arc<Caller>>,
    is_sent: bool,
}

impl Calls {
    /// Adds one that is yet to be sent, unless all is over.
    pub(crate) fn add(&self, caller: Option<Arc<Caller>>) -> Option<(u64, oneshot::Receiver<Answer>)> {
        let mut state = lock(&self.0);
        if state.is_over {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        state.last_id += 1;
        let id = state.last_id;
        state.in_progress.insert(id, Entry { answer: sender, caller, is_sent: false });
        Some((id, answer))
    }

    /// The request is written: from now on the child may answer it.
    pub(crate) fn sent(&self, id: u64) {
        if let Some(entry) = lock(&self.0).in_progress.get_mut(&id) {
            entry.is_sent = true;
        }
    }

    /// Nobody waits for it any more. Tells whether it had no answer yet.
    pub(crate) fn forget(&self, id: u64) -> bool {
        lock(&self.0).in_progress.remove(&id).is_some()
    }

    pub(crate) fn answered(&self, id: u64, answer: Answer) {
        let entry = lock(&self.0).in_progress.remove(&id);
        match entry {
            Some(entry) => drop(entry.answer.send(answer)),
            None => tracing::debug!(id, "an answer that nobody waits for"),
        }
    }

    /// An error that does not say of which call: of the only one in progress. Of several it may be any, so all go on.
    pub(crate) fn failed(&self, error: McpError) {
        let mut state = lock(&self.0);
        let mut sent = state.in_progress.iter().filter(|(_, entry)| entry.is_sent).map(|(id, _)| *id);
        let only = sent.next().filter(|_| sent.next().is_none());
        let entry = only.and_then(|id| state.in_progress.remove(&id));
        drop(state);
        match entry {
            Some(entry) => drop(entry.answer.send(Err(error))),
            None => tracing::warn!(message = beginning(error.message()), "an error without an id, of no one call"),
        }
    }

    /// The caller of this call, if it is in progress.
    pub(crate) fn caller(&self, id: u64) -> Option<Arc<Caller>> {
        lock(&self.0).in_progress.get(&id)?.caller.clone()
    }

    /// The caller of the newest call whose client can still receive messages on its stream.
    pub(crate) fn newest(&self) -> Option<Arc<Caller>> {
        let state = lock(&self.0);
        let mut callers = state.in_progress.values().rev().filter_map(|entry| entry.caller.as_ref());
        callers.find(|caller| caller.notifier.is_open()).cloned()
    }

    /// The caller of the only call in progress.
    pub(crate) fn only(&self) -> Option<Arc<Caller>> {
        let state = lock(&self.0);
        let mut callers = state.in_progress.values().filter_map(|entry| entry.caller.as_ref());
        callers.next().filter(|_| callers.next().is_none()).cloned()
    }

    /// Ends all calls: their answers are dropped, and no call can be added.
    pub(crate) fn close(&self) {
        let in_progress = {
            let mut state = lock(&self.0);
            state.is_over = true;
            std::mem::take(&mut state.in_progress)
        };
        drop(in_progress);
    }
}
