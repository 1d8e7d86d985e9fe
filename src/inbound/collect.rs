use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError};
use tokio::time::{sleep, timeout};

use super::budget::{Budget, Charge, OverBudget};

/// What is read of a refused body, at most: enough for its client to read the refusal and not a reset.
const DISCARDED: usize = 8 * 1024 * 1024;
const DISCARDED_FOR: Duration = Duration::from_secs(1);
/// A body of so many bytes is not charged, so that a cancel passes a full budget however it is framed. hyper's own buffer is larger.
const FREE: usize = 4 * 1024;
/// The most that is reserved because of a Content-Length.
const TRUSTED: usize = 64 * 1024;

/// Reads a body whole. One that comes in one piece is not copied.
#[derive(Debug)]
pub(crate) struct Collect {
    body: Body,
    limit: usize,
    first: Bytes,
    whole: BytesMut,
    /// Made only for a body that has to be waited for.
    charge: Option<Charge>,
}

#[derive(Debug, Eq, PartialEq)]
pub(crate) enum CollectError {
    /// It broke off.
    Broken,
    TooLarge,
    /// For a limit that another layer laid on it.
    TooLargeElsewhere,
}

impl Collect {
    pub(crate) fn new(body: Body, limit: usize) -> Self {
        Self { body, limit, first: Bytes::new(), whole: BytesMut::new(), charge: None }
    }

    /// Charges the budget with what has been received so far, until this is dropped. Call it after `poll` returned `Pending`:
    /// what arrives whole costs nothing.
    pub(crate) fn charge(&mut self, budget: &Arc<Budget>) -> Result<(), OverBudget> {
        match self.received() {
            ..=FREE => Ok(()),
            bytes => self.charge.get_or_insert_with(|| Charge::new(budget)).raise(bytes),
        }
    }

    fn received(&self) -> usize {
        self.first.len() + self.whole.len()
    }

    /// What has not been read.
    pub(crate) fn into_rest(self) -> Body {
        self.body
    }

    fn push(&mut self, data: Bytes) {
        if self.first.is_empty() && self.whole.is_empty() {
            self.first = data;
            return;
        }
        if self.whole.is_empty() {
            let known = self.first.len() + data.len();
            let rest = usize::try_from(self.body.size_hint().lower()).unwrap_or(usize::MAX);
            // No more than has come already, so that a promise costs its client something.
            self.whole.reserve(known + rest.min(TRUSTED).min(known));
            self.whole.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.whole.extend_from_slice(&data);
    }
}

impl Future for Collect {
    type Output = Result<Bytes, CollectError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers say nothing here.
                    let Ok(data) = frame.into_data() else { continue };
                    if this.received() + data.len() > this.limit {
                        return Poll::Ready(Err(CollectError::TooLarge));
                    }
                    this.push(data);
                }
                Some(Err(error)) if is_length_limit(&error) => {
                    return Poll::Ready(Err(CollectError::TooLargeElsewhere));
                }
                Some(Err(_)) => return Poll::Ready(Err(CollectError::Broken)),
                None if this.whole.is_empty() => return Poll::Ready(Ok(std::mem::take(&mut this.first))),
                None => return Poll::Ready(Ok(std::mem::take(&mut this.whole).freeze())),
            }
        }
    }
}

