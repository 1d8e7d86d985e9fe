// The README shows a tool whose schema comes from a type.
#![cfg_attr(feature = "schemars", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "schemars"),
    doc = "A tower `Layer`, axum extractors and a router for MCP over Streamable HTTP."
)]
//!
//! # The way of a POST
//!
//! ```text
//! POST ─ gate (Host, Origin, Content-Type and -Encoding, size)      refused: HTTP status and a JSON-RPC error
//!      ─ envelope (id, method, raw params; the bytes are kept)      refused: 400
//!      ─ Accept, version (modern: _meta and Mcp-* headers), params  refused: 400, 406; 200 for params in an array
//!      ─ caller                                                     refused: 400
//!      ├ request       parked ─ handler ∥ cancelled ∥ deadline ∥ shutdown ∥ client gone ─ one answer
//!      ├ notification  notifications/cancelled? ends the named exchange first; then the handler; 202
//!      └ response      the handler; 202
//! ```

mod body;
mod exchange;
mod extract;
mod foreign;
mod future;
mod inbound;
mod jsonrpc;
mod layer;
mod outbound;
mod post;
mod protocol;
mod rejection;
mod reply;
mod router;
mod server;
mod service;

#[doc(inline)]
pub use self::exchange::{AmbiguousCancel, Departure, DuplicateId, Ended, Observer, Outcome};
#[doc(inline)]
pub use self::extract::{
    Arguments, Cancellation, Change, Client, ClientError, Deferred, DeferredReply, ExchangeInfo, ExtractRejection,
    InputResponses, McpMessage, Notifier, Params, ReplyTicket, Subscription, SubscriptionFilter, SubscriptionStream,
    TooLate,
};
pub use self::future::ResponseFuture;
#[doc(inline)]
pub use self::inbound::ConfigError;
#[doc(inline)]
pub use self::jsonrpc::{McpError, RequestId};
pub use self::layer::McpLayer;
pub use self::protocol::ProtocolVersion;
#[doc(inline)]
pub use self::reply::{CallToolResult, CancelledStream, InputRequired, Reply};
#[doc(inline)]
pub use self::router::{McpRouter, ServerInfo, Subscriptions, Tool};
pub use self::server::{McpServer, McpServerBuilder};
pub use self::service::Mcp;
