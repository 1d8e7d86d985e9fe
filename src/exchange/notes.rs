use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::Notify;

use super::sync::{Mutex, MutexGuard, lock};

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
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Piece>,
    /// What does not fit any more, and may be replaced: progress.
    newest: Option<String>,
    phase: Phase,
    reader: Option<Waker>,
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
        self.push_piece(Piece::Message(note)).await;
    }

    /// Adds a piece of a service's own stream, as soon as there is room for it.
    pub(super) async fn pass(&self, bytes: Bytes) {
        self.push_piece(Piece::Passing(bytes)).await;
    }

    async fn push_piece(&self, piece: Piece) {
        let mut piece = Some(piece);
        loop {
            let room = self.room.notified();
            if self.try_push(&mut piece) {
                return;
            }
            room.await;
        }
    }

    fn try_push(&self, piece: &mut Option<Piece>) -> bool {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Open) {
            if !state.has_room() {
                return false;
            }
            state.queue.extend(piece.take());
            wake_reader(state);
        }
        true
    }

    /// Adds a note that the next one of its kind may replace, if it has to wait.
    pub(crate) fn push_newest(&self, note: String) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Open) {
            if state.queue.len() < MOST {
                state.queue.push_back(Piece::Message(note));
            } else {
                state.newest = Some(note);
            }
            wake_reader(state);
        }
    }

    /// Some note waits to be sent.
    pub(crate) fn is_waiting(&self) -> bool {
        let state = lock(&self.state);
        matches!(state.phase, Phase::Open) && !state.queue.is_empty()
    }

    /// Nobody reads any more: what is sent from now on goes nowhere.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.queue = VecDeque::new();
        state.newest = None;
        state.phase = Phase::Closed;
        drop(state);
        self.room.notify_waiters();
    }

    /// Waits until no note is taken any more.
    pub(super) async fn over(&self) {
        loop {
            let room = self.room.notified();
            if !matches!(lock(&self.state).phase, Phase::Open) {
                return;
            }
            room.await;
        }
    }

    /// Ends the stream with these events, the answer last, behind the notes that wait if `keeps_notes`.
    pub(crate) fn finish(&self, last: impl IntoIterator<Item = String>, keeps_notes: bool) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Open) {
            if keeps_notes {
                let waiting = state.newest.take();
                state.queue.extend(waiting.map(Piece::Message));
            } else {
                state.queue.clear();
                state.newest = None;
            }
            state.queue.extend(last.into_iter().map(Piece::Message));
            state.phase = Phase::Answered;
            wake_reader(state);
        }
        self.room.notify_waiters();
    }

    /// The next message of the stream; `None` at its end.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Piece>> {
        let mut state = lock(&self.state);
        if let Some(note) = state.queue.pop_front() {
            // Progress that had to wait is older than what waits for room.
            let waiting = state.newest.take();
            state.queue.extend(waiting.map(Piece::Message));
            drop(state);
            self.room.notify_waiters();
            return Poll::Ready(Some(note));
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
    fn has_room(&self) -> bool {
        // A service's own events may be large.
        let passing = |piece: &Piece| if let Piece::Passing(bytes) = piece { bytes.len() } else { 0 };
        self.queue.len() < MOST && self.queue.iter().map(passing).sum::<usize>() < MOST_PASSING
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
}
