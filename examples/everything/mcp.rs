use std::sync::Arc;

use mcp_layer::{McpRouter, ServerInfo};

use crate::debug::Debug;
use crate::{asking, conformance, listening, logging, prompts, resources, rounds, tools};

/// All that this server can do. Its tools are listed in this order.
pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    McpRouter::new(ServerInfo::new("everything", env!("CARGO_PKG_VERSION")))
        .merge(conformance::router())
        .merge(asking::router())
        .merge(rounds::router())
        .merge(listening::router())
        .merge(tools::router())
        .merge(logging::router())
        .merge(prompts::router())
        .merge(resources::router())
}
