use std::convert::Infallible;
use std::future::{Future, ready as ready_now};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use http::request::Parts;
use http_body::Body as _;
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tower::util::Oneshot;
use tower::{Service, ServiceExt};

use crate::body::passing;
use crate::exchange::{Caller, Completion, Guard, InFlight, Refused, Unanswered};
use crate::foreign::{Head, without_late_answers};
use crate::inbound::headers::wrap_session;
use crate::inbound::{Accepts, Collect, CollectError, OverBudget, Refusal, discard};
use crate::outbound::{completed, pass, stream};
use crate::post::{Dispatched, Post};
use crate::rejection::Rejection;
use crate::reply::{Answer, Settled, accepted, log_failure};
use crate::server::Shared;

/// The client of a notification waits for its handler this long.
const ACCEPTED_AFTER: Duration = Duration::from_secs(1);
/// The head of a refusal is out by then.
const AFTER_THE_HEAD: Duration = Duration::from_millis(20);

pin_project! {
    /// The response future of [`Mcp`](crate::Mcp).
    pub struct ResponseFuture<S: Service<Request<Body>>> {
        #[pin]
        state: State<S>,
        // Made only when something is not done at once: most of the time it would only be moved about.
        waiting: Option<Pin<Box<Waiting>>>,
        shared: Arc<Shared>,
    }
}

pin_project! {
    #[project = StateProject]
    enum State<S: Service<Request<Body>>> {
        // It is no POST, or no business of ours.
        Passed { #[pin] future: Oneshot<S, Request<Body>>, is_foreign: bool, listener: Option<Caller> },
        Reading { body: Option<Collect>, post: Option<Post<S>> },
        Parked { guard: Option<Guard<Settled>>, accepts: Accepts, head: Option<oneshot::Receiver<Head>> },
        Unanswered { handler: Unanswered<Settled> },
        Refused { response: Option<Response> },
        Answered,
    }
}

pin_project! {
    // What a state waits for beside its own work.
    #[derive(Default)]
    struct Waiting {
        #[pin]
        timer: Option<Sleep>,
        #[pin]
        shutdown: Option<WaitForCancellationFutureOwned>,
    }
}

fn waiting(waits: &mut Option<Pin<Box<Waiting>>>) -> Pin<&mut Waiting> {
    waits.get_or_insert_with(|| Box::pin(Waiting::default())).as_mut()
}

impl Waiting {
    fn poll_timer(self: Pin<&mut Self>, at: impl FnOnce() -> Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.project().timer;
        if timer.is_none() {
            // Without a runtime there is no clock: then nothing is late.
            let (Ok(_), Some(at)) = (Handle::try_current(), at()) else { return Poll::Pending };
            timer.set(Some(sleep_until(at)));
        }
        timer.as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx))
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        signal: impl FnOnce() -> WaitForCancellationFutureOwned,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut shutdown = self.project().shutdown;
        if shutdown.is_none() {
            shutdown.set(Some(signal()));
        }
        shutdown.as_pin_mut().map_or(Poll::Pending, |shutdown| shutdown.poll(cx))
    }
}

impl<S: Service<Request<Body>>> ResponseFuture<S> {
    pub(crate) fn pass(inner: S, shared: Arc<Shared>, request: Request<Body>) -> Self {
        Self::new(State::Passed { future: inner.oneshot(request), is_foreign: false, listener: None }, shared)
    }

    /// The same with a service that knows nothing of this crate. Who listens hears of nothing that has ended.
    pub(crate) fn pass_foreign(
        inner: S,
        shared: Arc<Shared>,
        listener: Option<Caller>,
        request: Request<Body>,
    ) -> Self {
        Self::new(State::Passed { future: inner.oneshot(request), is_foreign: true, listener }, shared)
    }

    pub(crate) fn read(inner: S, shared: Arc<Shared>, is_foreign: bool, parts: Parts, body: Body) -> Self {
        let body = Collect::new(body, shared.gate.max_body_bytes);
        let post = Post { is_foreign, inner, parts };
        Self::new(State::Reading { body: Some(body), post: Some(post) }, shared)
    }

