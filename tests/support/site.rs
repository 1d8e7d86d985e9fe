use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{MethodRouter, post};
use axum::serve::ListenerExt;
use mcp_layer::{McpLayer, McpRouter, McpServer, McpServerBuilder};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle, yield_now};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use super::probe::{plain, polite};
use super::{Answer, BOUND, Connection, Events, Outcomes, Post, Probe};

const HOUR: Duration = Duration::from_secs(3_600);

/// A server within the test, without sockets: for tests that hold the clock.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) app: Router,
    pub(crate) outcomes: Outcomes,
    pub(crate) probe: Arc<Probe>,
    pub(crate) server: McpServer,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(|options| options)
    }

    /// The probe's handlers: `/mcp` does not take the token, `/polite` does.
    pub(crate) fn with(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Self {
        Self::build(options, |server, probe| Self::routes(probe).layer(McpLayer::new(server.clone())))
    }

    /// Another handler on `/mcp`.
    pub(crate) fn over(handler: MethodRouter) -> Self {
        Self::build(
            |options| options,
            |server, _| Router::new().route("/mcp", handler).layer(McpLayer::new(server.clone())),
        )
    }

    /// A router of methods on `/mcp`.
    pub(crate) fn serving(mcp: McpRouter) -> Self {
        Self::serving_with(|options| options, mcp)
    }

    pub(crate) fn serving_with(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder, mcp: McpRouter) -> Self {
        Self::build(options, |server, _| Router::new().route_service("/mcp", mcp).layer(McpLayer::new(server.clone())))
    }

    pub(crate) fn build(
        options: impl FnOnce(McpServerBuilder) -> McpServerBuilder,
        app: impl FnOnce(&McpServer, &Arc<Probe>) -> Router,
    ) -> Self {
        let (outcomes, probe) = (Outcomes::default(), Arc::new(Probe::default()));
        let server = options(McpServer::builder()).observer(outcomes.clone()).build();
        let app = app(&server, &probe);
        Self { app, outcomes, probe, server }
    }

    /// The probe's handlers without the layer.
    pub(crate) fn routes(probe: &Arc<Probe>) -> Router {
        Router::new().route("/mcp", post(plain)).route("/polite", post(polite)).with_state(Arc::clone(probe))
    }

    pub(crate) async fn ask(&self, request: &Post) -> Answer {
        timeout(BOUND, self.asking(request)).await.expect("an answer in time")
    }

    /// The same on a clock that is held, where an hour passes at once.
    pub(crate) async fn ask_past_deadlines(&self, request: &Post) -> Answer {
        timeout(HOUR, self.asking(request)).await.expect("an answer in time")
    }

    /// The same on a task of its own.
    pub(crate) fn begin(&self, request: &Post) -> Asked {
        Asked::new(self.asking(request))
    }

    /// The head of the response, with a body that is read event by event.
    pub(crate) async fn open(&self, request: &Post) -> Events {
        let response = self.app.clone().oneshot(request.request()).await.expect("the layer does not fail");
        // Longer than any timer here. On a clock that is held this passes at once.
        Events::of(response, HOUR)
    }

    fn asking(&self, request: &Post) -> impl Future<Output = Answer> + use<> {
        let response = self.app.clone().oneshot(request.request());
        async { Answer::of(response.await.expect("the layer does not fail")).await }
    }

    /// Waits until this many exchanges are parked. The clock stands still over it, unless something is wrong.
    #[track_caller]
    pub(crate) fn parked(&self, number: usize) -> impl Future<Output = ()> {
        until(move || self.server.parked() == number)
    }

    /// The same server, on a socket.
    pub(crate) async fn listen(self) -> Live {
        self.listen_until(std::future::pending()).await.0
    }

    /// The same with axum's graceful shutdown. The task ends when `serve` returns.
    pub(crate) async fn listen_until(self, stop: impl Future<Output = ()> + Send + 'static) -> (Live, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("TCP_NODELAY"));
        let serve = axum::serve(listener, self.app.clone()).with_graceful_shutdown(stop);
        let serving = tokio::spawn(async move { serve.await.expect("serves") });
        (Live { address, serving: serving.abort_handle(), site: self }, serving)
    }
}

/// Waits for what nothing tells of. The clock stands still over it, unless something is wrong or a socket is between.
#[track_caller]
pub(crate) fn until(mut done: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let began = std::time::Instant::now();
        let mut turns = 0;
        while !done() {
            assert!(began.elapsed() < BOUND, "never: {caller}");
            turns += 1;
            if turns < 1_000 {
                yield_now().await;
            } else {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// A server on a socket.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) address: SocketAddr,
    serving: AbortHandle,
    site: Site,
}

impl Live {
    pub(crate) async fn new() -> Self {
        Site::new().listen().await
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Over a connection of its own.
    pub(crate) async fn post(&self, request: &Post) -> Answer {
        self.connect().await.post(request).await
    }

    /// The same on a task of its own.
    pub(crate) fn park(&self, request: &Post) -> Asked {
        let (address, request) = (self.address, request.clone());
        Asked::new(async move { Connection::open(address).await.post(&request).await })
    }

    /// Sends a request over a connection of its own, and waits until it is parked as the `number`th.
    pub(crate) async fn send_and_park(&self, request: &Post, number: usize) -> Connection {
        let mut connection = self.connect().await;
        connection.send(request.bytes()).await;
        self.parked(number).await;
        connection
    }
}

impl Deref for Live {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An answer that is still to come.
#[derive(Debug)]
pub(crate) struct Asked(JoinHandle<Answer>);

impl Asked {
    pub(crate) fn new(answer: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self(tokio::spawn(answer))
    }

    pub(crate) async fn answer(self) -> Answer {
        timeout(BOUND, self.0).await.expect("an answer in time").expect("no panic")
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.0.is_finished()
    }

    /// The client leaves.
    pub(crate) fn abort(self) {
        self.0.abort();
    }
}
