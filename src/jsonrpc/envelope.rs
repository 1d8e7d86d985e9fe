use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::read::read_again;
use super::string::string;

/// So many members of other names are looked at.
const MOST_OTHERS: usize = 64;

/// The members of a JSON-RPC message, each as it stands in the text.
#[derive(Debug, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) jsonrpc: Option<&'a RawValue>,
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) method: Option<&'a RawValue>,
    pub(crate) params: Option<&'a RawValue>,
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) error: Option<&'a RawValue>,
    /// It has more members of other names than any message has.
    pub(crate) crowded: bool,
    /// Some key stands twice. Readers differ in which one they take, so nobody may act on such a message.
    pub(crate) repeated: bool,
    /// That key is `id`.
    pub(crate) repeated_id: bool,
}

impl<'a> Envelope<'a> {
    /// Reads the text once. An error of the category `Data` means: JSON, but no object.
    pub(crate) fn parse(text: &'a str) -> serde_json::Result<Self> {
        let error = match serde_json::from_str(text) {
            Ok(envelope) => return Ok(envelope),
            Err(error) => error,
        };
        // The type was wrong before all of the text was seen, or a key has a lone surrogate: it may still be JSON, or not.
        serde_json::from_str::<IgnoredAny>(text)?;
        if error.is_data() {
            return Err(error);
        }
        read_again(text).map_err(|_| error)
    }

    /// `"jsonrpc": "2.0"`, however it is escaped.
    pub(crate) fn is_version_2(&self) -> bool {
        self.jsonrpc
            .map(RawValue::get)
            .is_some_and(|raw| raw == "\"2.0\"" || string(raw).is_some_and(|version| version == "2.0"))
    }
}

enum Key {
    Error,
    Id,
    Jsonrpc,
    Method,
    Other(Box<str>),
    Params,
    Result,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "error" => Key::Error,
                    "id" => Key::Id,
                    "jsonrpc" => Key::Jsonrpc,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    "result" => Key::Result,
                    other => Key::Other(other.into()),
                })
            }

            /// A key that is not valid Unicode: it has a lone surrogate.
            fn visit_bytes<E>(self, name: &[u8]) -> Result<Key, E> {
                Ok(Key::Other(name.escape_ascii().to_string().into()))
            }
        }

        deserializer.deserialize_identifier(KeyVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;

        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut envelope = Envelope::default();
                let mut others = HashSet::new();
                while let Some(key) = map.next_key()? {
                    let value = Some(map.next_value::<&'de RawValue>()?);
                    let repeated = match key {
                        Key::Error => std::mem::replace(&mut envelope.error, value).is_some(),
                        Key::Id => {
                            envelope.repeated_id |= envelope.id.is_some();
                            std::mem::replace(&mut envelope.id, value).is_some()
                        }
                        Key::Jsonrpc => std::mem::replace(&mut envelope.jsonrpc, value).is_some(),
                        Key::Method => std::mem::replace(&mut envelope.method, value).is_some(),
                        Key::Other(name) if others.len() < MOST_OTHERS => !others.insert(name),
                        Key::Other(_) => {
                            envelope.crowded = true;
                            false
                        }
                        Key::Params => std::mem::replace(&mut envelope.params, value).is_some(),
                        Key::Result => std::mem::replace(&mut envelope.result, value).is_some(),
                    };
                    envelope.repeated |= repeated;
                }
                Ok(envelope)
            }
        }

        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_kept_as_they_stand() {
        let envelope = Envelope::parse(r#" {"jsonrpc": "2.0", "id": 07e, "x": 1}"#);
        assert!(envelope.unwrap_err().is_syntax());
        let envelope = Envelope::parse(r#" {"jsonrpc": "2\u002e0" , "id": -1.50, "params": [ 1 ]} "#).unwrap();
        assert!(envelope.is_version_2() && !envelope.repeated);
        assert_eq!(envelope.id.unwrap().get(), "-1.50");
        assert_eq!(envelope.params.unwrap().get(), "[ 1 ]");
    }

    #[test]
    fn a_repeated_key_is_seen_however_it_is_escaped() {
        for text in [
            r#"{"id":1,"id":1}"#,
            r#"{"id":1,"\u0069d":2}"#,
            r#"{"method":"a","method":"b"}"#,
            r#"{"x":1,"y":2,"\u0078":3}"#,
            r#"{"params":null,"params":{}}"#,
        ] {
            assert!(Envelope::parse(text).unwrap().repeated, "{text}");
        }
        assert!(!Envelope::parse(r#"{"a":{"id":1,"id":2},"id":1}"#).unwrap().repeated);
    }

    #[test]
    fn a_key_that_no_text_can_spell_is_one_of_another_name() {
        let envelope = Envelope::parse(r#"{"\ud800":1,"id":7,"\udfff":{"\ud800":1},"x\ud800":"\ud800"}"#).unwrap();
        assert_eq!((envelope.id.unwrap().get(), envelope.repeated), ("7", false));
        assert!(Envelope::parse(r#"{"\ud800":1,"\uD800":2}"#).unwrap().repeated);
        assert!(Envelope::parse(r#"["\ud800",{"\ud800":1}]"#).unwrap_err().is_data());
        for no_json in ["{\"\\ud800\":1,\"a\nb\":1}", "{\"\\ud800\n\":1}", r#"{"\ud80":1}"#, r#"{"\ud800":1"#] {
            assert!(!Envelope::parse(no_json).unwrap_err().is_data(), "{no_json}");
        }
    }

    #[test]
    fn a_crowd_of_members_is_seen() {
        let members = |most: usize| (0..most).map(|at| format!("\"{at}\":0")).collect::<Vec<_>>().join(",");
        assert!(!Envelope::parse(&format!("{{{}}}", members(64))).unwrap().crowded);
        assert!(Envelope::parse(&format!("{{{}}}", members(65))).unwrap().crowded);
    }

    #[test]
    fn what_is_no_object_differs_from_what_is_no_json() {
        for text in ["[]", "[{}]", "1", "\"x\"", "null", "true"] {
            assert!(Envelope::parse(text).unwrap_err().is_data(), "{text}");
        }
        for text in ["", "{", "[", "[1,", "not json", "{} {}", "{\"a\":}", "{\"a\":01}", "{\"a\":\"\n\"}"] {
            assert!(!Envelope::parse(text).unwrap_err().is_data(), "{text}");
        }
    }
}
