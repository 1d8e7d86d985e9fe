use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::object::Object;

/// A JSON-RPC error object, and what a handler returns to answer its request with one.
///
/// Behind [`McpLayer`](crate::McpLayer) it becomes `{"jsonrpc":"2.0","id":…,"error":{…}}` with the id of the request and
/// HTTP status 200. For modern versions -32601 becomes 404, and -32020, -32021 and -32022 become 400, unless the reply is
/// a stream that has begun. From a notification's handler it is logged and the client gets 202, because a notification has
/// no answer.
///
/// ```
/// use mcp_layer::McpError;
///
/// let error = McpError::invalid_params("`city` is missing");
/// assert_eq!(error.code(), -32602);
/// assert_eq!(error.to_string(), "`city` is missing (-32602)");
/// ```
///
/// Two errors are equal if their codes, messages and data are, however the data is spelled.
#[derive(Clone, Debug)]
pub struct McpError {
    code: i64,
    message: Cow<'static, str>,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    /// Made by this server, with this data.
    Here(Option<Box<RawValue>>),
    /// The whole error object as it was read.
    Elsewhere(Box<RawValue>),
}

impl McpError {
    pub(crate) const PARSE_ERROR: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL_ERROR: i64 = -32603;
    /// Revision 2026-07-28, *Error Codes*.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error with a code of your own. JSON-RPC keeps -32768 to -32000 for itself and for MCP.
    #[must_use]
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), origin: Origin::Here(None) }
    }

    /// Reads a JSON-RPC error object that is to be passed on. It is sent as it was written: members of other names, all digits
    /// of numbers, and lone surrogates in strings are kept. Only a message that is missing or null becomes an empty one,
    /// because JSON-RPC requires a message.
    ///
    /// Returns `None` if the JSON is not an object, its `code` is not an integer of 64 bits (`-32000.0` counts as one), or its
    /// `message` is not a string.
    ///
    /// ```
    /// use mcp_layer::McpError;
    ///
    /// let text = r#"{"code":-32000,"message":"cut \ud83d","data":1.23456789012345678901e29}"#;
    /// let error = McpError::from_json(serde_json::from_str(text)?).unwrap();
    /// assert_eq!((error.code(), error.message()), (-32000, "cut \u{fffd}"));
    /// assert_eq!(serde_json::to_string(&error)?, text);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn from_json(object: &RawValue) -> Option<Self> {
        let members = Object::read(object)?;
        let code = integer(members.get("code")?.get())?;
        let Some(message) = members.get("message") else {
            let object = RawValue::from_string(members.with("message", "\"\"")).ok()?;
            return Some(Self { code, message: Cow::Borrowed(""), origin: Origin::Elsewhere(object) });
        };
        let Text(message) = serde_json::from_str(message.get()).ok()?;
        Some(Self { code, message: Cow::Owned(message), origin: Origin::Elsewhere(object.to_owned()) })
    }

    /// -32603: something went wrong here. The message goes to the client, so it should hold no secrets.
    #[must_use]
    pub fn internal_error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INTERNAL_ERROR, message)
    }

    /// -32602: the params are not what the method takes.
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// -32600: the message is no request that can be answered so.
    pub(crate) fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    /// -32601: there is no such method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("Method not found: {}", shortened(method, 128)))
    }

    /// -32021: the client lacks capabilities that the request needs (2026-07-28, *Error Codes*). For modern versions the HTTP
    /// status is 400.
    ///
    /// ```
    /// # use mcp_layer::McpError;
    /// # use serde_json::json;
    /// let error = McpError::missing_capabilities(json!({ "sampling": {} }));
    /// assert_eq!(error.data().unwrap().get(), r#"{"requiredCapabilities":{"sampling":{}}}"#);
    /// ```
    #[must_use]
    pub fn missing_capabilities(required: impl Into<Value>) -> Self {
        Self::new(Self::MISSING_CAPABILITY, "Client does not declare a capability that this request requires")
            .with_data(json!({ "requiredCapabilities": required.into() }))
    }

    /// Sets the `data` member. A [`RawValue`] is sent as it is, with all its digits. Data that cannot be written as JSON is left
    /// out, and an error is logged.
    ///
    /// An error that was [read from JSON](Self::from_json) keeps its code and its message, and nothing else.
    ///
    /// ```
    /// # use mcp_layer::McpError;
    /// let error = McpError::invalid_params("no such file").with_data("file:///a");
    /// assert_eq!(serde_json::to_value(&error).unwrap()["data"], "file:///a");
    /// ```
    #[must_use]
    pub fn with_data(mut self, data: impl Serialize) -> Self {
        let data = to_raw_value(&data)
            .inspect_err(|error| tracing::error!(%error, "the data of an error cannot be written as JSON"))
            .ok();
        self.origin = Origin::Here(data);
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> i64 {
        self.code
    }

    /// The message. In an error that was [read from JSON](Self::from_json), U+FFFD stands for each lone surrogate.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The `data` member as it is written, if there is one. `serde_json::from_str(data.get())` reads it.
    #[must_use]
    pub fn data(&self) -> Option<&RawValue> {
        match &self.origin {
            Origin::Here(data) => data.as_deref(),
            Origin::Elsewhere(object) => Object::read(object)?.get("data"),
        }
    }
}

impl PartialEq for McpError {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code && self.message == other.message && are_equal(self.data(), other.data())
    }
}

