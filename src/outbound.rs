//! The one answer of an exchange on its way to the client: as JSON, or as a stream.

use std::sync::Arc;

use axum::response::Response;
use tokio::runtime::Handle;

use crate::body::ReplyStream;
use crate::exchange::{Completion, Guard, Outcome};
use crate::extract::Call;
use crate::inbound::Accepts;
use crate::jsonrpc::McpError;
use crate::reply::{Answer, CancelledStream, Settled, event_stream};
use crate::server::Shared;

/// The response to an exchange that ended before its reply was a stream.
pub(crate) fn completed(
    completion: Completion<Settled>,
    exchange: &Arc<Call>,
    accepts: Accepts,
    shared: &Shared,
) -> Response {
    let streams = accepts.event_stream && (exchange.has_notes() || !accepts.json);
    match completion {
        Completion::Replied(Ok(mut settled)) => {
            // An error status says more than the form that was asked for.
            let own = settled.head().filter(|own| streams && own.status.is_success()).cloned();
            let Some(own) = own else { return settled.into_response() };
            exchange.notes().finish(Some(settled.into_line(&exchange.key().id)), true);
            let mut response = reply_stream(exchange, shared);
            for (name, value) in &own.headers {
                response.headers_mut().entry(name).or_insert_with(|| value.clone());
            }
            *response.extensions_mut() = own.extensions;
            response
        }
        completion => {
            let answer = answer(completion, exchange, shared);
            if !streams {
                return answer.into_response();
            }
            exchange.notes().finish(Some(answer.into_line()), false);
            reply_stream(exchange, shared)
        }
    }
}

/// Turns the reply into a stream, and drives the exchange on in a task.
pub(crate) fn stream(guard: Guard<Settled>, shared: &Arc<Shared>) -> Response {
    let exchange = Arc::clone(guard.exchange());
    exchange.set_streams();
    let response = reply_stream(&exchange, shared);
    if let Ok(runtime) = Handle::try_current() {
        let shared = Arc::clone(shared);
        runtime.spawn(async move {
            match guard.drive_in_background().await {
                Completion::Replied(Ok(settled)) => {
                    exchange.notes().finish(Some(settled.into_line(&exchange.key().id)), true);
                }
                completion => {
                    let keeps_notes = matches!(completion, Completion::Replied(_));
                    let line = last_line(completion, &exchange, &shared);
                    exchange.notes().finish(line, keeps_notes);
                }
            }
        });
    }
    response
}

fn reply_stream(exchange: &Arc<Call>, shared: &Shared) -> Response {
    let (in_flight, exchange) = (Arc::clone(&shared.in_flight), Arc::clone(exchange));
    event_stream(ReplyStream::new(in_flight, exchange, shared.streaming.keep_alive))
}

fn last_line(completion: Completion<Settled>, exchange: &Call, shared: &Shared) -> Option<String> {
    let is_cancelled = matches!(&completion, Completion::Ended(end) if end.outcome == Outcome::Cancelled);
    if is_cancelled && shared.streaming.cancelled == CancelledStream::End {
        return None;
    }
    Some(answer(completion, exchange, shared).into_line())
}

/// The answer that the layer gives where the handler gave none.
fn answer(completion: Completion<Settled>, exchange: &Call, shared: &Shared) -> Answer {
    let (id, version) = (&exchange.key().id, exchange.version());
    let outcome = match completion {
        Completion::Ended(end) => end.outcome,
        Completion::Replied(_) => Outcome::Replied,
    };
    let error = match outcome {
        Outcome::Cancelled => {
            McpError::new(shared.cancel_code.unwrap_or_else(|| version.cancelled_code()), "Request cancelled")
        }
        Outcome::ShutDown if exchange.method() == "subscriptions/listen" => return Answer::subscription_closed(id),
        Outcome::ShutDown => McpError::new(version.shut_down_code(), "The server is shutting down"),
        Outcome::TimedOut => McpError::new(version.timed_out_code(), "Request timed out"),
        Outcome::Disconnected | Outcome::Replied => McpError::internal_error("Internal error"),
    };
    Answer::error(Some(id), &error)
}
