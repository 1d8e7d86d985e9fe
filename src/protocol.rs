//! The revisions of MCP that are served, and what each one means.

use std::fmt;

/// The key in `_meta` of what belongs to a subscription: the id of its request (2026-07-28, *Subscriptions*).
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The capability that a client declares if it takes requests of this method; `None` for methods that no client takes
/// (2026-07-28, *Multi Round-Trip Requests*).
pub(crate) fn capability_for(method: &str) -> Option<&'static str> {
    match method {
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        "sampling/createMessage" => Some("sampling"),
        _ => None,
    }
}

/// A revision of the Model Context Protocol.
///
/// Those up to 2025-11-25 are *legacy*: a client initializes, may have a session, and cancels by a notification. From
/// 2026-07-28 on they are *modern*: each request says all that there is to know, and a client that goes away has cancelled.
///
/// ```
/// use mcp_layer::ProtocolVersion;
///
/// assert_eq!(ProtocolVersion::V2025_11_25.as_str(), "2025-11-25");
/// assert!(ProtocolVersion::V2025_11_25 < ProtocolVersion::V2026_07_28);
/// assert!(ProtocolVersion::V2026_07_28.is_modern());
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
    /// 2026-07-28, the first modern one.
    V2026_07_28,
}

impl ProtocolVersion {
    /// All of them, the oldest first.
    pub const ALL: [Self; 4] = [Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The version as it stands in headers and in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// It has no `initialize` and no sessions: each request carries its version and its client's capabilities.
    #[must_use]
    pub const fn is_modern(self) -> bool {
        match self {
            Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => false,
            Self::V2026_07_28 => true,
        }
    }

    /// The version of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == name)
    }

    /// MCP has this method in other versions and not in this one.
    pub(crate) fn lacks(self, method: &str) -> bool {
        match method {
            "initialize" | "logging/setLevel" | "ping" | "resources/subscribe" | "resources/unsubscribe" => {
                self.is_modern()
            }
            "server/discover" | "subscriptions/listen" => !self.is_modern(),
            _ => false,
        }
    }

    /// A request of this method may be answered by requests for input (2026-07-28, *Multi Round-Trip Requests*).
    pub(crate) fn may_require_input(self, method: &str) -> bool {
        self.is_modern() && matches!(method, "prompts/get" | "resources/read" | "tools/call")
    }

