use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use http::Uri;

use super::headers::Field;
use crate::rejection::Rejection;

/// The hosts that a server answers to: what keeps a web page from reaching it through a name of its own that it points
/// here (DNS rebinding; MCP, *Transports*, Security Warning).
#[derive(Clone, Debug, Default)]
pub(crate) enum Hosts {
    Any,
    Listed(Vec<Authority<String>>),
    /// localhost, 127.0.0.0/8, `[::1]`.
    #[default]
    Loopback,
}

/// The web origins whose pages may call a server.
#[derive(Clone, Debug, Default)]
pub(crate) enum Origins {
    Any,
    Listed(Vec<Origin<String>>),
    /// http and https on loopback.
    #[default]
    Loopback,
}

/// A setting that says nothing sensible.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    setting: &'static str,
    value: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.setting, self.value)
    }
}

impl std::error::Error for ConfigError {}

impl Hosts {
    pub(crate) fn listed<H: AsRef<str>>(hosts: impl IntoIterator<Item = H>) -> Result<Self, ConfigError> {
        let parse = |host: H| {
            let host = host.as_ref();
            let parsed = Authority::parse(host).map(|parsed| parsed.map_name(str::to_lowercase));
            parsed.ok_or_else(|| ConfigError {
                setting: "an allowed host is `name`, `name:port` or an IP address, `[…]` around one of version 6",
                value: host.to_owned(),
            })
        };
        Ok(Self::Listed(not_empty(hosts.into_iter().map(parse).collect::<Result<_, _>>()?)?))
    }

    /// The `Host` header, or the URI's authority where there is none (HTTP/2). Both must agree.
    pub(crate) fn check(&self, host: Field<'_>, uri: &Uri) -> Result<(), Rejection> {
        let header = match host {
            Field::Absent => None,
            Field::Once(value) => {
                let authority = value.to_str().ok().and_then(Authority::parse);
                Some(authority.ok_or(Rejection::HostNotAllowed)?)
            }
            Field::Repeated => return Err(Rejection::HostNotAllowed),
        };
        let target = match uri.authority() {
            Some(authority) => Some(Authority::parse(authority.as_str()).ok_or(Rejection::HostNotAllowed)?),
            None => None,
        };
        let host = match (header, target) {
            (Some(header), Some(target)) if header.is(&target, uri.scheme_str()) => header,
            (Some(only), None) | (None, Some(only)) => only,
            _ => return Err(Rejection::HostNotAllowed),
        };
        match self {
            Self::Any => true,
            Self::Listed(listed) => listed.iter().any(|allowed| allowed.allows(&host)),
            Self::Loopback => host.name.is_loopback(),
        }
        .then_some(())
        .ok_or(Rejection::HostNotAllowed)
    }
}

impl Origins {
    pub(crate) fn listed<O: AsRef<str>>(origins: impl IntoIterator<Item = O>) -> Result<Self, ConfigError> {
        let parse = |origin: O| {
            let origin = origin.as_ref();
            Origin::parse(origin).map(Origin::into_owned).ok_or_else(|| ConfigError {
                setting: "an allowed origin is `scheme://host` with an optional `:port`, `file://` or `null`",
                value: origin.to_owned(),
            })
        };
        Ok(Self::Listed(not_empty(origins.into_iter().map(parse).collect::<Result<_, _>>()?)?))
    }

    /// Only browsers send `Origin`, so a request without one passes.
    pub(crate) fn check(&self, origin: Field<'_>) -> Result<(), Rejection> {
        let origin = match origin {
            Field::Absent => return Ok(()),
            Field::Once(value) => value.to_str().ok().and_then(Origin::parse),
            Field::Repeated => return Err(Rejection::OriginNotAllowed),
        };
        match (self, origin) {
            (Self::Any, _) => true,
            (Self::Listed(listed), Some(origin)) => listed.iter().any(|allowed| allowed.is(&origin)),
            (Self::Loopback, Some(origin)) => origin.is_loopback(),
            (Self::Listed(_) | Self::Loopback, None) => false,
        }
        .then_some(())
        .ok_or(Rejection::OriginNotAllowed)
    }
}

/// A list of none would refuse everybody, which nobody means.
fn not_empty<T>(list: Vec<T>) -> Result<Vec<T>, ConfigError> {
    if list.is_empty() {
        return Err(ConfigError {
            setting: "a list of allowed hosts or origins names at least one",
            value: String::new(),
        });
    }
    Ok(list)
}

