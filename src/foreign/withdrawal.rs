use std::sync::Arc;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_LENGTH, EXPECT, HeaderValue};
use http::request::Parts;
use http_body_util::{BodyExt, Limited};
use serde_json::json;
use tower::{Service, ServiceExt};

use crate::exchange::Outcome;
use crate::extract::{Call, Context, Subject};
use crate::inbound::headers::SESSION_ID;
use crate::jsonrpc::Message;
use crate::reply::remove_of_body;

/// What is read of the answer to a cancel, so that its connection can be used again.
const LARGEST_ANSWER: usize = 64 * 1024;

/// In a session a service may be at work on a request wherever it likes: to drop its reply need not stop that. A client
/// that cancels says so to the service, too. Where the layer ends the request, it is the layer that has to: dropped then,
/// what this gives sends `notifications/cancelled` (MCP, *Lifecycle*, Timeouts).
pub(super) fn withdrawal<S, R>(inner: &S, head: &Parts, exchange: &Arc<Call>) -> Option<impl Drop + use<S, R>>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let may_go_on =
        !exchange.version().is_modern() && exchange.method() != "initialize" && head.headers.contains_key(SESSION_ID);
    may_go_on.then(|| {
        exchange.in_flight().forget_end(exchange);
        scopeguard::guard((inner.clone(), head.clone(), Arc::clone(exchange)), |(inner, head, exchange)| {
            exchange.in_flight().remember_end(&exchange);
            if let Some(reason) = reason(&exchange)
                && let Some(cancel) = cancel(head, &exchange, reason)
            {
                exchange.in_flight().withdraw(send(inner, cancel));
            }
        })
    })
}

/// Why the service has to be told, if it has.
fn reason(exchange: &Call) -> Option<&'static str> {
    // A handler that knows this crate has been asked already.
    let end = exchange.end().filter(|_| !exchange.is_asked())?;
    match end.outcome {
        Outcome::Disconnected => Some("Client disconnected"),
        Outcome::ShutDown => Some("Server is shutting down"),
        Outcome::TimedOut => Some("Request timed out"),
        Outcome::Cancelled | Outcome::Replied => None,
    }
}

/// The notification, as the client of the request would send it.
fn cancel(mut head: Parts, exchange: &Call, reason: &str) -> Option<Request<Body>> {
    let params = json!({ "requestId": exchange.key().id, "reason": reason });
    let text = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string();
    remove_of_body(&mut head.headers);
    head.headers.remove(EXPECT);
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    let text = Bytes::from(text);
    let message = Arc::new(Message::decode(&text).ok()?);
    let request = head.extensions.remove::<Context>()?;
    head.extensions.insert(Context { streams: false, subject: Subject::Unanswered(message), ..request });
    Some(Request::from_parts(head, Body::from(text)))
}

async fn send<S, R>(inner: S, cancel: Request<Body>)
where
    S: Service<Request<Body>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    match inner.oneshot(cancel).await.map_err(Into::<BoxError>::into) {
        Ok(response) => {
            tracing::debug!(status = %response.status(), "the service is told that a request has ended");
            drop(Limited::new(response.into_body(), LARGEST_ANSWER).collect().await);
        }
        Err(error) => tracing::warn!(error, "the service cannot be told that a request has ended"),
    }
}
