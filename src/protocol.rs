//! The revisions of MCP that are served, and what each one means.

use std::fmt;

/// A revision of the Model Context Protocol.
///
/// ```
/// use mcp_layer::ProtocolVersion;
///
/// assert_eq!(ProtocolVersion::LATEST.as_str(), "2025-11-25");
/// assert!(ProtocolVersion::V2025_03_26 < ProtocolVersion::V2025_06_18);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2025-03-26, the first one with Streamable HTTP. A request that names no version is read as this one.
    V2025_03_26,
    /// 2025-06-18, the first one with the `MCP-Protocol-Version` header.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
}

impl ProtocolVersion {
    /// What `initialize` offers to a client that asks for a version which is not served.
    pub const LATEST: Self = Self::V2025_11_25;

    const ALL: [Self; 3] = [Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The version as it stands in headers and in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    /// The version of this name, if it is one that is served.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == name)
    }

    /// The version that a request's `MCP-Protocol-Version` header stands for. 2024-11-05 had another transport; clients
    /// that still name it speak this one as of 2025-03-26.
    pub(crate) fn from_header(value: Option<&[u8]>) -> Option<Self> {
        match value {
            None | Some(b"2024-11-05") => Some(Self::V2025_03_26),
            Some(name) => Self::named(std::str::from_utf8(name).ok()?),
        }
    }

    /// What `initialize` answers: the version asked for, if it is served, else the latest ([*Version Negotiation*]).
    ///
    /// [*Version Negotiation*]: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation
    pub(crate) fn negotiated(requested: Option<&str>) -> Self {
        requested.and_then(Self::named).unwrap_or(Self::LATEST)
    }

    /// The code of the error that completes a cancelled request. MCP gives none: there a cancelled request has no answer.
    pub(crate) const fn cancelled_code(self) -> i64 {
        match self {
            Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => -32002,
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_versions() {
        assert_eq!(ProtocolVersion::from_header(None), Some(ProtocolVersion::V2025_03_26));
        assert_eq!(ProtocolVersion::from_header(Some(b"2024-11-05")), Some(ProtocolVersion::V2025_03_26));
        for version in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::from_header(Some(version.as_str().as_bytes())), Some(version));
        }
        for unknown in [&b"2099-01-01"[..], b"junk", b"", b" 2025-06-18", b"2025-06-18, 2025-06-18", b"\xff"] {
            assert_eq!(ProtocolVersion::from_header(Some(unknown)), None);
        }
    }

    #[test]
    fn initialize_negotiates() {
        assert_eq!(ProtocolVersion::negotiated(Some("2025-06-18")), ProtocolVersion::V2025_06_18);
        for other in [Some("2099-01-01"), Some("2024-11-05"), None] {
            assert_eq!(ProtocolVersion::negotiated(other), ProtocolVersion::LATEST);
        }
    }
}