fn are_equal(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    let (one, other) = (one.map(RawValue::get), other.map(RawValue::get));
    let value = |text| serde_json::from_str::<Value>(text).ok();
    one == other || one.and_then(value).is_some_and(|one| other.and_then(value) == Some(one))
}

impl Serialize for McpError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            code: i64,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            data: Option<&'a RawValue>,
        }

        match &self.origin {
            Origin::Here(data) => {
                Written { code: self.code, message: &self.message, data: data.as_deref() }.serialize(serializer)
            }
            Origin::Elsewhere(object) => object.serialize(serializer),
        }
    }
}

impl fmt::Display for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for McpError {}

/// An integer, which may be spelled as `-32000.0` or `-3.2e4`.
fn integer(number: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;

    #[expect(clippy::cast_possible_truncation, reason = "only whole numbers of less than 2^53 are cast")]
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64);
    number.parse().ok().or_else(|| number.parse().ok().and_then(whole))
}

/// A JSON string, with U+FFFD for each lone surrogate.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                let mut text = String::with_capacity(bytes.len());
                for chunk in bytes.utf8_chunks() {
                    text.push_str(chunk.valid());
                    // A surrogate has three bytes: this one, and two that are invalid after it.
                    if chunk.invalid().first() == Some(&0xed) {
                        text.push(char::REPLACEMENT_CHARACTER);
                    }
                }
                Ok(Text(text))
            }
        }

        // As bytes `serde_json` reads what a string cannot hold, too.
        deserializer.deserialize_bytes(TextVisitor)
    }
}

/// At most `most` bytes of what a client sent, for a message, a log line or a handler, cut between characters.
pub(crate) fn shortened(text: &str, most: usize) -> &str {
    let end = text.char_indices().map(|(start, char)| start + char.len_utf8()).take_while(|end| *end <= most).last();
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<McpError> {
        McpError::from_json(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn an_error_of_somebody_else_is_passed_on_as_it_is() {
        for (text, code, message) in [
            (r#"{"code":-1,"message":"a"}"#, -1, "a"),
            (r#"{ "message":"\u0061" , "more":{"\ud83d":1.50}, "code":-1}"#, -1, "a"),
            (r#"{"code":-32000.0,"message":"cut \ud83d"}"#, -32000, "cut \u{fffd}"),
            (r#"{"code":-3.2e4,"message":"\ud83d\ude00\udead\ud83d!"}"#, -32000, "\u{1f600}\u{fffd}\u{fffd}!"),
            (r#"{"code":1,"message":"","data":1.23456789012345678901e29}"#, 1, ""),
            (r#"{"code":9223372036854775807,"message":"","data":null}"#, i64::MAX, ""),
            (r#"{"code":0,"code":7,"message":"repeated"}"#, 7, "repeated"),
        ] {
            let error = read(text).unwrap();
            assert_eq!((error.code(), error.message()), (code, message));
            assert_eq!(serde_json::to_string(&error).unwrap(), text);
        }
        let nested = format!(r#"{{"code":1,"message":"","data":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
        assert_eq!(serde_json::to_string(&read(&nested).unwrap()).unwrap(), nested);
    }

    #[test]
    fn a_message_that_is_missing_becomes_an_empty_one() {
        for (text, written) in [
            (r#"{"code":1}"#, r#"{"code":1,"message":""}"#),
            (r#"{"message":null,"code":1.0}"#, r#"{"message":"","code":1.0}"#),
        ] {
            let error = read(text).unwrap();
            assert_eq!((error.code(), error.message()), (1, ""));
            assert_eq!(serde_json::to_string(&error).unwrap(), written);
        }
    }

    #[test]
    fn what_is_no_error_object_is_none() {
        for text in [
            "{}",
            "[]",
            "null",
            r#""code""#,
            r#"{"message":"a"}"#,
            r#"{"code":null,"message":"a"}"#,
            r#"{"code":"-1","message":"a"}"#,
            r#"{"code":1.5,"message":"a"}"#,
            r#"{"code":1e99,"message":"a"}"#,
            r#"{"code":1,"message":7}"#,
            r#"{"code":1,"message":[97]}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn data_keeps_its_spelling_and_is_compared_by_its_value() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let error = McpError::new(-1, "a").with_data(raw(r#"{ "n":1.50 }"#));
        assert_eq!(serde_json::to_string(&error).unwrap(), r#"{"code":-1,"message":"a","data":{ "n":1.50 }}"#);
        assert_eq!(error, McpError::new(-1, "a").with_data(json!({ "n": 1.5 })));
        assert_eq!(error, read(r#"{"data":{"n":1.5},"other":1,"message":"a","code":-1}"#).unwrap());
        assert_ne!(error, McpError::new(-1, "a").with_data(json!({ "n": 1 })));
        assert_ne!(error, McpError::new(-1, "a"));
        assert_eq!(
            read(r#"{"code":1,"message":"","data":"\ud83d"}"#),
            read(r#"{"code":1,"message":"","data":"\ud83d"}"#)
        );
    }

    #[test]
    fn data_that_cannot_be_written_is_left_out() {
        let odd = std::collections::HashMap::from([((1, 2), 3)]);
        assert_eq!(McpError::new(1, "a").with_data(odd), McpError::new(1, "a"));
    }

    #[test]
    fn shortened_cuts_between_characters() {
        assert_eq!(shortened("aé", 2), "a");
        assert_eq!(shortened("aé", 3), "aé");
        assert_eq!(shortened("", 0), "");
    }
}
