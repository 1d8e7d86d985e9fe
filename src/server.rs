use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;

use crate::exchange::{AmbiguousCancel, Background, Departure, DuplicateId, InFlight, Observer, Options};
use crate::inbound::{Budget, ConfigError, Gate, Hosts, Identify, Origins};
use crate::protocol::{ProtocolVersion, Served};
use crate::reply::{CancelledStream, Settled, Streaming};

/// Refused bodies that are read on at once, so that their clients read the refusal.
const MOST_DISCARDS: usize = 1_024;
const MAX_BUFFERED_BODY_BYTES: usize = 256 * 1024 * 1024;

/// What the layers of one MCP server share: its options and its parked exchanges. Clones are the same server.
///
/// ```
/// use mcp_layer::McpServer;
///
/// let server = McpServer::new();
/// assert_eq!(server.parked(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct McpServer {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cancel_code: Option<i64>,
    /// Reads on in bodies that were refused.
    pub(crate) discards: Background,
    pub(crate) gate: Gate,
    pub(crate) identify: Identify,
    pub(crate) in_flight: Arc<InFlight<Settled>>,
    pub(crate) mints_sessions: bool,
    /// What may be held of bodies that are not whole yet.
    pub(crate) reading: Arc<Budget>,
    pub(crate) served: Served,
    pub(crate) streaming: Streaming,
}

impl Default for McpServer {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl McpServer {
    /// A server with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A server with options of your own.
    pub fn builder() -> McpServerBuilder {
        McpServerBuilder::default()
    }

    /// How many exchanges are parked: requests that have no answer yet.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.shared.in_flight.parked()
    }

    /// Ends everything in order. From the first poll on, new requests get 503. What is parked may finish, and so may what
    /// is left running of notifications and of cancelled handlers, for `drain` at most. Then each request that is still
    /// parked is answered with an error, every stream that goes through the layer ends, and background work is dropped. It
    /// resolves as soon as nothing is left to do; behind [`transparent`](crate::McpLayer::transparent) layers that is up to a
    /// second later, in which their services hear of what has been ended.
    ///
    /// The answers are then on their way, and axum's graceful shutdown waits for them to be sent. Begin that one
    /// afterwards: as soon as it begins, axum takes no connections, and a cancel could not be sent any more. It also waits
    /// for what this layer never sees: half a request head, a peer that does not read. Give it a second, and end the process:
    ///
    /// ```no_run
    /// # async fn example(listener: tokio::net::TcpListener, app: axum::Router, server: mcp_layer::McpServer)
    /// # -> std::io::Result<()> {
    /// use std::time::Duration;
    ///
    /// let stop = tokio_util::sync::CancellationToken::new();
    /// let serve = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    /// let shutdown = async {
    ///     tokio::signal::ctrl_c().await.ok();
    ///     server.shutdown(Duration::from_secs(10)).await;
    ///     stop.cancel();
    ///     tokio::time::sleep(Duration::from_secs(1)).await;
    /// };
    /// tokio::select! {
    ///     served = async { serve.await } => served?,
    ///     () = shutdown => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, drain: Duration) {
        self.shared.in_flight.shutdown(drain).await;
    }
}

/// The options of an [`McpServer`].
///
/// ```
/// use std::time::Duration;
///
/// use mcp_layer::{ConfigError, McpServer};
///
/// # fn main() -> Result<(), ConfigError> {
/// let server = McpServer::builder()
///     .allowed_hosts(["mcp.example.com"])?
///     .allowed_origins(["https://app.example.com"])?
///     .cancel_grace(Duration::from_secs(30))
///     .build();
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct McpServerBuilder {
    cancel_code: Option<i64>,
    gate: Gate,
    identify: Identify,
    max_buffered_body_bytes: Option<usize>,
    no_sessions: bool,
    options: Options,
    served: Served,
    streaming: Streaming,
}

/// What is let in.
impl McpServerBuilder {
    /// The hosts that the server answers to, instead of the default, which is loopback: localhost, 127.0.0.0/8 and
    /// `[::1]`. One without a port stands for all its ports. Any other `Host` gets 403.
    ///
    /// This is what keeps web pages from reaching a server through DNS rebinding (MCP, *Transports*, Security Warning).
    ///
    /// # Errors
    ///
    /// If one of them is no host, or there are none.
    pub fn allowed_hosts<H: AsRef<str>>(mut self, hosts: impl IntoIterator<Item = H>) -> Result<Self, ConfigError> {
        self.gate.hosts = Hosts::listed(hosts)?;
        Ok(self)
    }

