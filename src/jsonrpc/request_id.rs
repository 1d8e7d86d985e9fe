use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::error::shortened;
use super::string::string;

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
        let repr = match json.as_bytes().first()? {
            b'"' => Repr::String(serde_json::from_str::<String>(json).ok()?.into()),
            b'-' if is_digits(&json[1..]) && json != "-0" => Repr::Negative(json.parse().ok()?),
            _ if is_digits(json) => Repr::Unsigned(json.parse().ok()?),
            _ => return None,
        };
        Some(Self(repr))
    }

    /// Returns whether a JSON value, without white space around it, is this id to a client that compares loosely: the same
    /// number however it is written, also in a string. `7.0`, `70e-1`, `"7"` and `"7.0"` spell the id `7`, and `7` and `7.0` spell
    /// the id `"7"`; `"07"` spells neither. Digits are compared as text, so nothing is rounded.
    pub(crate) fn is_spelled(&self, json: &str) -> bool {
        match &self.0 {
            Repr::String(text) => spells(json, text),
            // The usual spelling needs no allocation.
            Repr::Negative(_) | Repr::Unsigned(_) => {
                Self::from_json(json).as_ref() == Some(self) || spells(json, &self.to_string())
            }
        }
    }

    /// The id of the other type with the same digits: `"7"` for `7`, and `7` for `"7"`.
    pub(crate) fn twin(&self) -> Option<Self> {
        match &self.0 {
            Repr::String(text) => Self::from_json(text).filter(|_| is_integer(text)),
            Repr::Negative(_) | Repr::Unsigned(_) => Some(self.to_string().into()),
        }
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

/// Whether a JSON string holds this text, or a JSON number, also in a string, equals the integer that the text is.
fn spells(json: &str, text: &str) -> bool {
    match json.as_bytes().first() {
        Some(b'"') => {
            string(json).is_some_and(|spelled| spelled == text || (is_integer(text) && equals(&spelled, text)))
        }
        _ => is_integer(text) && equals(json, text),
    }
}

/// The one decimal form of an integer: no leading zeros, no `-0`.
fn is_integer(text: &str) -> bool {
    let (digits, _) = signed(text);
    text == "0" || (is_digits(digits) && !digits.starts_with('0'))
}

/// Whether a JSON number equals an integer. Takes time in proportion to the two texts, whatever the exponent.
fn equals(number: &str, integer: &str) -> bool {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (mantissa, is_negative) = signed(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_number = is_digits(whole) && (whole == "0" || !whole.starts_with('0')) && is_digits(fraction);
    let Some(exponent) = exponent_of(exponent).filter(|_| is_number) else {
        return false;
    };
    let digits = || whole.bytes().chain(fraction.bytes());
    let leading = digits().take_while(|digit| *digit == b'0').count();
    let length = whole.len() + fraction.len();
    if leading == length {
        return integer == "0";
    }
    let trailing = digits().rev().take_while(|digit| *digit == b'0').count();
    let (integer, integer_is_negative) = signed(integer);
    let significant = integer.trim_end_matches('0');
    // The power of ten of the last digit that is not zero.
    let power = exponent.saturating_sub_unsigned(fraction.len() as u64).saturating_add_unsigned(trailing as u64);
    is_negative == integer_is_negative
        && u64::try_from(power).is_ok_and(|power| power == (integer.len() - significant.len()) as u64)
        && digits().skip(leading).take(length - leading - trailing).eq(significant.bytes())
}

fn signed(number: &str) -> (&str, bool) {
    number.strip_prefix('-').map_or((number, false), |digits| (digits, true))
}

/// An exponent beyond 64 bits becomes the nearest one that fits: no text is long enough to make up for either.
fn exponent_of(text: &str) -> Option<i64> {
    let (digits, is_negative) = text.strip_prefix('+').map_or_else(|| signed(text), |digits| (digits, false));
    let size = is_digits(digits).then(|| digits.parse().unwrap_or(i64::MAX))?;
    Some(if is_negative { -size } else { size })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
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
    fn an_id_is_known_by_every_spelling_of_its_number_or_digits() {
        for (id, spellings) in [
            (
                "7",
                &[
                    "7", "7.0", "7.000", "7e0", "7E+0", "7e-0", "70e-1", "0.7e1", "0.07E2", "700.0e-2", r#""7""#,
                    r#""7.0""#, r#""7e0""#,
                ][..],
            ),
            (r#""7""#, &[r#""7""#, r#""\u0037""#, r#""7.0""#, "7", "7.0", "7e0", "70e-1"]),
            ("70", &["70", "7e1", "7E01", "0.7e2", "7.0e+00000000000000000000000000001", r#""70""#]),
            (
                "0",
                &[
                    "0",
                    "-0",
                    "0.0",
                    "-0.0",
                    "0e0",
                    "0e999999999999999999999",
                    "0e-999999999999999999999",
                    r#""0""#,
                    r#""-0""#,
                ],
            ),
            (r#""0""#, &["0", "-0", "0.0"]),
            ("-7", &["-7", "-7.0", "-70e-1", r#""-7""#]),
            (r#""-7""#, &["-7", "-7.0"]),
            ("9007199254740993", &["9007199254740993.0", "9.007199254740993e15", r#""9007199254740993""#]),
            (
                "18446744073709551615",
                &["18446744073709551615.0", "1844674407370955161.5e1", r#""18446744073709551615""#],
            ),
            ("-9223372036854775808", &["-9223372036854775808.0", "-9.223372036854775808E18"]),
            (r#""18446744073709551616""#, &["18446744073709551616", "18446744073709551616.0"]),
            (r#""07""#, &[r#""07""#]),
            (r#""1e3""#, &[r#""1e3""#]),
            (r#""7.0""#, &[r#""7.0""#]),
            (r#""a""#, &[r#""a""#, r#""\u0061""#]),
            (r#""true""#, &[r#""true""#]),
            (r#""""#, &[r#""""#]),
        ] {
            for spelling in spellings {
                assert!(RequestId::from_json(id).unwrap().is_spelled(spelling), "{id} as {spelling}");
            }
        }
        let zeros = "0".repeat(1_000_000);
        assert!(RequestId::from(7).is_spelled(&format!("7.{zeros}")));
        assert!(RequestId::from(7).is_spelled(&format!("7{zeros}e-1000000")));
        assert!(RequestId::from(7).is_spelled(&format!("0.{zeros}7e1000001")));
    }

    #[test]
    fn no_other_value_spells_an_id() {
        for (id, others) in [
            ("7", &["8", "-7", "7.1", "7e1", "70", "0.7", "0", "7.0000000000000000000000000000000000000001"][..]),
            (
                "7",
                &[
                    r#""07""#, r#""7.1""#, r#"" 7""#, r#""7 ""#, r#""+7""#, r#""0x7""#, "null", "true", "[7]", "{}",
                    r#""""#,
                ],
            ),
            ("7", &["", "-", "7.", ".7", "7e", "7e+-1", "7e--1", "+7", "7x", "0x7", " 7", "\"7", "e", "7e1.0", "--7"]),
            ("7", &["1e999999999", "7e999999999999999999999", "7e-999999999999999999999", "7e-9223372036854775808"]),
            ("0", &[r#""+0""#, r#""00""#, "0.1", "1e-999999999", "null", "false", r#""""#]),
            ("9007199254740993", &["9007199254740992", "9007199254740992.0", "9007199254740993.5"]),
            ("18446744073709551615", &["18446744073709551616", "1.8446744073709552e19", "-1"]),
            (r#""07""#, &["7", "07", r#""7""#]),
            (r#""-0""#, &["0", "-0"]),
            (r#""1e3""#, &["1000", "1e3", r#""1000""#]),
            (r#""7.0""#, &["7", "7.0", r#""7""#]),
            (r#""a""#, &["a", "0xa", r#""A""#, r#""\ud800""#]),
            (r#""true""#, &["true"]),
            (r#""null""#, &["null"]),
            (r#""""#, &["0", "null", ""]),
        ] {
            for other in others {
                assert!(!RequestId::from_json(id).unwrap().is_spelled(other), "{id} is not {other}");
            }
        }
    }

    #[test]
    fn a_twin_has_the_same_digits() {
        for (number, string) in [(7, "7"), (0, "0"), (-7, "-7")] {
            assert_eq!(RequestId::from(number).twin(), Some(string.into()));
            assert_eq!(RequestId::from(string).twin(), Some(number.into()));
        }
        for alone in ["07", "7.0", "-0", "a", "", "\"7\"", "18446744073709551616"] {
            assert_eq!(RequestId::from(alone).twin(), None, "{alone}");
        }
    }

    #[test]
    fn one_integer_has_one_form() {
        assert_eq!(RequestId::from(7_i64), RequestId::from(7_u64));
        assert_eq!(RequestId::from_json("-7"), Some((-7).into()));
    }
}
