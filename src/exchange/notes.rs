use std::collections::VecDeque;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use bytestring::ByteString;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::sync::{Mutex, MutexGuard, lock};
use crate::jsonrpc::RequestId;

/// How many notes wait for a client that reads slowly.
const MOST: usize = 64;
/// And how many bytes of a service's own stream; one piece always may.
const MOST_PASSING: usize = 256 * 1024;

/// The messages of one reply that is a stream, from the handler to the body: notes first, then the one answer. Made on
/// first use, since most replies are none.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    state: Mutex<State>,
    room: Notify,
    /// The server's name as JSON, for a last event that no handler writes.
    server_info: OnceLock<ByteString>,
}

#[derive(Debug, Default)]
struct State {
    /// Questions that the client has read, and not answered.
    asked: Vec<RequestId>,
    queue: VecDeque<Note>,
    /// What does not fit any more, and may be replaced: progress.
    newest: Option<String>,
    phase: Phase,
    reader: Option<Waker>,
}

#[derive(Debug)]
enum Note {
    Message(String),
    /// Bytes of a service's own stream.
    Passing(Bytes),
    /// A request to the client. As long as it waits here, the client does not know of it.
    Question(RequestId, String),
    /// Tells the client that nobody waits for its response any more: it is sent whatever becomes of the others.
    TakenBack(String),
}

/// What goes to the body.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece {
    /// A message, which becomes an event.
    Message(String),
    /// Bytes of a service's own stream.
    Passing(Bytes),
}

#[derive(Debug, Default)]
enum Phase {
    /// What waits is the rest.
    Answered,
    /// Nobody reads any more.
    Closed,
    #[default]
    Open,
}

impl Notes {
    /// Adds a note, as soon as there is room for it. After the end it goes nowhere.
    pub(crate) async fn push(&self, note: String) {
        self.push_one(Note::Message(note)).await;
    }

    /// Adds a piece of a service's own stream, in the same way.
    pub(super) async fn pass(&self, bytes: Bytes) {
        self.push_one(Note::Passing(bytes)).await;
    }

    /// Adds the answer that is in such a stream, also where there is no room.
    pub(super) fn pass_answer(&self, bytes: Bytes) {
        let mut state = lock(&self.state);
        if state.is_open() {
            state.queue.push_back(Note::Passing(bytes));
            wake_reader(state);
        }
    }

    /// Adds a request to the client in the same way.
    pub(super) async fn push_question(&self, id: RequestId, question: String) {
        self.push_one(Note::Question(id, question)).await;
    }

    async fn push_one(&self, note: Note) {
        let mut note = Some(note);
        loop {
            let room = self.changed();
            if self.try_push(&mut note) {
                return;
            }
            room.await;
        }
    }

    fn try_push(&self, note: &mut Option<Note>) -> bool {
        let mut state = lock(&self.state);
        if state.is_open() {
            if !state.has_room() {
                return false;
            }
            state.queue.extend(note.take());
            wake_reader(state);
        }
        true
    }

    /// Adds a note that the next one of its kind may replace, if it has to wait.
    pub(crate) fn push_newest(&self, note: String) {
        let mut state = lock(&self.state);
        if state.is_open() {
            if state.queue.len() < MOST {
                state.queue.push_back(Note::Message(note));
            } else {
                state.newest = Some(note);
            }
            wake_reader(state);
        }
    }

    /// The client has answered this question.
    pub(super) fn answered(&self, id: &RequestId) {
        lock(&self.state).asked.retain(|other| other != id);
    }

    /// Nobody waits for the answer to this question any more. The client is told, unless it does not know of it yet.
    pub(super) fn take_back(&self, id: &RequestId) {
        let mut state = lock(&self.state);
        if let Some(at) = state.asked.iter().position(|other| other == id) {
            state.asked.swap_remove(at);
            // There may be no room. But each has been read, so they are no more than what asks.
            state.queue.push_back(Note::taken_back(id));
            wake_reader(state);
        } else if let Some(at) = state.queue.iter().position(|note| note.asks(id)) {
            state.queue.remove(at);
            state.let_newest_in();
            drop(state);
            self.tell_changed();
        }
    }

    pub(super) fn set_server_info(&self, info: ByteString) {
        // Of nested routers the outer one comes first.
        self.server_info.set(info).ok();
    }

    pub(super) fn server_info(&self) -> Option<&ByteString> {
        self.server_info.get()
    }

    /// Some note waits to be sent.
    pub(crate) fn is_waiting(&self) -> bool {
        let state = lock(&self.state);
        state.is_open() && !state.queue.is_empty()
    }

