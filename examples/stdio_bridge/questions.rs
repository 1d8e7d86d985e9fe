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
pub(crate) struct Questions(Mutex<HashMap<Id, Question>>);

/// The task that waits for the client's response.
#[derive(Debug)]
struct Question {
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
    /// Begins the task that asks, unless there is no place for it.
    pub(crate) fn begin(&self, id: &RawValue, ask: impl FnOnce(TakenBack) -> AbortHandle) -> Result<(), &'static str> {
        let mut questions = lock(&self.0);
        let id = Id::of(id);
        if questions.len() >= MOST {
            return Err("too many requests at once");
        }
        if questions.contains_key(&id) {
            return Err("a request with this id is in progress");
        }
        let taken_back = TakenBack::default();
        let task = ask(Arc::clone(&taken_back));
        questions.insert(id, Question { taken_back, task });
        Ok(())
    }

    /// It has its answer.
    pub(crate) fn end(&self, id: &RawValue) {
        lock(&self.0).remove(&Id::of(id));
    }

    /// The child has cancelled its request. Dropping the task cancels it at the client, too.
    pub(crate) fn take_back(&self, params: &RawValue) {
        let Some(id) = Object::read(params).and_then(|params| params.get("requestId")) else { return };
        let id = Id::of(id);
        let mut questions = lock(&self.0);
        let question = questions.remove(&id).or_else(|| questions.remove(&id.respelled()?));
        drop(questions);
        if let Some(Question { taken_back, task }) = question {
            taken_back.set(params.to_owned()).ok();
            task.abort();
        }
    }

    /// Drops all of them.
    pub(crate) fn close(&self) {
        for (_, question) in lock(&self.0).drain() {
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
            let begun = questions.begin(&raw(asked), |_| {
                let waits = tokio::spawn(std::future::pending::<()>());
                task.insert(waits).abort_handle()
            });
            assert_eq!(begun, Ok(()));
            questions.take_back(&raw(&format!(r#"{{"requestId":{named}}}"#)));
            assert_eq!(lock(&questions.0).is_empty(), is_taken_back, "{asked} {named}");
            questions.close();
            assert!(task.unwrap().await.unwrap_err().is_cancelled());
        }
    }

    #[tokio::test]
    async fn there_are_no_more_than_there_may_be_and_no_two_with_the_same_id() {
        let questions = Questions::default();
        let begin = |id: usize| questions.begin(&raw(&id.to_string()), |_| tokio::spawn(async {}).abort_handle());
        for id in 0..MOST - 1 {
            assert_eq!(begin(id), Ok(()));
        }
        assert!(begin(0).unwrap_err().contains("id"));
        assert_eq!(begin(MOST), Ok(()));
        assert!(begin(MOST + 1).unwrap_err().contains("many"));
        questions.end(&raw("0.0"));
        assert_eq!(begin(0), Ok(()));
    }
}
