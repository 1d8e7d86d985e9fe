use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use tokio::task::coop::consume_budget;

use super::context::{Call, Context};
use super::rejection::ExtractRejection;
use crate::jsonrpc::{McpError, Message, RequestId};
use crate::protocol::SUBSCRIPTION_ID;
use crate::reply::{Reply, closing};

/// The URIs of one filter, and the bytes of all of them: they are kept for as long as the subscription is open.
const MOST_URIS: usize = 1_024;
const MOST_URI_BYTES: usize = 64 * 1024;

/// A `subscriptions/listen` request (2026-07-28, *Subscriptions*): the client wants to hear of changes for as long as it
/// keeps the stream open.
///
/// It says first [what it wants](Self::requested), and is told [what it gets](Self::acknowledge). The request has no
/// deadline. Its handler is dropped when the client leaves, and when the server shuts down: the client gets
/// `notifications/cancelled` and the closing result then.
///
/// [`Subscriptions`](crate::Subscriptions) does all this for a server whose changes concern everybody.
///
/// ```
/// use mcp_layer::{Change, Reply, Subscription, SubscriptionFilter};
/// use serde_json::Value;
///
/// async fn listen(subscription: Subscription) -> Reply<Value> {
///     let honoured = SubscriptionFilter {
///         tools_list_changed: subscription.requested().tools_list_changed,
///         ..SubscriptionFilter::default()
///     };
///     let stream = subscription.acknowledge(honoured).await;
///     loop {
///         // … wait for a change …
/// #       if true { break }
///         stream.send(&Change::ToolsListChanged).await;
///     }
///     stream.close().await
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(listen);
/// ```
#[derive(Debug)]
pub struct Subscription {
    exchange: Arc<Call>,
    requested: SubscriptionFilter,
}

/// Which changes a client hears of.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubscriptionFilter {
    /// `notifications/prompts/list_changed`.
    #[serde(skip_serializing_if = "is_false")]
    pub prompts_list_changed: bool,
    /// `notifications/resources/updated`, for resources of these URIs. A client may name at most 1,024 different URIs, of at
    /// most 64 KiB together; a request that names more gets the error -32602. The limits apply to any filter that is
    /// deserialized, but not to one that is built in code.
    #[serde(deserialize_with = "uris", skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_subscriptions: BTreeSet<String>,
    /// `notifications/resources/list_changed`.
    #[serde(skip_serializing_if = "is_false")]
    pub resources_list_changed: bool,
    /// `notifications/tools/list_changed`.
    #[serde(skip_serializing_if = "is_false")]
    pub tools_list_changed: bool,
}

/// A change that clients may hear of.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Change {
    /// The list of prompts.
    PromptsListChanged,
    /// The resource of this URI.
    ResourceUpdated(String),
    /// The list of resources, or of their templates.
    ResourcesListChanged,
    /// The list of tools.
    ToolsListChanged,
}

/// The stream of a subscription that is acknowledged.
#[derive(Debug)]
pub struct SubscriptionStream {
    exchange: Arc<Call>,
    honoured: Arc<SubscriptionFilter>,
}

impl Subscription {
    /// What the client wants to hear of.
    #[must_use]
    pub fn requested(&self) -> &SubscriptionFilter {
        &self.requested
    }

    /// Begins the stream: tells the client what it will hear of. What it has not asked for is left out.
    pub async fn acknowledge(self, honoured: SubscriptionFilter) -> SubscriptionStream {
        let honoured = Arc::new(honoured.and(&self.requested));
        self.begin(honoured).await
    }

    /// The same with what is requested and honoured.
    pub(crate) async fn begin(self, honoured: Arc<SubscriptionFilter>) -> SubscriptionStream {
        let Self { exchange, requested } = self;
        drop(requested);
        let note = note(&exchange.key().id, "subscriptions/acknowledged", json!({ "notifications": *honoured }));
        exchange.note(note).await;
        SubscriptionStream { exchange, honoured }
    }
}

impl SubscriptionStream {
    /// Tells the client of a change, if it wants to hear of it. Waits while 64 of them wait for the client to read.
    pub async fn send(&self, change: &Change) {
        // Where nobody has to wait, a handler that does nothing else would never let its exchange be ended.
        consume_budget().await;
        if self.honoured.has(change) {
            self.exchange.note(self.note_of(change)).await;
        }
    }

    /// The changes that the client hears of.
    #[must_use]
    pub fn honoured(&self) -> &SubscriptionFilter {
        &self.honoured
    }

    /// Tells the client that the server ends the stream, and gives the result that closes it in order.
    pub async fn close(self) -> Reply<Value> {
        self.exchange.note(closing(&self.exchange.key().id)).await;
        Reply(json!({ "resultType": "complete", "_meta": { SUBSCRIPTION_ID: self.exchange.key().id } }))
    }

    fn note_of(&self, change: &Change) -> String {
        let (name, params) = match change {
            Change::PromptsListChanged => ("prompts/list_changed", json!({})),
            Change::ResourceUpdated(uri) => ("resources/updated", json!({ "uri": uri })),
            Change::ResourcesListChanged => ("resources/list_changed", json!({})),
            Change::ToolsListChanged => ("tools/list_changed", json!({})),
        };
        note(&self.exchange.key().id, name, params)
    }
}

