use serde_json::{Map, Value, json};

use super::methods::Methods;
use crate::extract::SubscriptionFilter;
use crate::protocol::ProtocolVersion;

/// What a server has, as far as its methods tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    completions: bool,
    logging: bool,
    prompts: bool,
    resources: bool,
    /// `resources/subscribe`.
    subscribe: bool,
    tools: bool,
}

impl Features {
    /// Of the version.
    pub(super) fn of<S>(methods: &Methods<S>, has_tools: bool, version: ProtocolVersion) -> Self {
        let has = |method| methods.has_request(method) && !version.lacks(method);
        Self {
            completions: has("completion/complete"),
            logging: has("logging/setLevel"),
            prompts: has("prompts/list"),
            resources: has("resources/list") || has("resources/read") || has("resources/templates/list"),
            subscribe: has("resources/subscribe"),
            tools: has_tools || has("tools/list"),
        }
    }

    /// As capabilities, with those that are declared in their place. `listens`: clients can hear of changes.
    pub(super) fn capabilities(self, listens: bool, declared: &Map<String, Value>) -> Map<String, Value> {
        let list = if listens { json!({ "listChanged": true }) } else { json!({}) };
        let mut resources = list.clone();
        if listens || self.subscribe {
            resources["subscribe"] = true.into();
        }
        let all = [
            ("completions", self.completions, json!({})),
            ("logging", self.logging, json!({})),
            ("prompts", self.prompts, list.clone()),
            ("resources", self.resources || self.subscribe, resources),
            ("tools", self.tools, list),
        ];
        let told = all.into_iter().filter(|(_, is_there, _)| *is_there);
        let declared = declared.iter().map(|(name, capability)| (name.clone(), capability.clone()));
        told.map(|(name, _, capability)| (name.to_owned(), capability)).chain(declared).collect()
    }

    /// Of the changes that are requested, those of what there is.
    pub(super) fn changes(self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut honoured = requested.clone();
        honoured.prompts_list_changed &= self.prompts;
        honoured.resources_list_changed &= self.resources;
        honoured.tools_list_changed &= self.tools;
        if !self.resources {
            honoured.resource_subscriptions.clear();
        }
        honoured
    }
}