    /// The web origins whose pages may call the server, instead of the default, which is http and https on loopback. One
    /// without a port stands for the port of its scheme. Any other `Origin` gets 403; a request without one passes. Packaged
    /// apps have origins such as `file://`, `app://.` or `chrome-extension://id`, which can be listed as they are.
    ///
    /// A page on the server's own host has an origin too: list it, if there is one.
    ///
    /// # Errors
    ///
    /// If one of them is no origin, or there are none.
    pub fn allowed_origins<O: AsRef<str>>(mut self, origins: impl IntoIterator<Item = O>) -> Result<Self, ConfigError> {
        self.gate.origins = Origins::listed(origins)?;
        Ok(self)
    }

    /// Lets every `Host` in, for a server behind a proxy that checks it. A missing or repeated one still gets 403.
    pub fn allow_any_host(mut self) -> Self {
        self.gate.hosts = Hosts::Any;
        self
    }

    /// Lets pages of every web origin in, whatever form the origin has. Only for a server whose every request is authenticated
    /// by more than a cookie. A repeated `Origin` still gets 403.
    pub fn allow_any_origin(mut self) -> Self {
        self.gate.origins = Origins::Any;
        self
    }

    /// The size of a POST's body in bytes, at most: 4 MiB by default. A larger one gets 413 as soon as that shows.
    ///
    /// axum's own `DefaultBodyLimit` (2 MiB) still applies to handlers that read the body by `Json` or `Bytes`; this
    /// crate's extractors do not.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.gate.max_body_bytes = bytes;
        self
    }

    /// The maximum number of bytes received of POST bodies that are not complete yet, all requests together: 256 MiB by
    /// default. A request whose next bytes exceed it gets 503 with `Retry-After`. Buffers may hold more than what was received.
    ///
    /// Only bytes that have arrived count, whatever a `Content-Length` promises, and only while more of the same body is to
    /// come. A body of up to 4 KiB never counts, so a cancel gets through when slow uploads have used everything up. Keep this
    /// well above [`max_body_bytes`](Self::max_body_bytes), or large bodies never get through.
    ///
    /// ```
    /// # use mcp_layer::McpServer;
    /// let server = McpServer::builder().max_buffered_body_bytes(64 * 1024 * 1024).build();
    /// ```
    pub fn max_buffered_body_bytes(mut self, bytes: usize) -> Self {
        self.max_buffered_body_bytes = Some(bytes);
        self
    }

    /// The time in which a POST's body must be whole: 30 s by default. One that is not gets 408.
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.gate.body_timeout = timeout;
        self
    }
}

/// Whose requests they are.
impl McpServerBuilder {
    /// Reads the principal of a request: a stable name of who sends it, that an auth layer outside left in the
    /// extensions, say. `None` and `""` mean that there is none.
    ///
    /// Without such a function the `Authorization` header tells callers apart, and a client that refreshes its token
    /// cannot cancel what it began with the old one. The session id joins the caller either way.
    ///
    /// ```
    /// # use mcp_layer::McpServer;
    /// #[derive(Clone)]
    /// struct User {
    ///     id: String,
    /// }
    ///
    /// let server = McpServer::builder()
    ///     .principal(|request| request.extensions.get::<User>().map(|user| user.id.clone()))
    ///     .build();
    /// ```
    pub fn principal(mut self, read: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.identify.principal = Some(Arc::new(read));
        self
    }

    /// Whether an `initialize` that succeeds opens a session, where the handler opens none: yes by default. The id is
    /// random, nothing is stored for it, and each client that sends it back is a caller of its own.
    pub fn sessions(mut self, sessions: bool) -> Self {
        self.no_sessions = !sessions;
        self
    }

    /// Whether cancels of callers that have no principal, no Authorization and no session are ignored: no by default,
    /// so one such client can cancel the request of another that has an equal id.
    pub fn strict_callers(mut self, strict: bool) -> Self {
        self.options.strict_callers = strict;
        self
    }
}

/// What a cancel does.
impl McpServerBuilder {
    /// What a cancel does that names several requests of its caller: nothing by default.
    pub fn ambiguous_cancel(mut self, does: AmbiguousCancel) -> Self {
        self.options.ambiguous_cancel = does;
        self
    }

    /// The code of the error that completes a cancelled request: by default -32002 for legacy versions and -32800 for
    /// modern ones, which forbid the former.
    pub fn cancel_code(mut self, code: i64) -> Self {
        self.cancel_code = Some(code);
        self
    }

    /// How long a handler that took [`Cancellation`](crate::Cancellation) may run on once its exchange has ended: 5 s by
    /// default. 1,024 handlers at most have their grace at once.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.options.cancel_grace = grace;
        self
    }

    /// What becomes of a request whose caller has one of the same id parked: it is let in by default.
    pub fn duplicate_id(mut self, does: DuplicateId) -> Self {
        self.options.duplicate_id = does;
        self
    }

    /// How long a cancel is kept that finds no request, in case it has overtaken it: 1 s by default; zero keeps none.
    /// Only those of callers with a session are, 64 a caller and 4,096 in all.
    pub fn early_cancels(mut self, kept_for: Duration) -> Self {
        self.options.early_cancels = kept_for;
        self
    }
}

