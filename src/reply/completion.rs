use std::io::Write;

use bytestring::ByteString;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

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

#[derive(Deserialize)]
struct Result<'a> {
    #[serde(rename = "_meta", borrow)]
    meta: Option<&'a RawValue>,
    #[serde(rename = "resultType", borrow)]
    result_type: Option<&'a RawValue>,
    #[serde(rename = "ttlMs")]
    ttl: Option<IgnoredAny>,
    #[serde(rename = "cacheScope")]
    scope: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<IgnoredAny>,
}

impl Completion {
    /// Writes the beginning of a result, with what it lacks, and returns where in its text the rest of it begins.
    pub(super) fn begin(&self, result: &str, json: &mut impl Write) -> std::io::Result<usize> {
        // What is no object has no members, and one that cannot be read is not made worse.
        let (Some(members), Ok(read)) = (result.strip_prefix('{'), serde_json::from_str::<Result<'_>>(result)) else {
            return Ok(0);
        };
        json.write_all(b"{")?;
        let mut separator = "";
        let mut member = |name: &str, value: &str| {
            let written = write!(json, "{separator}\"{name}\":{value}");
            separator = ",";
            written
        };
        if read.result_type.is_none() {
            member("resultType", "\"complete\"")?;
        }
        if self.is_cacheable && read.result_type.is_none_or(|kind| kind.get() == "\"complete\"") {
            // As good as none: stale at once, and nobody else's.
            if read.ttl.is_none() {
                member("ttlMs", "0")?;
            }
            if read.scope.is_none() {
                member("cacheScope", "\"private\"")?;
            }
        }
        let Some(meta) = read.meta else {
            member("_meta", &format!("{{\"{SERVER_INFO}\":{}}}", self.server_info))?;
            if !is_empty(members) {
                json.write_all(separator.as_bytes())?;
            }
            return Ok(1);
        };
        // It has a member at least: `_meta`.
        json.write_all(separator.as_bytes())?;
        let (Some(inner), Ok(Meta { server_info: None })) =
            (meta.get().strip_prefix('{'), serde_json::from_str(meta.get()))
        else {
            return Ok(1);
        };
        let begin = inner.as_ptr() as usize - result.as_ptr() as usize;
        json.write_all(&result.as_bytes()[1..begin])?;
        let separator = if is_empty(inner) { "" } else { "," };
        write!(json, "\"{SERVER_INFO}\":{}{separator}", self.server_info)?;
        Ok(begin)
    }
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
