use std::borrow::Cow;
use std::fmt::{self, Write};

use serde_path_to_error::Path;

use super::error::shortened;

/// What a client is told, in bytes, at most: it may quote what the client sent.
const LONGEST: usize = 256;

/// Why JSON is not what it is to be read as, in the words of JSON and not of Rust: without type names and positions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Unreadable(String);

impl Unreadable {
    pub(super) fn at(path: &Path, error: &serde_json::Error) -> Self {
        let path = path.to_string();
        // What the path cannot name it writes so.
        let path = path.trim_end_matches(['.', '?']);
        let mut text = String::new();
        if !path.is_empty() {
            // Writing to a string cannot fail.
            write!(text, "`{}`: ", shortened(path, LONGEST / 2)).unwrap_or_default();
        }
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        text.push_str(&if error.is_data() { plain(message) } else { misfit(message).into() });
        Self(shortened(&text, LONGEST).to_owned())
    }

    pub(super) fn trailing() -> Self {
        Self("trailing characters".to_owned())
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the parser says of a text that is JSON: it is not what the type wants.
fn misfit(message: &str) -> &'static str {
    match message {
        "trailing characters" => "has too many elements",
        "invalid value: expected key to be a number in quotes" => "expected keys to be numbers in quotes",
        _ if ["escape", "surrogate", "unicode"].iter().any(|word| message.contains(word)) => "is not valid Unicode",
        _ => "has the wrong type",
    }
}

/// serde's message in plain words. A message of the user's own stays as it is.
fn plain(message: &str) -> Cow<'_, str> {
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = mismatch.and_then(|mismatch| mismatch.rsplit_once(", expected ")) {
        if found.ends_with(" variant") || expected.ends_with(" variant") {
            return "does not have any of the allowed forms".into();
        }
        return format!("expected {}, found {}", expectation(expected), finding(found)).into();
    }
    if let Some((length, expected)) =
        message.strip_prefix("invalid length ").and_then(|length| length.split_once(", expected "))
    {
        let elements = if length == "1" { "element" } else { "elements" };
        return format!("expected {}, found {length} {elements}", expectation(expected)).into();
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("{field} is required").into();
    }
    if let Some(field) = message.strip_prefix("duplicate field ") {
        return format!("{field} is repeated").into();
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        return format!("unknown value {rest}").into();
    }
    if message.starts_with("unknown field ") {
        return "unknown member".into();
    }
    if message.starts_with("data did not match any variant of untagged enum ") {
        return "does not have any of the allowed forms".into();
    }
    message.into()
}

/// What was found, as `serde::de::Unexpected` writes it.
fn finding(found: &str) -> Cow<'_, str> {
    match found {
        "map" => "an object".into(),
        "sequence" => "an array".into(),
        "unit value" => "null".into(),
        _ => found.strip_prefix("floating point ").map_or(found.into(), |number| format!("number {number}").into()),
    }
}