    /// Refuses a request whose body nobody has begun to read.
    pub(crate) fn refuse(shared: Arc<Shared>, rejection: Rejection, parts: &Parts, body: Body) -> Self {
        if !body.is_end_stream() {
            // hyper says `100 Continue` when the body is read before the head of the response is out.
            let patience = if parts.headers.contains_key(EXPECT) { AFTER_THE_HEAD } else { Duration::ZERO };
            shared.discards.spawn(discard(body, patience));
        }
        Self::new(State::Refused { response: Some(refusal((rejection, None))) }, shared)
    }

    fn new(state: State<S>, shared: Arc<Shared>) -> Self {
        Self { state, waiting: None, shared }
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
        let shared: &Arc<Shared> = this.shared;
        let response = loop {
            match this.state.as_mut().project() {
                StateProject::Passed { future, is_foreign, listener } => {
                    if let Poll::Ready(response) = future.poll(cx) {
                        let mut response = passed(response, *listener, &shared.in_flight);
                        if *is_foreign {
                            wrap_session(response.headers_mut());
                        }
                        break response;
                    }
                    ready!(waiting(this.waiting).poll_shutdown(|| shared.in_flight.lifecycle().down(), cx));
                    break refusal((Refused::ShuttingDown.into(), None));
                }
                StateProject::Reading { body, post } => {
                    let Some(collect) = body else { return Poll::Pending };
                    let read = ready!(poll_body(collect, this.waiting, shared, cx));
                    // A client that is refused while it sends reads the refusal if the rest is read too, and a reset if not.
                    if let Some(unread) = body.take().map(Collect::into_rest).filter(|unread| !unread.is_end_stream()) {
                        shared.discards.spawn(discard(unread, Duration::ZERO));
                    }
                    let Some(post) = post.take() else { return Poll::Pending };
                    match read.map_err(|rejection| (rejection, None)).and_then(|body| post.dispatch(&body, shared)) {
                        Ok(Dispatched::Parked(guard, accepts, head)) => {
                            this.state.set(State::Parked { guard: Some(guard), accepts, head });
                        }
                        Ok(Dispatched::Unanswered(handler)) => this.state.set(State::Unanswered { handler }),
                        Ok(Dispatched::Accepted) => break accepted(),
                        Err(refused) => break refusal(refused),
                    }
                    *this.waiting = None;
                }
                StateProject::Parked { guard: parked, accepts, head } => {
                    let Some(guard) = parked else { return Poll::Pending };
                    let polled = Pin::new(&mut *guard).poll(cx);
                    let head = head.as_mut().and_then(|head| head.try_recv().ok());
                    match (polled, head) {
                        (Poll::Ready(completion @ Completion::Replied(_)), Some(head)) => {
                            break pass(head, guard.exchange(), ready_now(completion), shared);
                        }
                        (Poll::Ready(completion), _) => {
                            break completed(completion, guard.exchange(), *accepts, shared);
                        }
                        (Poll::Pending, Some(head)) => {
                            let exchange = Arc::clone(guard.exchange());
                            let Some(guard) = parked.take() else { return Poll::Pending };
                            break pass(head, &exchange, guard.drive_in_background(), shared);
                        }
                        (Poll::Pending, None) => {}
                    }
                    match ready!(poll_silence(guard, *accepts, this.waiting, shared, cx)) {
                        // It is over, and the next poll tells its answer.
                        Silence::IsTooLong => guard.time_out(),
                        Silence::NeedsStream => {
                            let Some(guard) = parked.take() else { return Poll::Pending };
                            break stream(guard, shared);
                        }
                    }
                }
                StateProject::Unanswered { handler } => {
                    if let Poll::Ready(handled) = Pin::new(&mut *handler).poll(cx) {
                        let response = handled.map_or_else(|_panicked| accepted(), Settled::into_response);
                        break response.map(|body| passing(body, shared.in_flight.lifecycle()));
                    }
                    let patience = handler.timeout().map_or(ACCEPTED_AFTER, |timeout| timeout.min(ACCEPTED_AFTER));
                    let at = || Some(Instant::now() + patience);
                    if waiting(this.waiting).poll_timer(at, cx).is_pending() {
                        ready!(waiting(this.waiting).poll_shutdown(|| shared.in_flight.lifecycle().down(), cx));
                    }
                    // What is left of the handler goes to the background.
                    break accepted();
                }
                StateProject::Refused { response } => match response.take() {
                    Some(response) => break response,
                    None => return Poll::Pending,
                },
                StateProject::Answered => return Poll::Pending,
            }
        };
        *this.waiting = None;
        this.state.set(State::Answered);
        Poll::Ready(Ok(response))
    }
}

