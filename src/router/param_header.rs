use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::inbound::headers::{Field, decoded};
use crate::jsonrpc::{as_object, string};

const ANNOTATION: &str = "x-mcp-header";

/// A parameter that clients repeat in a header `Mcp-Param-…` (2026-07-28, *Custom Headers from Tool Parameters*).
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ParamHeader {
    name: HeaderName,
    /// As the tool wrote it, for people.
    shown_as: String,
    /// Where in the arguments the parameter is.
    path: Vec<String>,
}

impl ParamHeader {
    /// Those that an input schema asks for, or why clients would reject the tool.
    pub(super) fn all(schema: &Map<String, Value>) -> Result<Vec<Self>, String> {
        let mut found = Vec::new();
        collect(schema, Some(&[]), &mut found)?;
        Ok(found)
    }

    /// The header says what the arguments of this call say.
    pub(super) fn agrees(&self, headers: &HeaderMap, arguments: &str) -> bool {
        let value = match value_at(arguments, &self.path) {
            Ok(value) => value.filter(|value| *value != "null"),
            // What reads them next may see another value.
            Err(_) => return false,
        };
        match (Field::of(headers, &self.name), value) {
            (Field::Absent, None) => true,
            (Field::Once(header), Some(value)) => says(header, value),
            _ => false,
        }
    }

    pub(super) fn shown_as(&self) -> &str {
        &self.shown_as
    }
}

/// Looks through a schema. It has a path if the arguments have a value of its own: a chain of `properties` leads to it.
fn collect(schema: &Map<String, Value>, path: Option<&[&str]>, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    if let Some(annotation) = schema.get(ANNOTATION) {
        let path = path.filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| format!("{ANNOTATION} {annotation} is not on a property of the arguments"))?;
        add(annotation, schema, path, found)?;
    }
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            // Values, not schemas.
            ("const" | "default" | "enum" | "examples", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let path = path.map(|path| [path, &[name.as_str()]].concat());
                    collect_in(property, path.as_deref(), found)?;
                }
            }
            // Names of schemas that are no keywords.
            ("$defs" | "definitions" | "dependentSchemas" | "patternProperties", Value::Object(schemas)) => {
                schemas.values().try_for_each(|schema| collect_in(schema, None, found))?;
            }
            _ => collect_in(value, None, found)?,
        }
    }
    Ok(())
}

fn collect_in(value: &Value, path: Option<&[&str]>, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| collect_in(value, None, found)),
        Value::Object(schema) => collect(schema, path, found),
        _ => Ok(()),
    }
}

fn add(
    annotation: &Value,
    schema: &Map<String, Value>,
    path: &[&str],
    found: &mut Vec<ParamHeader>,
) -> Result<(), String> {
    let shown_as = annotation.as_str().ok_or_else(|| format!("{ANNOTATION} {annotation} is no string"))?;
    let name = format!("mcp-param-{}", shown_as.to_ascii_lowercase());
    // A name that begins so is long enough: what follows is what may be wrong with it.
    let name = Some(name).filter(|_| !shown_as.is_empty()).and_then(|name| HeaderName::try_from(name).ok());
    let name = name.ok_or_else(|| format!("{ANNOTATION} {annotation} is no name of a header"))?;
    let is_primitive = matches!(schema.get("type"), Some(Value::String(kind)) if ["boolean", "integer", "string"].contains(&kind.as_str()));
    if !is_primitive {
        return Err(format!("{ANNOTATION} {annotation} is not on a string, an integer or a boolean"));
    }
    if found.iter().any(|other| other.name == name) {
        return Err(format!("{ANNOTATION} {annotation} stands twice"));
    }
    found.push(ParamHeader {
        name,
        shown_as: format!("Mcp-Param-{shown_as}"),
        path: path.iter().map(|&key| key.to_owned()).collect(),
    });
    Ok(())
}

/// The JSON at this place. An error where a key on the way stands twice.
fn value_at<'a>(mut json: &'a str, path: &[String]) -> serde_json::Result<Option<&'a str>> {
    for key in path {
        json = match as_object(json) {
            Some(object) => object,
            // A type may be read from an array, too, and have the value then.
            None if json.starts_with('[') => return Err(serde_json::Error::custom("an array")),
            None => return Ok(None),
        };
        match serde_json::Deserializer::from_str(json).deserialize_map(Member(key))? {
            Some(value) => json = value.get(),
            None => return Ok(None),
        }
    }
    Ok(Some(json))
}

/// The member of an object that has this key.
struct Member<'k>(&'k str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some(is_wanted) = members.next_key_seed(Is(self.0))? {
            if !is_wanted {
                members.next_value::<IgnoredAny>()?;
            } else if found.replace(members.next_value::<&RawValue>()?).is_some() {
                return Err(M::Error::custom("a repeated key"));
            }
        }
        Ok(found)
    }
}

/// A key is this one.
struct Is<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// *Value Encoding*, *Server Validation*: numbers are compared as numbers.
fn says(header: &HeaderValue, json: &str) -> bool {
    let Some(header) = decoded(header) else { return false };
    match json.as_bytes().first() {
        Some(b'"') => string(json).is_some_and(|value| value == header),
        Some(b't' | b'f') => json == header,
        Some(b'-' | b'0'..=b'9') => is_same_number(&header, json),
        _ => false,
    }
}

fn is_same_number(one: &str, other: &str) -> bool {
    let integer = |number: &str| number.parse::<i128>().ok().filter(|_| !number.starts_with('+'));
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one == other,
        _ => exact(one).is_some_and(|one| exact(other) == Some(one)),
    }
}