/// A host, and its port where one is named.
#[derive(Clone, Debug)]
pub(crate) struct Authority<S> {
    name: Name<S>,
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum Name<S> {
    Domain(S),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl<'a> Authority<&'a str> {
    /// `host [":" port]` (RFC 3986, 3.2.2 and 3.2.3), without the user information that neither header may have.
    fn parse(text: &'a str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, port) = rest.split_once(']')?;
                (Name::V6(name.parse().ok()?), port)
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
                match name.parse() {
                    Ok(address) => (Name::V4(address), port),
                    Err(_) if !name.is_empty() && name.bytes().all(is_name) => (Name::Domain(name), port),
                    Err(_) => return None,
                }
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            // An empty port is the default one (RFC 3986, 3.2.3).
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            _ => return None,
        };
        Some(Self { name, port })
    }
}

impl<S: AsRef<str>> Authority<S> {
    fn map_name<T>(self, owned: impl FnOnce(&str) -> T) -> Authority<T> {
        let name = match self.name {
            Name::Domain(name) => Name::Domain(owned(name.as_ref())),
            Name::V4(address) => Name::V4(address),
            Name::V6(address) => Name::V6(address),
        };
        Authority { name, port: self.port }
    }

    /// The same host and port, where the port of the scheme need not be named.
    fn is(&self, other: &Authority<impl AsRef<str>>, scheme: Option<&str>) -> bool {
        let port = |port: Option<u16>| port.or_else(|| default_port(scheme?));
        self.name.is(&other.name) && port(self.port) == port(other.port)
    }

    /// An allowed host without a port allows any; a host without one is on a port that its scheme need not name.
    fn allows(&self, host: &Authority<impl AsRef<str>>) -> bool {
        let port_is_allowed = match (self.port, host.port) {
            (None, _) | (Some(80 | 443), None) => true,
            (allowed, port) => allowed == port,
        };
        port_is_allowed && self.name.is(&host.name)
    }
}

impl<S: AsRef<str>> Name<S> {
    fn is(&self, other: &Name<impl AsRef<str>>) -> bool {
        match (self, other) {
            (Self::Domain(one), Name::Domain(other)) => one.as_ref().eq_ignore_ascii_case(other.as_ref()),
            (Self::V4(one), Name::V4(other)) => one == other,
            (Self::V6(one), Name::V6(other)) => one == other,
            _ => false,
        }
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Domain(name) => name.as_ref().eq_ignore_ascii_case("localhost"),
            Self::V4(address) => address.is_loopback(),
            Self::V6(address) => address.is_loopback(),
        }
    }
}

/// A web origin as browsers write it (RFC 6454, 6.2).
#[derive(Clone, Debug)]
pub(crate) enum Origin<S> {
    /// `null`: a page without an origin of its own.
    Opaque,
    /// http, https, and the schemes of apps whose host is a name.
    Tuple { scheme: S, authority: Authority<S> },
    /// A scheme whose host is empty, as in `file://`, or is no DNS name.
    Other { scheme: S, host: S },
}

impl<'a> Origin<&'a str> {
    fn parse(text: &'a str) -> Option<Self> {
        if text == "null" {
            return Some(Self::Opaque);
        }
        let (scheme, authority) = text.split_once("://")?;
        let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(is_scheme) {
            return None;
        }
        match Authority::parse(authority) {
            Some(authority) => Some(Self::Tuple { scheme, authority }),
            None if default_port(scheme).is_none() && authority.bytes().all(is_host_byte) => {
                Some(Self::Other { scheme, host: authority })
            }
            None => None,
        }
    }

    fn into_owned(self) -> Origin<String> {
        match self {
            Self::Opaque => Origin::Opaque,
            Self::Tuple { scheme, authority } => {
                Origin::Tuple { scheme: scheme.to_lowercase(), authority: authority.map_name(str::to_lowercase) }
            }
            Self::Other { scheme, host } => Origin::Other { scheme: scheme.to_lowercase(), host: host.to_owned() },
        }
    }
}