impl SubscriptionFilter {
    /// What both have.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.prompts_list_changed &= other.prompts_list_changed;
        self.resource_subscriptions.retain(|uri| other.resource_subscriptions.contains(uri));
        self.resources_list_changed &= other.resources_list_changed;
        self.tools_list_changed &= other.tools_list_changed;
        self
    }

    pub(crate) fn has(&self, change: &Change) -> bool {
        match change {
            Change::PromptsListChanged => self.prompts_list_changed,
            Change::ResourceUpdated(uri) => self.resource_subscriptions.contains(uri),
            Change::ResourcesListChanged => self.resources_list_changed,
            Change::ToolsListChanged => self.tools_list_changed,
        }
    }
}

/// A notification of this subscription.
fn note(id: &RequestId, name: &str, mut params: Value) -> String {
    params["_meta"] = json!({ SUBSCRIPTION_ID: id });
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{name}"), "params": params }).to_string()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Reads URIs up to the limits of a filter, and stops at the first one beyond them.
fn uris<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    struct Uris;

    impl<'de> Visitor<'de> for Uris {
        type Value = BTreeSet<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of URIs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
            let (mut uris, mut bytes) = (BTreeSet::new(), 0);
            while let Some(uri) = sequence.next_element::<String>()? {
                let length = uri.len();
                if !uris.insert(uri) {
                    continue;
                }
                bytes += length;
                if uris.len() > MOST_URIS {
                    return Err(A::Error::custom(format_args!("more than {MOST_URIS} URIs")));
                }
                if bytes > MOST_URI_BYTES {
                    return Err(A::Error::custom(format_args!("more than {MOST_URI_BYTES} bytes of URIs")));
                }
            }
            Ok(uris)
        }
    }

    deserializer.deserialize_seq(Uris)
}

fn requested(request: &Message) -> Result<SubscriptionFilter, McpError> {
    #[derive(Deserialize)]
    struct Params {
        notifications: SubscriptionFilter,
    }

    request.params_as().map(|Params { notifications }| notifications)
}

/// A legacy version gets the error -32601, and a filter that is none -32602; a client that accepts no event stream gets 406.
impl<S: Send + Sync> FromRequestParts<S> for Subscription {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let context = Context::of(&parts.extensions)?;
        let exchange = context.subject.exchange().ok_or(ExtractRejection::NoRequest)?;
        if !context.version.is_modern() {
            return Err(ExtractRejection::NotInVersion(context.version));
        }
        if !context.streams {
            return Err(ExtractRejection::NoStream);
        }
        let requested = requested(exchange.request()).map_err(ExtractRejection::Params)?;
        Ok(Self { exchange: Arc::clone(exchange), requested })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(json: Value) -> SubscriptionFilter {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_filter_has_what_both_have() {
        let one = filter(json!({ "toolsListChanged": true, "resourceSubscriptions": ["a", "b", "b"], "other": 1 }));
        let other =
            filter(json!({ "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["b"] }));
        let both = one.and(&other);
        assert_eq!(
            serde_json::to_value(&both).unwrap(),
            json!({ "toolsListChanged": true, "resourceSubscriptions": ["b"] })
        );
        assert!(both.has(&Change::ToolsListChanged) && both.has(&Change::ResourceUpdated("b".to_owned())));
        assert!(!both.has(&Change::PromptsListChanged) && !both.has(&Change::ResourceUpdated("a".to_owned())));
    }

    #[test]
    fn the_uris_of_a_filter_are_bounded() {
        let read = |uris: Vec<String>| {
            let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": uris }).to_string();
            serde_json::from_str::<SubscriptionFilter>(&filter).map(|filter| filter.resource_subscriptions.len())
        };
        let numbered = |count: usize| (0..count).map(|number| format!("file:///{number}")).collect::<Vec<_>>();
        let long = |lengths: &[usize]| lengths.iter().map(|&length| "x".repeat(length)).collect::<Vec<_>>();
        for (uris, kept) in [
            (vec![], 0),
            (numbered(1_024), 1_024),
            // One URI, however often it is named.
            (vec!["file:///a".to_owned(); 5_000], 1),
            ([numbered(1_024), numbered(1_024)].concat(), 1_024),
            (long(&[65_536]), 1),
            (long(&[65_535, 1]), 2),
            (vec!["\u{e4}".repeat(32_768)], 1),
        ] {
            assert_eq!(read(uris).unwrap(), kept);
        }
        for (uris, limit) in [
            (numbered(1_025), "more than 1024 URIs"),
            (numbered(100_000), "more than 1024 URIs"),
            (long(&[65_537]), "more than 65536 bytes of URIs"),
            (long(&[65_535, 2]), "more than 65536 bytes of URIs"),
            (vec!["\u{e4}".repeat(32_768), String::from("x")], "more than 65536 bytes of URIs"),
        ] {
            let error = read(uris).unwrap_err().to_string();
            assert!(error.starts_with(limit), "{error}");
        }
        let by_hand =
            SubscriptionFilter { resource_subscriptions: numbered(5_000).into_iter().collect(), ..filter(json!({})) };
        assert_eq!(by_hand.clone().and(&by_hand), by_hand);
    }

    #[test]
    fn a_note_carries_the_id_of_its_subscription() {
        for (id, shown) in [(RequestId::from(7), json!(7)), (RequestId::from("7"), json!("7"))] {
            let note: Value = serde_json::from_str(&note(&id, "resources/updated", json!({ "uri": "a" }))).unwrap();
            let params = json!({ "uri": "a", "_meta": { SUBSCRIPTION_ID: shown } });
            assert_eq!((&note["method"], &note["params"]), (&json!("notifications/resources/updated"), &params));
        }
    }
}
