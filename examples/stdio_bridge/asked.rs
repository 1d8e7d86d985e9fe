use std::sync::Arc;

use mcp_layer::{Cancellation, McpError};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::child::Child;
use crate::line::{self, Answer};

/// A request that a child is to answer. Dropped before the answer, it is cancelled there.
#[derive(Debug)]
pub(crate) struct Asked {
    answer: oneshot::Receiver<Answer>,
    /// Of a request that may be cancelled, once it has been sent.
    cancellation: Option<Cancellation>,
    child: Arc<Child>,
    id: u64,
}

impl Asked {
    pub(crate) fn new(child: Arc<Child>, id: u64, answer: oneshot::Receiver<Answer>) -> Self {
        Self { answer, cancellation: None, child, id }
    }

    /// Sends the request, with a progress token of the bridge's own in place of the client's.
    pub(crate) async fn send(&self, method: &str, params: &RawValue) -> Result<(), McpError> {
        // Only what has room is written: many may wait, and each may be large.
        let room = self.child.room().await?;
        let own = line::with_token(params, self.id);
        self.child.calls.sent(self.id);
        room.send(line::request(self.id, method, own.as_deref().unwrap_or(params)));
        Ok(())
    }

    /// From here on the child is told if nobody waits any more.
    pub(crate) fn cancelled_by(&mut self, cancellation: Cancellation) {
        self.cancellation = Some(cancellation);
    }

    pub(crate) async fn answered(mut self) -> Answer {
        let answer = (&mut self.answer).await;
        self.cancellation = None;
        answer.unwrap_or_else(|_| Err(self.child.over()))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let was_waiting = self.child.calls.forget(self.id);
        if let Some(cancellation) = self.cancellation.take()
            && was_waiting
        {
            let mut params = json!({ "requestId": self.id });
            if let Some(reason) = cancellation.reason() {
                params["reason"] = (*reason).into();
            }
            self.child.mention(line::notification("notifications/cancelled", Some(&line::raw(&params))));
        }
    }
}
