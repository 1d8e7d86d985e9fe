use std::borrow::Cow;
use std::sync::LazyLock;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::headers::{Field, decoded};
use crate::jsonrpc::{Kind, Message, as_object, read, shortened, string};
use crate::protocol::{ProtocolVersion, Served};
use crate::rejection::Rejection;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// As they are written in the specification.
const PROTOCOL_VERSION_NAME: &str = "MCP-Protocol-Version";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The version that a message is read as. Requests of a modern one must agree with their headers.
pub(super) fn version(
    header: Field<'_>,
    headers: &HeaderMap,
    message: &Message,
    served: Served,
) -> Result<ProtocolVersion, Rejection> {
    let header = header.single(PROTOCOL_VERSION_NAME);
    let Kind::Request { method, params, .. } = message.kind() else {
        return posted(header?, served);
    };
    let named = header.as_ref().ok().copied().flatten().map(HeaderValue::as_bytes);
    let is_modern = named == Some(ProtocolVersion::V2026_07_28.as_str().as_bytes());
    let params = params.as_deref().unwrap_or("{}");
    if is_modern || may_name_version(params) {
        let params = Params::read(params)?;
        if is_modern || params.names_another_than(named) {
            // A repeated one agrees with nothing.
            return modern(headers, header.unwrap_or_default(), method, &params, served);
        }
    }
    legacy(header, method, message, served)
}

/// Mostly the text alone tells that no version is named in it, and nothing that could hide a name in escapes.
fn may_name_version(params: &str) -> bool {
    static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(META_VERSION));

    let is_escaped = || params.contains("\\u") || params.contains("\\/");
    NAME.find(params.as_bytes()).is_some() || (memchr(b'\\', params.as_bytes()).is_some() && is_escaped())
}

/// Of a notification or a response: those of a modern client need nothing but the header.
fn posted(header: Option<&HeaderValue>, served: Served) -> Result<ProtocolVersion, Rejection> {
    let named = header.map(HeaderValue::as_bytes);
    let modern = named.and_then(|name| served.named(std::str::from_utf8(name).ok()?));
    modern.or_else(|| served.legacy(named)).ok_or(Rejection::UnsupportedVersion)
}

fn legacy(
    header: Result<Option<&HeaderValue>, Rejection>,
    method: &str,
    message: &Message,
    served: Served,
) -> Result<ProtocolVersion, Rejection> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialize<'a> {
        #[serde(borrow)]
        protocol_version: Option<Cow<'a, str>>,
    }

    if method == "initialize" {
        // A client may name a version in the header before it knows which ones are served.
        let requested = message.params_as::<Initialize<'_>>().unwrap_or_default().protocol_version;
        let refused = || unsupported(served, requested.as_deref().unwrap_or_default());
        return served.negotiated(requested.as_deref()).ok_or_else(refused);
    }
    served.legacy(header?.map(HeaderValue::as_bytes)).ok_or(Rejection::UnsupportedVersion)
}

/// Revision 2026-07-28: *Request Metadata* and *Server Validation*, in the order in which a client can mend them.
fn modern(
    headers: &HeaderMap,
    version: Option<&HeaderValue>,
    method: &str,
    params: &Params<'_>,
    served: Served,
) -> Result<ProtocolVersion, Rejection> {
    if !served.has_modern() {
        return Err(Rejection::UnsupportedVersion);
    }
    let named = params.version.as_deref().ok_or(Rejection::InvalidMeta(META_VERSION))?;
    if !params.has_capabilities {
        return Err(Rejection::InvalidMeta("io.modelcontextprotocol/clientCapabilities"));
    }
    if !version.is_some_and(|value| is(value, named)) {
        return Err(Rejection::HeaderMismatch(PROTOCOL_VERSION_NAME));
    }
    let version = served.named(named).filter(|version| version.is_modern());
    let version = version.ok_or_else(|| unsupported(served, named))?;
    if !matches!(Field::of(headers, &METHOD), Field::Once(value) if is(value, method)) {
        return Err(Rejection::HeaderMismatch("Mcp-Method"));
    }
    let name = match method {
        "prompts/get" | "tools/call" => params.name.as_deref(),
        "resources/read" => params.uri.as_deref(),
        _ => return Ok(version),
    };
    match (Field::of(headers, &NAME), name) {
        // What the method makes of a call without a name is not a matter of headers.
        (Field::Absent, None) => Ok(version),
        (Field::Once(value), Some(name)) if decoded(value).is_some_and(|value| value == name) => Ok(version),
        _ => Err(Rejection::HeaderMismatch("Mcp-Name")),
    }
}

