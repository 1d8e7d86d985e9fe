//! Reads JSON into types, with two rules that serde does not have. A struct or a map is read from an object only: serde would
//! read a struct from an array by position, so that a client could set members without naming them. And an empty array counts
//! as an empty object, because that is how PHP writes one. Both hold at every depth, except within what serde buffers before it
//! reads it: the variants of untagged and internally tagged enums, and structs that are flattened.

use std::fmt;

use serde::de::value::MapDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IgnoredAny, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde_json::Value;

use super::unreadable::Unreadable;

/// Reads JSON text. A key that no UTF-8 can spell, as one with a lone surrogate, is an unknown key.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Unreadable> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match T::deserialize(Strict::<false, _>(&mut deserializer)) {
        Ok(read) if deserializer.end().is_ok() => Ok(read),
        Ok(_) => Err(Unreadable::trailing()),
        Err(_) => read_again(json),
    }
}

/// The slow path of [`read`]: takes keys of any bytes, and finds out where the text is wrong.
#[cold]
pub(super) fn read_again<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Unreadable> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    match serde_path_to_error::deserialize(Strict::<true, _>(&mut deserializer)) {
        Ok(read) if deserializer.end().is_ok() => Ok(read),
        Ok(_) => Err(Unreadable::trailing()),
        Err(error) => Err(Unreadable::at(error.path(), error.inner())),
    }
}

/// Reads a value that has been read as JSON before, by the same rules.
pub(crate) fn read_value<'a, T: Deserialize<'a>>(value: &'a Value) -> Option<T> {
    T::deserialize(Strict::<false, _>(value)).ok()
}

/// The text of an object. An empty array is one; anything else is not.
pub(crate) fn as_object(json: &str) -> Option<&str> {
    match json.as_bytes().first()? {
        b'{' => Some(json),
        b'[' if json[1..].trim_start().starts_with(']') => Some("{}"),
        _ => None,
    }
}

/// Reads an object into a type. An empty one also suits a type that is read from `null`.
pub(crate) fn read_object<'a, T: Deserialize<'a>>(object: &'a str) -> Result<T, Unreadable> {
    let is_empty = || object.strip_prefix('{').is_some_and(|members| members.trim_start().starts_with('}'));
    match read(object) {
        Err(error) if is_empty() => read("null").map_err(|_| error),
        read => read,
    }
}

/// Wraps whatever serde makes on the way down, so that the rules hold there too. Whether keys may be of any bytes is a matter of
/// cost: as text they need no check.
struct Strict<const ANY_KEY: bool, T>(T);

/// Expects an object.
struct ObjectOnly<const ANY_KEY: bool, V>(V);

/// A key, which may be spelled by bytes that are no UTF-8.
struct Key<T>(T);

macro_rules! forward {
    ($wrap:path: $($method:ident($($argument:ident: $type:ty),*))*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, Self::Error> {
                self.0.$method($($argument,)* $wrap(visitor))
            }
        )*
    };
}

