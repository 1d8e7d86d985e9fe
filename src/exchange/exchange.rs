use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use bytestring::ByteString;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use super::in_flight::InFlight;
use super::key::Key;
use super::notes::Notes;
use super::outcome::Outcome;
use super::running::{Panicked, Running};
use super::sync::{AtomicBool, Mutex, Ordering, fence, lock, try_lock};
use crate::jsonrpc::{Message, RequestId};
use crate::protocol::ProtocolVersion;

/// One request and all that its end needs, in one allocation, shared by its driver, the table and its handler.
#[derive(Debug)]
pub(crate) struct Exchange<T> {
    /// Where it is parked. The table there points back here until it ends.
    in_flight: Arc<InFlight<T>>,
    key: Key,
    request: Message,
    version: ProtocolVersion,
    /// The handler takes the token, so it is asked to stop where another is dropped.
    asked: AtomicBool,
    fired: Notify,
    notes: OnceLock<Box<Notes>>,
    /// Nobody reads notes any more, also those of a handler that has yet to send its first.
    notes_closed: AtomicBool,
    /// The head of a stream is on its way: from here on the body waits for notes, not the driver.
    streams: AtomicBool,
    /// The handler's request points back here: every way out takes the handler away.
    handler: Mutex<Option<Running<T>>>,
    /// It has a place among the limits.
    has_place: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    driver: Option<Waker>,
    end: Option<End>,
}

/// How an exchange ended, and the reason that was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<Arc<str>>,
}

/// The handler is being polled.
#[derive(Debug)]
pub(super) struct Busy;

