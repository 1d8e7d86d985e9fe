//! What is let in, and how it is read. Checks are pure functions that return a reason, never a response.

mod accept;
mod budget;
mod caller;
mod capabilities;
mod collect;
mod decode;
mod gate;
pub(crate) mod headers;
mod media;
mod origin;
mod version;

pub(crate) use self::accept::Accepts;
pub(crate) use self::budget::{Budget, OverBudget};
pub(crate) use self::caller::Identify;
pub(crate) use self::capabilities::declared_capabilities;
pub(crate) use self::collect::{Collect, CollectError, discard};
pub(crate) use self::decode::{Inbound, Refusal, cancel_of, decode};
pub(crate) use self::gate::Gate;
pub(crate) use self::media::is_media;
pub use self::origin::ConfigError;
pub(crate) use self::origin::{Hosts, Origins};