impl<S: AsRef<str>> Origin<S> {
    fn is(&self, other: &Origin<impl AsRef<str>>) -> bool {
        match (self, other) {
            (Self::Opaque, Origin::Opaque) => true,
            (Self::Tuple { scheme, authority }, Origin::Tuple { scheme: other_scheme, authority: other }) => {
                let (scheme, other_scheme) = (scheme.as_ref(), other_scheme.as_ref());
                scheme.eq_ignore_ascii_case(other_scheme) && authority.is(other, Some(scheme))
            }
            (Self::Other { scheme, host }, Origin::Other { scheme: other_scheme, host: other }) => {
                scheme.as_ref().eq_ignore_ascii_case(other_scheme.as_ref()) && host.as_ref() == other.as_ref()
            }
            _ => false,
        }
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Opaque | Self::Other { .. } => false,
            Self::Tuple { scheme, authority } => {
                default_port(scheme.as_ref()).is_some() && authority.name.is_loopback()
            }
        }
    }
}

/// A byte of a registered name (RFC 3986, 3.2.2).
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => Some(80),
        _ if scheme.eq_ignore_ascii_case("https") => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};

    use super::*;
    use crate::inbound::headers::Known;

    fn host(hosts: &Hosts, values: &[&'static str], uri: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HOST, HeaderValue::from_static(value));
        }
        hosts.check(Known::of(&headers).host, &Uri::from_static(uri)).is_ok()
    }

    fn origin(origins: &Origins, values: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ORIGIN, HeaderValue::from_static(value));
        }
        origins.check(Known::of(&headers).origin).is_ok()
    }

    #[test]
    fn loopback_hosts_are_allowed_by_default() {
        for good in [
            "localhost",
            "localhost:",
            "LOCALHOST:1",
            "127.0.0.1:80",
            "127.0.0.1:",
            "127.255.0.9",
            "[::1]",
            "[::1]:",
            "[::1]:8080",
            "[0:0::1]",
        ] {
            assert!(host(&Hosts::Loopback, &[good], "/mcp"), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "user@localhost",
            "localhost:1@evil.example",
            "localhost:99999",
            "localhost:+80",
            "localhost:80:80",
            "localhost::",
            "localhost: ",
            ":",
            "evil.example:",
            "localhost.",
            "127.1",
            "0.0.0.0",
            "[::]",
            "[::1",
            "[::1]x",
            "::1",
            "[localhost]",
            "localhost/",
            "localhost evil",
            ":80",
            "",
        ] {
            assert!(!host(&Hosts::Loopback, &[bad], "/mcp"), "{bad}");
        }
        assert!(!host(&Hosts::Loopback, &[], "/mcp"), "missing");
        assert!(!host(&Hosts::Loopback, &["localhost", "localhost"], "/mcp"), "repeated");
    }

    #[test]
    fn the_uris_authority_stands_in_for_the_header_and_must_agree_with_it() {
        assert!(host(&Hosts::Loopback, &[], "http://localhost:80/mcp"));
        assert!(host(&Hosts::Loopback, &["LocalHost:80"], "http://localhost:80/mcp"));
        assert!(host(&Hosts::Loopback, &["localhost:"], "http://localhost/mcp"));
        assert!(host(&Hosts::Loopback, &["localhost"], "http://localhost:80/mcp"));
        assert!(host(&Hosts::Loopback, &["localhost:443"], "https://localhost/mcp"));
        assert!(!host(&Hosts::Loopback, &["localhost"], "http://localhost:443/mcp"));
        assert!(!host(&Hosts::Loopback, &[], "http://evil.example/mcp"));
        assert!(!host(&Hosts::Loopback, &["localhost"], "http://evil.example/mcp"));
        assert!(!host(&Hosts::Loopback, &["evil.example"], "http://localhost/mcp"));
        assert!(!host(&Hosts::Loopback, &["localhost:1"], "http://localhost:2/mcp"));
        assert!(!host(&Hosts::Loopback, &[], "http://user@localhost/mcp"));
    }

    #[test]
    fn a_list_of_hosts_replaces_the_default() {
        let hosts = Hosts::listed(["MCP.example.com", "api.example.com:8443", "tls.example.com:443", "[::2]"]).unwrap();
        for good in [
            "mcp.example.com",
            "mcp.EXAMPLE.com:443",
            "api.example.com:8443",
            "tls.example.com",
            "tls.example.com:443",
            "[::2]:9",
        ] {
            assert!(host(&hosts, &[good], "/"), "{good}");
        }
        for bad in ["localhost", "api.example.com", "api.example.com:80", "x.mcp.example.com", "mcp.example.com.evil"] {
            assert!(!host(&hosts, &[bad], "/"), "{bad}");
        }
        assert!(host(&Hosts::Any, &["whatever.example"], "/") && !host(&Hosts::Any, &[], "/"));
        let hosts = Hosts::listed(["a.example:", "b.example:443", "c.example:8443", "10.0.0.1:", "[::2]:"]).unwrap();
        for good in ["a.example", "a.example:", "a.example:7", "b.example:", "10.0.0.1:", "[::2]:", "[::2]:7"] {
            assert!(host(&hosts, &[good], "/"), "{good}");
        }
        assert!(!host(&hosts, &["c.example:"], "/"));
    }

    #[test]
    fn loopback_origins_and_none_are_allowed_by_default() {
        assert!(origin(&Origins::Loopback, &[]));
        for good in [
            "http://localhost:6274",
            "http://localhost:",
            "https://127.0.0.1",
            "https://127.0.0.1:",
            "HTTP://LOCALHOST",
            "http://[::1]:3000",
            "http://[::1]:",
        ] {
            assert!(origin(&Origins::Loopback, &[good]), "{good}");
        }
        for bad in [
            "null",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://localhost/",
            "http://localhost:1@evil.example",
            "http://user@localhost:1@evil.example",
            "http://localhost#.evil.example",
            "http://localhost, http://localhost",
            "http://localhost::",
            "vscode-webview://localhost",
            "file://",
            "http://",
            "://",
            "localhost",
            "://localhost",
            "",
        ] {
            assert!(!origin(&Origins::Loopback, &[bad]), "{bad}");
        }
        assert!(!origin(&Origins::Loopback, &["http://localhost", "http://localhost"]), "repeated");
    }

    #[test]
    fn a_list_of_origins_is_compared_as_parsed() {
        let origins = Origins::listed([
            "https://App.example.com",
            "vscode-webview://id1",
            "http://a.example:81",
            "http://b.example:",
        ])
        .unwrap();
        for good in [
            "https://app.example.com",
            "https://app.example.com:",
            "HTTPS://APP.example.com:443",
            "vscode-webview://id1",
            "http://a.example:81",
            "http://b.example",
            "http://b.example:80",
        ] {
            assert!(origin(&origins, &[good]), "{good}");
        }
        for bad in [
            "http://app.example.com",
            "https://app.example.com:80",
            "https://app.example.com.evil.example",
            "vscode-webview://id2",
            "http://a.example",
            "http://localhost",
            "file://",
            "null",
        ] {
            assert!(!origin(&origins, &[bad]), "{bad}");
        }
        assert!(origin(&Origins::listed(["null"]).unwrap(), &["null"]));
    }

    #[test]
    fn origins_of_packaged_apps_can_be_listed() {
        let apps = ["file://", "app://.", "chrome-extension://abcdefgh", "capacitor://localhost", "app://my%20app!"];
        let origins = Origins::listed(apps).unwrap();
        for app in apps {
            assert!(origin(&origins, &[app]), "{app}");
            assert!(origin(&Origins::listed([app]).unwrap(), &[app]), "{app}");
            assert!(!origin(&Origins::Loopback, &[app]), "{app}");
        }
        assert!(origin(&origins, &["FILE://"]));
        for bad in ["file:///", "file:", "file", "files://", "app://", "app://My%20app!", "http://", "null", ""] {
            assert!(!origin(&origins, &[bad]), "{bad}");
        }
    }

    #[test]
    fn any_origin_is_any() {
        for any in [
            "https://evil.example",
            "null",
            "file://",
            "chrome-extension://id",
            "about:blank",
            "garbage",
            "http://",
            "",
        ] {
            assert!(origin(&Origins::Any, &[any]), "{any}");
        }
        let value = HeaderValue::from_bytes(b"\xff").unwrap();
        assert!(Origins::Any.check(Field::Once(&value)).is_ok());
        assert!(!origin(&Origins::Any, &["null", "null"]), "repeated");
    }

    #[test]
    fn settings_that_say_nothing_sensible_are_errors() {
        for bad in ["", "*", "http://a", "a/b", "a:b", "a b"] {
            assert_eq!(Hosts::listed([bad]).unwrap_err().value, bad);
        }
        assert!(Hosts::listed([""; 0]).is_err() && Origins::listed([""; 0]).is_err());
        for bad in ["", "*", "a.example", "http://", "file:///", "https://a/", "https://*.a", "app://a b"] {
            assert!(Origins::listed([bad]).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }
}
