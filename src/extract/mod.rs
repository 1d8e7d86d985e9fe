//! The extractors. Each reads the one extension that the layer leaves in a request.

mod arguments;
mod cancellation;
mod client;
mod context;
mod info;
mod input_responses;
mod message;
mod notifier;
mod params;
mod rejection;
mod subscription;

pub use self::arguments::Arguments;
pub use self::cancellation::Cancellation;
pub use self::client::{Client, ClientError};
pub(crate) use self::context::{Call, Context, Subject};
pub use self::info::ExchangeInfo;
pub use self::input_responses::InputResponses;
pub use self::message::McpMessage;
pub use self::notifier::Notifier;
pub use self::params::Params;
pub use self::rejection::ExtractRejection;
pub use self::subscription::{Change, Subscription, SubscriptionFilter, SubscriptionStream};
