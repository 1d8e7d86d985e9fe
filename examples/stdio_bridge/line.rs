use mcp_layer::{McpError, McpMessage};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::number::Number;
use crate::object::Object;
use crate::text;

/// What a child makes of a request.
pub(crate) type Answer = Result<Box<RawValue>, McpError>;

/// A JSON-RPC message that a child has written, in a line. Members that are null count as absent.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    Answer {
        id: u64,
        answer: Answer,
    },
    /// An error without an id, as servers answer what they cannot read (JSON-RPC 2.0, section 5).
    Error(McpError),
    Notification {
        method: String,
        params: Option<&'a RawValue>,
    },
    Request {
        id: &'a RawValue,
        method: String,
        params: Option<&'a RawValue>,
    },
}

impl<'a> Line<'a> {
    /// Or why it is none.
    pub(crate) fn read(message: &'a RawValue) -> Result<Self, &'static str> {
        let message = Object::read(message).ok_or("not an object")?;
        let (id, params) = (message.get("id"), message.get("params"));
        if let Some(method) = message.get("method") {
            let method = text::lossy(method).ok_or("the method is not a string")?;
            return Ok(match id {
                Some(id) => Self::Request { id, method, params },
                None => Self::Notification { method, params },
            });
        }
        let answer = match (message.get("result"), message.get("error")) {
            (Some(result), None) => Ok(result.to_owned()),
            (None, Some(error)) => Err(error_of(error, "server")),
            _ => Err(McpError::internal_error("the server's response must have either `result` or `error`")),
        };
        match (id, answer) {
            (Some(id), answer) => {
                let id = Number::given_out(id).ok_or("the id is not one of a request")?;
                Ok(Self::Answer { id, answer })
            }
            (None, Err(error)) if message.get("error").is_some() => Ok(Self::Error(error)),
            (None, _) => Err("neither an id nor a method"),
        }
    }
}

/// The error of a response, to be passed on as it came.
pub(crate) fn error_of(error: &RawValue, of: &str) -> McpError {
    McpError::from_json(error).unwrap_or_else(|| {
        let why = format!("the {of} answered with an error that is not a JSON-RPC error object");
        McpError::internal_error(why).with_data(error)
    })
}

/// A request for a child.
pub(crate) fn request(id: u64, method: &str, params: &RawValue) -> String {
    #[derive(Serialize)]
    struct Request<'a> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        params: &'a RawValue,
    }

    written(&Request { jsonrpc: "2.0", id, method, params })
}

/// A notification.
pub(crate) fn notification(method: &str, params: Option<&RawValue>) -> String {
    #[derive(Serialize)]
    struct Notification<'a> {
        jsonrpc: &'static str,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a RawValue>,
    }

    written(&Notification { jsonrpc: "2.0", method, params })
}

/// A request of a child as its client is sent it, with an id of the bridge's.
pub(crate) fn question(id: &str, method: &str, params: &RawValue) -> String {
    #[derive(Serialize)]
    struct Question<'a> {
        jsonrpc: &'static str,
        id: &'a str,
        method: &'a str,
        params: &'a RawValue,
    }

    written(&Question { jsonrpc: "2.0", id, method, params })
}

/// The response to a request of a child, with the id as it came.
pub(crate) fn response(id: &RawValue, answer: Answer) -> String {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<McpError>,
    }

    let (result, error) = match answer {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    written(&Response { jsonrpc: "2.0", id, result, error })
}

/// A message that is passed on as it is. Line breaks stand only between the tokens of JSON.
pub(crate) fn one(message: String) -> String {
    if message.contains(['\n', '\r']) { message.replace(['\n', '\r'], " ") } else { message }
}

/// The params of a client's request, which are an object. An empty array counts as an empty one, as some clients write it.
pub(crate) fn params(message: &McpMessage) -> Result<&RawValue, McpError> {
    let must = || McpError::invalid_params("params must be an object");
    let params: &RawValue = message.params().map_err(|_| must())?;
    match params.get().as_bytes() {
        [b'{', ..] => Ok(params),
        [b'[', inner @ .., b']'] if inner.iter().all(u8::is_ascii_whitespace) => {
            serde_json::from_str("{}").map_err(|_| must())
        }
        _ => Err(must()),
    }
}

/// Params with this progress token, if they have one.
pub(crate) fn with_token(params: &RawValue, token: u64) -> Option<Box<RawValue>> {
    let params = Object::read(params)?;
    let meta = Object::read(params.get("_meta")?)?;
    meta.get("progressToken")?;
    Some(params.with("_meta", meta.with("progressToken", &token.to_string()).get()))
}

/// What is made of JSON values can be written as JSON.
pub(crate) fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

fn written(message: &impl Serialize) -> String {
    one(raw(message).get().to_owned())
}

/// The beginning of what somebody else wrote, for a log line.
pub(crate) fn beginning(text: &str) -> &str {
    const LONGEST: usize = 512;

    text.char_indices().nth(LONGEST).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of a message, and what it says.
    fn read(text: &str) -> String {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        match Line::read(&raw) {
            Ok(Line::Answer { id, answer }) => {
                format!("answer {id} {}", answer.unwrap_or_else(|error| self::raw(&error)))
            }
            Ok(Line::Error(error)) => format!("error {}", self::raw(&error)),
            Ok(Line::Notification { method, params }) => format!("notification {method} {params:?}"),
            Ok(Line::Request { id, method, params }) => format!("request {id} {method} {params:?}"),
            Err(why) => why.to_owned(),
        }
    }

    #[test]
    fn null_members_count_as_absent_and_errors_stay_as_they_are() {
        for (text, expected) in [
            (r#"{"id":7.0,"result":{"a":1.50},"error":null,"method":null,"params":null}"#, r#"answer 7 {"a":1.50}"#),
            (
                r#"{"id":"7","result":null,"error":{"code":1.0,"message":"\ud83d"}}"#,
                r#"answer 7 {"code":1.0,"message":"\ud83d"}"#,
            ),
            (r#"{"id":null,"error":{"code":1,"message":""}}"#, r#"error {"code":1,"message":""}"#),
            (r#"{"error":{"code":1,"message":""}}"#, r#"error {"code":1,"message":""}"#),
            (r#"{"id":null,"method":"a\ud83d","params":null}"#, "notification a\u{fffd} None"),
            (r#"{"\ud83d":1,"id":8,"id":9,"result":{}}"#, "answer 9 {}"),
            (r#"{"id":"q","method":"a","result":null}"#, "request \"q\" a None"),
            (r#"{"result":{}}"#, "neither an id nor a method"),
            ("{}", "neither an id nor a method"),
            (r#"{"id":"q","result":{}}"#, "the id is not one of a request"),
            (r#"{"method":7}"#, "the method is not a string"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(read(r#"{"id":7,"error":"odd"}"#).contains(r#""data":"odd""#));
        for neither in [r#"{"id":7}"#, r#"{"id":7,"result":null}"#, r#"{"id":7,"result":{},"error":{}}"#] {
            assert!(read(neither).starts_with(r#"answer 7 {"code":-32603"#), "{neither}");
        }
    }
}
