use std::borrow::Cow;

use super::response::{Holds, answered_id, event_answers};
use crate::jsonrpc::RequestId;

/// What matters of an event of an event stream (WHATWG HTML, *Server-sent events*).
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// With it its client can come back for what follows.
    pub(super) id: Option<Cow<'a, str>>,
    /// What its `data` lines hold, if there are any.
    data: Option<Cow<'a, str>>,
}

impl<'a> Event<'a> {
    /// As its client reads it: what is no UTF-8 is replaced.
    pub(super) fn read(event: &'a [u8]) -> Self {
        match String::from_utf8_lossy(event) {
            Cow::Borrowed(text) => Self::of(text),
            Cow::Owned(text) => Event::of(&text).into_owned(),
        }
    }

    fn of(text: &'a str) -> Self {
        let mut read = Self::default();
        // A stream may begin with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for line in text.split(['\n', '\r']) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                // An empty one is none to come back with, and one with a null is ignored.
                "id" if !value.is_empty() && !value.contains('\0') => read.id = Some(value.into()),
                "data" => {
                    read.data = Some(match read.data.take() {
                        None => Cow::Borrowed(value),
                        Some(before) => Cow::Owned(before.into_owned() + "\n" + value),
                    });
                }
                _ => {}
            }
        }
        read
    }

    fn into_owned(self) -> Event<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Event { id: self.id.map(owned), data: self.data.map(owned) }
    }

    pub(super) fn has_data(&self) -> bool {
        self.data.as_ref().is_some_and(|data| !data.is_empty())
    }

    /// Whether the event is, or has among others, the response to the request of this id, and what that holds.
    pub(super) fn answers(&self, id: &RequestId) -> Option<Holds> {
        event_answers(self.data.as_ref()?, id)
    }

    /// The id of the request to which the event is the response, as it stands in its JSON.
    pub(super) fn answered(&self) -> Option<&str> {
        answered_id(self.data.as_ref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_id() {
        let answers = |event: &str| Event::read(event.as_bytes()).answers(&7.into());
        assert_eq!(answers("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"), Some(Holds::Result));
        assert_eq!(answers("id: 1\rdata:{\"jsonrpc\":\"2.0\",\rdata:\"id\":7,\"error\":{}}\r\r"), Some(Holds::Error));
        for other in [
            "data: {\"jsonrpc\":\"2.0\",\"id\":\"07\",\"result\":{}}\n\n",
            "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n",
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"id\":7,\"result\":{}}}\n\n",
            ": {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n",
            "data:\n\n",
            "\n",
        ] {
            assert_eq!(answers(other), None, "{other}");
        }
    }

    #[test]
    fn an_answer_is_found_in_a_batch() {
        let batch = b"data: [{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{}},\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{}}]\n\n";
        let event = Event::read(batch);
        assert_eq!((event.answers(&7.into()), event.answers(&8.into())), (Some(Holds::Error), None));
    }

    #[test]
    fn ids_and_data_are_fields_of_their_own() {
        let event = Event::read(b"id: 0\nretry: 3000\ndata:\n\n");
        assert!(event.id.is_some() && !event.has_data());
        let event = Event::read(b"data: id: 1\ndatas: 2\n\n");
        assert!(event.id.is_none() && event.has_data());
        assert!(Event::read(b"id\n\n").id.is_none(), "a field without a value");
    }
}