fn unsupported(served: Served, requested: &str) -> Rejection {
    let mut supported = served.names();
    // A modern version may be served, but `initialize` does not negotiate it.
    supported.retain(|name| *name != requested);
    Rejection::UnsupportedModernVersion { supported, requested: shortened(requested, 128).to_owned() }
}

/// A header's value, of characters that one may have, is this text.
fn is(value: &HeaderValue, text: &str) -> bool {
    value.to_str().is_ok_and(|value| value == text)
}

/// What the headers of a modern request repeat.
#[derive(Debug, Default)]
struct Params<'a> {
    version: Option<Cow<'a, str>>,
    has_capabilities: bool,
    name: Option<Cow<'a, str>>,
    uri: Option<Cow<'a, str>>,
}

impl<'a> Params<'a> {
    fn read(params: &'a str) -> Result<Self, Rejection> {
        #[derive(Default, Deserialize)]
        struct Outer<'a> {
            #[serde(rename = "_meta", borrow)]
            meta: Option<&'a RawValue>,
            #[serde(borrow)]
            name: Option<&'a RawValue>,
            #[serde(borrow)]
            uri: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        struct Meta<'a> {
            #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow)]
            version: Option<&'a RawValue>,
            #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow)]
            capabilities: Option<&'a RawValue>,
        }

        let text = |raw: Option<&'a RawValue>| raw.and_then(|raw| string(raw.get()));
        let outer: Outer<'_> = members(params)?;
        let meta: Meta<'_> = outer.meta.map_or(Ok(Meta::default()), |meta| members(meta.get()))?;
        Ok(Self {
            version: text(meta.version),
            has_capabilities: meta.capabilities.is_some_and(|raw| as_object(raw.get()).is_some()),
            name: text(outer.name),
            uri: text(outer.uri),
        })
    }

    /// The `_meta` names a version, and not the legacy one that the header names.
    fn names_another_than(&self, header: Option<&[u8]>) -> bool {
        let is_legacy = |name: &str| ProtocolVersion::named(name).is_some_and(|version| !version.is_modern());
        self.version.as_deref().is_some_and(|name| !is_legacy(name) || header != Some(name.as_bytes()))
    }
}

