//! Tools that ask a modern client in rounds, and keep a state of their own between them.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use mcp_layer::{CallToolResult, Client, ExchangeInfo, InputRequired, InputResponses, McpError, McpRouter, Tool};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::asking::{message, user_name};
use crate::counted::Counted;
use crate::debug::Debug;

pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    let seal = Seal::new();
    let sealed = async move |_: Modern, responses| sealed(&seal, &responses);
    McpRouter::default()
        .tool(Tool::new("test_input_required_result_request_state", "Keeps a state", Counted(state)))
        .tool(Tool::new("test_input_required_result_multiple_inputs", "Asks for three things", Counted(three)))
        .tool(Tool::new("test_input_required_result_multi_round", "Asks twice", Counted(twice)))
        .tool(Tool::new("test_input_required_result_tampered_state", "Keeps a state that is sealed", Counted(sealed)))
        .tool(Tool::new("test_input_required_result_capabilities", "Asks for what the client can give", Counted(can)))
}

/// A client that knows of rounds. Any other is told that the tool is not for it.
struct Modern;

impl<S: Send + Sync> FromRequestParts<S> for Modern {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let info = ExchangeInfo::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        if info.version().is_modern() {
            return Ok(Self);
        }
        Err(CallToolResult::error("This tool needs MCP 2026-07-28").into_response())
    }
}

fn done() -> Response {
    CallToolResult::text("done").into_response()
}

fn elicit(key: &str) -> InputRequired {
    InputRequired::of(key, "elicitation/create", user_name())
}

async fn state(_: Modern, responses: InputResponses) -> Response {
    match (responses.state(), responses.get("name")) {
        (Some("asked"), Some(_)) => done(),
        _ => elicit("name").state("asked").into_response(),
    }
}

async fn three(_: Modern, responses: InputResponses) -> Response {
    if ["name", "capital", "roots"].iter().all(|key| responses.get(key).is_some()) {
        return done();
    }
    elicit("name")
        .and("capital", "sampling/createMessage", message("What is the capital of Peru?"))
        .and("roots", "roots/list", json!({}))
        .state("asked")
        .into_response()
}

async fn twice(_: Modern, responses: InputResponses) -> Response {
    match responses.state() {
        Some("first") if responses.get("first").is_some() => elicit("second").state("second").into_response(),
        Some("second") if responses.get("second").is_some() => done(),
        _ => elicit("first").state("first").into_response(),
    }
}

fn sealed(seal: &Seal, responses: &InputResponses) -> Response {
    match responses.state().map(|state| seal.open(state)) {
        None => elicit("name").state(seal.close("asked")).into_response(),
        Some(None) => McpError::invalid_params("requestState was not issued by this server").into_response(),
        Some(Some(_)) => done(),
    }
}

async fn can(client: Client, responses: InputResponses) -> Response {
    let questions = [
        ("elicitation", "elicitation/create", user_name()),
        ("roots", "roots/list", json!({})),
        ("sampling", "sampling/createMessage", message("What is the capital of Peru?")),
    ];
    let has = |capability: &str| client.capabilities().is_some_and(|all| all.contains_key(capability));
    let to_ask = questions.into_iter().filter(|(key, ..)| has(key) && responses.get(key).is_none());
    let ask = |required: Option<InputRequired>, (key, method, params): (&str, &str, Value)| match required {
        None => Some(InputRequired::of(key, method, params)),
        Some(required) => Some(required.and(key, method, params)),
    };
    to_ask.fold(None, ask).map_or_else(done, IntoResponse::into_response)
}

/// Shows that a state has been here before, with a key of this process; several replicas would share one. A state that
/// matters would also name its user, its request and an hour to end.
#[derive(Clone)]
struct Seal(Hmac<Sha256>);

impl Seal {
    fn new() -> Self {
        let mut key = [0; 64];
        getrandom::fill(&mut key).expect("the system has randomness");
        Self(Hmac::new(&key.into()))
    }

    fn close(&self, state: &str) -> String {
        let tag = self.0.clone().chain_update(state).finalize().into_bytes();
        format!("{state}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    fn open<'a>(&self, sealed: &'a str) -> Option<&'a str> {
        let (state, tag) = sealed.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        self.0.clone().chain_update(state).verify_slice(&tag).ok().map(|()| state)
    }
}
