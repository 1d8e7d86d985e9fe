//! The one answer of an exchange on its way to the client: as JSON, or as a stream.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::{FutureExt, select};
use tokio::runtime::Handle;

use crate::body::{PassedStream, ReplyStream, passing};
use crate::exchange::{Completion, End, Guard, Outcome};
use crate::extract::Call;
use crate::foreign::{Course, Head, forward};
use crate::inbound::Accepts;
use crate::jsonrpc::McpError;
use crate::reply::{Answer, CancelledStream, Settled, Streamed, closing, event_stream, merge};
use crate::server::Shared;

/// The response to an exchange that ended before its reply was a stream.
pub(crate) fn completed(
    completion: Completion<Settled>,
    exchange: &Arc<Call>,
    accepts: Accepts,
    shared: &Shared,
) -> Response {
    let has_notes = accepts.event_stream && exchange.has_notes();
    let streams = match &completion {
        Completion::Replied(Ok(Settled::Passed(_))) => false,
        // A status that is no success says more than the form that was asked for.
        Completion::Replied(Ok(settled)) => has_notes || (!accepts.json && settled.is_success()),
        Completion::Replied(Err(_)) | Completion::Ended(_) => has_notes || !accepts.json,
    };
    if !streams {
        exchange.close_notes();
        return match completion {
            Completion::Replied(Ok(settled)) => {
                settled.into_response().map(|body| passing(body, shared.in_flight.lifecycle()))
            }
            completion => answer(&completion, exchange, shared).into_response(),
        };
    }
    let own = match &completion {
        Completion::Replied(Ok(settled)) => settled.head().cloned(),
        _ => None,
    };
    let keeps_notes = keeps_notes(&completion, exchange);
    exchange.notes().finish(last_events(completion, exchange, shared), keeps_notes);
    let mut response = reply_stream(exchange, shared);
    if let Some(own) = own {
        merge(&mut response, own);
    }
    response
}

/// Turns the reply into a stream, and drives the exchange on in a task.
pub(crate) fn stream(guard: Guard<Settled>, shared: &Arc<Shared>) -> Response {
    let exchange = Arc::clone(guard.exchange());
    exchange.set_streams();
    let response = reply_stream(&exchange, shared);
    let shared = Arc::clone(shared);
    finish(Arc::clone(&exchange), async move {
        let completion = guard.drive_in_background().await;
        let keeps_notes = keeps_notes(&completion, &exchange);
        (begun_events(completion, &exchange, &shared), keeps_notes)
    });
    response
}

/// Lets a service's own stream pass, and drives the exchange on in a task.
pub(crate) fn pass(
    head: Head,
    exchange: &Arc<Call>,
    completion: impl Future<Output = Completion<Settled>> + Send + 'static,
    shared: &Arc<Shared>,
) -> Response {
    let Head { parts, course } = head;
    exchange.set_streams();
    let body = Body::new(PassedStream::new(Arc::clone(exchange), Arc::clone(&course)));
    let response = Response::from_parts(parts, body);
    let (exchange, shared) = (Arc::clone(exchange), Arc::clone(shared));
    finish(Arc::clone(&exchange), async move {
        let completion = completion.await;
        let keeps_notes = keeps_notes(&completion, &exchange);
        let last = match completion {
            Completion::Replied(Ok(Settled::Streamed(Streamed::Answered { event, held, rest }))) => {
                exchange.pass_answer(event);
                let rest = after_answer(&exchange, &course, held, rest);
                shared.in_flight.lifecycle().unless_down(rest).await;
                Vec::new()
            }
            Completion::Replied(Ok(Settled::Streamed(Streamed::Over))) => Vec::new(),
            _ if !course.takes_events() => Vec::new(),
            completion => begun_events(completion, &exchange, &shared),
        };
        (last, keeps_notes)
    });
    response
}

/// Ends a stream in a task, with the last events that this gives, behind the notes that wait if it says so.
fn finish(exchange: Arc<Call>, last: impl Future<Output = (Vec<String>, bool)> + Send + 'static) {
    let Ok(runtime) = Handle::try_current() else { return exchange.notes().finish(None, false) };
    runtime.spawn(async move {
        let (last, keeps_notes) = last.await;
        exchange.notes().finish(last, keeps_notes);
    });
}

/// Sends what is left of a service's stream, unless its client leaves. A panic of the service is its end.
async fn after_answer(exchange: &Call, course: &Course, held: Bytes, rest: Body) {
    let all = async {
        exchange.pass(held).await;
        forward(exchange, course, rest).await;
    };
    let all = AssertUnwindSafe(all).catch_unwind();
    select(pin!(all), pin!(exchange.departed())).await;
}

/// What waits is sent before the last events. A subscription that ends in order begins with what acknowledges it.
fn keeps_notes(completion: &Completion<Settled>, exchange: &Call) -> bool {
    let is_shut_down = matches!(completion, Completion::Ended(end) if end.outcome == Outcome::ShutDown);
    matches!(completion, Completion::Replied(_)) || (is_shut_down && exchange.is_subscription())
}

fn is_cancelled(completion: &Completion<Settled>) -> bool {
    matches!(completion, Completion::Ended(end) if end.outcome == Outcome::Cancelled)
}

fn reply_stream(exchange: &Arc<Call>, shared: &Shared) -> Response {
    event_stream(ReplyStream::new(Arc::clone(exchange), shared.streaming.keep_alive))
}

/// The last events of a stream that has begun, which may end without the answer where that is an error.
fn begun_events(completion: Completion<Settled>, exchange: &Call, shared: &Shared) -> Vec<String> {
    let is_silent = shared.streaming.cancelled == CancelledStream::End && is_cancelled(&completion);
    if is_silent { Vec::new() } else { last_events(completion, exchange, shared) }
}

/// The last events of a stream: the answer.
fn last_events(completion: Completion<Settled>, exchange: &Call, shared: &Shared) -> Vec<String> {
    let id = &exchange.key().id;
    match completion {
        Completion::Replied(Ok(settled)) => vec![settled.into_line(id)],
        // 2026-07-28 has two pages on how a server ends a subscription. *Cancellation* wants the first event,
        // *Subscriptions* the second.
        Completion::Ended(End { outcome: Outcome::ShutDown, .. }) if exchange.is_subscription() => {
            vec![closing(id), Answer::subscription_closed(id, exchange.server_info()).into_line()]
        }
        completion => vec![answer(&completion, exchange, shared).into_line()],
    }
}

/// The answer that the layer gives where the handler gave none.
fn answer(completion: &Completion<Settled>, exchange: &Call, shared: &Shared) -> Answer {
    let (id, version) = (&exchange.key().id, exchange.version());
    let outcome = match completion {
        Completion::Ended(end) => end.outcome,
        Completion::Replied(_) => Outcome::Replied,
    };
    let error = match outcome {
        Outcome::Cancelled => {
            McpError::new(shared.cancel_code.unwrap_or_else(|| version.cancelled_code()), "Request cancelled")
        }
        Outcome::ShutDown if exchange.is_subscription() => {
            return Answer::subscription_closed(id, exchange.server_info());
        }
        Outcome::ShutDown => McpError::new(version.shut_down_code(), "Server is shutting down"),
        Outcome::TimedOut => McpError::new(version.timed_out_code(), "Request timed out"),
        Outcome::Disconnected | Outcome::Replied => McpError::internal_error("Internal error"),
    };
    Answer::error(Some(id), &error)
}
