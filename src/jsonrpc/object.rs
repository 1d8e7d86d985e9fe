use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::string::string;

/// A JSON object as it was written. Only its members are told apart: names and values keep their spelling, so no digit is
/// rounded, and lone surrogates, which Rust strings cannot hold, are kept.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    members: Vec<(&'a RawValue, &'a RawValue)>,
    text: &'a str,
}

impl<'a> Object<'a> {
    pub(crate) fn read(raw: &'a RawValue) -> Option<Self> {
        let Members(members) = serde_json::from_str(raw.get()).ok()?;
        Some(Self { members, text: raw.get() })
    }

    /// The value of this member. Of a repeated one the last counts, as with most readers; null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.values(name).last().filter(|value| value.get() != "null")
    }

    /// The object with this value in place of each one that the member has, or as a last member.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        let mut text = String::with_capacity(self.text.len() + name.len() + value.len() + 4);
        let mut copied = 0;
        for old in self.values(name) {
            let old = place(self.text, old);
            text.push_str(&self.text[copied..old.start]);
            text.push_str(value);
            copied = old.end;
        }
        if copied == 0 {
            let end = self.text.len() - 1;
            let comma = if self.members.is_empty() { "" } else { "," };
            text.push_str(&format!("{}{comma}\"{name}\":{value}", &self.text[..end]));
            copied = end;
        }
        text.push_str(&self.text[copied..]);
        text
    }

    /// The members whose names a string can hold.
    pub(crate) fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, &'a RawValue)> {
        self.members.iter().filter_map(|(key, value)| Some((string(key.get())?, *value)))
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &'a RawValue> {
        self.members().filter(move |(key, _)| key == name).map(|(_, value)| value)
    }
}

/// Where in a text a value is that was read from it.
pub(crate) fn place(text: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + value.get().len()
}

struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_member_is_found_however_its_name_is_spelled() {
        for (object, value) in [
            (r#"{"a":1,"b":{"a":2}}"#, Some("1")),
            (r#"{"\u0061" : 1.50}"#, Some("1.50")),
            (r#"{"a":1,"a":2}"#, Some("2")),
            (r#"{"a":null}"#, None),
            (r#"{"\ud83d":0,"a":"\ud83d"}"#, Some(r#""\ud83d""#)),
            ("{}", None),
        ] {
            let object = raw(object);
            assert_eq!(Object::read(&object).unwrap().get("a").map(RawValue::get), value, "{object}");
        }
        for none in ["[]", "1", "null", "\"{}\""] {
            assert!(Object::read(&raw(none)).is_none(), "{none}");
        }
    }

    #[test]
    fn only_the_value_is_replaced() {
        for (object, expected) in [
            ("{ }", r#"{ "a":7}"#),
            (r#"{"b":1}"#, r#"{"b":1,"a":7}"#),
            (r#"{"b": 1.50, "a" :"x" ,"c":1e29}"#, r#"{"b": 1.50, "a" :7 ,"c":1e29}"#),
            (r#"{"a":{"a":1},"\u0061":null}"#, r#"{"a":7,"\u0061":7}"#),
            (r#"{"\ud83d":0}"#, r#"{"\ud83d":0,"a":7}"#),
        ] {
            assert_eq!(Object::read(&raw(object)).unwrap().with("a", "7"), expected);
        }
    }
}