/// Members of an object. It is known to be JSON, so all that can go wrong is that a key is repeated.
fn members<'a, T: Default + Deserialize<'a>>(json: &'a str) -> Result<T, Rejection> {
    as_object(json).map_or(Ok(T::default()), |object| read(object).map_err(|_| Rejection::RepeatedParam))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::inbound::headers::PROTOCOL_VERSION;
    use crate::jsonrpc::RequestId;

    const MODERN: &str = "2026-07-28";

    fn judge_in(headers: &HeaderMap, message: &Message, served: Served) -> Result<ProtocolVersion, Rejection> {
        version(Field::of(headers, &PROTOCOL_VERSION), headers, message, served)
    }

    fn judge(headers: &[(&str, &str)], message: &Value) -> Result<ProtocolVersion, Rejection> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let message = Message::decode(&Bytes::from(message.to_string())).unwrap();
        judge_in(&map, &message, Served::default())
    }

    fn modern(method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            META_VERSION: MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        json!({ "jsonrpc": "2.0", "id": RequestId::from(1), "method": method, "params": params })
    }

    fn call() -> Value {
        modern("tools/call", json!({ "name": "echo" }))
    }

    const GOOD: [(&str, &str); 3] =
        [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "echo")];

    fn with(name: &str, value: &'static str) -> Vec<(&'static str, &'static str)> {
        GOOD.iter().map(|&(known, old)| (known, if known == name { value } else { old })).collect()
    }

    fn without(name: &str) -> Vec<(&'static str, &'static str)> {
        GOOD.into_iter().filter(|(known, _)| *known != name).collect()
    }

    #[test]
    fn the_header_names_a_legacy_version() {
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        assert_eq!(judge(&[], &list), Ok(ProtocolVersion::V2025_03_26));
        assert_eq!(judge(&[("mcp-protocol-version", "2025-06-18")], &list), Ok(ProtocolVersion::V2025_06_18));
        for unknown in ["junk", "2099-01-01", "2025-06-18, 2025-06-18", ""] {
            assert_eq!(judge(&[("mcp-protocol-version", unknown)], &list), Err(Rejection::UnsupportedVersion));
        }
        let twice = [("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2025-06-18")];
        assert_eq!(judge(&twice, &list), Err(Rejection::RepeatedHeader(PROTOCOL_VERSION_NAME)));
    }

    #[test]
    fn initialize_is_let_in_whatever_it_asks_for() {
        let of = |params: Value| {
            let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            judge(&[("mcp-protocol-version", "2099-01-01")], &initialize)
        };
        assert_eq!(of(json!({ "protocolVersion": "2025-06-18" })), Ok(ProtocolVersion::V2025_06_18));
        for other in [json!({ "protocolVersion": "2099-01-01" }), json!({ "protocolVersion": 7 }), Value::Null] {
            assert_eq!(of(other), Ok(ProtocolVersion::V2025_11_25));
        }
    }

    #[test]
    fn a_modern_request_agrees_with_its_headers() {
        assert_eq!(judge(&GOOD, &call()), Ok(ProtocolVersion::V2026_07_28));
        assert_eq!(judge(&with("mcp-name", "=?base64?ZWNobw==?="), &call()), Ok(ProtocolVersion::V2026_07_28));
        let list = modern("tools/list", json!({}));
        assert_eq!(judge(&[GOOD[0], ("mcp-method", "tools/list")], &list), Ok(ProtocolVersion::V2026_07_28));
        let read = modern("resources/read", json!({ "uri": "file:///ä", "name": "x" }));
        let headers = [GOOD[0], ("mcp-method", "resources/read"), ("mcp-name", "=?base64?ZmlsZTovLy/DpA==?=")];
        assert_eq!(judge(&headers, &read), Ok(ProtocolVersion::V2026_07_28));
    }

    #[test]
    fn each_header_that_does_not_agree_is_a_mismatch() {
        for (headers, name) in [
            (without("mcp-protocol-version"), PROTOCOL_VERSION_NAME),
            (with("mcp-protocol-version", "2025-11-25"), PROTOCOL_VERSION_NAME),
            ([&GOOD[..], &GOOD[..1]].concat(), PROTOCOL_VERSION_NAME),
            (without("mcp-method"), "Mcp-Method"),
            (with("mcp-method", "TOOLS/CALL"), "Mcp-Method"),
            (with("mcp-method", "=?base64?dG9vbHMvY2FsbA==?="), "Mcp-Method"),
            ([&GOOD[..], &GOOD[1..2]].concat(), "Mcp-Method"),
            (without("mcp-name"), "Mcp-Name"),
            (with("mcp-name", "Echo"), "Mcp-Name"),
            (with("mcp-name", "=?base64?ZWNobw?="), "Mcp-Name"),
            (with("mcp-name", "=?base64?ZWN!bw==?="), "Mcp-Name"),
            (with("mcp-name", "ZWNobw=="), "Mcp-Name"),
            (with("mcp-name", "\u{e4}"), "Mcp-Name"),
            ([&GOOD[..], &GOOD[2..]].concat(), "Mcp-Name"),
        ] {
            assert_eq!(judge(&headers, &call()), Err(Rejection::HeaderMismatch(name)), "{headers:?}");
        }
        let nameless = modern("tools/call", json!({}));
        assert_eq!(judge(&GOOD, &nameless), Err(Rejection::HeaderMismatch("Mcp-Name")));
        assert_eq!(judge(&without("mcp-name"), &nameless), Ok(ProtocolVersion::V2026_07_28));
    }

    #[test]
    fn the_meta_comes_first_then_the_version_then_the_names() {
        for key in [META_VERSION, "io.modelcontextprotocol/clientCapabilities"] {
            let mut message = call();
            message["params"]["_meta"].as_object_mut().unwrap().remove(key);
            assert_eq!(judge(&GOOD[..1], &message), Err(Rejection::InvalidMeta(key)));
        }
        let bare = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        assert_eq!(judge(&GOOD[..1], &bare), Err(Rejection::InvalidMeta(META_VERSION)));

        let mut unknown = call();
        unknown["params"]["_meta"][META_VERSION] = "2099-01-01".into();
        assert_eq!(judge(&GOOD, &unknown), Err(Rejection::HeaderMismatch(PROTOCOL_VERSION_NAME)));
        let refused = judge(&[("mcp-protocol-version", "2099-01-01")], &unknown).unwrap_err();
        let data: Value = serde_json::from_str(refused.error().data().unwrap().get()).unwrap();
        assert_eq!((refused.status().as_u16(), refused.error().code()), (400, -32022));
        assert_eq!(data["requested"], "2099-01-01");
        assert_eq!(data["supported"][0], MODERN);
    }

    #[test]
    fn the_era_is_not_a_matter_of_the_method_alone() {
        let initialize = modern("initialize", json!({}));
        let headers = [GOOD[0], ("mcp-method", "initialize")];
        assert_eq!(judge(&headers, &initialize), Ok(ProtocolVersion::V2026_07_28));
        assert_eq!(judge(&[], &initialize), Err(Rejection::HeaderMismatch(PROTOCOL_VERSION_NAME)));

        let mut legacy = call();
        legacy["params"]["_meta"] = json!({ META_VERSION: "2025-11-25" });
        let named = judge(&[("mcp-protocol-version", "2025-11-25")], &legacy);
        assert_eq!(named, Ok(ProtocolVersion::V2025_11_25));
        let other = judge(&[("mcp-protocol-version", "2025-06-18")], &legacy);
        assert_eq!(other, Err(Rejection::InvalidMeta("io.modelcontextprotocol/clientCapabilities")));
    }

    #[test]
    fn escapes_hide_no_version() {
        let meta = r#"{"\u005fmeta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}"#;
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{meta}}}"#);
        let message = Message::decode(&Bytes::from(text)).unwrap();
        let refused = judge_in(&HeaderMap::new(), &message, Served::default());
        assert_eq!(refused, Err(Rejection::InvalidMeta("io.modelcontextprotocol/clientCapabilities")));
    }

    #[test]
    fn a_repeated_param_is_refused() {
        for params in [r#"{"_meta":{},"_meta":{}}"#, r#"{"name":"a","n\u0061me":"b"}"#, r#"{"uri":"a","uri":"a"}"#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            let message = Message::decode(&Bytes::from(text)).unwrap();
            let headers = HeaderMap::from_iter([(PROTOCOL_VERSION, HeaderValue::from_static(MODERN))]);
            assert_eq!(judge_in(&headers, &message, Served::default()), Err(Rejection::RepeatedParam), "{params}");
        }
    }

    #[test]
    fn notifications_need_no_more_than_a_version() {
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        assert_eq!(judge(&[("mcp-protocol-version", MODERN)], &cancelled), Ok(ProtocolVersion::V2026_07_28));
        assert_eq!(judge(&[], &cancelled), Ok(ProtocolVersion::V2025_03_26));
        assert_eq!(judge(&[("mcp-protocol-version", "junk")], &cancelled), Err(Rejection::UnsupportedVersion));
    }

    #[test]
    fn a_server_of_one_era_refuses_the_other() {
        let judge = |served: &[ProtocolVersion], headers: &[(&'static str, &'static str)], message: &Value| {
            let map =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let message = Message::decode(&Bytes::from(message.to_string())).unwrap();
            judge_in(&map.collect(), &message, served.iter().copied().collect())
        };
        let legacy_only = &ProtocolVersion::ALL[..3];
        assert_eq!(judge(legacy_only, &GOOD, &call()), Err(Rejection::UnsupportedVersion));
        let modern_only = &ProtocolVersion::ALL[3..];
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        assert_eq!(judge(modern_only, &[], &list), Err(Rejection::UnsupportedVersion));
        for (requested, supported) in [
            (json!(null), &[MODERN][..]),
            (json!("2025-11-25"), &[MODERN]),
            (json!("2099-01-01"), &[MODERN]),
            // Never both requested and supported.
            (json!(MODERN), &[]),
        ] {
            let params = json!({ "protocolVersion": requested });
            let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
            let requested = requested.as_str().unwrap_or_default().to_owned();
            let refused = Rejection::UnsupportedModernVersion { supported: supported.to_vec(), requested };
            assert_eq!(judge(modern_only, &[], &initialize), Err(refused));
        }
    }
}
