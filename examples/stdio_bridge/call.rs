use std::sync::Arc;

use mcp_layer::{Cancellation, Client, McpError, McpMessage, Reply, ReplyTicket};

use crate::caller::Caller;
use crate::child::Child;
use crate::line::{self, Answer};
use crate::modern;
use crate::session::Usage;

/// A client's request on its way to a child.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) cancellation: Cancellation,
    pub(crate) client: Client,
    pub(crate) is_modern: bool,
    pub(crate) message: McpMessage,
    pub(crate) ticket: ReplyTicket,
    pub(crate) usage: Usage,
}

impl Call {
    /// Answers the request by its ticket. If it ends before, by a cancel or its deadline, the child is told to stop.
    pub(crate) async fn run(self) {
        let answer = tokio::select! {
            biased;
            outcome = self.ticket.ended() => {
                return tracing::debug!(id = ?self.message.id(), ?outcome, "ended before the server has answered");
            }
            answer = self.answer() => answer,
        };
        if let Err(late) = self.ticket.answer(answer.map(Reply)) {
            tracing::debug!(id = ?self.message.id(), %late, "answered");
        }
    }

    async fn answer(&self) -> Answer {
        let method = self.message.method();
        if self.is_modern && modern::lacks(method) {
            return Err(McpError::method_not_found(method));
        }
        let child = self.usage.session().child()?;
        let initialized = child.initialized().await?;
        if !self.is_modern {
            return self.through(&child).await;
        }
        let answer = match method {
            "server/discover" => modern::discovered(&initialized),
            _ => self.through(&child).await,
        };
        modern::completed(method, &initialized, answer)
    }

    async fn through(&self, child: &Arc<Child>) -> Answer {
        let params = line::params(&self.message)?;
        let caller = Caller::new(self.client.clone(), self.ticket.notifier().clone(), self.is_modern);
        let mut asked = child.ask(Some(caller.into()))?;
        asked.send(self.message.method(), params).await?;
        asked.cancelled_by(self.cancellation.clone());
        asked.answered().await
    }
}
