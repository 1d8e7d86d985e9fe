use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::HeaderMap;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::{error_of, result_of};

/// What a silent stream gets.
pub(crate) const COMMENT: &str = ": ";

/// A response whose body is read event by event.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Body,
    begun: String,
    bound: Duration,
}

impl Events {
    /// Waits for each event this long at most.
    pub(crate) fn of(response: Response, bound: Duration) -> Self {
        let (parts, body) = response.into_parts();
        Self { status: parts.status.as_u16(), headers: parts.headers, body, begun: String::new(), bound }
    }

    /// It is an event stream, with all that proxies have to know.
    #[track_caller]
    pub(crate) fn streams(&self) {
        let header = |name: &str| self.headers.get(name).map(|value| value.to_str().expect("visible ASCII"));
        assert_eq!((self.status, header("content-type")), (200, Some("text/event-stream")), "{self:?}");
        assert_eq!(header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(header("x-accel-buffering"), Some("no"));
    }

    /// The next event, or the next comment, without the empty line that ends it; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<String> {
        timeout(self.bound, self.read()).await.expect("an event in time")
    }

    /// The message in the next event, which is one line. Comments before it are read as any client reads them: not at all.
    #[track_caller]
    pub(crate) fn message(&mut self) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let mut event = self.next().await;
            while event.as_deref() == Some(COMMENT) {
                event = self.next().await;
            }
            let data = event.as_deref().and_then(|event| event.strip_prefix("data: "));
            let data = data.filter(|data| !data.contains(['\n', '\r']));
            data.unwrap_or_else(|| panic!("no message in a line: {event:?}: {caller}")).to_owned()
        }
    }

    /// The last event is this error, and then the stream ends.
    pub(crate) async fn ends_with_error(mut self, code: i64, id: &str) {
        let last = self.message().await;
        error_of(&last, code, Some(id));
        assert_eq!(self.next().await, None);
    }

    /// The same, after notes that nobody has read.
    pub(crate) async fn ends_with_error_after_notes(mut self, code: i64, id: &str) {
        let mut last = self.message().await;
        while last.contains(r#""method":"#) {
            last = self.message().await;
        }
        error_of(&last, code, Some(id));
        assert_eq!(self.next().await, None);
    }

    /// The last event is a result with this text, and then the stream ends.
    pub(crate) async fn ends_with_result(mut self, id: &str, result: &serde_json::Value) {
        let last = self.message().await;
        assert_eq!(result_of(&last, id), *result);
        assert_eq!(self.next().await, None);
    }

    async fn read(&mut self) -> Option<String> {
        loop {
            if let Some(event) = take_event(&mut self.begun) {
                return Some(event);
            }
            let Some(frame) = self.body.frame().await else {
                assert_eq!(self.begun, "", "half an event");
                return None;
            };
            let frame = frame.expect("no error, no reset").into_data().expect("no trailers");
            self.begun.push_str(std::str::from_utf8(&frame).expect("UTF-8"));
        }
    }
}

/// Takes the first whole event, without the empty line that ends it.
pub(super) fn take_event(begun: &mut String) -> Option<String> {
    let end = begun.find("\n\n")?;
    let rest = begun.split_off(end + 2);
    let mut event = std::mem::replace(begun, rest);
    event.truncate(end);
    Some(event)
}
