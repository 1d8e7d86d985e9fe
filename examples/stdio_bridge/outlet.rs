use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_layer::McpError;
use serde_json::value::RawValue;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

use crate::caller::PATIENCE;
use crate::line::{self, Answer};
use crate::lock::lock;
use crate::object::Object;
use crate::questions::{Begun, TakenBack};
use crate::waiting::{Kind, Waiting};

/// People answer, so it takes a while.
const LONGEST_ASKING: Duration = Duration::from_secs(5 * 60);
/// In bytes, of the params with which a child takes its request back. Of longer ones only the id is passed on.
const LONGEST_WITHDRAWAL: usize = 64 << 10;

/// The messages of a session's servers outside of calls, on their way to the GET stream of the session.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    /// There is something to read, or room for more, or the stream is over.
    changed: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Questions that the client has yet to answer.
    asked: HashMap<String, Question>,
    is_over: bool,
    /// The client has not read in time what waits for it, and is not waited for until there is room again.
    lags: bool,
    /// The stream that reads, if there is one.
    reader: Option<u64>,
    /// The number of the newest server.
    servers: u64,
    /// The newest server when the stream was opened. The stream ends with it.
    server_of_reader: u64,
    /// The number of the newest stream.
    streams: u64,
    waiting: Waiting,
}

#[derive(Debug)]
struct Question {
    answer: oneshot::Sender<Answer>,
    /// Until it is read.
    room: Option<OwnedSemaphorePermit>,
}

/// One GET stream. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Reader {
    outlet: Arc<Outlet>,
    stream: u64,
}

impl Outlet {
    /// The number of a new server of the session. Streams that are opened from now on are this server's.
    pub(crate) fn begin(&self) -> u64 {
        let mut state = lock(&self.state);
        state.servers += 1;
        state.servers
    }

    /// Begins a stream. One before it ends: its client has come back, and the old connection may be lost without a sign.
    pub(crate) fn read(self: &Arc<Self>) -> Reader {
        let mut state = lock(&self.state);
        state.streams += 1;
        let stream = state.streams;
        state.reader = Some(stream).filter(|_| !state.is_over);
        state.server_of_reader = state.servers;
        state.lags = false;
        drop(state);
        self.changed.notify_waiters();
        Reader { outlet: Arc::clone(self), stream }
    }

    /// There is a GET stream.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.state).reader.is_some()
    }

    /// Takes a notification. A stream that is full is waited for, once, until its client reads; after that the oldest
    /// notifications are dropped. Without a stream only changes of lists and resources are taken, and kept for the next stream.
    /// Tells whether it was taken.
    pub(crate) async fn hear(&self, method: &str, params: Option<&RawValue>) -> bool {
        let kind = Kind::of(method, params);
        let message = line::notification(method, params);
        let is_in_time = timeout(PATIENCE, self.room(&kind, &message)).await.is_ok();
        let mut state = lock(&self.state);
        if state.is_over || (state.reader.is_none() && !kind.is_state()) {
            return false;
        }
        state.lags |= !is_in_time;
        state.waiting.push(kind, message);
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Waits until the message can be added without dropping any, or nobody is waited for.
    async fn room(&self, kind: &Kind, message: &str) {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = lock(&self.state);
                let has_room = state.waiting.has_room(kind, message);
                state.lags &= !has_room;
                if has_room || state.lags || state.reader.is_none() {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Asks the client, and waits for its response. Dropped before, the question is cancelled.
    pub(crate) async fn ask(&self, method: &str, params: Box<RawValue>, begun: Begun) -> Answer {
        // Nobody can guess it, so nobody else can answer.
        let id = Uuid::new_v4().to_string();
        let Begun { room, taken_back, .. } = begun;
        let question = line::question(&id, method, &params);
        // It may be large, and people answer.
        drop(params);
        let (sender, answer) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.reader.is_none() {
                return Err(McpError::internal_error("the client cannot be asked: its GET stream is closed"));
            }
            state.asked.insert(id.clone(), Question { answer: sender, room });
            state.waiting.push(Kind::Question(id.clone()), question);
        }
        self.changed.notify_waiters();
        let _asked = Asked { id, outlet: self, taken_back };
        match timeout(LONGEST_ASKING, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(McpError::internal_error("the session has ended")),
            Err(_) => Err(McpError::internal_error("the client has not answered in time")),
        }
    }

    /// The client's response.
    pub(crate) fn answered(&self, id: &str, answer: Answer) {
        match lock(&self.state).asked.remove(id) {
            Some(question) => drop(question.answer.send(answer)),
            None => tracing::debug!("a response to no question"),
        }
    }

    /// Ends the stream, because this server has ended. The stream of a later server goes on.
    pub(crate) fn interrupt(&self, server: u64) {
        let mut state = lock(&self.state);
        if state.server_of_reader > server {
            return;
        }
        state.reader = None;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends with its session.
    pub(crate) fn close(&self) {
        *lock(&self.state) = State { is_over: true, ..State::default() };
        self.changed.notify_waiters();
    }
}

impl Reader {
    /// The next message, one line; `None` once the stream is over.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let changed = self.outlet.changed.notified();
            {
                let mut state = lock(&self.outlet.state);
                if state.reader != Some(self.stream) {
                    return None;
                }
                if let Some((kind, message)) = state.waiting.pop() {
                    if let Kind::Question(id) = kind
                        && let Some(question) = state.asked.get_mut(&id)
                    {
                        question.room = None;
                    }
                    drop(state);
                    self.outlet.changed.notify_waiters();
                    return Some(message);
                }
            }
            changed.await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.outlet.state);
        if state.reader == Some(self.stream) {
            state.reader = None;
            drop(state);
            self.outlet.changed.notify_waiters();
        }
    }
}

