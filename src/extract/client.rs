use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, select};
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

use super::context::{Call, Context};
use super::rejection::ExtractRejection;
use crate::exchange::{Answered, Outcome, Question};
use crate::inbound::declared_capabilities;
use crate::jsonrpc::{McpError, RequestId, one_line, read, read_value};
use crate::protocol::capability_for;
use crate::reply::InputRequired;

/// People answer, so it takes a while.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// In the state of a modern client's request.
const GIVEN: &str = "mcp-layer/given";

/// The client whose request this is, to be asked for something before the request can be done: for input of its user
/// (`elicitation/create`), for a model's answer (`sampling/createMessage`), for its `roots/list`.
///
/// A legacy client gets the question on the stream of the call, and posts its response; only the response of the same
/// caller counts, and it does not reach your handlers. There is no question without a call in progress, and none outlives
/// it. Several replicas behind a balancer need it to send all POSTs of a client to the same one: responses do not travel.
///
/// A modern client (2026-07-28) gets the question as the answer to its request, and sends the request again with what it
/// was asked for. Its handler then runs again **from the start**: ask before anything is done.
///
/// ```
/// use mcp_layer::{CallToolResult, Client, ClientError};
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Deserialize)]
/// struct Elicited {
///     action: String,
/// }
///
/// async fn delete(client: Client) -> Result<CallToolResult, ClientError> {
///     let question = json!({
///         "message": "Delete all files?",
///         "requestedSchema": { "type": "object", "properties": {} },
///     });
///     let sure: Elicited = client.ask("sure", "elicitation/create", question).await?;
///     Ok(CallToolResult::text(if sure.action == "accept" { "deleted" } else { "kept" }))
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(delete);
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    /// Absent where nothing can be asked on the stream of the call.
    exchange: Option<Arc<Call>>,
    /// What a modern client says with its request.
    modern: Option<Modern>,
    timeout: Duration,
}

#[derive(Clone, Debug)]
struct Modern {
    capabilities: Map<String, Value>,
    /// What it was asked for, now and in the rounds before.
    given: Map<String, Value>,
}

/// Why a [`Client`] has not given what it was asked for.
///
/// It answers the request, so a handler can return it: [`InputRequired`](Self::InputRequired) by that,
/// [`Undeclared`](Self::Undeclared) by the error -32021, all others by the error -32603. A handler that fails in other ways
/// too may return [`axum::response::Result`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientError {
    /// It answered with an error, which is passed on as the client wrote it.
    Answered(McpError),
    /// The exchange has ended: it was cancelled, say, or its handler has replied and left a task behind that asks.
    Ended(Outcome),
    /// It has left, and cannot be asked any more, though the exchange goes on.
    Gone,
    /// It is a modern client, which is to send its request again. Return this.
    InputRequired(InputRequired),
    /// The question cannot be written, or the result is not what it was to be read as.
    Invalid(String),
    /// It has not answered in time.
    TimedOut,
    /// It is a modern client, and has not declared this capability, which the question needs.
    Undeclared(&'static str),
    /// It cannot be asked: it accepts no event stream, or its message is no request, or `initialize`. Or it is a modern client,
    /// and was asked by [`request`](Client::request).
    Unsupported,
}

impl Client {
    /// How long a legacy client may take to answer: 5 min by default. The deadline of the exchange holds as well.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What a modern client says that it can do, in each of its requests (2026-07-28, *Request Metadata*). Legacy clients
    /// said it in `initialize`, which is not kept: `None`.
    ///
    /// MCP forbids asking a client for what it has not declared. [`ask`](Self::ask) sees to that where the client is modern; a
    /// legacy one that is asked all the same answers with an error.
    #[must_use]
    pub fn capabilities(&self) -> Option<&Map<String, Value>> {
        self.modern.as_ref().map(|modern| &modern.capabilities)
    }

    /// Asks for something, in the way of the client's version. The key tells the questions of one request apart.
    ///
    /// Questions can follow each other: what a modern client was asked for in earlier rounds comes back with its state. It is the
    /// client's word, like any answer. To ask for several things in one round, or to keep a state of your own, return an
    /// [`InputRequired`] and take [`InputResponses`](crate::InputResponses).
    ///
    /// # Errors
    ///
    /// A [`ClientError`] says why there is no result yet. What a modern client brings and is no `R`, it is asked for again.
    pub async fn ask<R: DeserializeOwned>(
        &self,
        key: &str,
        method: &str,
        params: impl Serialize + Send,
    ) -> Result<R, ClientError> {
        let Some(Modern { capabilities, given }) = &self.modern else { return self.request(method, params).await };
        if let Some(result) = given.get(key).and_then(read_value) {
            return Ok(result);
        }
        if let Some(capability) = capability_for(method).filter(|&capability| !capabilities.contains_key(capability)) {
            return Err(ClientError::Undeclared(capability));
        }
        let params = serde_json::to_value(params).map_err(|error| unwritten(method, &error))?;
        let required = InputRequired::of(key, method, params);
        Err(ClientError::InputRequired(match given.is_empty() {
            true => required,
            false => required.state(json!({ GIVEN: given }).to_string()),
        }))
    }

