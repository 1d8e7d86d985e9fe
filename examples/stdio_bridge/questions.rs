use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::caller::PATIENCE;
use crate::lock::lock;
use crate::number::Number;
use crate::object::Object;
use crate::text;

/// What a child asks clients at once.
const MOST: usize = 64;
/// Bytes of what a child asks that may not have been read yet, unless one request alone has more.
const MOST_BYTES: u32 = 4 << 20;
const TOO_MANY: &str = "too many requests at once";

/// The requests of a child that its client has yet to answer.
#[derive(Debug)]
pub(crate) struct Questions {
    /// A permit for each byte.
    bytes: Arc<Semaphore>,
    /// There was no room in time, and it is not waited for until there is some again.
    lags: AtomicBool,
    state: Mutex<State>,
}

/// What the task of a request is given.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    pub(crate) number: u64,
    /// Held as long as the request is kept for a client that may not have read it.
    pub(crate) room: Option<OwnedSemaphorePermit>,
    pub(crate) taken_back: TakenBack,
}

impl Default for Questions {
    fn default() -> Self {
        let bytes = Arc::new(Semaphore::new(MOST_BYTES as usize));
        Self { bytes, lags: AtomicBool::default(), state: Mutex::default() }
    }
}

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
    /// Begins the task that asks, unless there is no place for it or for the bytes of its request. A client that reads makes
    /// room soon, so it is waited for, once.
    pub(crate) async fn begin(
        &self,
        id: &RawValue,
        bytes: usize,
        ask: impl FnOnce(Begun) -> AbortHandle,
    ) -> Result<(), &'static str> {
        let its_id = Id::of(id);
        {
            let State { in_progress, .. } = &*lock(&self.state);
            if in_progress.len() >= MOST {
                return Err(TOO_MANY);
            }
            if in_progress.contains_key(&its_id) {
                return Err("a request with this id is in progress");
            }
        }
        let bytes = u32::try_from(bytes).map_or(MOST_BYTES, |bytes| bytes.min(MOST_BYTES));
        let patience = if self.lags.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE };
        let room = timeout(patience, Arc::clone(&self.bytes).acquire_many_owned(bytes)).await;
        self.lags.store(room.is_err(), Ordering::Relaxed);
        let Ok(Ok(room)) = room else { return Err(TOO_MANY) };
        // Requests are read one by one, so none was added in the meantime.
        let mut state = lock(&self.state);
        state.last_number += 1;
        let number = state.last_number;
        let taken_back = TakenBack::default();
        let task = ask(Begun { number, room: Some(room), taken_back: Arc::clone(&taken_back) });
        state.in_progress.insert(its_id, Question { number, taken_back, task });
        Ok(())
    }

    /// The request with this id and number has its answer. Returns whether it still waited for it: the answer to a request
    /// that was taken back would be taken for that of a newer one.
    pub(crate) fn end(&self, id: &RawValue, number: u64) -> bool {
        let (id, mut state) = (Id::of(id), lock(&self.state));
        let is_waiting = state.in_progress.get(&id).is_some_and(|question| question.number == number);
        is_waiting && state.in_progress.remove(&id).is_some()
    }

    /// The child has cancelled its request. Dropping the task cancels it at the client, too.
    pub(crate) fn take_back(&self, params: &RawValue) {
        let Some(id) = Object::read(params).and_then(|params| params.get("requestId")) else { return };
        let id = Id::of(id);
        let mut state = lock(&self.state);
        let question = state.in_progress.remove(&id).or_else(|| state.in_progress.remove(&id.respelled()?));
        drop(state);
        if let Some(Question { taken_back, task, .. }) = question {
            taken_back.set(params.to_owned()).ok();
            task.abort();
        }
    }

    /// Drops all of them.
    pub(crate) fn close(&self) {
        for (_, question) in lock(&self.state).in_progress.drain() {
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
            let id = raw(asked);
            let begun = questions.begin(&id, 1, |_| {
                let waits = tokio::spawn(std::future::pending::<()>());
                task.insert(waits).abort_handle()
            });
            assert_eq!(begun.await, Ok(()));
            questions.take_back(&raw(&format!(r#"{{"requestId":{named}}}"#)));
            assert_eq!(lock(&questions.state).in_progress.is_empty(), is_taken_back, "{asked} {named}");
            questions.close();
            assert!(task.unwrap().await.unwrap_err().is_cancelled());
        }
    }

    #[tokio::test]
    async fn there_are_no_more_than_there_may_be_and_no_two_with_the_same_id() {
        let questions = Questions::default();
        let begin = async |id: usize| {
            questions.begin(&raw(&id.to_string()), 1, |_| tokio::spawn(async {}).abort_handle()).await
        };
        for id in 0..MOST - 1 {
            assert_eq!(begin(id).await, Ok(()));
        }
        assert!(begin(0).await.unwrap_err().contains("id"));
        assert_eq!(begin(MOST).await, Ok(()));
        assert!(begin(MOST + 1).await.unwrap_err().contains("many"));
        assert!(questions.end(&raw("0.0"), 1));
        assert_eq!(begin(0).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_may_not_have_been_read_have_no_more_bytes_than_there_may_be() {
        const MOST: usize = MOST_BYTES as usize;

        for (lengths, are_accepted) in [
            (&[MOST][..], &[true][..]),
            (&[MOST, 1], &[true, false]),
            (&[10 * MOST, 1], &[true, false]),
            (&[usize::MAX, 1], &[true, false]),
            (&[1, MOST], &[true, false]),
            (&[1, MOST - 1, 1], &[true, true, false]),
            (&[MOST - 2, 3, 2], &[true, false, true]),
        ] {
            let questions = Questions::default();
            let mut rooms = Vec::new();
            let mut begin = async |id: usize, length| {
                let id = raw(&id.to_string());
                let begun = questions.begin(&id, length, |begun| {
                    rooms.push(begun.room);
                    tokio::spawn(async {}).abort_handle()
                });
                begun.await.is_ok()
            };
            for (id, (length, is_accepted)) in lengths.iter().zip(are_accepted).enumerate() {
                assert_eq!(begin(id, *length).await, *is_accepted, "{lengths:?} {id}");
            }
            rooms.clear();
            let next = raw("\"next\"");
            let begun = questions.begin(&next, MOST, |_| tokio::spawn(async {}).abort_handle());
            assert_eq!(begun.await, Ok(()), "those before were read");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_waited_for_once_until_there_is_some_again() {
        let questions = Questions::default();
        let mut rooms = Vec::new();
        let mut began = tokio::time::Instant::now();
        for (id, waits, is_read) in [
            (0, false, false),
            (1, true, false),
            (2, false, false),
            (3, false, true),
            (4, true, false),
            (5, false, false),
        ] {
            if is_read {
                rooms.clear();
            }
            let its_id = raw(&id.to_string());
            let begun = questions.begin(&its_id, 3 << 20, |begun| {
                rooms.push(begun.room);
                tokio::spawn(async {}).abort_handle()
            });
            assert_eq!(begun.await.is_ok(), id % 3 == 0, "{id}");
            assert_eq!(!began.elapsed().is_zero(), waits, "{id}");
            began = tokio::time::Instant::now();
        }
    }

    #[tokio::test]
    async fn a_question_that_was_taken_back_does_not_end_a_newer_one_with_its_id() {
        let questions = Questions::default();
        let begin = async || {
            let mut number = None;
            let id = raw("1");
            let begun = questions.begin(&id, 1, |begun| {
                number = Some(begun.number);
                tokio::spawn(async {}).abort_handle()
            });
            begun.await.map(|()| number.unwrap())
        };
        let old = begin().await.unwrap();
        questions.take_back(&raw(r#"{"requestId":1}"#));
        let new = begin().await.unwrap();
        assert!(!questions.end(&raw("1"), old));
        assert!(begin().await.unwrap_err().contains("id"), "the newer one is still in progress");
        assert!(questions.end(&raw("1"), new) && !questions.end(&raw("1"), new));
        begin().await.unwrap();
    }
}
