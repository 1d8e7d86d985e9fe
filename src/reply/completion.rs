use std::io::Write;
use std::ops::Range;

use bytestring::ByteString;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::jsonrpc::place;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What every result of a modern version holds beside its own, where its handler left it out: `resultType`, the name of
/// the server in `_meta`, and hints for caches (2026-07-28, *Result Responses*, *Caching*).
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    /// The method is one whose complete results MUST say how long they may be kept.
    pub(crate) is_cacheable: bool,
    /// As JSON.
    pub(crate) server_info: ByteString,
}

/// Each as it stands in the text; `null` is not absent, because it would stand there twice.
#[derive(Deserialize)]
struct Result<'a> {
    #[serde(rename = "_meta", borrow, default, deserialize_with = "present")]
    meta: Option<&'a RawValue>,
    #[serde(rename = "resultType", borrow, default, deserialize_with = "present")]
    result_type: Option<&'a RawValue>,
    #[serde(rename = "ttlMs", borrow, default, deserialize_with = "present")]
    ttl: Option<&'a RawValue>,
    #[serde(rename = "cacheScope", borrow, default, deserialize_with = "present")]
    scope: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/serverInfo", borrow, default, deserialize_with = "present")]
    server_info: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What takes the place of a piece of a text.
type Change = (Range<usize>, String);

impl Completion {
    /// Writes the beginning of a result, with what it lacks, and returns where in its text the rest of it begins.
    pub(super) fn begin(&self, result: &str, json: &mut impl Write) -> std::io::Result<usize> {
        // What is no object has no members, and one that cannot be read is not made worse.
        let (Some(members), Ok(read)) = (result.strip_prefix('{'), serde_json::from_str::<Result<'_>>(result)) else {
            return Ok(0);
        };
        json.write_all(b"{")?;
        let mut separator = "";
        let mut changes: Vec<Change> = Vec::new();
        // A handler that writes `null` has left it out as well.
        let mut member = |name: &str, own: Option<&RawValue>, value: &str| match own {
            None => {
                let written = write!(json, "{separator}\"{name}\":{value}");
                separator = ",";
                written
            }
            Some(own) if is_null(own) => {
                changes.push((place(result, own), value.to_owned()));
                Ok(())
            }
            Some(_) => Ok(()),
        };
        member("resultType", read.result_type, "\"complete\"")?;
        if self.is_cacheable && read.result_type.is_none_or(|kind| is_null(kind) || kind.get() == "\"complete\"") {
            // As good as none: stale at once, and nobody else's.
            member("ttlMs", read.ttl, "0")?;
            member("cacheScope", read.scope, "\"private\"")?;
        }
        member("_meta", read.meta, &format!("{{{}}}", self.named()))?;
        if !is_empty(members) {
            json.write_all(separator.as_bytes())?;
        }
        changes.extend(read.meta.and_then(|meta| self.name_in(result, meta)));
        changes.sort_unstable_by_key(|(place, _)| place.start);
        let mut rest = 1;
        for (place, text) in changes {
            json.write_all(&result.as_bytes()[rest..place.start])?;
            json.write_all(text.as_bytes())?;
            rest = place.end;
        }
        Ok(rest)
    }

    /// The name of the server as a member.
    fn named(&self) -> String {
        format!("\"{SERVER_INFO}\":{}", self.server_info)
    }