    /// Arguments that a tool does not take are answered by a result with `isError`, which a model reads, and not by a
    /// JSON-RPC error (2025-11-25, *Tools*, Error Handling).
    pub(crate) fn shows_invalid_arguments(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// The code of the error that completes a cancelled request. No version has one: there a cancelled request has no
    /// answer. 2026-07-28 forbids -32002, which meant that a resource was not found.
    pub(crate) const fn cancelled_code(self) -> i64 {
        if self.is_modern() { -32800 } else { -32002 }
    }

    /// The code of the error that completes a request whose time is up.
    pub(crate) const fn timed_out_code(self) -> i64 {
        if self.is_modern() { -32802 } else { -32001 }
    }

    /// The code of the error that completes a request at shutdown.
    pub(crate) const fn shut_down_code(self) -> i64 {
        if self.is_modern() { -32802 } else { -32000 }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The versions that a server serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// One for each of [`ProtocolVersion::ALL`].
    is_served: [bool; ProtocolVersion::ALL.len()],
}

impl Default for Served {
    fn default() -> Self {
        ProtocolVersion::ALL.into_iter().collect()
    }
}

impl FromIterator<ProtocolVersion> for Served {
    fn from_iter<I: IntoIterator<Item = ProtocolVersion>>(versions: I) -> Self {
        let mut is_served = [false; ProtocolVersion::ALL.len()];
        for version in versions {
            is_served[version as usize] = true;
        }
        Self { is_served }
    }
}

impl Served {
    /// The newest first.
    fn versions(self) -> impl Iterator<Item = ProtocolVersion> {
        ProtocolVersion::ALL.into_iter().rev().filter(move |version| self.has(*version))
    }

    fn has(self, version: ProtocolVersion) -> bool {
        self.is_served[version as usize]
    }

    /// The newest first.
    pub(crate) fn names(self) -> Vec<&'static str> {
        self.versions().map(ProtocolVersion::as_str).collect()
    }

    pub(crate) fn has_modern(self) -> bool {
        self.versions().any(ProtocolVersion::is_modern)
    }

    /// The version of this name, if it is served.
    pub(crate) fn named(self, name: &str) -> Option<ProtocolVersion> {
        ProtocolVersion::named(name).filter(|version| self.has(*version))
    }

    /// The legacy version that a request's `MCP-Protocol-Version` header stands for. None stands for 2025-03-26. So does
    /// 2024-11-05, which had another transport: clients that still name it here speak this one.
    pub(crate) fn legacy(self, header: Option<&[u8]>) -> Option<ProtocolVersion> {
        let name = match header {
            None | Some(b"2024-11-05") => ProtocolVersion::V2025_03_26.as_str(),
            Some(name) => std::str::from_utf8(name).ok()?,
        };
        self.named(name).filter(|version| !version.is_modern())
    }

    /// What `initialize` answers: the version asked for, if it is served, else the latest legacy one ([*Version
    /// Negotiation*]).
    ///
    /// [*Version Negotiation*]: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation
    pub(crate) fn negotiated(self, requested: Option<&str>) -> Option<ProtocolVersion> {
        let requested = requested.and_then(|name| self.named(name)).filter(|version| !version.is_modern());
        requested.or_else(|| self.versions().find(|version| !version.is_modern()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_legacy_versions() {
        let served = Served::default();
        assert_eq!(served.legacy(None), Some(ProtocolVersion::V2025_03_26));
        assert_eq!(served.legacy(Some(b"2024-11-05")), Some(ProtocolVersion::V2025_03_26));
        for version in ProtocolVersion::ALL {
            assert_eq!(served.legacy(Some(version.as_str().as_bytes())), Some(version).filter(|v| !v.is_modern()));
        }
        for unknown in [&b"2099-01-01"[..], b"junk", b"", b" 2025-06-18", b"2025-06-18, 2025-06-18", b"\xff"] {
            assert_eq!(served.legacy(Some(unknown)), None);
        }
    }

    #[test]
    fn initialize_negotiates_a_legacy_version() {
        let served = Served::default();
        assert_eq!(served.negotiated(Some("2025-06-18")), Some(ProtocolVersion::V2025_06_18));
        for other in [Some("2099-01-01"), Some("2024-11-05"), Some("2026-07-28"), None] {
            assert_eq!(served.negotiated(other), Some(ProtocolVersion::V2025_11_25));
        }
        let modern: Served = [ProtocolVersion::V2026_07_28].into_iter().collect();
        assert_eq!(modern.negotiated(Some("2025-06-18")), None);
    }

    #[test]
    fn each_era_lacks_the_methods_of_the_other() {
        let (legacy, modern) = (ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28);
        for method in ["initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"] {
            assert!(modern.lacks(method) && !legacy.lacks(method), "{method}");
        }
        for method in ["server/discover", "subscriptions/listen"] {
            assert!(legacy.lacks(method) && !modern.lacks(method), "{method}");
        }
        assert!(!modern.lacks("tools/call") && !legacy.lacks("tools/call") && !legacy.lacks("x"));
    }

    #[test]
    fn three_modern_methods_may_require_input() {
        let (legacy, modern) = (ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28);
        for method in ["prompts/get", "resources/read", "tools/call"] {
            assert!(modern.may_require_input(method) && !legacy.may_require_input(method), "{method}");
        }
        for method in ["", "prompts/list", "resources/list", "server/discover", "tools/list", "Tools/call"] {
            assert!(!modern.may_require_input(method), "{method}");
        }
    }

    #[test]
    fn only_what_is_served_has_a_name() {
        let served: Served = [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28].into_iter().collect();
        assert_eq!(served.names(), ["2026-07-28", "2025-06-18"]);
        assert!(served.has_modern());
        assert_eq!(served.legacy(None), None);
        assert_eq!(served.named("2025-11-25"), None);
    }
}
