use std::borrow::Cow;
use std::collections::HashMap;

use axum::response::IntoResponse;
use http::HeaderMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::about::TTL_MS;
use super::endpoint::Endpoint;
use super::tool::Tool;
use crate::jsonrpc::{McpError, Message, as_object, shortened};
use crate::protocol::ProtocolVersion;
use crate::reply::Reply;

/// The tools of a router, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Tools<S> {
    tools: Vec<Tool<S>>,
    by_name: HashMap<String, usize>,
}

impl<S> Tools<S> {
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    #[track_caller]
    pub(super) fn add(&mut self, tool: Tool<S>) {
        let before = self.by_name.insert(tool.name().to_owned(), self.tools.len());
        assert!(before.is_none(), "the tool {:?} stands twice", tool.name());
        self.tools.push(tool);
    }

    #[track_caller]
    pub(super) fn merge(&mut self, other: Self) {
        other.tools.into_iter().for_each(|tool| self.add(tool));
    }

    pub(super) fn nested(self, prefix: &str) -> Self {
        let mut nested = Self::default();
        self.tools.into_iter().for_each(|tool| nested.add(tool.nested(prefix)));
        nested
    }

    pub(super) fn with_state<S2: 'static>(self, state: &S) -> Tools<S2>
    where
        S: Clone + Send + Sync + 'static,
    {
        let tools = self.tools.into_iter().map(|tool| tool.with_state(state)).collect();
        Tools { tools, by_name: self.by_name }
    }

    /// What handles a `tools/call`.
    pub(super) fn call(
        &self,
        call: &Message,
        headers: &HeaderMap,
        version: ProtocolVersion,
    ) -> Result<&Endpoint<S>, McpError> {
        #[derive(Deserialize)]
        struct Call<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
        }

        let Call { name, arguments } = call.params_as()?;
        let tool = self.by_name.get(&*name).map(|index| &self.tools[*index]);
        let tool = tool.ok_or_else(|| McpError::invalid_params(format!("Unknown tool: {}", shortened(&name, 128))))?;
        // Not every tool looks at them.
        let arguments = as_object(arguments.map_or("{}", RawValue::get));
        let arguments = arguments.ok_or_else(|| McpError::invalid_params("arguments must be an object"))?;
        if version.is_modern() {
            tool.check_headers(headers, arguments)?;
        }
        Ok(tool.endpoint())
    }

    /// MCP, *Tools*, Listing Tools.
    pub(super) fn list(&self, list: &Message, version: ProtocolVersion) -> Result<impl IntoResponse, McpError> {
        #[derive(Serialize)]
        #[serde(bound = "", rename_all = "camelCase")]
        struct Page<'a, S> {
            tools: Listed<'a, S>,
            #[serde(skip_serializing_if = "Option::is_none")]
            ttl_ms: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_scope: Option<&'static str>,
        }
        #[derive(Deserialize)]
        struct Params {
            cursor: Option<Value>,
        }

        match list.params_as()? {
            // All are on the first page, so no cursor is one of ours (*Pagination*, Error Handling).
            Params { cursor: Some(_) } => Err(McpError::invalid_params("Invalid cursor")),
            Params { cursor: None } => {
                // Legacy versions have no hints for caches.
                let is_modern = version.is_modern();
                let (ttl_ms, cache_scope) = (is_modern.then_some(TTL_MS), is_modern.then_some("private"));
                Ok(Reply(Page { tools: Listed(self, version), ttl_ms, cache_scope }))
            }
        }
    }
}

/// As `tools/list` shows them to a client of a version.
struct Listed<'a, S>(&'a Tools<S>, ProtocolVersion);

impl<S> Serialize for Listed<'_, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let Self(Tools { tools, .. }, version) = self;
        serializer.collect_seq(tools.iter().map(|tool| tool.definition(*version)))
    }
}

impl<S> Default for Tools<S> {
    fn default() -> Self {
        Self { tools: Vec::new(), by_name: HashMap::new() }
    }
}

impl<S> Clone for Tools<S> {
    fn clone(&self) -> Self {
        Self { tools: self.tools.clone(), by_name: self.by_name.clone() }
    }
}
