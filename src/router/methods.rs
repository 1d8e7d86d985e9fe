use std::collections::HashMap;

use super::endpoint::Endpoint;

/// What the names of MCP's notifications begin with.
const NOTIFICATIONS: &str = "notifications/";

/// The handlers of methods, by their names.
#[derive(Debug)]
pub(super) struct Methods<S> {
    requests: HashMap<String, Endpoint<S>>,
    notifications: HashMap<String, Endpoint<S>>,
    /// By the prefix that they were nested with; `""` is the router's own.
    fallbacks: HashMap<String, Endpoint<S>>,
}

impl<S> Methods<S> {
    pub(super) fn has_request(&self, method: &str) -> bool {
        self.requests.contains_key(method)
    }

    /// The handler of a request, if it has one of its own.
    pub(super) fn request(&self, method: &str) -> Option<&Endpoint<S>> {
        self.requests.get(method)
    }

    pub(super) fn notification(&self, method: &str) -> Option<&Endpoint<S>> {
        self.notifications.get(method)
    }

    /// What takes a message whose method has no handler of its own: the fallback with the longest prefix of it. There are
    /// few of them, and prefixes a client may send any number.
    pub(super) fn fallback(&self, method: &str) -> Option<&Endpoint<S>> {
        let method = method.strip_prefix(NOTIFICATIONS).unwrap_or(method);
        let begins_with =
            |prefix: &str| prefix.is_empty() || method.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        let fallbacks = self.fallbacks.iter().filter(|(prefix, _)| begins_with(prefix));
        fallbacks.max_by_key(|(prefix, _)| prefix.len()).map(|(_, fallback)| fallback)
    }

    #[track_caller]
    pub(super) fn add_request(&mut self, method: String, endpoint: Endpoint<S>) {
        add(&mut self.requests, method, endpoint, "request");
    }

    #[track_caller]
    pub(super) fn add_notification(&mut self, method: String, endpoint: Endpoint<S>) {
        add(&mut self.notifications, method, endpoint, "notification");
    }

    #[track_caller]
    pub(super) fn add_fallback(&mut self, prefix: String, endpoint: Endpoint<S>) {
        add(&mut self.fallbacks, prefix, endpoint, "fallback");
    }

    #[track_caller]
    pub(super) fn merge(&mut self, other: Self) {
        for (method, endpoint) in other.requests {
            self.add_request(method, endpoint);
        }
        for (method, endpoint) in other.notifications {
            self.add_notification(method, endpoint);
        }
        for (prefix, endpoint) in other.fallbacks {
            self.add_fallback(prefix, endpoint);
        }
    }

    /// The same methods with longer names: `get` is `tasks/get` then, and `notifications/status` is
    /// `notifications/tasks/status`, as such names are made in MCP.
    pub(super) fn nested(self, prefix: &str) -> Self {
        let name = |method: String| match method.strip_prefix(NOTIFICATIONS) {
            Some(rest) => format!("{NOTIFICATIONS}{prefix}/{rest}"),
            None if method.is_empty() => prefix.to_owned(),
            None => format!("{prefix}/{method}"),
        };
        self.renamed(name)
    }

    fn renamed(self, name: impl Fn(String) -> String) -> Self {
        let all = |endpoints: HashMap<String, Endpoint<S>>| {
            endpoints.into_iter().map(|(method, endpoint)| (name(method), endpoint)).collect()
        };
        Self { requests: all(self.requests), notifications: all(self.notifications), fallbacks: all(self.fallbacks) }
    }

    pub(super) fn with_state<S2: 'static>(self, state: &S) -> Methods<S2>
    where
        S: Clone + Send + Sync + 'static,
    {
        let all = |endpoints: HashMap<String, Endpoint<S>>| {
            endpoints.into_iter().map(|(method, endpoint)| (method, endpoint.with_state(state))).collect()
        };
        Methods { requests: all(self.requests), notifications: all(self.notifications), fallbacks: all(self.fallbacks) }
    }
}

#[track_caller]
fn add<S>(endpoints: &mut HashMap<String, Endpoint<S>>, name: String, endpoint: Endpoint<S>, kind: &str) {
    assert!(!endpoints.contains_key(&name), "the {kind} {name:?} has a handler already");
    endpoints.insert(name, endpoint);
}

impl<S> Default for Methods<S> {
    fn default() -> Self {
        Self { requests: HashMap::new(), notifications: HashMap::new(), fallbacks: HashMap::new() }
    }
}

impl<S> Clone for Methods<S> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
            notifications: self.notifications.clone(),
            fallbacks: self.fallbacks.clone(),
        }
    }
}