    /// Notes are taken.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.state).is_open()
    }

    /// Nobody reads any more: what is sent from now on goes nowhere.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        *state = State { phase: Phase::Closed, reader: state.reader.take(), ..State::default() };
        drop(state);
        self.tell_changed();
    }

    /// Waits for room, or for an end, from the call on.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.room.notified()
    }

    /// Lets those look again who wait.
    pub(super) fn tell_changed(&self) {
        self.room.notify_waiters();
    }

    /// Ends the stream with these events, the answer last, behind the notes that wait if `keeps_notes`.
    pub(crate) fn finish(&self, last: impl IntoIterator<Item = String>, keeps_notes: bool) {
        let mut state = lock(&self.state);
        if state.is_open() {
            let newest = state.newest.take();
            state.queue.extend(newest.map(Note::Message));
            state.queue.retain(|note| match note {
                Note::Message(_) | Note::Passing(_) => keeps_notes,
                // Nobody would wait for its answer.
                Note::Question(..) => false,
                Note::TakenBack(_) => true,
            });
            let asked = std::mem::take(&mut state.asked);
            state.queue.extend(asked.iter().map(Note::taken_back));
            state.queue.extend(last.into_iter().map(Note::Message));
            state.phase = Phase::Answered;
            wake_reader(state);
        }
        self.tell_changed();
    }

    /// The next message of the stream; `None` at its end.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Piece>> {
        let mut state = lock(&self.state);
        if let Some(note) = state.queue.pop_front() {
            // Progress that had to wait is older than what waits for room.
            state.let_newest_in();
            let piece = match note {
                Note::Message(message) | Note::TakenBack(message) => Piece::Message(message),
                Note::Passing(bytes) => Piece::Passing(bytes),
                Note::Question(id, message) => {
                    state.asked.push(id);
                    Piece::Message(message)
                }
            };
            drop(state);
            self.tell_changed();
            return Poll::Ready(Some(piece));
        }
        match state.phase {
            Phase::Answered | Phase::Closed => Poll::Ready(None),
            Phase::Open => {
                match &mut state.reader {
                    Some(reader) => reader.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl State {
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    fn has_room(&self) -> bool {
        // A service's own events may be large.
        let passing = |note: &Note| if let Note::Passing(bytes) = note { bytes.len() } else { 0 };
        self.queue.len() < MOST && self.queue.iter().map(passing).sum::<usize>() < MOST_PASSING
    }

    fn let_newest_in(&mut self) {
        if self.queue.len() < MOST {
            let newest = self.newest.take();
            self.queue.extend(newest.map(Note::Message));
        }
    }
}

impl Note {
    fn taken_back(id: &RequestId) -> Self {
        let params = serde_json::json!({ "requestId": id });
        let message = serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        Self::TakenBack(message.to_string())
    }

    fn asks(&self, id: &RequestId) -> bool {
        matches!(self, Self::Question(other, _) if other == id)
    }
}

/// Wakes the body, once the lock is free.
fn wake_reader(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn next(notes: &Notes) -> Poll<Option<String>> {
        notes.poll_next(&Context::from_waker(Waker::noop())).map(|piece| match piece? {
            Piece::Message(message) => Some(message),
            Piece::Passing(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        })
    }

    fn all(notes: &Notes) -> Vec<String> {
        std::iter::from_fn(|| match next(notes) {
            Poll::Ready(note) => note,
            Poll::Pending => None,
        })
        .collect()
    }

    #[tokio::test]
    async fn notes_come_before_the_answer_and_none_after_it() {
        let notes = Notes::default();
        notes.push("1".into()).await;
        notes.push_newest("2".into());
        assert!(notes.is_waiting());
        notes.finish(Some("answer".into()), true);
        notes.push("3".into()).await;
        notes.push_newest("4".into());
        notes.finish(Some("other".into()), true);
        assert_eq!(all(&notes), ["1", "2", "answer"]);
        assert_eq!(next(&notes), Poll::Ready(None));
    }

    #[tokio::test]
    async fn an_answer_that_cannot_wait_drops_the_notes() {
        let notes = Notes::default();
        notes.push("1".into()).await;
        notes.finish(Some("error".into()), false);
        assert_eq!(all(&notes), ["error"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_keeps_the_newest_progress_and_lets_other_notes_wait() {
        let notes = Notes::default();
        for note in 0..200 {
            notes.push_newest(note.to_string());
        }
        let waits = notes.push("late".into());
        tokio::pin!(waits);
        assert!(tokio::time::timeout(Duration::from_secs(9), &mut waits).await.is_err());
        assert_eq!(next(&notes), Poll::Ready(Some("0".into())));
        assert!(tokio::time::timeout(Duration::from_secs(9), &mut waits).await.is_err(), "the progress was first");
        assert_eq!(next(&notes), Poll::Ready(Some("1".into())));
        waits.await;
        let rest = all(&notes);
        assert_eq!(rest.len(), 64);
        assert_eq!(rest[62..], ["199".to_owned(), "late".to_owned()]);
    }

    #[tokio::test]
    async fn a_closed_stream_takes_everything_and_sends_nothing() {
        let notes = Notes::default();
        for note in 0..64 {
            notes.push(note.to_string()).await;
        }
        notes.close();
        for note in 0..100 {
            notes.push(note.to_string()).await;
            notes.push_newest(note.to_string());
        }
        notes.finish(Some("answer".into()), true);
        assert_eq!(next(&notes), Poll::Ready(None));
    }

    #[tokio::test]
    async fn a_question_is_taken_back_if_it_was_read() {
        let notes = Notes::default();
        for id in 0..4 {
            notes.push_question(id.into(), id.to_string()).await;
        }
        assert_eq!([next(&notes), next(&notes)], ["0", "1"].map(|id| Poll::Ready(Some(id.into()))));
        notes.answered(&0.into());
        for id in [0, 1, 2, 1, 2] {
            notes.take_back(&id.into());
        }
        let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(all(&notes), ["3", taken_back]);
    }

    #[tokio::test]
    async fn an_end_takes_all_questions_back() {
        for keeps_notes in [true, false] {
            let notes = Notes::default();
            for id in 0..3 {
                notes.push_question(id.into(), id.to_string()).await;
            }
            assert_eq!([next(&notes), next(&notes)], ["0", "1"].map(|id| Poll::Ready(Some(id.into()))));
            notes.take_back(&0.into());
            notes.finish(Some("answer".into()), keeps_notes);
            notes.take_back(&1.into());
            let of =
                |id| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            assert_eq!(all(&notes), [of(0), of(1), "answer".to_owned()]);
        }
    }
}
