use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

/// The bytes of a JSON string: UTF-8, but for lone surrogates, which no Rust string can hold. They are three bytes each.
pub(crate) fn bytes(raw: &RawValue) -> Option<Vec<u8>> {
    serde_json::from_str(raw.get()).ok().map(|Bytes(bytes)| bytes)
}

/// A JSON string, with U+FFFD for each lone surrogate.
pub(crate) fn lossy(raw: &RawValue) -> Option<String> {
    let bytes = bytes(raw)?;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        // The other two bytes of a surrogate are invalid on their own.
        if chunk.invalid().first() == Some(&0xed) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    Some(text)
}

struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(BytesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_is_no_harm() {
        for (json, text) in [
            (r#""a""#, Some("a")),
            (r#""\u0061\n""#, Some("a\n")),
            (r#""\ud83d\ude00""#, Some("\u{1f600}")),
            (r#""cut \ud83d""#, Some("cut \u{fffd}")),
            (r#""\udead\ud83d!""#, Some("\u{fffd}\u{fffd}!")),
            ("7", None),
            ("[97]", None),
            ("null", None),
        ] {
            assert_eq!(lossy(&RawValue::from_string(json.to_owned()).unwrap()).as_deref(), text, "{json}");
        }
    }
}
