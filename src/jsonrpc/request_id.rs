use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::error::shortened;

/// What a log line shows of an id, in bytes.
const LONGEST_SHOWN: usize = 256;

/// The id of a JSON-RPC request: an integer of up to 64 bits, or a string.
///
/// The two kinds never meet: `7` and `"7"` are different ids, and each is echoed as the client sent it, with all its
/// digits. `null`, fractions (`1.0` too), exponents, `-0` and integers beyond 64 bits are no ids: MCP forbids the
/// first ([*Requests*]), and the others cannot be told apart safely.
///
/// [*Requests*]: https://modelcontextprotocol.io/specification/2025-11-25/basic#requests
///
/// ```
/// use mcp_layer::RequestId;
///
/// assert_ne!(RequestId::from(7), RequestId::from("7"));
/// assert_eq!(RequestId::from(u64::MAX).to_string(), "18446744073709551615");
/// assert_eq!(RequestId::from("a").to_string(), "\"a\"");
/// ```
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct RequestId(Repr);

#[derive(Clone, Eq, Hash, PartialEq)]
enum Repr {
    /// Below zero only, so that each integer has one form.
    Negative(i64),
    String(Arc<str>),
    Unsigned(u64),
}

impl RequestId {
    /// Reads one JSON value, without white space around it. The text decides, never a number type: nothing is rounded.
    pub(crate) fn from_json(json: &str) -> Option<Self> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let repr = match json.as_bytes().first()? {
            b'"' => Repr::String(serde_json::from_str::<String>(json).ok()?.into()),
            b'-' if digits(&json[1..]) && json != "-0" => Repr::Negative(json.parse().ok()?),
            _ if digits(json) => Repr::Unsigned(json.parse().ok()?),
            _ => return None,
        };
        Some(Self(repr))
    }

    /// The id, if it is a string.
    ///
    /// ```
    /// # use mcp_layer::RequestId;
    /// assert_eq!(RequestId::from("a").as_str(), Some("a"));
    /// assert_eq!(RequestId::from(1).as_str(), None);
    /// ```
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::String(text) => Some(text),
            Repr::Negative(_) | Repr::Unsigned(_) => None,
        }
    }
}

/// For log lines: as `Display`, but of a long string only the beginning.
impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::String(text) => fmt::Debug::fmt(shortened(text, LONGEST_SHOWN), f),
            Repr::Negative(_) | Repr::Unsigned(_) => fmt::Display::fmt(self, f),
        }
    }
}

/// A string is quoted and escaped, so the text is safe in a log line.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Negative(number) => fmt::Display::fmt(number, f),
            Repr::String(text) => fmt::Debug::fmt(text, f),
            Repr::Unsigned(number) => fmt::Display::fmt(number, f),
        }
    }
}

impl From<i32> for RequestId {
    fn from(number: i32) -> Self {
        i64::from(number).into()
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self(u64::try_from(number).map_or(Repr::Negative(number), Repr::Unsigned))
    }
}

impl From<u64> for RequestId {
    fn from(number: u64) -> Self {
        Self(Repr::Unsigned(number))
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self(Repr::String(text.into()))
    }
}

impl From<String> for RequestId {
    fn from(text: String) -> Self {
        Self(Repr::String(text.into()))
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Negative(number) => serializer.serialize_i64(*number),
            Repr::String(text) => serializer.serialize_str(text),
            Repr::Unsigned(number) => serializer.serialize_u64(*number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_strings_are_echoed_as_they_came() {
        for json in [
            "0",
            "7",
            "-3",
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
            "\"\"",
            "\"7\"",
            "\"a\\\"b\\n\"",
        ] {
            let id = RequestId::from_json(json).unwrap();
            assert_eq!(serde_json::to_string(&id).unwrap(), json);
        }
    }

    #[test]
    fn everything_else_is_no_id() {
        for json in [
            "null",
            "true",
            "[]",
            "{}",
            "1.0",
            "1.5",
            "1e2",
            "1E2",
            "-0",
            "-",
            "",
            "+1",
            "18446744073709551616",
            "-9223372036854775809",
            "\"\\ud800\"",
        ] {
            assert_eq!(RequestId::from_json(json), None, "{json}");
        }
    }

    #[test]
    fn an_escaped_string_is_the_string_that_it_spells() {
        assert_eq!(RequestId::from_json("\"\\u0041\""), Some("A".into()));
    }

    #[test]
    fn one_integer_has_one_form() {
        assert_eq!(RequestId::from(7_i64), RequestId::from(7_u64));
        assert_eq!(RequestId::from_json("-7"), Some((-7).into()));
    }
}
