use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use mcp_layer::{Cancellation, Client, Deferred, ExchangeInfo, McpMessage, ProtocolVersion, Reply, RequestId};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::call::Call;
use crate::line::{self, Answer, raw};
use crate::named::{Named, SESSION_ID};
use crate::object::Object;
use crate::refusal::{Refusal, Whole};
use crate::session::Usage;
use crate::sessions::Sessions;

/// A child that does not read a notification for so long does not get it.
const LONGEST_TELLING: Duration = Duration::from_secs(30);

/// A JSON-RPC message of a client.
pub(crate) async fn post(
    State(sessions): State<Arc<Sessions>>,
    headers: HeaderMap,
    info: ExchangeInfo,
    message: McpMessage,
    client: Client,
    cancellation: Cancellation,
    deferred: Option<Deferred>,
) -> Result<Response, Refusal> {
    let is_modern = info.version().is_modern();
    if message.is_request() && !is_modern && message.method() == "initialize" {
        return open(&sessions, &message, info.version()).await;
    }
    let usage = match headers.get(SESSION_ID).filter(|_| !is_modern) {
        Some(id) => sessions.of(id)?,
        // One that the layer might have opened, and did not: here only the bridge does.
        None if info.session_id().is_some() => return Err(Refusal::UnknownSession),
        None if deferred.is_some() => sessions.shared(headers.get(AUTHORIZATION))?,
        // Only requests start a child.
        None => match sessions.find_shared(headers.get(AUTHORIZATION)) {
            Some(usage) => usage,
            None => return Ok(StatusCode::ACCEPTED.into_response()),
        },
    };
    let Some(deferred) = deferred else {
        tell(&usage, &message).await;
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    let (ticket, reply) = deferred.split();
    tokio::spawn(Call { cancellation, client, is_modern, message, ticket, usage }.run());
    Ok(reply.into_response())
}

/// The end of a session (MCP, *Transports*, Session Management).
pub(crate) async fn delete(
    State(sessions): State<Arc<Sessions>>,
    named: Option<Extension<Named>>,
) -> Result<StatusCode, Whole> {
    let Extension(Named(id)) = named.ok_or(Refusal::NoSession)?;
    sessions.end(&id)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Any other method.
pub(crate) async fn other() -> Whole {
    Refusal::Method.into()
}

/// `initialize`: a child of its own, and a session if that one agrees.
async fn open(sessions: &Sessions, message: &McpMessage, version: ProtocolVersion) -> Result<Response, Refusal> {
    let params = match line::params(message) {
        Ok(params) => params,
        Err(error) => return Ok(error.into_response()),
    };
    // Only what both the child and the bridge speak can be agreed upon.
    let version = raw(&version.as_str());
    let params = Object::read(params).map(|params| params.with("protocolVersion", version.get()));
    let opening = sessions.open(params.unwrap_or_default())?;
    let child = match opening.usage.session().child() {
        Ok(child) => child,
        Err(error) => return Ok(error.into_response()),
    };
    Ok(match child.initialized().await {
        Ok(result) => ([(SESSION_ID, opening.keep())], Reply(result)).into_response(),
        Err(error) => error.into_response(),
    })
}

/// A notification, or the response to what a child has asked on the GET stream.
async fn tell(usage: &Usage, message: &McpMessage) {
    let session = usage.session();
    if let Some(response) = message.response() {
        if let (Some(outlet), Some(id)) = (session.outlet(), message.id().and_then(RequestId::as_str)) {
            outlet.answered(id, answer(response));
        }
        return;
    }
    let method = message.method();
    // The child is initialized already, and hears of a cancel from the call, with the id that it knows.
    if matches!(method, "notifications/initialized" | "notifications/cancelled") {
        return;
    }
    let Some(child) = session.living() else { return };
    match timeout(LONGEST_TELLING, child.tell(line::one(message.as_str().to_owned()))).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::info!(%error, "a notification is not told"),
        Err(_) => tracing::warn!("the server does not read: a notification is not told"),
    }
}

/// A client's response as its child is told it.
fn answer(response: Result<&str, &str>) -> Answer {
    let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap_or_default();
    response.map(raw).map_err(|error| line::error_of(&raw(error), "client"))
}
