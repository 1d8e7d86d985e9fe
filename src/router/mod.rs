//! JSON-RPC methods to axum handlers, and tools on top.

mod about;
mod capabilities;
mod endpoint;
mod methods;
mod param_header;
mod router;
mod server_info;
mod subscriptions;
mod tool;
#[cfg(feature = "schemars")]
mod tool_input;
mod tools;

pub use self::router::McpRouter;
pub use self::server_info::ServerInfo;
pub use self::subscriptions::Subscriptions;
pub use self::tool::Tool;
