//! Handlers that ask their clients, and what stands on the wire then.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{Cancellation, Client, ClientError, McpLayer, McpMessage, McpServerBuilder, Notifier, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Events, Post, Probe, Site, call, post};

pub(crate) const ELICIT: &str = "elicitation/create";

/// What came of a question.
pub(crate) type Said = Result<Value, ClientError>;

/// What a request may ask of its handler.
#[derive(Deserialize)]
#[serde(default)]
struct Wish {
    /// Waits for this gate first.
    gate: Option<String>,
    /// Sends so many notes first.
    notes: usize,
    /// How long the client may take.
    millis: Option<u64>,
    /// So many questions at once.
    questions: usize,
    /// Gives them up once this gate is open.
    until: Option<String>,
}

impl Default for Wish {
    fn default() -> Self {
        Self { gate: None, notes: 0, millis: None, questions: 1, until: None }
    }
}

#[derive(Clone)]
struct Asker {
    probe: Arc<Probe>,
    says: mpsc::UnboundedSender<Said>,
}

/// Says when a handler does not come to its end.
struct AtWork {
    probe: Arc<Probe>,
    name: String,
    returns: bool,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.probe.note(format!("{} {}", if self.returns { "returned" } else { "dropped" }, self.name));
    }
}

impl Asker {
    async fn handle(self, message: McpMessage, notifier: Notifier, client: Client) -> Response {
        if !message.is_request() {
            self.probe.note(format!("heard {}", message.as_str()));
            return StatusCode::OK.into_response();
        }
        let name = message.id().expect("as the tests have it").to_string();
        self.probe.note(format!("started {name}"));
        let mut at_work = AtWork { probe: Arc::clone(&self.probe), name, returns: false };
        let wish: Wish = message.params().unwrap_or_default();
        let client = match wish.millis {
            Some(millis) => client.timeout(Duration::from_millis(millis)),
            None => client,
        };
        for n in 0..wish.notes {
            notifier.notify("notifications/message", json!(n)).await.expect("as the tests have it");
        }
        if let Some(gate) = &wish.gate {
            self.probe.pass(gate).await;
        }
        let questions = (0..wish.questions).map(|n| self.ask(&client, n, wish.questions));
        let answers = tokio::select! {
            answers = futures_util::future::join_all(questions) => answers,
            () = given_up(&self.probe, wish.until.as_deref()) => vec![Ok(json!("given up"))],
        };
        at_work.returns = true;
        let answers: Result<Vec<_>, _> = answers.into_iter().collect();
        match answers {
            Ok(mut answers) if answers.len() == 1 => Reply(answers.remove(0)).into_response(),
            Ok(answers) => Reply(answers).into_response(),
            Err(error) => error.into_response(),
        }
    }

    async fn ask(&self, client: &Client, number: usize, of: usize) -> Said {
        let params = if of == 1 { json!({ "message": "sure?" }) } else { json!({ "number": number }) };
        let said = client.request::<Value>(ELICIT, params).await;
        self.says.send(said.clone()).ok();
        said
    }
}

async fn given_up(probe: &Probe, gate: Option<&str>) {
    match gate {
        Some(gate) => probe.pass(gate).await,
        None => std::future::pending().await,
    }
}

async fn plain(State(asker): State<Asker>, notifier: Notifier, client: Client, message: McpMessage) -> Response {
    asker.handle(message, notifier, client).await
}

async fn polite(
    State(asker): State<Asker>,
    _token: Cancellation,
    notifier: Notifier,
    client: Client,
    message: McpMessage,
) -> Response {
    asker.handle(message, notifier, client).await
}

/// A server whose handlers ask, and what they have been told.
pub(crate) fn site_with(
    options: impl FnOnce(McpServerBuilder) -> McpServerBuilder,
) -> (Site, mpsc::UnboundedReceiver<Said>) {
    let (says, said) = mpsc::unbounded_channel();
    let site = Site::build(options, |server, probe| {
        let asker = Asker { probe: Arc::clone(probe), says };
        let routes = Router::new().route("/mcp", on_post(plain)).route("/polite", on_post(polite));
        routes.with_state(asker).layer(McpLayer::new(server.clone()))
    });
    (site, said)
}

pub(crate) fn site() -> (Site, mpsc::UnboundedReceiver<Said>) {
    site_with(|options| options)
}

pub(crate) fn asks(id: &str) -> Post {
    post(call(id, &json!({})))
}

pub(crate) fn asks_so(id: &str, wish: &Value) -> Post {
    post(call(id, wish))
}

/// A question as it is to stand on the stream, and its id as JSON.
#[track_caller]
pub(crate) fn read_question(message: &str, method: &str, params: &str) -> String {
    let read: Value = serde_json::from_str(message).expect("as the tests have it");
    let id = read["id"].as_str().unwrap_or_else(|| panic!("no question: {message}"));
    assert_eq!(message, format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#));
    assert!(id.len() == 32 && id.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')), "{id}");
    format!("\"{id}\"")
}

pub(crate) async fn question(events: &mut Events) -> String {
    read_question(&events.message().await, ELICIT, r#"{"message":"sure?"}"#)
}

/// The stream of a call whose handler asks at once, and the id of the question.
pub(crate) async fn asked(site: &Site, request: &Post) -> (Events, String) {
    let mut events = site.open(request).await;
    events.streams();
    let id = question(&mut events).await;
    (events, id)
}

pub(crate) fn response(id: &str, result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(crate) fn responds(id: &str, result: &Value) -> Post {
    post(response(id, result))
}

pub(crate) fn yes() -> Value {
    json!({ "action": "accept", "content": { "n": 1.50 } })
}

/// What tells a client that nobody waits for its response any more.
pub(crate) fn taken_back(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

/// The question is taken back, the request ends with this error, and so does the stream.
pub(crate) async fn ends_with_error(mut events: Events, question: &str, code: i64, id: &str) {
    assert_eq!(events.message().await, taken_back(question));
    events.ends_with_error(code, id).await;
}

/// What a response is that answers nothing: the handler's.
pub(crate) async fn goes_to_the_handler(site: &Site, response: &Post, body: &str) {
    let heard = || site.probe.count(&format!("heard {body}"));
    let before = heard();
    site.ask(response).await.accepted();
    assert_eq!(heard(), before + 1, "{response:?}");
}