/// A limit that somebody else laid on the body.
fn is_length_limit(error: &axum::Error) -> bool {
    let mut source = Some(error as &(dyn std::error::Error + 'static));
    while let Some(error) = source {
        if error.is::<LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Reads on in a body that was refused, for a while, and not at once.
pub(crate) async fn discard(mut body: Body, patience: Duration) {
    if !patience.is_zero() {
        sleep(patience).await;
    }
    let discarded = async {
        let mut left = DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { break };
            left = rest;
        }
    };
    drop(timeout(DISCARDED_FOR, discarded).await);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    fn pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes()))).collect();
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn one_piece_is_not_copied() {
        let piece = Bytes::from_static(b"abc");
        let whole = Collect::new(Body::from(piece.clone()), 3).await.unwrap();
        assert_eq!(whole.as_ptr(), piece.as_ptr());
    }

    #[tokio::test]
    async fn pieces_are_joined_up_to_the_limit() {
        assert_eq!(Collect::new(pieces(&["", "ab", "", "c", "d"]), 4).await.unwrap(), "abcd");
        assert_eq!(Collect::new(pieces(&["ab", "c", "d"]), 3).await, Err(CollectError::TooLarge));
        assert_eq!(Collect::new(pieces(&[]), 0).await.unwrap(), "");
    }

    type Pieces = tokio::sync::mpsc::UnboundedSender<Result<Bytes, Infallible>>;

    /// A body whose pieces come one by one.
    fn channel() -> (Pieces, Body) {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        (sender, Body::from_stream(stream::poll_fn(move |cx| receiver.poll_recv(cx))))
    }

    #[tokio::test]
    async fn only_what_has_to_be_waited_for_is_charged() {
        let (sender, receiver) = channel();
        let sends = |length: &usize| sender.send(Ok::<_, Infallible>(vec![b' '; *length].into()));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let budget = Arc::new(Budget::new(FREE + 3));
        let mut collect = Collect::new(receiver, 2 * FREE);
        for (pieces, charged, used) in [
            (&[][..], Ok(()), 0),
            (&[FREE - 1], Ok(()), 0),
            (&[1], Ok(()), 0),
            (&[1, 0, 1], Ok(()), FREE + 2),
            (&[1], Ok(()), FREE + 3),
            (&[], Ok(()), FREE + 3),
            (&[1], Err(OverBudget), FREE + 3),
        ] {
            pieces.iter().for_each(|piece| sends(piece).unwrap());
            assert!(Pin::new(&mut collect).poll(&mut context).is_pending());
            assert_eq!((collect.charge(&budget), budget.used()), (charged, used), "{pieces:?}");
        }
        drop(collect.into_rest());
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_body_that_becomes_whole_needs_nothing_of_the_budget_for_its_end() {
        let (sender, receiver) = channel();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let budget = Arc::new(Budget::new(FREE + 1));
        let mut collect = Collect::new(receiver, 2 * FREE);
        for length in [FREE + 1, 100] {
            assert!(Pin::new(&mut collect).poll(&mut context).is_pending());
            assert_eq!(collect.charge(&budget), Ok(()));
            sender.send(Ok::<_, Infallible>(vec![b' '; length].into())).unwrap();
        }
        drop(sender);
        assert_eq!(collect.await.map(|body| body.len()), Ok(FREE + 101));
        assert_eq!(budget.used(), 0);
    }

    /// Sends these pieces and no more, though its length promises a lot.
    struct Promising(Vec<&'static str>);

    impl http_body::Body for Promising {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
            self.0.pop().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(http_body::Frame::data(piece.into())))))
        }

        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(1 << 30)
        }
    }

    #[test]
    fn a_promise_sets_no_more_aside_than_has_come() {
        let mut collect = Collect::new(Body::new(Promising(vec!["c", "ab"])), usize::MAX);
        assert!(Pin::new(&mut collect).poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        assert_eq!(&collect.whole[..], b"abc");
        assert!(collect.whole.capacity() <= 16, "{}", collect.whole.capacity());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        let body = Body::from_stream(stream::iter([Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("gone"))]));
        assert_eq!(Collect::new(body, 9).await, Err(CollectError::Broken));
    }

    #[tokio::test]
    async fn a_limit_that_another_layer_laid_is_a_limit() {
        let limited = http_body_util::Limited::new(pieces(&["ab", "cd"]), 3);
        assert_eq!(Collect::new(Body::new(limited), 9).await, Err(CollectError::TooLargeElsewhere));
    }

    #[tokio::test(start_paused = true)]
    async fn discarding_ends_with_the_body_the_bytes_or_the_time() {
        discard(pieces(&["a", "b"]), Duration::ZERO).await;
        discard(
            Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[0; 4096])))),
            Duration::ZERO,
        )
        .await;
        let began = tokio::time::Instant::now();
        let silent = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        discard(silent, Duration::from_millis(20)).await;
        assert_eq!(began.elapsed(), DISCARDED_FOR + Duration::from_millis(20));
    }
}