/// The whole body. Fails if it is too large, too slow, exceeds the budget, or would delay a shutdown.
fn poll_body(
    collect: &mut Collect,
    waits: &mut Option<Pin<Box<Waiting>>>,
    shared: &Shared,
    cx: &mut Context<'_>,
) -> Poll<Result<Bytes, Rejection>> {
    let gate = &shared.gate;
    Poll::Ready(match Pin::new(&mut *collect).poll(cx) {
        Poll::Ready(Ok(body)) => Ok(body),
        Poll::Ready(Err(CollectError::Broken)) => Err(Rejection::BodyUnreadable),
        Poll::Ready(Err(CollectError::TooLarge)) => Err(Rejection::BodyTooLarge { limit: Some(gate.max_body_bytes) }),
        Poll::Ready(Err(CollectError::TooLargeElsewhere)) => Err(Rejection::BodyTooLarge { limit: None }),
        Poll::Pending => {
            if let Err(OverBudget) = collect.charge(&shared.reading) {
                return Poll::Ready(Err(Rejection::BodyBudget));
            }
            let at = || Instant::now().checked_add(gate.body_timeout);
            if waiting(waits).poll_timer(at, cx).is_ready() {
                return Poll::Ready(Err(Rejection::BodyTimeout(gate.body_timeout)));
            }
            let lifecycle = shared.in_flight.lifecycle();
            // What begins while the server drains may be a cancel, so it has time to be sent.
            let shutdown = || if lifecycle.is_draining() { lifecycle.down() } else { lifecycle.draining() };
            ready!(waiting(waits).poll_shutdown(shutdown, cx));
            Err(Refused::ShuttingDown.into())
        }
    })
}

/// How the silence of a handler ends that has not replied.
enum Silence {
    IsTooLong,
    NeedsStream,
}

/// Waits while a handler is silent: until its reply must be a stream, or until its deadline.
fn poll_silence(
    guard: &mut Guard<Settled>,
    accepts: Accepts,
    waits: &mut Option<Pin<Box<Waiting>>>,
    shared: &Shared,
    cx: &mut Context<'_>,
) -> Poll<Silence> {
    if accepts.event_stream && guard.exchange().has_notes() {
        return Poll::Ready(Silence::NeedsStream);
    }
    let deadline = guard.deadline();
    let streams_after = shared.streaming.after(guard.exchange().version()).filter(|_| accepts.event_stream);
    let at = || {
        let streams_at = streams_after.and_then(|after| Instant::now().checked_add(after));
        [deadline, streams_at].into_iter().flatten().min()
    };
    ready!(waiting(waits).poll_timer(at, cx));
    let is_over = deadline.is_some_and(|deadline| deadline <= Instant::now());
    Poll::Ready(if is_over { Silence::IsTooLong } else { Silence::NeedsStream })
}

fn passed<R, E>(
    response: Result<Response<R>, E>,
    listener: Option<Caller>,
    in_flight: &Arc<InFlight<Settled>>,
) -> Response
where
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    match response.map(|response| response.map(Body::new)).map_err(log_failure) {
        Ok(response) => match listener {
            Some(caller) => without_late_answers(response, caller, in_flight),
            None => response,
        }
        .map(|body| passing(body, in_flight.lifecycle())),
        Err(()) => refusal((Rejection::Internal, None)),
    }
}

fn refusal((rejection, id): Refusal) -> Response {
    tracing::debug!(?rejection, "refused");
    let mut response = Answer::error(id.as_ref(), &rejection.error()).into_response();
    *response.status_mut() = rejection.status();
    response.headers_mut().extend(rejection.header());
    response
}

impl<S: Service<Request<Body>>> std::fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseFuture")
    }
}
