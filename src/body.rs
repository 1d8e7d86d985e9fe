use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::sse::Event;
use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::exchange::{Lifecycle, Piece};
use crate::extract::Call;
use crate::foreign::Course;
use crate::reply::minted;

/// The longest silence before each of the first two comments of a stream. hyper does not see a client disconnect while unread
/// bytes follow its request, until a write fails. The first write after the client has left succeeds, and is answered with a
/// reset: that is the head, or the first comment if the client left right after the head.
const FIRST_PAUSES: Duration = Duration::from_millis(500);
const FIRST_COMMENTS: u8 = 2;

pin_project! {
    /// The events of a reply that is a stream. Dropped before its end, it means that the client is gone.
    pub(crate) struct ReplyStream {
        reader: Reader,
        keep_alive: Option<Duration>,
        comments: u8,
        // Armed only while there is nothing to send.
        #[pin]
        timer: Option<Sleep>,
    }
}

/// Who reads the stream.
struct Reader {
    exchange: Arc<Call>,
    has_all: bool,
}

impl ReplyStream {
    pub(crate) fn new(exchange: Arc<Call>, keep_alive: Option<Duration>) -> Self {
        Self { reader: Reader { exchange, has_all: false }, keep_alive, comments: 0, timer: None }
    }
}

impl Stream for ReplyStream {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut this = self.project();
        loop {
            match this.reader.exchange.notes().poll_next(cx) {
                Poll::Ready(Some(Piece::Message(message))) => {
                    this.timer.set(None);
                    return Poll::Ready(Some(Event::default().data(message)));
                }
                // Of a service's own stream that has ended before its head was sent.
                Poll::Ready(Some(Piece::Passing(_))) => {}
                Poll::Ready(None) => {
                    this.reader.has_all = true;
                    return Poll::Ready(None);
                }
                Poll::Pending => break,
            }
        }
        let Some(mut pause) = *this.keep_alive else { return Poll::Pending };
        if *this.comments < FIRST_COMMENTS {
            pause = pause.min(FIRST_PAUSES);
        }
        if this.timer.is_none() {
            this.timer.set(Some(sleep(pause)));
        }
        let Some(timer) = this.timer.as_mut().as_pin_mut() else { return Poll::Pending };
        ready!(timer.poll(cx));
        this.timer.set(None);
        *this.comments = this.comments.saturating_add(1);
        Poll::Ready(Some(Event::default().comment("")))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.has_all {
            self.exchange.in_flight().depart(&self.exchange);
        }
    }
}

/// A service's own stream, which passes as it is, and may end with an event of ours.
pub(crate) struct PassedStream {
    reader: Reader,
    course: Arc<Course>,
}

impl PassedStream {
    pub(crate) fn new(exchange: Arc<Call>, course: Arc<Course>) -> Self {
        Self { reader: Reader { exchange, has_all: false }, course }
    }

    /// An event of ours. Where others have ids it has one too: to a client that comes back nevertheless, as some do after an
    /// error, it says that nothing follows.
    fn event(&self, message: &str) -> Bytes {
        let has_id = self.course.is_resumable(&self.reader.exchange);
        let id = if has_id { format!("id: {}\n", minted()) } else { String::new() };
        format!("{id}data: {message}\n\n").into()
    }
}

impl http_body::Body for PassedStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match ready!(self.reader.exchange.notes().poll_next(cx)) {
            Some(Piece::Message(message)) => Some(Ok(Frame::data(self.event(&message)))),
            Some(Piece::Passing(bytes)) => Some(Ok(Frame::data(bytes))),
            None => {
                let is_first = !std::mem::replace(&mut self.reader.has_all, true);
                self.course.trailers().filter(|_| is_first).map(|trailers| Ok(Frame::trailers(trailers.clone())))
            }
        })
    }
}

pin_project! {
    /// A body that passes through, and ends when the server does.
    struct Passing {
        body: Body,
        #[pin]
        down: Option<WaitForCancellationFutureOwned>,
        lifecycle: Arc<Lifecycle>,
    }
}

/// Lets a body pass until the server is down.
pub(crate) fn passing(body: Body, lifecycle: &Arc<Lifecycle>) -> Body {
    if http_body::Body::is_end_stream(&body) {
        return body;
    }
    Body::new(Passing { body, down: None, lifecycle: Arc::clone(lifecycle) })
}

impl http_body::Body for Passing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = Pin::new(this.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        if this.down.is_none() {
            this.down.set(Some(this.lifecycle.down()));
        }
        this.down.as_pin_mut().map_or(Poll::Pending, |down| down.poll(cx).map(|()| None))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
