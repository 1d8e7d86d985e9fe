use std::sync::Arc;

use tower::Layer;

use crate::server::McpServer;
use crate::service::Mcp;

/// Puts a server's exchange handling in front of a service. Clones and further layers of one [`McpServer`] share its
/// parked exchanges: a cancel on one route ends a request on another.
///
/// ```
/// use axum::Router;
/// use axum::routing::{get, post};
/// use mcp_layer::{McpError, McpLayer, McpMessage, McpServer, Reply};
///
/// async fn handle(message: McpMessage) -> Result<Reply<()>, McpError> {
///     Err(McpError::method_not_found(message.method()))
/// }
///
/// let mcp = Router::new()
///     .route("/mcp", post(handle))
///     .layer(McpLayer::new(McpServer::new())); // covers the routes above it
/// let app: Router = Router::new().route("/health", get(|| async { "ok" })).merge(mcp);
/// ```
#[derive(Clone, Debug)]
pub struct McpLayer {
    is_foreign: bool,
    server: McpServer,
}

impl McpLayer {
    /// The layer of this server.
    #[must_use]
    pub fn new(server: McpServer) -> Self {
        Self { is_foreign: false, server }
    }

    /// The layer of this server, in front of a service that knows nothing of this crate: `rmcp`, a reverse proxy, any tower
    /// service that speaks MCP over Streamable HTTP.
    ///
    /// Its replies pass as they are: statuses, headers, sessions, the events of its streams with their ids. Each request can
    /// still be ended by a cancel, its deadline or a shutdown, without the help of the service: what is at work in it is dropped
    /// then, and the notification reaches the service too.
    ///
    /// - A reply with a 2xx status that is not a stream is held until it is whole, up to 4 MiB, so that a cancel can replace it.
    /// - If such a reply is not the JSON-RPC response to its request, the client gets the error -32603 with HTTP status 200
    ///   instead. Examples are JSON that is cut short, `{}`, a 200, 202 or 204 without a body, an HTML page, and a response with
    ///   another id or none. The service's headers are kept, except those that describe the body, and the reason is logged at
    ///   `warn`. Every other status passes untouched, as do replies to notifications and responses.
    /// - The body decides, not its type: a response passes unchanged whatever its `Content-Type`, and so does a batch that contains
    ///   it (MCP 2025-03-26). A body that cannot be judged, because it is larger than 4 MiB or encoded (`Content-Encoding`),
    ///   passes if it is `application/json`, and is replaced by the error otherwise.
    /// - Ids of responses are compared by value: `7.0`, `7e0` and `"7"` answer the request `7`, and `7` answers the request `"7"`.
    ///   The response passes as the service wrote it.
    /// - An answer behind 202 gets 200: clients read no body behind 202.
    /// - A stream (`text/event-stream` with any 2xx status that allows a body) passes by whole events, of up to 1 MiB each. A
    ///   cancel ends it with an event that holds the error. Where a longer event or an encoded stream (`Content-Encoding`) has
    ///   begun, it ends the stream and nothing more.
    /// - A stream that ends without its answer gets the error -32603 as its last event, unless an event with an id came
    ///   before it: then a legacy service may have closed it on purpose, and its client comes back with `Last-Event-ID`.
    /// - Where events have ids, that event of ours has one too, and a GET with it as `Last-Event-ID` gets 405: some clients take an
    ///   error for no answer, and would come back for one again and again.
    /// - A service with sessions may go on though its reply is dropped, so where the layer ends a request of a legacy session
    ///   for its deadline or a shutdown, the service gets a `notifications/cancelled` as its client would send it.
    /// - A legacy client that leaves a stream whose events have ids can come back for it with `Last-Event-ID`, so the stream is
    ///   dropped and left to the service. A later cancel reaches the service as any does.
    /// - The stream of a GET in a session passes by whole events, too, without the answers to what has been answered here within
    ///   the last minute (the last 64 of a session), which a service may send there.
    /// - `Accept-Encoding` passes. Behind a service that encodes its streams leave it out, or put compression outside.
    /// - An answer at the end of a stream without the empty line that makes an event of it gets that line.
    /// - A second request with the id of one that is parked in the same session gets 400.
    /// - Where the service opens no session, the layer does: see [`sessions`](crate::McpServerBuilder::sessions).
    /// - A session id that begins with `mcpl-`, as those of another layer of this crate behind the service do, gets one more `mcpl-`,
    ///   and the service sees it without.
    /// - What the layer refuses does not reach the service. The error -32022 lists the layer's own
    ///   [`versions`](crate::McpServerBuilder::versions): set those that the service serves.
    /// - No reply becomes a stream by itself, and none gets keep-alive comments.
    ///
    /// ```
    /// use axum::Router;
    /// use axum::response::IntoResponse;
    /// use mcp_layer::{McpLayer, McpServer};
    /// # let service = tower::service_fn(|_: axum::extract::Request| async {
    /// #     Ok::<_, std::convert::Infallible>(axum::http::StatusCode::ACCEPTED.into_response())
    /// # });
    ///
    /// let app: Router = Router::new()
    ///     .route_service("/mcp", service)
    ///     .layer(McpLayer::transparent(McpServer::new()));
    /// ```
    #[must_use]
    pub fn transparent(server: McpServer) -> Self {
        Self { is_foreign: true, server }
    }
}

impl<S> Layer<S> for McpLayer {
    type Service = Mcp<S>;

    fn layer(&self, inner: S) -> Mcp<S> {
        Mcp::new(inner, self.is_foreign, Arc::clone(&self.server.shared))
    }
}
