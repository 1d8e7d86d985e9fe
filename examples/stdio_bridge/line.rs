use std::borrow::Cow;
use std::collections::BTreeMap;

use mcp_layer::McpError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// What a child makes of a request.
pub(crate) type Answer = Result<Box<RawValue>, McpError>;

/// A JSON-RPC message that a child has written, in a line.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    Answer { id: u64, answer: Answer },
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Option<&'a RawValue> },
}

impl<'a> Line<'a> {
    /// Or why it is none.
    pub(crate) fn read(line: &'a str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            #[serde(borrow)]
            method: Option<Cow<'a, str>>,
            #[serde(borrow)]
            params: Option<&'a RawValue>,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
        }

        let Envelope { id, method, params, result, error } =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        match (id, method) {
            (None, Some(method)) => Ok(Self::Notification { method, params }),
            (Some(id), Some(method)) => Ok(Self::Request { id, method, params }),
            (Some(id), None) => {
                // Some servers make a string of it.
                let id = id.get().trim_matches('"').parse();
                let id = id.map_err(|_| "it answers a request that has not been sent".to_owned())?;
                let answer = match (result, error) {
                    (Some(result), None) => Ok(result.to_owned()),
                    (None, Some(error)) => Err(error_of(error)),
                    _ => Err(McpError::internal_error("the server's answer has not one of `result` and `error`")),
                };
                Ok(Self::Answer { id, answer })
            }
            (None, None) => Err("it has neither an id nor a method".to_owned()),
        }
    }
}

/// The error of a response as it is to be passed on.
fn error_of(error: &RawValue) -> McpError {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
        #[serde(default)]
        message: String,
        data: Option<Value>,
    }

    match serde_json::from_str(error.get()) {
        Ok(Error { code, message, data: None }) => McpError::new(code, message),
        Ok(Error { code, message, data: Some(data) }) => McpError::new(code, message).with_data(data),
        Err(_) => McpError::internal_error("the server's answer is an error without a code"),
    }
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

/// A notification for a child.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }

    written(&Notification { jsonrpc: "2.0", method, params })
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

/// The members of an object, as they came. Of one that stands twice the last counts, as with most readers.
pub(crate) type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

pub(crate) fn members(object: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(object.get()).ok()
}

/// Params with this progress token, if they have one.
pub(crate) fn with_token(params: &RawValue, token: u64) -> Option<Box<RawValue>> {
    let mut params = members(params)?;
    let mut meta = members(params.get("_meta")?)?;
    let token = raw(&token);
    *meta.get_mut("progressToken")? = &token;
    let meta = raw(&meta);
    params.insert("_meta".into(), &meta);
    Some(raw(&params))
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
