use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use http::header::{EXPECT, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http_body::Body as _;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower::util::Oneshot;
use tower::{Service, ServiceExt};

use crate::exchange::{Completion, End, Exchange, Guard, Outcome, Unanswered};
use crate::inbound::{Collect, CollectError, Form, Refusal, discard};
use crate::jsonrpc::McpError;
use crate::post::{Dispatched, Post};
use crate::rejection::Rejection;
use crate::reply::{Answer, accepted};
use crate::server::Shared;

/// The client of a notification waits for its handler this long.
const ACCEPTED_AFTER: Duration = Duration::from_secs(1);

pin_project! {
    /// The response future of [`Mcp`](crate::Mcp).
    pub struct ResponseFuture<S: Service<Request<Body>>> {
        #[pin]
        state: State<S>,
        // Of the state; armed only when something is not ready at once.
        #[pin]
        timer: Option<Sleep>,
        shared: Arc<Shared>,
    }
}

pin_project! {
    #[project = StateProject]
    enum State<S: Service<Request<Body>>> {
        // It is no POST, or no business of ours.
        Passed { #[pin] future: Oneshot<S, Request<Body>> },
        Reading { body: Option<Collect>, post: Option<Post<S>> },
        Parked { guard: Guard<Response>, form: Form },
        Unanswered { handler: Unanswered<Response> },
        Answered { response: Option<Response> },
    }
}

impl<S: Service<Request<Body>>> ResponseFuture<S> {
    pub(crate) fn pass(inner: S, shared: Arc<Shared>, request: Request<Body>) -> Self {
        Self::new(State::Passed { future: inner.oneshot(request) }, shared)
    }

    pub(crate) fn read(inner: S, shared: Arc<Shared>, parts: Parts, body: Body) -> Self {
        let body = Collect::new(body, shared.gate.max_body_bytes);
        let post = Post { inner, parts, shared: Arc::clone(&shared) };
        Self::new(State::Reading { body: Some(body), post: Some(post) }, shared)
    }

    /// Refuses a request whose body nobody has begun to read.
    pub(crate) fn refuse(shared: Arc<Shared>, rejection: Rejection, parts: &Parts, body: Body) -> Self {
        // A client that waits for `100 Continue` sends no body now; to read on would invite it.
        if !parts.headers.contains_key(EXPECT) {
            discard_in_background(&shared, body);
        }
        Self::new(State::Answered { response: Some(refusal((rejection, None))) }, shared)
    }

    fn new(state: State<S>, shared: Arc<Shared>) -> Self {
        Self { state, timer: None, shared }
    }
}

impl<S, R> Future for ResponseFuture<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProject::Passed { future } => return Poll::Ready(Ok(passed(ready!(future.poll(cx))))),
                StateProject::Reading { body, post } => {
                    let limit = this.shared.gate.body_timeout;
                    let Some(collect) = body else { return Poll::Pending };
                    let read = match Pin::new(collect).poll(cx) {
                        Poll::Ready(Ok(body)) => post.take().map(|post| post.dispatch(body)),
                        Poll::Ready(Err(CollectError::Broken)) => Some(Err((Rejection::BodyUnreadable, None))),
                        Poll::Ready(Err(CollectError::TooLarge)) => {
                            let limit = this.shared.gate.max_body_bytes;
                            Some(Err((Rejection::BodyTooLarge { limit }, None)))
                        }
                        Poll::Pending => {
                            ready!(poll_timer(this.timer.as_mut(), limit, cx));
                            Some(Err((Rejection::BodyTimeout(limit), None)))
                        }
                    };
                    this.timer.set(None);
                    if let Some(unread) = body.take().map(Collect::into_rest) {
                        discard_in_background(this.shared, unread);
                    }
                    match read {
                        Some(Ok(Dispatched::Parked(guard, form))) => State::Parked { guard, form },
                        Some(Ok(Dispatched::Unanswered(handler))) => State::Unanswered { handler },
                        Some(Err(refused)) => State::Answered { response: Some(refusal(refused)) },
                        None => return Poll::Pending,
                    }
                }
                StateProject::Parked { guard, form } => {
                    let completion = ready!(Pin::new(&mut *guard).poll(cx));
                    return Poll::Ready(Ok(completed(completion, guard.exchange(), *form, this.shared.cancel_code)));
                }
                StateProject::Unanswered { handler } => {
                    let handled = match Pin::new(handler).poll(cx) {
                        Poll::Ready(handled) => handled.ok(),
                        Poll::Pending => {
                            ready!(poll_timer(this.timer.as_mut(), ACCEPTED_AFTER, cx));
                            None
                        }
                    };
                    // What is left of the handler goes to the background.
                    State::Answered { response: Some(accepted(handled)) }
                }
                StateProject::Answered { response } => match response.take() {
                    Some(response) => return Poll::Ready(Ok(response)),
                    None => return Poll::Pending,
                },
            };
            this.state.set(next);
        }
    }
}

fn poll_timer(mut timer: Pin<&mut Option<Sleep>>, after: Duration, cx: &mut Context<'_>) -> Poll<()> {
    if timer.is_none() {
        timer.set(Some(sleep(after)));
    }
    timer.as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx))
}

fn passed<R, E>(response: Result<Response<R>, E>) -> Response
where
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    match response {
        Ok(response) => response.map(Body::new),
        Err(error) => {
            tracing::error!(error = error.into(), "the inner service failed");
            let mut response =
                Answer::error(None, &McpError::internal_error("Internal error")).into_response(Form::Json);
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// The one answer of an exchange.
fn completed(
    completion: Completion<Response>,
    exchange: &Exchange<Response>,
    form: Form,
    cancel_code: Option<i64>,
) -> Response {
    let error = match completion {
        Completion::Replied(Ok(response)) => return response,
        Completion::Replied(Err(_panicked)) => McpError::internal_error("Internal error"),
        Completion::Ended(End { outcome: Outcome::Cancelled, .. }) => {
            let code = cancel_code.unwrap_or_else(|| exchange.version().cancelled_code());
            McpError::new(code, "Request cancelled")
        }
        Completion::Ended(_) => McpError::internal_error("Request abandoned"),
    };
    Answer::error(Some(&exchange.key().id), &error).into_response(form)
}

fn refusal((rejection, id): Refusal) -> Response {
    tracing::debug!(?rejection, "refused");
    let mut response = Answer::error(id.as_ref(), &rejection.error()).into_response(Form::Json);
    *response.status_mut() = rejection.status();
    if let Some(seconds) = rejection.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A client that is refused while it sends reads the refusal if the rest is read too, and a reset if it is not.
fn discard_in_background(shared: &Shared, body: Body) {
    if !body.is_end_stream() {
        shared.discards.spawn(discard(body));
    }
}

impl<S: Service<Request<Body>>> std::fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseFuture")
    }
}