    /// Asks a legacy client on the stream of the call, and waits for its result. Where this is dropped before, or takes too
    /// long, the client is told that nobody waits any more.
    ///
    /// # Errors
    ///
    /// A [`ClientError`] says why there is no result.
    pub async fn request<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize + Send,
    ) -> Result<R, ClientError> {
        // Where nobody can be asked, a handler that tries again and again would never let its exchange be ended.
        consume_budget().await;
        let exchange = self.exchange.as_ref().ok_or(ClientError::Unsupported)?;
        if let Some(end) = exchange.end() {
            return Err(ClientError::Ended(end.outcome));
        }
        let question = exchange.in_flight().questions().ask(exchange.key().caller).map_err(|error| {
            tracing::error!(%error, "a request to a client has no id");
            ClientError::Invalid("Internal error".to_owned())
        })?;
        let invalid = |error: serde_json::Error| unwritten(method, &error);
        let params = to_raw_value(&params).map_err(invalid)?;
        // JSON-RPC has no params that are null.
        let params = Some(&*params).filter(|params| params.get() != "null");
        let message = Request { jsonrpc: "2.0", id: question.id(), method, params };
        let message = serde_json::to_vec(&message).map(one_line).map_err(invalid)?;
        let mut asked = Asked { exchange, question, is_answered: false };
        match timeout(self.timeout, asked.answer(message)).await.map_err(|_| ClientError::TimedOut)?? {
            Answered::Result(result) => {
                read(&result).map_err(|why| ClientError::Invalid(format!("the client's result is not valid: {why}")))
            }
            Answered::Error(error) => Err(ClientError::answered(&error)),
            Answered::Malformed(why) => Err(ClientError::Invalid(format!("the client's response is not valid: {why}"))),
        }
    }
}

/// What was wrong is the server's business, and goes to its log only.
fn unwritten(method: &str, error: &serde_json::Error) -> ClientError {
    tracing::error!(%error, method, "the params of a request to a client cannot be written as JSON");
    ClientError::Invalid("the params cannot be written as JSON".to_owned())
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

/// A question on the stream of its call. Dropped before the answer, it is taken back.
struct Asked<'a> {
    exchange: &'a Arc<Call>,
    question: Question,
    is_answered: bool,
}

impl Asked<'_> {
    async fn answer(&mut self, message: String) -> Result<Answered, ClientError> {
        let Self { exchange, question, is_answered } = self;
        let answered = async {
            exchange.question(question.id().clone(), message).await;
            question.answered().await
        };
        match select(pin!(answered), pin!(exchange.notes_over())).await {
            Either::Left((answered, _)) => {
                *is_answered = true;
                Ok(answered)
            }
            Either::Right((Some(outcome), _)) => Err(ClientError::Ended(outcome)),
            Either::Right((None, _)) => Err(ClientError::Gone),
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let id = self.question.id();
        if self.is_answered {
            self.exchange.question_answered(id);
        } else {
            self.exchange.take_question_back(id);
        }
    }
}

impl ClientError {
    fn answered(error: &str) -> Self {
        let error = serde_json::from_str::<&RawValue>(error).ok().and_then(McpError::from_json);
        error.map_or_else(
            || Self::Invalid("the client's response is not valid: its error is not an error object".to_owned()),
            Self::Answered,
        )
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(error) => write!(f, "the client returned an error: {error}"),
            Self::Ended(outcome) => write!(f, "the request has ended: {outcome:?}"),
            Self::Gone => f.write_str("the client disconnected"),
            Self::InputRequired(_) => f.write_str("the client must send the request again with the requested input"),
            Self::Invalid(why) => f.write_str(why),
            Self::TimedOut => f.write_str("the client did not respond in time"),
            Self::Undeclared(capability) => write!(f, "the client has not declared the capability {capability}"),
            Self::Unsupported => f.write_str("the client cannot be asked during this request"),
        }
    }
}

impl std::error::Error for ClientError {}

impl IntoResponse for ClientError {
    fn into_response(self) -> Response {
        match self {
            Self::InputRequired(required) => required.into_response(),
            Self::Undeclared(capability) => McpError::missing_capabilities(json!({ capability: {} })).into_response(),
            error => McpError::internal_error(error.to_string()).into_response(),
        }
    }
}

/// Responses of a modern client that are no object, or a state that is no string, are answered by the error -32602.
impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let context = Context::of(&parts.extensions)?;
        let modern = if context.version.is_modern() { Some(Modern::of(context)?) } else { None };
        Ok(Self {
            exchange: context.subject.exchange().filter(|_| context.streams && modern.is_none()).cloned(),
            modern,
            timeout: TIMEOUT,
        })
    }
}

impl Modern {
    fn of(context: &Context) -> Result<Self, ExtractRejection> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Params {
            input_responses: Option<Map<String, Value>>,
            request_state: Option<String>,
        }
        let message = context.subject.message();
        let params: Params = message.params_as().map_err(ExtractRejection::Params)?;
        let mut given = params.request_state.as_deref().map(earlier).unwrap_or_default();
        given.extend(params.input_responses.unwrap_or_default());
        Ok(Self { capabilities: declared_capabilities(message), given })
    }
}

/// What was given in the rounds before, if the state is one of [`Client::ask`].
fn earlier(state: &str) -> Map<String, Value> {
    #[derive(Deserialize)]
    struct State {
        #[serde(rename = "mcp-layer/given")]
        given: Map<String, Value>,
    }

    read(state).map(|State { given }| given).unwrap_or_default()
}
