//! What one exchange costs without HTTP: to read its message, to park and complete it, to park and cancel it. Beside the
//! times stand the allocations, as the aim is one for each exchange.
//!
//! These rooms are private, so they are compiled in here, at the root, from where they name each other.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher};

use self::exchange::{Caller, Callers, Completion, Exchange, InFlight, Key, Options, Outcome, Running};
use self::jsonrpc::Message;
use self::protocol::ProtocolVersion;

#[allow(dead_code, unreachable_pub, unused_imports, reason = "more of the room is there than is measured")]
#[path = "../src/exchange/mod.rs"]
mod exchange;
#[allow(dead_code, unreachable_pub, unused_imports, reason = "more of the room is there than is measured")]
#[path = "../src/jsonrpc/mod.rs"]
mod jsonrpc;
#[allow(dead_code, unreachable_pub, unused_imports, reason = "more of the room is there than is measured")]
#[path = "../src/protocol.rs"]
mod protocol;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Of a `tools/call`, with a text of so many bytes.
#[divan::bench(args = [100, 64 * 1024], sample_size = 100)]
fn decode(bencher: Bencher<'_, '_>, text_len: usize) {
    let text = "text and ".chars().cycle().take(text_len).collect::<String>();
    let body = Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":123456,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    ));
    bencher
        .counter(BytesCount::new(body.len()))
        .with_inputs(|| body.clone())
        .bench_values(|body| Message::decode(&body).expect("it is a message"));
}

/// The handler is done when it is first polled, as most are.
#[divan::bench(threads = [1, 2], sample_size = 1_000)]
fn park_and_complete(bencher: Bencher<'_, '_>) {
    let (in_flight, requests) = (in_flight(), Requests::default());
    bencher.with_inputs(|| requests.next()).bench_values(|(key, request)| {
        let mut guard = park(&in_flight, key, request, async { 7 });
        match poll(&mut guard) {
            Poll::Ready(Completion::Replied(Ok(reply))) => reply,
            other => panic!("{other:?}"),
        }
    });
}

/// The handler waits when the cancel comes.
#[divan::bench(threads = [1, 2], sample_size = 1_000)]
fn park_and_cancel(bencher: Bencher<'_, '_>) {
    let (in_flight, requests) = (in_flight(), Requests::default());
    bencher.with_inputs(|| requests.next()).bench_values(|(key, request)| {
        let mut guard = park(&in_flight, key.clone(), request, std::future::pending());
        assert!(poll(&mut guard).is_pending());
        in_flight.cancel(&key, None, None);
        match poll(&mut guard) {
            Poll::Ready(Completion::Ended(end)) if end.outcome == Outcome::Cancelled => {}
            other => panic!("{other:?}"),
        }
    });
}

fn in_flight() -> Arc<InFlight<u64>> {
    Arc::new(InFlight::new(Options::default()))
}

/// The requests of one session.
struct Requests {
    caller: Caller,
    last_id: AtomicU64,
}

impl Default for Requests {
    fn default() -> Self {
        let session = b"5e0f7a3c-93a4-4c39-a7c5-000000000001";
        Self { caller: Callers::default().caller(None, Some(session)), last_id: AtomicU64::new(0) }
    }
}

impl Requests {
    fn next(&self) -> (Key, Message) {
        let key = Key { caller: self.caller, id: self.last_id.fetch_add(1, Ordering::Relaxed).into() };
        let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
        (key, Message::decode(&body).expect("it is a message"))
    }
}

fn park(
    in_flight: &Arc<InFlight<u64>>,
    key: Key,
    request: Message,
    handler: impl Future<Output = u64> + Send + 'static,
) -> exchange::Guard<u64> {
    let exchange = Arc::new(Exchange::new(Arc::clone(in_flight), key, request, ProtocolVersion::V2025_11_25));
    in_flight.park(&exchange, Running::new(handler), false).expect("there is room")
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
