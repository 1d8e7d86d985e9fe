use bytestring::ByteString;
use serde_json::{Map, Value};

use super::server_info::ServerInfo;
use crate::reply::Completion;

/// How long clients may keep what the router itself says of the server.
pub(super) const TTL_MS: u32 = 60_000;

/// What the server says of itself.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) capabilities: Map<String, Value>,
    pub(super) instructions: Option<String>,
    /// As JSON.
    server_info: ByteString,
    pub(super) server_info_value: Value,
}

impl About {
    pub(super) fn of(info: ServerInfo) -> Self {
        let info = serde_json::to_value(info).unwrap_or_default();
        let server_info = info.to_string().into();
        Self { capabilities: Map::new(), instructions: None, server_info, server_info_value: info }
    }

    /// What a modern result of this method has to have.
    pub(super) fn completion(&self, method: &str) -> Completion {
        let is_cacheable = matches!(
            method,
            "prompts/list"
                | "resources/list"
                | "resources/read"
                | "resources/templates/list"
                | "server/discover"
                | "tools/list"
        );
        Completion { is_cacheable, server_info: self.server_info.clone() }
    }
}
