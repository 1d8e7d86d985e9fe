//! What a child writes, and where it goes.

use std::sync::Arc;

use mcp_layer::{ClientError, McpError};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::caller::Caller;
use crate::child::{Child, Clients, LAST_WORD};
use crate::line::{self, Answer, Line, beginning};
use crate::messages::{is_blank, messages};
use crate::number::Number;
use crate::object::Object;
use crate::outlet::Outlet;
use crate::questions::Begun;
use crate::waiting::Kind;

/// In bytes, of the id and the method of a request: both are kept until it is answered.
const LONGEST_NAMES: usize = 64 << 10;

impl Child {
    /// A line that its process has written.
    pub(crate) async fn heard(self: &Arc<Self>, line: &str) {
        let messages = messages(line);
        if messages.is_empty() && !is_blank(line) {
            tracing::warn!(line = beginning(line), "the server wrote what is no message");
        }
        for message in messages {
            match Line::read(message) {
                Ok(Line::Answer { id, answer }) => self.calls.answered(id, answer),
                Ok(Line::Error(error)) => self.calls.failed(error),
                Ok(Line::Notification { method, params }) => self.notified(&method, params).await,
                Ok(Line::Request { id, method, params }) => self.asks(id, &method, params).await,
                Err(why) => {
                    tracing::warn!(why, message = beginning(message.get()), "the server wrote what is no message");
                }
            }
        }
    }

    async fn notified(&self, method: &str, params: Option<&RawValue>) {
        // These two name requests by the bridge's ids or by the child's, which mean nothing to a client.
        match (method, params) {
            ("notifications/cancelled", Some(params)) => self.questions.take_back(params),
            ("notifications/progress", Some(params)) => self.progresses(params),
            ("notifications/cancelled" | "notifications/progress", None) => {
                tracing::warn!(method, "the server's notification has no params");
            }
            _ if self.passes_on(method, params).await => {}
            _ => {
                let params = params.map(|params| beginning(params.get()));
                tracing::info!(method = beginning(method), params, "a notification for nobody");
            }
        }
    }

    /// Passes a notification on to the newest call that can receive it, or else to the session's GET stream. Changes of lists
    /// and of resources, which belong to no call, go to an open GET stream in any case. Each goes to one stream only.
    async fn passes_on(&self, method: &str, params: Option<&RawValue>) -> bool {
        let Clients::One(outlet) = &self.clients else {
            // It may be of any of them.
            return match self.calls.only().filter(|caller| !caller.is_modern) {
                Some(caller) => caller.hear(method, params).await,
                None => false,
            };
        };
        if Kind::of(method, params).is_state() && outlet.is_open() && outlet.hear(method, params).await {
            return true;
        }
        let heard = match self.calls.newest() {
            Some(caller) => caller.hear(method, params).await,
            None => false,
        };
        heard || outlet.hear(method, params).await
    }

    /// The bridge's tokens are its ids.
    fn progresses(&self, params: &RawValue) {
        let token = Object::read(params).and_then(|params| params.get("progressToken")).and_then(Number::given_out);
        match token.and_then(|token| self.calls.caller(token)) {
            Some(caller) => caller.notifier.progress_raw(params),
            None => tracing::debug!(params = beginning(params.get()), "progress of no call in progress"),
        }
    }

    /// Passes a request on to the client, and its response back.
    async fn asks(self: &Arc<Self>, id: &RawValue, method: &str, params: Option<&RawValue>) {
        if method == "ping" {
            return self.retort(line::response(id, Ok(line::raw(&json!({})))));
        }
        let refuse = |why: &'static str| {
            tracing::info!(method = beginning(method), why, "the server's request is refused");
            self.retort(line::response(id, Err(McpError::internal_error(why))));
        };
        let Clients::One(outlet) = &self.clients else {
            return refuse("the client declared no capabilities");
        };
        if id.get().len() + method.len() > LONGEST_NAMES {
            return refuse("the id or the method is too long");
        }
        let caller = self.calls.newest();
        if caller.is_none() && !outlet.is_open() {
            return refuse(
                "the client cannot be asked: there is no call in progress that accepts an event stream, and no GET stream",
            );
        }
        let params = params.map_or_else(|| line::raw(&json!({})), ToOwned::to_owned);
        let bytes = method.len() + params.get().len();
        let begin = |begun: Begun| {
            let (child, outlet, id, method) = (Arc::clone(self), Arc::clone(outlet), id.to_owned(), method.to_owned());
            let task = tokio::spawn(async move {
                let number = begun.number;
                let answer = ask(caller, &outlet, &method, params, begun).await;
                let room = timeout(LAST_WORD, child.room()).await;
                if !child.questions.end(&id, number) {
                    return;
                }
                match room {
                    Ok(Ok(room)) => room.send(line::response(&id, answer)),
                    Ok(Err(_)) => {}
                    Err(_) => tracing::warn!("the server does not read: its request is not answered"),
                }
            });
            task.abort_handle()
        };
        if let Err(why) = self.questions.begin(id, bytes, begin).await {
            refuse(why);
        }
    }
}

/// Asks the client on the stream of a call, or on its GET stream where that call cannot.
async fn ask(
    caller: Option<Arc<Caller>>,
    outlet: &Outlet,
    method: &str,
    params: Box<RawValue>,
    begun: Begun,
) -> Answer {
    if let Some(caller) = caller {
        let why = match caller.client.request(method, &params).await {
            Ok(result) => return Ok(result),
            Err(ClientError::Answered(error)) => return Err(error),
            Err(ClientError::Gone | ClientError::Unsupported) if outlet.is_open() => None,
            Err(ClientError::Ended(_)) => Some("the call has ended"),
            Err(ClientError::Gone) => Some("the client has disconnected"),
            Err(ClientError::TimedOut) => Some("the client has not answered in time"),
            Err(ClientError::Unsupported) => Some("the client does not accept an event stream"),
            Err(error) => {
                tracing::warn!(%error, "a client's answer");
                Some("the client's response is not valid")
            }
        };
        if let Some(why) = why {
            return Err(McpError::internal_error(why));
        }
    }
    outlet.ask(method, params, begun).await
}
