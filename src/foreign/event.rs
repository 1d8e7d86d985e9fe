use std::borrow::Cow;

use crate::jsonrpc::{Envelope, RequestId};

/// What matters of an event of an event stream (WHATWG HTML, *Server-sent events*).
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// Its client can come back for what follows.
    pub(super) has_id: bool,
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
                "id" if !value.is_empty() && !value.contains('\0') => read.has_id = true,
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
        Event { has_id: self.has_id, data: self.data.map(|data| Cow::Owned(data.into_owned())) }
    }

    pub(super) fn has_data(&self) -> bool {
        self.data.as_ref().is_some_and(|data| !data.is_empty())
    }

    /// The event is the response to the request of this id. Says if it has a result.
    pub(super) fn answers(&self, id: &RequestId) -> Option<Holds> {
        self.answer().and_then(|(answered, holds)| (answered == *id).then_some(holds))
    }

    /// The id of the request to which the event is the response, and whether it has a result.
    pub(super) fn answer(&self) -> Option<(RequestId, Holds)> {
        let envelope = Envelope::parse(self.data.as_ref()?).ok()?;
        let id = RequestId::from_json(envelope.id.filter(|_| envelope.method.is_none())?.get())?;
        match (envelope.result, envelope.error) {
            (Some(_), _) => Some((id, Holds::Result)),
            (None, Some(_)) => Some((id, Holds::Error)),
            (None, None) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Holds {
    Error,
    Result,
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
            "data: {\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}\n\n",
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
    fn ids_and_data_are_fields_of_their_own() {
        let event = Event::read(b"id: 0\nretry: 3000\ndata:\n\n");
        assert!(event.has_id && !event.has_data());
        let event = Event::read(b"data: id: 1\ndatas: 2\n\n");
        assert!(!event.has_id && event.has_data());
        assert!(!Event::read(b"id\n\n").has_id, "a field without a value");
    }
}
