use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::text;

/// A JSON object as it was written. Only its members are told apart: their names and values keep their spelling.
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

    pub(crate) fn members(&self) -> impl Iterator<Item = (&'a RawValue, &'a RawValue)> {
        self.members.iter().copied()
    }

    /// The object with this value in place of each one that the member has, or as a last member.
    pub(crate) fn with(&self, name: &str, value: &str) -> Box<RawValue> {
        let mut text = String::with_capacity(self.text.len() + name.len() + value.len() + 4);
        let mut copied = 0;
        for old in self.values(name) {
            // It was borrowed from the text.
            let begin = old.get().as_ptr().addr() - self.text.as_ptr().addr();
            text.push_str(&self.text[copied..begin]);
            text.push_str(value);
            copied = begin + old.get().len();
        }
        if copied == 0 {
            copied = self.text.len() - 1;
            let comma = if self.members.is_empty() { "" } else { "," };
            text.push_str(&format!("{}{comma}\"{name}\":{value}", &self.text[..copied]));
        }
        text.push_str(&self.text[copied..]);
        RawValue::from_string(text).unwrap_or_default()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &'a RawValue> {
        self.members().filter(move |(key, _)| is(key, name)).map(|(_, value)| value)
    }
}

/// The key spells this name.
pub(crate) fn is(key: &RawValue, name: &str) -> bool {
    let raw = key.get();
    match raw.contains('\\') {
        true => text::bytes(key).is_some_and(|bytes| bytes == name.as_bytes()),
        false => raw.get(1..raw.len() - 1) == Some(name),
    }
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

    #[test]
    fn only_the_value_is_replaced() {
        for (object, expected) in [
            ("{ }", r#"{ "a":7}"#),
            (r#"{"b": 1.50, "a" :"x" ,"c":1e29}"#, r#"{"b": 1.50, "a" :7 ,"c":1e29}"#),
            (r#"{"a":{"a":1},"\u0061":null}"#, r#"{"a":7,"\u0061":7}"#),
            (r#"{"\ud83d":"\ud83d"}"#, r#"{"\ud83d":"\ud83d","a":7}"#),
        ] {
            let object = RawValue::from_string(object.to_owned()).unwrap();
            assert_eq!(Object::read(&object).unwrap().with("a", "7").get(), expected);
        }
    }
}