/// A number as JSON writes it. Rust reads it as the nearest one; beyond 2^53 that is the same for several integers.
fn exact(number: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Number>(number).ok()?;
    number.parse().ok().filter(|number: &f64| number.abs() < 9_007_199_254_740_992.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(schema: &Value) -> Result<Vec<ParamHeader>, String> {
        ParamHeader::all(schema.as_object().unwrap())
    }

    fn of_property(property: &Value) -> Result<Vec<ParamHeader>, String> {
        all(&json!({ "type": "object", "properties": { "p": property } }))
    }

    fn agrees(values: &[&[u8]], arguments: &str) -> bool {
        let header = of_property(&json!({ "type": "string", "x-mcp-header": "P" })).unwrap().remove(0);
        let value = |value: &&[u8]| (header.name.clone(), HeaderValue::from_bytes(value).unwrap());
        header.agrees(&values.iter().map(value).collect(), arguments)
    }

    #[test]
    fn parameters_are_found_where_properties_lead_to_them() {
        let found = all(&json!({
            "type": "object",
            "properties": {
                "region": { "type": "string", "x-mcp-header": "Region" },
                "where": { "type": "object", "properties": {
                    "zone": { "type": "integer", "x-mcp-header": "Zone-2" },
                    // A property that only has this name.
                    "x-mcp-header": { "type": "string" },
                } },
                "other": { "type": "string", "default": { "x-mcp-header": "Value" } },
            },
        }))
        .unwrap();
        let shown: Vec<_> = found.iter().map(|header| (header.shown_as(), header.path.join("."))).collect();
        assert_eq!(shown, [("Mcp-Param-Region", "region".to_owned()), ("Mcp-Param-Zone-2", "where.zone".to_owned())]);
    }

    #[test]
    fn annotations_that_clients_reject_are_rejected_here() {
        for (property, why) in [
            (json!({ "type": "string", "x-mcp-header": "" }), "no name"),
            (json!({ "type": "string", "x-mcp-header": "a b" }), "no name"),
            (json!({ "type": "string", "x-mcp-header": "a\r\nb" }), "no name"),
            (json!({ "type": "string", "x-mcp-header": "ä" }), "no name"),
            (json!({ "type": "string", "x-mcp-header": 7 }), "no string"),
            (json!({ "type": "number", "x-mcp-header": "P" }), "not on a string"),
            (json!({ "type": "object", "x-mcp-header": "P" }), "not on a string"),
            (json!({ "x-mcp-header": "P" }), "not on a string"),
            (json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "P" } }), "not on a property"),
            (json!({ "anyOf": [{ "type": "string", "x-mcp-header": "P" }] }), "not on a property"),
            (
                json!({ "if": { "properties": { "a": { "type": "string", "x-mcp-header": "P" } } } }),
                "not on a property",
            ),
        ] {
            let rejected = of_property(&property).unwrap_err();
            assert!(rejected.contains(why), "{property}: {rejected}");
        }
        let one = json!({ "type": "string", "x-mcp-header": "P" });
        let twice = json!({ "properties": { "a": one, "b": { "type": "string", "x-mcp-header": "p" } } });
        assert!(all(&twice).unwrap_err().contains("twice"));
        assert!(all(&json!({ "$defs": { "a": one } })).unwrap_err().contains("not on a property"));
        assert!(all(&one).unwrap_err().contains("not on a property"));
    }

    #[test]
    fn a_header_repeats_the_argument() {
        for (header, argument) in [
            (&b"Hello"[..], r#""Hello""#),
            (b"=?base64?SGVsbG8=?=", r#""Hello""#),
            (b"=?base64?SGVsbG8sIOS4lueVjA==?=", r#""Hello, 世界""#),
            (b"Hello", r#""\u0048ello""#),
            (b"SGVsbG8=", r#""SGVsbG8=""#),
            (b"", r#""""#),
            (b"42", "42"),
            (b"42.0", "42"),
            (b"42", "4.2e1"),
            (b"-7", "-7"),
            (b"true", "true"),
            (b"false", "false"),
        ] {
            let arguments = format!(r#"{{"p":{argument}}}"#);
            assert!(agrees(&[header], &arguments), "{header:?} {arguments}");
        }
        for (header, argument) in [
            (&b"hello"[..], r#""Hello""#),
            (b"=?base64?SGVsbG8?=", r#""Hello""#),
            (b"=?base64?SGVs!!!bG8=?=", r#""Hello""#),
            (b"SGVsbG8=", r#""Hello""#),
            (b"H\xe9", r#""Hé""#),
            (b"43", "42"),
            (b"+42", "42"),
            (b"inf", "1e999"),
            (b"9007199254740993", "9007199254740992"),
            (b"9007199254740992.0", "9007199254740993"),
            (b"True", "true"),
            (b"", "null"),
            (b"null", "null"),
            (b"[1]", "[1]"),
        ] {
            let arguments = format!(r#"{{"p":{argument}}}"#);
            assert!(!agrees(&[header], &arguments), "{header:?} {arguments}");
        }
    }

    #[test]
    fn a_header_is_there_exactly_if_the_argument_is() {
        for arguments in ["{}", r#"{"p":null}"#, r#"{"q":1}"#] {
            assert!(agrees(&[], arguments) && !agrees(&[b"x"], arguments), "{arguments}");
        }
        assert!(!agrees(&[], r#"{"p":"x"}"#) && !agrees(&[b"x", b"x"], r#"{"p":"x"}"#));
        assert!(!agrees(&[b"x"], r#"{"p":"x","p":"x"}"#), "what reads them next may take the other one");
        assert!(agrees(&[], "[]") && !agrees(&[b"x"], "[]"), "an empty object, as some write it");
        assert!(!agrees(&[], r#"["x"]"#) && !agrees(&[b"x"], r#"["x"]"#), "what reads them next may find it there");
    }
}
