use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::value::RawValue;
use tokio::task::AbortHandle;

use crate::lock::lock;
use crate::number::Number;
use crate::object::Object;
use crate::text;

/// What a child asks clients at once.
const MOST: usize = 64;

/// The requests of a child that its client has yet to answer.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_progress: HashMap<Id, Question>,
    last_number: u64,
}

/// The task that waits for the client's response.
#[derive(Debug)]
struct Question {
    /// A child may use the id again once it has taken the request back. The number is used once.
    number: u64,
    taken_back: TakenBack,
    task: AbortHandle,
}

/// The params of the child's `notifications/cancelled` for its request, once it has sent one.
pub(crate) type TakenBack = Arc<OnceLock<Box<RawValue>>>;

/// An id of a child's choosing, however it is spelled.
#[derive(Debug, Eq, Hash, PartialEq)]
enum Id {
    Number(Number),
    Other(String),
    Text(Vec<u8>),
}

impl Questions {
    /// Begins the task that asks, unless there is no place for it. The task is told its number.
    pub(crate) fn begin(
        &self,
        id: &RawValue,
        ask: impl FnOnce(u64, TakenBack) -> AbortHandle,
    ) -> Result<(), &'static str> {
        let mut state = lock(&self.0);
        let id = Id::of(id);
        if state.in_progress.len() >= MOST {
            return Err("too many requests at once");
        }
        if state.in_progress.contains_key(&id) {
            return Err("a request with this id is in progress");
        }
        state.last_number += 1;
        let number = state.last_number;
        let taken_back = TakenBack::default();
        let task = ask(number, Arc::clone(&taken_back));
        state.in_progress.insert(id, Question { number, taken_back, task });
        Ok(())
    }

    /// The request with this id and number has its answer. Returns whether it still waited for it: the answer to a request
    /// that was taken back would be taken for that of a newer one.
    pub(crate) fn end(&self, id: &RawValue, number: u64) -> bool {
        let (id, mut state) = (Id::of(id), lock(&self.0));
        let is_waiting = state.in_progress.get(&id).is_some_and(|question| question.number == number);
        is_waiting && state.in_progress.remove(&id).is_some()
    }

    /// The child has cancelled its request. Dropping the task cancels it at the client, too.
    pub(crate) fn take_back(&self, params: &RawValue) {
        let Some(id) = Object::read(params).and_then(|params| params.get("requestId")) else { return };
        let id = Id::of(id);
        let mut state = lock(&self.0);
        let question = state.in_progress.remove(&id).or_else(|| state.in_progress.remove(&id.respelled()?));
        drop(state);
        if let Some(Question { taken_back, task, .. }) = question {
            taken_back.set(params.to_owned()).ok();
            task.abort();
        }
    }

    /// Drops all of them.
    pub(crate) fn close(&self) {
        for (_, question) in lock(&self.0).in_progress.drain() {
            question.task.abort();
        }
    }
}

impl Id {
    fn of(raw: &RawValue) -> Self {
        match (text::bytes(raw), Number::read(raw.get())) {
            (Some(text), _) => Self::Text(text),
            (None, Some(number)) => Self::Number(number),
            (None, None) => Self::Other(raw.get().to_owned()),
        }
    }

    /// The number that a string spells, or the string of a whole number.
    fn respelled(&self) -> Option<Self> {
        match self {
            Self::Number(number) => Some(Self::Text(number.whole()?.to_string().into_bytes())),
            Self::Text(text) => Number::read(std::str::from_utf8(text).ok()?).map(Self::Number),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[tokio::test]
    async fn a_question_is_taken_back_by_its_id_however_it_is_spelled() {
        for (asked, named, is_taken_back) in [
            ("1", "1.0", true),
            ("1.0", "1", true),
            ("-10", "-1e1", true),
            ("1", r#""1""#, true),
            (r#""1""#, "1", true),
            (r#""1""#, "1.0", true),
            (r#""a""#, r#""\u0061""#, true),
            (r#""\ud83d""#, r#""\uD83D""#, true),
            (r#""\ud83d""#, r#""\ud83e""#, false),
            ("9007199254740993", "9007199254740992", false),
            ("1", "2", false),
            ("1", "null", false),
            (r#""a""#, r#""A""#, false),
        ] {
            let questions = Questions::default();
            let mut task = None;
            let begun = questions.begin(&raw(asked), |_, _| {
                let waits = tokio::spawn(std::future::pending::<()>());
                task.insert(waits).abort_handle()
            });
            assert_eq!(begun, Ok(()));
            questions.take_back(&raw(&format!(r#"{{"requestId":{named}}}"#)));
            assert_eq!(lock(&questions.0).in_progress.is_empty(), is_taken_back, "{asked} {named}");
            questions.close();
            assert!(task.unwrap().await.unwrap_err().is_cancelled());
        }
    }

    #[tokio::test]
    async fn there_are_no_more_than_there_may_be_and_no_two_with_the_same_id() {
        let questions = Questions::default();
        let begin = |id: usize| questions.begin(&raw(&id.to_string()), |_, _| tokio::spawn(async {}).abort_handle());
        for id in 0..MOST - 1 {
            assert_eq!(begin(id), Ok(()));
        }
        assert!(begin(0).unwrap_err().contains("id"));
        assert_eq!(begin(MOST), Ok(()));
        assert!(begin(MOST + 1).unwrap_err().contains("many"));
        assert!(questions.end(&raw("0.0"), 1));
        assert_eq!(begin(0), Ok(()));
    }

    #[tokio::test]
    async fn a_question_that_was_taken_back_does_not_end_a_newer_one_with_its_id() {
        let questions = Questions::default();
        let begin = || {
            let mut number = None;
            let begun = questions.begin(&raw("1"), |its, _| {
                number = Some(its);
                tokio::spawn(async {}).abort_handle()
            });
            begun.map(|()| number.unwrap())
        };
        let old = begin().unwrap();
        questions.take_back(&raw(r#"{"requestId":1}"#));
        let new = begin().unwrap();
        assert!(!questions.end(&raw("1"), old));
        assert!(begin().unwrap_err().contains("id"), "the newer one is still in progress");
        assert!(questions.end(&raw("1"), new) && !questions.end(&raw("1"), new));
        begin().unwrap();
    }
}
