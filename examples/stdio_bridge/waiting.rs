use std::collections::VecDeque;

use serde_json::value::RawValue;

use crate::object::Object;
use crate::text;

/// Messages that wait, beside changes of lists and requests.
const MOST: usize = 64;
/// Bytes of them, unless one alone has more.
const MOST_BYTES: usize = 4 << 20;

/// Messages of a child that wait to be sent to its client, in their order.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Some were dropped, and this was logged, since it was empty.
    drops: bool,
    messages: VecDeque<(Kind, String)>,
}

/// Which messages stand for each other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The newest says all.
    ListChanged(&'static str),
    Other,
    /// A request with this id.
    Question(String),
    /// The newest of each resource says all.
    Updated(Vec<u8>),
    /// The end of a request that the client knows of.
    Withdrawal,
}

impl Kind {
    pub(crate) fn of(method: &str, params: Option<&RawValue>) -> Self {
        const LISTS: [&str; 3] = [
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/tools/list_changed",
        ];

        if let Some(list) = LISTS.into_iter().find(|list| *list == method) {
            return Self::ListChanged(list);
        }
        let uri = || text::bytes(Object::read(params?)?.get("uri")?);
        match method {
            "notifications/resources/updated" => uri().map_or(Self::Other, Self::Updated),
            _ => Self::Other,
        }
    }

    /// It tells of a state that may have changed, so the newest says all, and is worth keeping for a later stream.
    pub(crate) fn is_state(&self) -> bool {
        matches!(self, Self::ListChanged(_) | Self::Updated(_))
    }

    /// The oldest of them are dropped where there are too many.
    fn is_droppable(&self) -> bool {
        matches!(self, Self::Other | Self::Updated(_))
    }
}

impl Waiting {
    /// Adds a message, in place of the one that it stands for.
    pub(crate) fn push(&mut self, kind: Kind, message: String) {
        if kind.is_state() {
            self.messages.retain(|(other, _)| *other != kind);
        }
        self.messages.push_back((kind, message));
        while self.are_too_many() {
            let Some(oldest) = self.messages.iter().position(|(kind, _)| kind.is_droppable()) else { break };
            self.messages.remove(oldest);
            if !std::mem::replace(&mut self.drops, true) {
                tracing::warn!("the client does not read its GET stream: the oldest notifications are dropped");
            }
        }
    }

    fn are_too_many(&self) -> bool {
        are_too_many(self.messages.iter().filter(|(kind, _)| kind.is_droppable()).map(|(_, message)| message.len()))
    }

    /// Whether this message can be added without dropping any.
    pub(crate) fn has_room(&self, kind: &Kind, message: &str) -> bool {
        let stays = |other: &Kind| other.is_droppable() && !(kind.is_state() && other == kind);
        let others = self.messages.iter().filter(|(other, _)| stays(other)).map(|(_, message)| message.len());
        !kind.is_droppable() || !are_too_many(others.chain([message.len()]))
    }

    pub(crate) fn pop(&mut self) -> Option<(Kind, String)> {
        let next = self.messages.pop_front();
        self.drops &= !self.messages.is_empty();
        next
    }

    /// Removes a request that has not been sent. Tells whether there was one.
    pub(crate) fn remove_question(&mut self, id: &str) -> bool {
        let before = self.messages.len();
        self.messages.retain(|(kind, _)| !matches!(kind, Kind::Question(other) if other == id));
        self.messages.len() < before
    }
}

/// Messages of these lengths.
fn are_too_many(lengths: impl Iterator<Item = usize>) -> bool {
    let (messages, bytes) = lengths.fold((0, 0), |(messages, bytes), length| (messages + 1, bytes + length));
    messages > MOST || (messages > 1 && bytes > MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(waiting: &mut Waiting, method: &str, params: &str, message: &str) {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        waiting.push(Kind::of(method, Some(&params)), message.to_owned());
    }

    fn all(waiting: &mut Waiting) -> Vec<String> {
        std::iter::from_fn(|| waiting.pop()).map(|(_, message)| message).collect()
    }

    #[test]
    fn of_what_tells_a_state_the_newest_is_kept() {
        let mut waiting = Waiting::default();
        for (method, params, message) in [
            ("notifications/tools/list_changed", "{}", "tools 1"),
            ("notifications/message", "{}", "1"),
            ("notifications/resources/updated", r#"{"uri":"a"}"#, "a 1"),
            ("notifications/prompts/list_changed", "{}", "prompts 1"),
            ("notifications/resources/updated", r#"{"uri":"b"}"#, "b 1"),
            ("notifications/message", "{}", "2"),
            ("notifications/tools/list_changed", "{}", "tools 2"),
            ("notifications/resources/updated", r#"{"uri":"\u0061"}"#, "a 2"),
        ] {
            push(&mut waiting, method, params, message);
        }
        assert_eq!(all(&mut waiting), ["1", "prompts 1", "b 1", "2", "tools 2", "a 2"]);
    }

    #[test]
    fn the_oldest_are_dropped_but_no_list_change_and_no_request() {
        let mut waiting = Waiting::default();
        push(&mut waiting, "notifications/tools/list_changed", "{}", "tools");
        waiting.push(Kind::Question("q".to_owned()), "q".to_owned());
        for n in 0..1000 {
            push(&mut waiting, "notifications/message", "{}", &n.to_string());
            push(&mut waiting, "notifications/resources/updated", &format!(r#"{{"uri":"{n}"}}"#), "updated");
        }
        let all = all(&mut waiting);
        assert_eq!((all.len(), &all[..2], all[64].as_str()), (66, &["tools".to_owned(), "q".to_owned()][..], "999"));
        for n in 0..3 {
            push(&mut waiting, "notifications/message", "{}", &n.to_string().repeat(3 << 20));
        }
        assert_eq!(waiting.pop().unwrap().1.as_bytes()[0], b'2');
        assert_eq!(waiting.pop(), None);
    }

    #[test]
    fn a_request_can_be_taken_back_before_it_is_sent() {
        let mut waiting = Waiting::default();
        waiting.push(Kind::Question("q".to_owned()), "q".to_owned());
        assert!(!waiting.remove_question("p") && waiting.remove_question("q") && !waiting.remove_question("q"));
        assert_eq!(waiting.pop(), None);
    }
}