    /// The name of the server for a `_meta` that lacks it.
    fn name_in(&self, result: &str, meta: &RawValue) -> Option<Change> {
        let members = meta.get().strip_prefix('{')?;
        let read: Meta<'_> = serde_json::from_str(meta.get()).ok()?;
        match read.server_info {
            None => {
                let begin = place(result, meta).start + 1;
                let separator = if is_empty(members) { "" } else { "," };
                Some((begin..begin, self.named() + separator))
            }
            Some(own) if is_null(own) => Some((place(result, own), self.server_info.to_string())),
            Some(_) => None,
        }
    }
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// The object whose text goes on so has no members.
fn is_empty(members: &str) -> bool {
    members.trim_start().starts_with('}')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn completed(result: &str, is_cacheable: bool) -> String {
        let completion = Completion { is_cacheable, server_info: r#"{"name":"n","version":"1"}"#.into() };
        let mut json = Vec::new();
        let rest = completion.begin(result, &mut json).unwrap();
        String::from_utf8(json).unwrap() + &result[rest..]
    }

    fn read(result: &str, is_cacheable: bool) -> Value {
        let completed = completed(result, is_cacheable);
        serde_json::from_str(&completed).unwrap_or_else(|error| panic!("{error}: {completed}"))
    }

    fn info() -> Value {
        json!({ "name": "n", "version": "1" })
    }

    #[test]
    fn what_a_result_lacks_is_added() {
        for own in [json!({}), json!({ "content": [1] })] {
            let mut whole = own.clone();
            whole["resultType"] = "complete".into();
            whole["_meta"] = json!({ SERVER_INFO: info() });
            assert_eq!(read(&own.to_string(), false), whole);
            whole["ttlMs"] = 0.into();
            whole["cacheScope"] = "private".into();
            assert_eq!(read(&own.to_string(), true), whole);
        }
        assert_eq!(read("{ \n }", false)["resultType"], "complete");
    }

    #[test]
    fn what_it_has_is_kept() {
        let own =
            json!({ "resultType": "x", "ttlMs": 7, "cacheScope": "public", "_meta": { SERVER_INFO: "other", "k": 1 } });
        assert_eq!(read(&own.to_string(), true), own);
    }

    #[test]
    fn a_meta_of_its_own_gets_the_name_of_the_server_too() {
        for (meta, rest) in [(json!({}), json!({})), (json!({ "k": { "a": [1] } }), json!({ "z": 1 }))] {
            let mut own = rest.clone();
            own["_meta"] = meta.clone();
            own["a"] = "\"_meta\":{".into();
            let mut whole = own.clone();
            whole["resultType"] = "complete".into();
            whole["_meta"][SERVER_INFO] = info();
            assert_eq!(read(&own.to_string(), false), whole);
        }
        let spaced = "{ \"_meta\" : { } , \"a\" : 1 }";
        assert_eq!(read(spaced, false)["_meta"], json!({ SERVER_INFO: info() }));
    }

    #[test]
    fn what_is_null_is_left_out_and_stands_there_once() {
        let nulls = [
            r#"{"resultType":null,"_meta":null,"a":1}"#.to_owned(),
            format!(r#"{{ "a" : 1, "_meta" : {{ "{SERVER_INFO}" : null }} , "resultType" : null }}"#),
        ];
        for own in nulls {
            let text = completed(&own, false);
            let whole = json!({ "resultType": "complete", "_meta": { SERVER_INFO: info() }, "a": 1 });
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole);
            assert_eq!((text.matches("resultType").count(), text.matches(SERVER_INFO).count()), (1, 1), "{text}");
        }
        let text = completed(r#"{"cacheScope":null,"ttlMs":null,"resultType":null}"#, true);
        assert_eq!(text.matches("null").count(), 0, "{text}");
        assert_eq!((text.matches("ttlMs").count(), text.matches("cacheScope").count()), (1, 1), "{text}");
    }

    #[test]
    fn what_asks_for_input_is_not_to_be_kept() {
        let whole = read(r#"{"resultType":"input_required","inputRequests":{}}"#, true);
        assert_eq!((whole.get("ttlMs"), whole.get("cacheScope")), (None, None));
        assert_eq!(whole["_meta"][SERVER_INFO], info());
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        for result in ["null", "7", "[{}]", "\"x\"", r#"{"a":1,"_meta":{},"_meta":{}}"#] {
            assert_eq!(completed(result, true), result);
        }
        let odd = read(r#"{"_meta":[1],"a":2}"#, false);
        assert_eq!((&odd["_meta"], &odd["resultType"]), (&json!([1]), &"complete".into()));
    }
}