/// How replies become streams.
impl McpServerBuilder {
    /// How a stream ends that has begun when its exchange is cancelled: with an event that holds the error, by default.
    pub fn cancelled_stream(mut self, ends: CancelledStream) -> Self {
        self.streaming.cancelled = ends;
        self
    }

    /// The pause after which a silent stream gets a comment, so that proxies hold it open: 15 s by default; `None` sends
    /// none at all.
    ///
    /// The first two comments of a stream come after 500 ms of silence each, at most. They are for clients that disconnect
    /// after they have sent more bytes behind their request (HTTP/1.1 pipelining): hyper notices that only when a write fails,
    /// and the first write after the client has left does not. Later it can take twice the pause.
    pub fn keep_alive(mut self, pause: Option<Duration>) -> Self {
        self.streaming.keep_alive = pause;
        self
    }

    /// How long a handler may be silent before its reply becomes a stream, if the client accepts one: by default 15 s for
    /// legacy versions and 1 s for modern ones, whose clients cancel by closing the stream. `None`: for ever. `initialize` is
    /// never answered by a stream to a client that accepts JSON.
    pub fn stream_after(mut self, silence: Option<Duration>) -> Self {
        self.streaming.legacy_after = silence;
        self.streaming.modern_after = silence;
        self
    }
}

/// How much, and for how long.
impl McpServerBuilder {
    /// How long a request may take: 10 min by default; `None`: for ever. Then it is answered with an error, and its handler
    /// is asked to stop, or dropped. Progress does not move this. `subscriptions/listen` and `tasks/result` have none.
    pub fn request_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// How long a request of this method may take, instead.
    pub fn request_timeout_of(mut self, method: impl Into<String>, timeout: Option<Duration>) -> Self {
        self.options.timeouts.insert(method.into(), timeout);
        self
    }

    /// How many exchanges may be parked at once: 10,000 by default. One more gets 503. As many notifications and
    /// responses may be at work beside them.
    pub fn max_parked(mut self, most: usize) -> Self {
        self.options.max_parked = most;
        self
    }

    /// How many of them may be of one principal or Authorization: 1,000 by default. One more gets 429. Sessions do not
    /// count as callers here, because anyone can invent them.
    pub fn max_parked_per_caller(mut self, most: usize) -> Self {
        self.options.max_parked_per_caller = most;
        self
    }
}

/// Which clients, and what their leaving means.
impl McpServerBuilder {
    /// The versions that are served: all by default. Where no modern one is, modern requests get 400.
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        self.served = versions.into_iter().collect();
        self
    }

    /// What becomes of a legacy request whose client goes away: it goes on by default, because there that SHOULD NOT be
    /// read as a cancel (MCP 2025-11-25, *Transports*).
    pub fn legacy_departure(mut self, does: Departure) -> Self {
        self.options.legacy_departure = does;
        self
    }

    /// What becomes of a modern request whose client goes away: it ends by default, because there that MUST be read as a
    /// cancel (MCP 2026-07-28, *Cancellation*). A `subscriptions/listen` always ends: it has nobody else to tell of anything.
    pub fn modern_departure(mut self, does: Departure) -> Self {
        self.options.modern_departure = does;
        self
    }

    /// Whether a posted `notifications/cancelled` ends a modern request: no by default, because those are cancelled by
    /// closing the stream. The notification gets 202 and reaches the handler either way.
    pub fn honour_modern_cancel(mut self, honour: bool) -> Self {
        self.options.honours_modern_cancels = honour;
        self
    }
}

impl McpServerBuilder {
    /// Is told of every exchange that ends: nobody by default.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.options.observer = Some(Box::new(observer));
        self
    }

    /// The server.
    #[must_use]
    pub fn build(self) -> McpServer {
        let in_flight = Arc::new(InFlight::new(self.options));
        McpServer {
            shared: Arc::new(Shared {
                cancel_code: self.cancel_code,
                // They end by themselves, and those of a shutdown are the last.
                discards: Background::new(MOST_DISCARDS, &Arc::default()),
                gate: self.gate,
                identify: self.identify,
                in_flight,
                mints_sessions: !self.no_sessions,
                reading: Arc::new(Budget::new(self.max_buffered_body_bytes.unwrap_or(MAX_BUFFERED_BODY_BYTES))),
                served: self.served,
                streaming: self.streaming,
            }),
        }
    }
}

impl std::fmt::Debug for McpServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServerBuilder").field("gate", &self.gate).finish_non_exhaustive()
    }
}
