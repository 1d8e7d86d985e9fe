use std::borrow::Cow;

use mcp_layer::{McpError, ProtocolVersion};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::line::beginning;

/// The version that a server agrees to must be one that is spoken here (MCP, *Lifecycle*, Version Negotiation).
pub(crate) fn check(initialized: &RawValue) -> Result<(), McpError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized<'a> {
        #[serde(borrow)]
        protocol_version: Cow<'a, str>,
    }

    let Ok(Initialized { protocol_version }) = serde_json::from_str(initialized.get()) else {
        return Err(McpError::internal_error("the server's answer to `initialize` cannot be read"));
    };
    let mut legacy = ProtocolVersion::ALL.into_iter().filter(|version| !version.is_modern());
    // The layer reads 2024-11-05, which many servers agree to, as its successor.
    if protocol_version == "2024-11-05" || legacy.any(|version| version.as_str() == protocol_version) {
        return Ok(());
    }
    let why = format!("the server speaks MCP {:?}, and the bridge does not", beginning(&protocol_version));
    Err(McpError::internal_error(why))
}