/// What was expected, as the visitors of serde and of its derive write it.
fn expectation(expected: &str) -> &str {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| expected.starts_with(prefix));
    match expected {
        "i8" => "an integer from -128 to 127",
        "i16" => "an integer from -32768 to 32767",
        "i32" => "an integer from -2147483648 to 2147483647",
        "i64" | "i128" | "isize" => "an integer",
        "u8" => "an integer from 0 to 255",
        "u16" => "an integer from 0 to 65535",
        "u32" => "an integer from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a non-negative integer",
        "f32" | "f64" => "a number",
        "a borrowed string" => "a string",
        "unit" => "null",
        "a map" => "an object",
        "option" => "a value or null",
        "a sequence" => "an array",
        _ if begins(&["unit struct "]) => "null",
        _ if begins(&["a nonzero "]) => "a nonzero integer",
        _ if begins(&["a tuple of size ", "an array of length ", "tuple struct ", "tuple variant "]) => "an array",
        _ if begins(&["struct ", "struct variant ", "internally tagged enum ", "adjacently tagged enum "]) => {
            "an object"
        }
        _ if begins(&["enum ", "variant identifier", "variant of enum ", "unit variant "]) => {
            "one of the allowed values"
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::num::NonZeroU8;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use crate::jsonrpc::read::read;

    fn why<T: DeserializeOwned>(json: &str) -> String {
        read::<T>(json).err().unwrap().to_string()
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        #[serde(rename = "cursor")]
        _cursor: String,
        #[serde(rename = "size")]
        _size: Option<u16>,
        #[serde(default, rename = "order")]
        _order: Vec<Order>,
        #[serde(default, rename = "pages")]
        _pages: HashMap<String, Self>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        Up,
        Down,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    enum Either {
        Text(String),
        Number(u8),
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        #[serde(rename = "a")]
        _a: i32,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    enum Form {
        Text(String),
        Number { value: i32 },
    }

    #[derive(Debug, Deserialize)]
    struct Unit;

    #[test]
    fn clients_are_told_in_the_words_of_json() {
        for (json, text) in [
            ("{}", "`cursor` is required"),
            ("null", "expected an object, found null"),
            ("[1]", "expected an object, found an array"),
            (r#"{"cursor":7}"#, "`cursor`: expected a string, found integer `7`"),
            (r#"{"cursor":{}}"#, "`cursor`: expected a string, found an object"),
            (r#"{"cursor":"a","size":1.5}"#, "`size`: expected an integer from 0 to 65535, found number `1.5`"),
            (r#"{"cursor":"a","size":-1}"#, "`size`: expected an integer from 0 to 65535, found integer `-1`"),
            (r#"{"cursor":"a","cursor":"a"}"#, "`cursor` is repeated"),
            (r#"{"cursor":"a","order":{"a":1}}"#, "`order`: expected an array, found an object"),
            (r#"{"cursor":"a","order":["left"]}"#, "`order[0]`: unknown value `left`, expected `up` or `down`"),
            (r#"{"cursor":"a","order":[[1]]}"#, "`order[0]`: has the wrong type"),
            (r#"{"cursor":"a","pages":{"x":[1]}}"#, "`pages.x`: expected an object, found an array"),
            (r#"{"cursor":"a","pages":{"x":[]}}"#, "`pages.x`: `cursor` is required"),
        ] {
            assert_eq!(why::<Page>(json), text, "{json}");
        }
        assert_eq!(why::<Either>("[]"), "does not have any of the allowed forms");
        assert_eq!(why::<(i32, i32)>("[1]"), "expected an array, found 1 element");
        assert_eq!(why::<(i32, i32)>("[1,2,3]"), "has too many elements");
        assert_eq!(why::<Vec<String>>(r#"["\ud800"]"#), "`[0]`: is not valid Unicode");
        assert_eq!(why::<HashMap<String, i32>>(r#"{"\ud800":1}"#), "is not valid Unicode");
        assert_eq!(why::<HashMap<i32, i32>>(r#"{"x":1}"#), "expected keys to be numbers in quotes");
        assert_eq!(why::<Strict>(r#"{"a":1,"b":2}"#), "`b`: unknown member");
        assert_eq!(why::<Form>(r#""Text""#), "`Text`: does not have any of the allowed forms");
        assert_eq!(why::<Form>("7"), "has the wrong type");
        assert_eq!(why::<Unit>("{}"), "expected null, found an object");
        assert_eq!(why::<()>("{\"a\":1}"), "expected null, found an object");
        assert_eq!(why::<NonZeroU8>("0"), "expected a nonzero integer, found integer `0`");
        assert_eq!(why::<i32>("7 7"), "trailing characters");
        assert_eq!(why::<std::net::IpAddr>("\"x\""), "invalid IP address syntax");
    }

    #[test]
    fn what_a_client_sent_is_quoted_in_part_only() {
        let long = format!("\"{}\"", "é".repeat(1_000));
        assert!(why::<u8>(&long).len() <= 256);
    }
}
