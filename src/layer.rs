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
    server: McpServer,
}

impl McpLayer {
    /// The layer of this server.
    #[must_use]
    pub fn new(server: McpServer) -> Self {
        Self { server }
    }
}

impl<S> Layer<S> for McpLayer {
    type Service = Mcp<S>;

    fn layer(&self, inner: S) -> Mcp<S> {
        Mcp::new(inner, Arc::clone(&self.server.shared))
    }
}