/// The methods that every wrapper of a deserializer forwards alike.
macro_rules! forward_values {
    ($wrap:path) => {
        forward! { $wrap:
            deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
            deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
            deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string()
            deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit()
            deserialize_unit_struct(name: &'static str) deserialize_newtype_struct(name: &'static str)
            deserialize_seq() deserialize_tuple(len: usize) deserialize_tuple_struct(name: &'static str, len: usize)
            deserialize_enum(name: &'static str, variants: &'static [&'static str]) deserialize_ignored_any()
        }
    };
}

macro_rules! forward_visits {
    ($($method:ident: $type:ty)*) => {
        $(
            #[inline]
            fn $method<E: Error>(self, value: $type) -> Result<Self::Value, E> {
                self.0.$method(value)
            }
        )*
    };
}

impl<'de, const ANY_KEY: bool, D: Deserializer<'de>> Deserializer<'de> for Strict<ANY_KEY, D> {
    type Error = D::Error;

    forward_values! { Strict::<ANY_KEY, _> }

    forward! { Strict::<ANY_KEY, _>: deserialize_identifier() }

    forward! { ObjectOnly::<ANY_KEY, _>: deserialize_struct(name: &'static str, fields: &'static [&'static str]) }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        // As a struct, because a map would not be asked what to make of an array.
        self.0.deserialize_struct("", &[], ObjectOnly::<ANY_KEY, _>(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

impl<'de, const ANY_KEY: bool, V: Visitor<'de>> Visitor<'de> for Strict<ANY_KEY, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_visits! {
        visit_bool: bool visit_i8: i8 visit_i16: i16 visit_i32: i32 visit_i64: i64 visit_i128: i128 visit_u8: u8
        visit_u16: u16 visit_u32: u32 visit_u64: u64 visit_u128: u128 visit_f32: f32 visit_f64: f64 visit_char: char
        visit_str: &str visit_borrowed_str: &'de str visit_string: String visit_bytes: &[u8]
        visit_borrowed_bytes: &'de [u8] visit_byte_buf: Vec<u8>
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.0.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.0.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.visit_some(Strict::<ANY_KEY, _>(deserializer))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.visit_newtype_struct(Strict::<ANY_KEY, _>(deserializer))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Self::Value, A::Error> {
        if is_tagged(&self.0) {
            return ObjectOnly::<ANY_KEY, _>(self.0).visit_seq(elements);
        }
        self.0.visit_seq(Strict::<ANY_KEY, _>(elements))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        self.0.visit_map(Strict::<ANY_KEY, _>(members))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Self::Value, A::Error> {
        self.0.visit_enum(Strict::<ANY_KEY, _>(access))
    }
}

/// An internally tagged enum takes any value, and would read an array by position. Only what it expects tells that it is one.
fn is_tagged(visitor: &dyn Expected) -> bool {
    /// What is still to be seen of its beginning.
    struct Rest(&'static str);

    impl fmt::Write for Rest {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let (seen, rest) = self.0.split_at(self.0.len().min(text.len()));
            self.0 = rest;
            if text.starts_with(seen) { Ok(()) } else { Err(fmt::Error) }
        }
    }

    let mut rest = Rest("internally tagged enum ");
    fmt::write(&mut rest, format_args!("{visitor}")).is_ok() && rest.0.is_empty()
}

impl<'de, const ANY_KEY: bool, V: Visitor<'de>> Visitor<'de> for ObjectOnly<ANY_KEY, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        self.0.visit_map(Strict::<ANY_KEY, _>(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        if elements.next_element::<IgnoredAny>()?.is_some() {
            return Err(Error::invalid_type(Unexpected::Seq, &self));
        }
        self.0.visit_map(MapDeserializer::new(std::iter::empty::<((), ())>()))
    }
}

impl<'de, const ANY_KEY: bool, A: SeqAccess<'de>> SeqAccess<'de> for Strict<ANY_KEY, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Self::Error> {
        self.0.next_element_seed(Strict::<ANY_KEY, _>(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, const ANY_KEY: bool, A: MapAccess<'de>> MapAccess<'de> for Strict<ANY_KEY, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Self::Error> {
        if ANY_KEY { self.0.next_key_seed(Key(seed)) } else { self.0.next_key_seed(seed) }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Self::Error> {
        self.0.next_value_seed(Strict::<ANY_KEY, _>(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, const ANY_KEY: bool, A: EnumAccess<'de>> EnumAccess<'de> for Strict<ANY_KEY, A> {
    type Error = A::Error;
    type Variant = Strict<ANY_KEY, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), Self::Error> {
        self.0.variant_seed(seed).map(|(value, variant)| (value, Strict::<ANY_KEY, _>(variant)))
    }
}

impl<'de, const ANY_KEY: bool, A: VariantAccess<'de>> VariantAccess<'de> for Strict<ANY_KEY, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), Self::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Self::Error> {
        self.0.newtype_variant_seed(Strict::<ANY_KEY, _>(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Self::Error> {
        self.0.tuple_variant(len, Strict::<ANY_KEY, _>(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.struct_variant(fields, ObjectOnly::<ANY_KEY, _>(visitor))
    }
}

impl<'de, const ANY_KEY: bool, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<ANY_KEY, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(Strict::<ANY_KEY, _>(deserializer))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(Key(deserializer))
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Key<D> {
    type Error = D::Error;

    forward_values! { Strict::<true, _> }

    forward! { Strict::<true, _>: deserialize_map() deserialize_struct(name: &'static str, fields: &'static [&'static str]) }

    /// The name of a field. As bytes `serde_json` also reads what no UTF-8 can spell, and control characters that JSON does not
    /// allow: the gate lets only JSON in.
    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.0.deserialize_bytes(Key(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Key<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_visits! { visit_str: &str visit_borrowed_str: &'de str visit_string: String }

    #[inline]
    fn visit_bytes<E: Error>(self, key: &[u8]) -> Result<Self::Value, E> {
        match std::str::from_utf8(key) {
            Ok(key) => self.0.visit_str(key),
            Err(_) => self.0.visit_bytes(key),
        }
    }

    #[inline]
    fn visit_borrowed_bytes<E: Error>(self, key: &'de [u8]) -> Result<Self::Value, E> {
        match std::str::from_utf8(key) {
            Ok(key) => self.0.visit_borrowed_str(key),
            Err(_) => self.0.visit_borrowed_bytes(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::{Deserialize, Serialize};
    use serde_json::value::RawValue;
    use serde_json::{Map, Value, json};

    use super::{as_object, read, read_object, read_value};

    #[derive(Deserialize, Serialize)]
    struct Outer<'a> {
        #[serde(default)]
        a: i64,
        #[serde(default)]
        inner: Inner,
        #[serde(borrow, default)]
        raw: Option<&'a RawValue>,
        #[serde(default)]
        any: Value,
        #[serde(default)]
        map: HashMap<String, Inner>,
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        choice: Choice,
        #[serde(default)]
        pair: Option<(i32, i32)>,
        #[serde(default)]
        tagged: Option<Tagged>,
    }

    #[derive(Deserialize, Serialize)]
    #[serde(rename_all = "lowercase", tag = "type")]
    enum Tagged {
        Named { name: String },
        Other(Inner),
    }

    #[derive(Default, Deserialize, Serialize)]
    struct Inner {
        #[serde(default)]
        b: i64,
    }

    #[derive(Default, Deserialize, Serialize)]
    enum Choice {
        #[default]
        None,
        Named {
            b: i64,
        },
        One(Inner),
        Two(i64, Inner),
    }

    #[test]
    fn objects_are_read_from_objects_only_at_every_depth() {
        for good in [
            r#"{}"#,
            "[ ]",
            r#"{"inner":{"b":1}}"#,
            r#"{"inner":[]}"#,
            r#"{"map":[]}"#,
            r#"{"map":{"x":[]}}"#,
            r#"{"list":[[],{"b":1}]}"#,
            r#"{"choice":{"One":[]}}"#,
            r#"{"choice":{"Two":[1,{}]}}"#,
            r#"{"choice":"None"}"#,
            r#"{"any":[1,[2]]}"#,
            r#"{"raw":[1]}"#,
            r#"{"pair":[1,2]}"#,
            r#"{"tagged":{"type":"named","name":"a"}}"#,
            r#"{"tagged":{"type":"other"}}"#,
        ] {
            read::<Outer<'_>>(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in [
            "[1]",
            r#"{"inner":[1]}"#,
            r#"{"map":[1]}"#,
            r#"{"map":[["x",1]]}"#,
            r#"{"map":{"x":[1]}}"#,
            r#"{"list":[[1]]}"#,
            r#"{"choice":{"Named":[1]}}"#,
            r#"{"choice":{"One":[1]}}"#,
            r#"{"choice":{"Two":[1,[1]]}}"#,
            r#"{"pair":[]}"#,
            r#"{"tagged":["named","a"]}"#,
            r#"{"tagged":["other",{"b":1}]}"#,
            r#"{"tagged":[]}"#,
            r#"{"inner":null}"#,
            "null",
            "7",
            "{} {}",
        ] {
            assert!(read::<Outer<'_>>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_that_were_read_before_are_read_by_the_same_rules() {
        assert_eq!(read_value::<Inner>(&json!({ "b": 1 })).unwrap().b, 1);
        assert_eq!(read_value::<Inner>(&json!([])).unwrap().b, 0);
        assert!(read_value::<Inner>(&json!([1])).is_none());
        assert!(read_value::<Vec<Inner>>(&json!([[1]])).is_none());
        assert!(read_value::<Map<String, Value>>(&json!([["a", 1]])).is_none());
        assert_eq!(read_value::<Value>(&json!([1, { "a": [] }])), Some(json!([1, { "a": [] }])));
    }

    #[test]
    fn what_serde_buffers_is_read_by_its_own_rules() {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Inner(Inner),
            Text(String),
        }

        let Either::Inner(Inner { b }) = read("[7]").unwrap() else { panic!("not a struct") };
        assert_eq!(b, 7, "by position");
        assert!(matches!(read("\"x\""), Ok(Either::Text(text)) if text == "x"));
    }

    #[test]
    fn values_are_read_as_serde_json_reads_them() {
        let json = r#"{"a":9007199254740993,"raw":{ "x" : 1.50 },"any":{"k":[null,true,1.5,"x\n"]},"map":{"x":{"b":2}},
            "choice":{"Named":{"b":3}},"pair":[1,2],"unknown":[1]}"#;
        let outer = read::<Outer<'_>>(json).unwrap();
        assert_eq!((outer.a, outer.raw.unwrap().get()), (9_007_199_254_740_993, r#"{ "x" : 1.50 }"#));
        let expected: Outer<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(json!(outer), json!(expected));
        assert_eq!(read::<Value>("[]").unwrap(), json!([]), "whoever reads any value gets the array");
        assert_eq!(read::<Map<String, Value>>("[]").unwrap(), Map::new());
    }

    #[test]
    fn a_key_with_a_lone_surrogate_is_an_unknown_key() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Flat {
            a: i64,
            #[serde(flatten)]
            others: Map<String, Value>,
        }

        assert_eq!(read::<Outer<'_>>(r#"{"\ud800":1,"\u0061":2,"x\udfff":{"\ud800":[]}}"#).unwrap().a, 2);
        assert!(read::<Outer<'_>>(r#"{"a":1,"\u0061":2}"#).is_err(), "a repeated key, however it is escaped");
        let flat = read::<Flat>(r#"{"a":1,"b":[2],"\u0063":3}"#).unwrap();
        assert_eq!(flat.others, Map::from_iter([("b".to_owned(), json!([2])), ("c".to_owned(), json!(3))]));
    }

    #[test]
    fn an_empty_array_is_an_empty_object() {
        for (json, text) in
            [("{}", Some("{}")), ("{\"a\":1}", Some("{\"a\":1}")), ("[]", Some("{}")), ("[\n ]", Some("{}"))]
        {
            assert_eq!(as_object(json), text);
        }
        for other in ["[1]", "[[]]", "[{}]", "null", "7", "\"{}\"", ""] {
            assert_eq!(as_object(other), None, "{other}");
        }
        read_object::<()>("{ }").unwrap();
        assert!(read_object::<()>(r#"{"a":1}"#).is_err());
        let error = read_object::<std::net::IpAddr>("{}").unwrap_err();
        assert!(!error.to_string().contains("null"), "{error}");
    }
}
