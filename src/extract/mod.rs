//! The extractors. Each reads the one extension that the layer leaves in a request.

mod arguments;
mod cancellation;
mod context;
mod info;
mod message;
mod notifier;
mod params;
mod rejection;

pub use self::arguments::Arguments;
pub use self::cancellation::Cancellation;
pub(crate) use self::context::{Call, Context, Subject};
pub use self::info::ExchangeInfo;
pub use self::message::McpMessage;
pub use self::notifier::Notifier;
pub use self::params::Params;
pub use self::rejection::ExtractRejection;