/// A question that waits for its answer.
struct Asked<'a> {
    id: String,
    outlet: &'a Outlet,
    taken_back: TakenBack,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.outlet.state);
        // One that is answered is no longer there, and one that was not sent need not be cancelled.
        if state.asked.remove(&self.id).is_none() || state.waiting.remove_question(&self.id) {
            return;
        }
        let id = line::raw(&self.id);
        let own = line::raw(&serde_json::json!({ "requestId": &self.id }));
        let params = self.taken_back.get().filter(|params| params.get().len() <= LONGEST_WITHDRAWAL);
        let params = params.and_then(|params| Object::read(params));
        let params = params.map_or(own, |params| params.with("requestId", id.get()));
        state.waiting.push(Kind::Withdrawal, line::notification("notifications/cancelled", Some(&params)));
        drop(state);
        self.outlet.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;

    async fn list_changed(outlet: &Outlet) -> bool {
        outlet.hear("notifications/tools/list_changed", None).await
    }

    /// Says something that is neither a state nor a question.
    async fn log(outlet: &Outlet, n: usize) -> bool {
        outlet.hear("notifications/message", Some(&line::raw(&json!({ "n": n })))).await
    }

    fn logged(n: usize) -> String {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"n":{n}}}}}"#)
    }

    const LIST_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

    #[tokio::test]
    async fn what_happened_before_the_stream_is_told_once() {
        let outlet = Arc::new(Outlet::default());
        assert!(list_changed(&outlet).await && list_changed(&outlet).await);
        assert!(!log(&outlet, 0).await, "nobody is there to read it");
        let mut reader = outlet.read();
        assert_eq!(reader.next().await.unwrap(), LIST_CHANGED);
        assert_eq!(reader.next().now_or_never(), None);
        assert!(log(&outlet, 1).await);
        assert_eq!(reader.next().await.unwrap(), logged(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_hears_all_of_a_burst_and_one_that_does_not_is_waited_for_once() {
        const MOST: usize = 64;

        let outlet = Arc::new(Outlet::default());
        let mut reader = outlet.read();
        let burst = async {
            for n in 0..500 {
                assert!(log(&outlet, n).await);
            }
        };
        let client = async {
            for n in 0..500 {
                assert_eq!(reader.next().await.unwrap(), logged(n));
            }
        };
        let began = Instant::now();
        tokio::join!(burst, client);
        assert_eq!(began.elapsed(), Duration::ZERO);

        for n in 0..500 {
            assert!(log(&outlet, n).await);
        }
        assert_eq!(began.elapsed().as_millis(), PATIENCE.as_millis(), "it is waited for once");
        for n in 500 - MOST..500 {
            assert_eq!(reader.next().await.unwrap(), logged(n), "the newest are kept");
        }
        // It has read again, so it is waited for again.
        for n in 0..MOST {
            log(&outlet, n).await;
        }
        let mut next = std::pin::pin!(log(&outlet, MOST));
        assert_eq!((&mut next).now_or_never(), None);
        assert_eq!(reader.next().await.unwrap(), logged(0));
        assert!(next.await);
        // A client that disconnects is not waited for.
        let mut next = std::pin::pin!(log(&outlet, MOST + 1));
        assert_eq!((&mut next).now_or_never(), None);
        drop(reader);
        assert!(!next.await);
    }

    #[tokio::test]
    async fn the_newer_stream_replaces_the_older_one() {
        let outlet = Arc::new(Outlet::default());
        let mut old = outlet.read();
        let mut new = outlet.read();
        assert_eq!(old.next().await, None);
        drop(old);
        assert!(outlet.is_open());
        list_changed(&outlet).await;
        assert_eq!(new.next().await.unwrap(), LIST_CHANGED);
        drop(new);
        assert!(!outlet.is_open());
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_server_and_with_its_session() {
        let outlet = Arc::new(Outlet::default());
        let server = outlet.begin();
        let mut reader = outlet.read();
        outlet.interrupt(server);
        assert_eq!(reader.next().await, None);
        let mut reader = outlet.read();
        let (server, successor) = (outlet.begin(), outlet.begin());
        outlet.interrupt(server);
        assert_eq!(reader.next().await, None, "it was opened before either");
        let mut reader = outlet.read();
        outlet.interrupt(server);
        assert_eq!(reader.next().now_or_never(), None, "it is the successor's");
        assert!(outlet.is_open());
        outlet.interrupt(successor);
        assert_eq!(reader.next().await, None);
        let mut reader = outlet.read();
        list_changed(&outlet).await;
        outlet.close();
        assert_eq!(reader.next().await, None);
        assert!(!list_changed(&outlet).await);
        assert_eq!(outlet.read().next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_answered_by_its_id_and_nothing_else() {
        let outlet = Arc::new(Outlet::default());
        let params = line::raw(&json!({}));
        outlet.ask("roots/list", params.clone(), Begun::default()).await.unwrap_err();
        let mut reader = outlet.read();
        let answer = outlet.ask("roots/list", params.clone(), Begun::default());
        let client = async {
            let question: Value = serde_json::from_str(&reader.next().await.unwrap()).unwrap();
            assert_eq!((&question["method"], &question["params"]), (&json!("roots/list"), &json!({})));
            outlet.answered("1", Ok(line::raw(&0)));
            outlet.answered(question["id"].as_str().unwrap(), Ok(line::raw(&1)));
            outlet.answered(question["id"].as_str().unwrap(), Ok(line::raw(&2)));
        };
        let (answer, ()) = tokio::join!(answer, client);
        assert_eq!(answer.unwrap().get(), "1");
        assert_eq!(reader.next().now_or_never(), None);

        let error = outlet.ask("roots/list", params.clone(), Begun::default()).await.unwrap_err();
        assert!(error.message().contains("in time"), "{error}");
    }

    #[tokio::test]
    async fn a_question_takes_room_until_it_is_read_or_given_up() {
        let outlet = Arc::new(Outlet::default());
        let room = Arc::new(tokio::sync::Semaphore::new(1));
        let ask = || {
            let room = Some(Arc::clone(&room).try_acquire_owned().unwrap());
            Box::pin(outlet.ask("roots/list", line::raw(&json!({})), Begun { room, ..Begun::default() }))
        };
        assert!(ask().await.is_err(), "there is no stream");
        let mut reader = outlet.read();
        let mut given_up = ask();
        assert!((&mut given_up).now_or_never().is_none());
        assert_eq!(room.available_permits(), 0);
        drop(given_up);
        let mut read = ask();
        assert!((&mut read).now_or_never().is_none());
        assert_eq!(room.available_permits(), 0);
        reader.next().await.unwrap();
        assert_eq!(room.available_permits(), 1);
        outlet.close();
        assert!(read.await.is_err());
    }

    #[tokio::test]
    async fn a_question_that_was_read_is_taken_back_by_its_id() {
        let outlet = Arc::new(Outlet::default());
        let params = line::raw(&json!({}));
        let mut reader = outlet.read();
        let taken_back = TakenBack::default();
        let begun = || Begun { taken_back: Arc::clone(&taken_back), ..Begun::default() };
        assert!(outlet.ask("roots/list", params.clone(), begun()).now_or_never().is_none());
        assert_eq!(reader.next().now_or_never(), None, "it was never sent");
        let mut question = Box::pin(outlet.ask("roots/list", params.clone(), begun()));
        assert!((&mut question).now_or_never().is_none());
        let id = serde_json::from_str::<Value>(&reader.next().await.unwrap()).unwrap()["id"].clone();
        taken_back.set(line::raw(&json!({ "reason": "late", "requestId": 1 }))).unwrap();
        drop(question);
        let cancelled: Value = serde_json::from_str(&reader.next().await.unwrap()).unwrap();
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"], json!({ "reason": "late", "requestId": id }));
    }

    #[tokio::test]
    async fn a_long_reason_is_not_kept_for_a_client_that_may_not_read() {
        for (length, is_told) in [(60 << 10, true), (70 << 10, false)] {
            let outlet = Arc::new(Outlet::default());
            let mut reader = outlet.read();
            let begun = Begun::default();
            let reason = json!({ "reason": "x".repeat(length), "requestId": 1 });
            begun.taken_back.set(line::raw(&reason)).unwrap();
            let mut question = Box::pin(outlet.ask("roots/list", line::raw(&json!({})), begun));
            assert!((&mut question).now_or_never().is_none());
            let id = serde_json::from_str::<Value>(&reader.next().await.unwrap()).unwrap()["id"].clone();
            drop(question);
            let cancelled: Value = serde_json::from_str(&reader.next().await.unwrap()).unwrap();
            assert_eq!(cancelled["params"]["requestId"], id);
            assert_eq!(cancelled["params"].get("reason").is_some(), is_told, "{length}");
        }
    }
}
