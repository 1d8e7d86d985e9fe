use mcp_layer::{McpError, ProtocolVersion};
use serde_json::value::RawValue;

use crate::line::beginning;
use crate::object::Object;
use crate::text;

/// The version that a server agrees to must be one that is spoken here (MCP, *Lifecycle*, Version Negotiation).
pub(crate) fn check(initialized: &RawValue) -> Result<(), McpError> {
    let version = Object::read(initialized).and_then(|members| text::lossy(members.get("protocolVersion")?));
    let Some(version) = version else {
        return Err(McpError::internal_error("the server's answer to `initialize` must have a protocolVersion"));
    };
    let mut legacy = ProtocolVersion::ALL.into_iter().filter(|version| !version.is_modern());
    // The layer reads 2024-11-05, which many servers agree to, as its successor.
    if version == "2024-11-05" || legacy.any(|known| known.as_str() == version) {
        return Ok(());
    }
    let why = format!("the server speaks MCP {:?}, which the bridge does not support", beginning(&version));
    Err(McpError::internal_error(why))
}
