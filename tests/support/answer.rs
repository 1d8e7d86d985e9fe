use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A whole HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A JSON-RPC response, and nothing beside it: neither further members nor repeated ones.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    result: Option<Value>,
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorObject {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Self { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("visible ASCII"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    /// The answer to a notification or a response.
    #[track_caller]
    pub(crate) fn accepted(&self) {
        assert_eq!((self.status, self.text(), self.header("content-type")), (202, "", None));
    }

    /// The result of a request. The id is compared as text, digit for digit.
    #[track_caller]
    pub(crate) fn result(&self, id: &str) -> Value {
        assert_eq!((self.status, self.header("content-type")), (200, Some("application/json")), "{self:?}");
        result_of(self.text(), id)
    }

    #[track_caller]
    pub(crate) fn error<'a>(&self, status: u16, code: i64, id: impl Into<Option<&'a str>>) -> ErrorObject {
        assert_eq!((self.status, self.header("content-type")), (status, Some("application/json")), "{self:?}");
        error_of(self.text(), code, id.into())
    }

    /// The one event of a stream that has no other, and comments before it if it was silent.
    #[track_caller]
    pub(crate) fn event(&self) -> &str {
        assert_eq!((self.status, self.header("content-type")), (200, Some("text/event-stream")), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(self.header("x-accel-buffering"), Some("no"));
        let data =
            self.text().trim_start_matches(": \n\n").strip_prefix("data: ").and_then(|data| data.strip_suffix("\n\n"));
        let data = data.unwrap_or_else(|| panic!("not one event: {self:?}"));
        assert!(!data.contains(['\n', '\r']), "more than a line: {data:?}");
        data
    }
}

#[track_caller]
fn read<'a>(text: &'a str, id: Option<&str>) -> Envelope<'a> {
    let envelope: Envelope<'_> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(envelope.jsonrpc, "2.0", "{text}");
    assert_eq!(envelope.id.map(RawValue::get), id, "{text}");
    // `Option` reads an id that is null as none.
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON").get("id").is_some(), id.is_some(), "{text}");
    assert!(envelope.result.is_some() != envelope.error.is_some(), "{text}");
    envelope
}

#[track_caller]
pub(crate) fn result_of(text: &str, id: &str) -> Value {
    read(text, Some(id)).result.unwrap_or_else(|| panic!("no result: {text}"))
}

#[track_caller]
pub(crate) fn error_of(text: &str, code: i64, id: Option<&str>) -> ErrorObject {
    let error = read(text, id).error.unwrap_or_else(|| panic!("no error: {text}"));
    assert_eq!(error.code, code, "{text}");
    assert!(!error.message.is_empty(), "{text}");
    error
}