impl<T> Exchange<T> {
    /// The key is the request's caller and id.
    pub(crate) fn new(in_flight: Arc<InFlight<T>>, key: Key, request: Message, version: ProtocolVersion) -> Self {
        Self {
            in_flight,
            key,
            request,
            version,
            asked: AtomicBool::new(false),
            fired: Notify::const_new(),
            notes: OnceLock::new(),
            notes_closed: AtomicBool::new(false),
            streams: AtomicBool::new(false),
            handler: Mutex::new(None),
            has_place: AtomicBool::new(true),
            state: Mutex::default(),
        }
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight<T>> {
        &self.in_flight
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn request(&self) -> &Message {
        &self.request
    }

    pub(crate) fn method(&self) -> &str {
        self.request.method().unwrap_or_default()
    }

    /// It waits for things to happen, and not for work to be done.
    pub(crate) fn is_subscription(&self) -> bool {
        self.method() == "subscriptions/listen"
    }

    pub(crate) fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The handler takes the token.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// How it ended, once it has.
    pub(crate) fn end(&self) -> Option<End> {
        lock(&self.state).end.clone()
    }

    /// The token: waits until the exchange ends before its handler does. For a handler that is done, that is for ever.
    pub(crate) async fn fired(&self) -> End {
        match self.ended().await {
            End { outcome: Outcome::Replied, .. } => std::future::pending().await,
            end => end,
        }
    }

    /// Waits until it ends, in whatever way. Whoever waits has [asked](Self::ask) before.
    pub(crate) async fn ended(&self) -> End {
        loop {
            let fired = self.fired.notified();
            match self.end() {
                Some(end) => return end,
                None => fired.await,
            }
        }
    }

    /// The notes of a reply that is, or becomes, a stream.
    pub(crate) fn notes(&self) -> &Notes {
        self.notes.get_or_init(Box::default)
    }

    /// Keeps the server's name, as JSON, for the result that the layer itself gives to a subscription.
    pub(crate) fn set_server_info(&self, info: ByteString) {
        self.notes().set_server_info(info);
    }

    pub(crate) fn server_info(&self) -> Option<&ByteString> {
        self.notes.get()?.server_info()
    }

    /// Nobody reads notes any more.
    pub(crate) fn close_notes(&self) {
        self.notes_closed.store(true, Ordering::Release);
        // Who waits for this makes the notes before it looks, so one of the two sees the other.
        fence(Ordering::SeqCst);
        if let Some(notes) = self.notes.get() {
            notes.close();
        }
    }

    /// Waits until nobody reads notes any more: the client is gone, or the exchange has ended, and then says how.
    pub(crate) async fn notes_over(&self) -> Option<Outcome> {
        let is_over = || self.are_notes_closed().then_some(None);
        self.when(|| self.end().map(|end| Some(end.outcome)).or_else(is_over)).await
    }

    /// Waits until the client is gone.
    pub(crate) async fn departed(&self) {
        self.when(|| self.are_notes_closed().then_some(())).await;
    }

    /// Waits until there is something to see. Whoever changes something about the notes, or the end, wakes it.
    async fn when<R>(&self, look: impl Fn() -> Option<R>) -> R {
        let notes = self.notes();
        loop {
            let changed = notes.changed();
            if let Some(seen) = look() {
                return seen;
            }
            changed.await;
        }
    }

    fn are_notes_closed(&self) -> bool {
        fence(Ordering::SeqCst);
        self.notes_closed.load(Ordering::Acquire) || !self.notes().is_open()
    }

    /// Nobody has read notes to their end, and nobody will: the client is gone.
    pub(crate) fn is_left(&self) -> bool {
        self.notes_closed.load(Ordering::Acquire)
    }

    /// A note waits, so the reply must be a stream.
    pub(crate) fn has_notes(&self) -> bool {
        self.notes.get().is_some_and(|notes| notes.is_waiting())
    }

    /// Sends a note, as soon as there is room for it.
    pub(crate) async fn note(&self, note: String) {
        if !self.notes_closed.load(Ordering::Acquire) {
            self.send(self.notes().push(note)).await;
        }
    }

    /// Sends a request to the client in the same way. Then it is answered, or taken back.
    pub(crate) async fn question(&self, id: RequestId, question: String) {
        if !self.notes_closed.load(Ordering::Acquire) {
            self.send(self.notes().push_question(id, question)).await;
        }
    }

    /// The client has answered this question.
    pub(crate) fn question_answered(&self, id: &RequestId) {
        self.notes().answered(id);
    }

    /// Nobody waits for the answer to this question any more.
    pub(crate) fn take_question_back(&self, id: &RequestId) {
        self.notes().take_back(id);
    }

    async fn send(&self, sent: impl Future<Output = ()>) {
        let mut sent = std::pin::pin!(sent);
        std::future::poll_fn(|cx| {
            let polled = sent.as_mut().poll(cx);
            self.wake_driver();
            polled
        })
        .await;
    }

    /// Sends a piece of a service's own stream, as soon as there is room for it.
    pub(crate) async fn pass(&self, bytes: Bytes) {
        // Where nobody has to wait, a stream that is always ready would never let its exchange be ended.
        consume_budget().await;
        if !bytes.is_empty() && !self.notes_closed.load(Ordering::Acquire) {
            self.notes().pass(bytes).await;
        }
    }

    /// The same for the answer, which waits for no room: a shutdown would find it on its way, and not wait.
    pub(crate) fn pass_answer(&self, bytes: Bytes) {
        if !self.notes_closed.load(Ordering::Acquire) {
            self.notes().pass_answer(bytes);
        }
    }

    /// Sends a note that a newer one may replace.
    pub(crate) fn note_newest(&self, note: String) {
        if self.notes_closed.load(Ordering::Acquire) {
            return;
        }
        self.notes().push_newest(note);
        self.wake_driver();
    }

    /// The driver has yet to see that the reply is a stream.
    fn wake_driver(&self) {
        if !self.streams.load(Ordering::Acquire) && self.has_notes() {
            let driver = lock(&self.state).driver.take();
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }

    /// The head of the stream is on its way.
    pub(crate) fn set_streams(&self) {
        self.streams.store(true, Ordering::Release);
    }

    pub(super) fn start(&self, handler: Running<T>) {
        *lock(&self.handler) = Some(handler);
    }

    /// Sets the outcome. Only the table calls this, with the entry's lock held, so it happens once.
    pub(super) fn set_end(&self, end: End) {
        let mut state = lock(&self.state);
        debug_assert!(state.end.is_none(), "an exchange ends once");
        state.end = Some(end);
    }

    /// Lets everybody know of the end.
    pub(super) fn announce_end(&self) {
        let driver = lock(&self.state).driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
        // Who takes the token has asked before it looks for the end, and both are under the lock: none is missed.
        if self.is_asked() {
            self.fired.notify_waiters();
        }
        // The same goes for who waits for the end of the notes, and has made them before.
        if let Some(notes) = self.notes.get() {
            notes.tell_changed();
        }
    }

    pub(super) fn poll_handler(&self, cx: &mut Context<'_>) -> Poll<Result<T, Panicked>> {
        let mut slot = lock(&self.handler);
        let Some(handler) = &mut *slot else { return Poll::Pending };
        let polled = Pin::new(handler).poll(cx);
        if polled.is_ready() {
            *slot = None;
        }
        polled
    }

    /// Sees the end, or is woken by it.
    pub(super) fn poll_end(&self, cx: &Context<'_>) -> Poll<End> {
        let mut state = lock(&self.state);
        if let Some(end) = &state.end {
            return Poll::Ready(end.clone());
        }
        match &mut state.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The handler, if there is one. `Err` if it is being polled at this moment: then its driver sees the end right after.
    pub(super) fn take_handler(&self) -> Result<Option<Running<T>>, Busy> {
        try_lock(&self.handler).map(|mut handler| handler.take()).ok_or(Busy)
    }

    /// Says once that the place among the limits is to be given back.
    pub(super) fn give_up_place(&self) -> bool {
        self.has_place.swap(false, Ordering::Relaxed)
    }
}
