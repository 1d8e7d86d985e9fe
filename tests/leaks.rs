//! Nothing stays behind: no exchange, no handler, no task, no memory, however an exchange ended.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::alloc::System;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use futures_util::future::join_all;
use futures_util::stream;
use http::{Request, StatusCode};
use mcp_layer::{
    Cancellation, Change, Client, McpError, McpLayer, McpMessage, McpRouter, McpServer, McpServerBuilder, Notifier,
    Reply, ServerInfo, Subscriptions,
};
use serde::Deserialize;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;
use tower::ServiceExt;

use support::{Answer, Connection, Era, Events, Post, cancel, http2, modern, post, request, until};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The bytes that are allocated now.
fn live_bytes() -> isize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated).cast_signed()
}

/// One test at a time, because they all share the allocator.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handlers that have been called, and not been dropped.
#[derive(Clone, Debug, Default)]
struct Handlers(Arc<AtomicUsize>);

struct AtWork(Handlers);

impl Handlers {
    fn begin(&self) -> AtWork {
        self.0.fetch_add(1, Ordering::SeqCst);
        AtWork(self.clone())
    }

    fn number(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wish {
    notes: usize,
    ends: String,
}

async fn plain(State(handlers): State<Handlers>, message: McpMessage, notifier: Notifier) -> Response {
    let _at_work = handlers.begin();
    let Wish { notes, ends } = message.params().unwrap_or_default();
    for n in 0..notes {
        notifier.notify("notifications/message", json!({ "n": n, "text": "x".repeat(100) })).await.unwrap();
        notifier.progress(1.0, None, None);
    }
    match ends.as_str() {
        "error" => McpError::new(-1, "as asked").into_response(),
        // Past the panic hook: thousands of these would bury the output.
        "panic" => resume_unwind(Box::new("as asked")),
        "status" => (StatusCode::NOT_FOUND, "not here").into_response(),
        "nonsense" => "no JSON-RPC".into_response(),
        "never" => pending().await,
        _ => Reply(json!({ "text": "x".repeat(100) })).into_response(),
    }
}

/// Leaves a clone of the token behind for a moment, and stays for its grace time.
async fn polite(state: State<Handlers>, token: Cancellation, message: McpMessage, notifier: Notifier) -> Response {
    let at_work = state.0.begin();
    let watch = tokio::spawn({
        let token = token.clone();
        async move {
            tokio::select! {
                _ = token.cancelled() => {}
                () = sleep(Duration::from_millis(200)) => {}
            }
        }
    });
    let response = plain(state, message, notifier).await;
    watch.abort();
    drop(at_work);
    response
}

struct Place {
    app: Router,
    handlers: Handlers,
    server: McpServer,
}

impl Place {
    fn new(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Self {
        let handlers = Handlers::default();
        let short = Duration::from_millis(100);
        let server =
            options(McpServer::builder().request_timeout_of("late", Some(short)).max_body_bytes(2_000)).build();
        let app = Router::new().route("/mcp", on_post(plain)).route("/polite", on_post(polite));
        Self { app: app.with_state(handlers.clone()).layer(McpLayer::new(server.clone())), handlers, server }
    }

    fn call(&self, request: Request<Body>) -> Asking {
        let response = self.app.clone().oneshot(request);
        Box::pin(async { response.await.unwrap() })
    }

    async fn ask(&self, request: &Post) -> Answer {
        Answer::of(self.call(request.request()).await).await
    }

    /// Polls a request once: it is parked.
    async fn begin(&self, request: &Post) -> Asking {
        let parked = self.server.parked();
        let mut asking = self.call(request.request());
        if let Some(response) = polled(&mut asking).await {
            panic!("{:?} to {request:?}", Answer::of(response).await);
        }
        assert_eq!(self.server.parked(), parked + 1);
        asking
    }

    /// A stream that has begun, and of which nothing has been read.
    async fn open(&self, request: &Post) -> Events {
        let events = Events::of(self.call(request.request()).await, support::BOUND);
        events.streams();
        events
    }
}

type Asking = Pin<Box<dyn Future<Output = Response> + Send>>;

async fn polled(asking: &mut Asking) -> Option<Response> {
    poll_fn(|cx| match asking.as_mut().poll(cx) {
        Poll::Ready(response) => Poll::Ready(Some(response)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Every way for an exchange to end, and some for what is none.
#[derive(Clone, Copy, Debug)]
enum Way {
    Answered(&'static str, usize),
    Cancelled,
    CancelledStream,
    TimedOut,
    TimedOutStream,
    Left,
    LeftStream,
    /// And then cancelled.
    LeftLegacy,
    LeftLegacyStream,
    /// And then overtaken by its deadline.
    LeftLegacyLate,
    NeverRead,
    Duplicated,
    BodyBroke,
    BodyNeverCame,
    Refused(&'static str),
    Notified,
    NotifiedLeft,
    RememberedCancel,
    UnusedCancel,
}

impl Way {
    const ALL: [Self; 37] = [
        Self::Answered("", 0),
        Self::Answered("error", 0),
        Self::Answered("panic", 0),
        Self::Answered("status", 0),
        Self::Answered("nonsense", 0),
        Self::Answered("", 3),
        Self::Answered("", 70),
        Self::Answered("error", 3),
        Self::Answered("error", 70),
        Self::Answered("panic", 3),
        Self::Answered("panic", 70),
        Self::Answered("status", 3),
        Self::Answered("status", 70),
        Self::Answered("nonsense", 3),
        Self::Cancelled,
        Self::CancelledStream,
        Self::TimedOut,
        Self::TimedOutStream,
        Self::Left,
        Self::LeftStream,
        Self::LeftLegacy,
        Self::LeftLegacyStream,
        Self::LeftLegacyLate,
        Self::NeverRead,
        Self::Duplicated,
        Self::BodyBroke,
        Self::BodyNeverCame,
        Self::Refused("{"),
        Self::Refused("accept"),
        Self::Refused("content-type"),
        Self::Refused("host"),
        Self::Refused("mcp-method"),
        Self::Refused("too large"),
        Self::Notified,
        Self::NotifiedLeft,
        Self::RememberedCancel,
        Self::UnusedCancel,
    ];

    /// Goes it, to the end of its exchange.
    async fn go(self, place: &Place, era: Era, path: &str, id: &str) {
        let call = |wish: &Value| era.call(id, wish).to(path);
        let never = call(&json!({ "ends": "never" }));
        let never_json = never.clone().with("accept", "application/json");
        let notes = |count: usize| call(&json!({ "ends": "never", "notes": count, "_meta": { "progressToken": id } }));
        let legacy = |wish: &Value| Era::Legacy.call(id, wish).to(path);
        let legacy_never = legacy(&json!({ "ends": "never" }));
        let late = |notes: usize| {
            let wish = json!({ "ends": "never", "notes": notes });
            let asks = match era {
                Era::Legacy => post(request(id, "late", &wish)),
                Era::Modern => modern(id, "late", &wish),
            };
            asks.to(path)
        };
        let cancels = post(cancel(id)).to(path);
        match self {
            Self::Answered(ends, notes) => {
                let wish = json!({ "ends": ends, "notes": notes, "_meta": { "progressToken": id } });
                place.ask(&call(&wish)).await;
            }
            Self::Cancelled => {
                let asking = place.begin(&never_json).await;
                place.ask(&cancels).await.accepted();
                Answer::of(asking.await).await.error(200, era.cancelled(), id);
            }
            Self::CancelledStream => {
                let events = place.open(&notes(10)).await;
                place.ask(&cancels).await.accepted();
                events.ends_with_error_after_notes(era.cancelled(), id).await;
            }
            Self::TimedOut => drop(place.ask(&late(0)).await.error(200, era.timed_out(), id)),
            Self::TimedOutStream => {
                place.open(&late(10)).await.ends_with_error_after_notes(era.timed_out(), id).await;
            }
            Self::Left => drop(place.begin(&modern(id, "tools/call", &json!({ "ends": "never" })).to(path)).await),
            Self::LeftStream => {
                let wish = json!({ "ends": "never", "notes": 10 });
                drop(place.open(&modern(id, "tools/call", &wish).to(path)).await);
            }
            Self::LeftLegacy => {
                drop(place.begin(&legacy_never).await);
                place.ask(&cancels).await.accepted();
            }
            Self::LeftLegacyStream => {
                drop(place.open(&legacy(&json!({ "ends": "never", "notes": 10 }))).await);
                place.ask(&cancels).await.accepted();
            }
            Self::LeftLegacyLate => {
                drop(place.begin(&post(request(id, "late", &json!({ "ends": "never" }))).to(path)).await);
                until_parked(place, 0).await;
            }
            Self::NeverRead => {
                let events = place.open(&notes(100)).await;
                place.ask(&cancels).await.accepted();
                drop(events);
            }
            Self::Duplicated => {
                let same = [place.begin(&never_json).await, place.begin(&never_json).await];
                // Both at once: that is how this server is set.
                place.ask(&cancels).await.accepted();
                for asking in same {
                    Answer::of(asking.await).await.error(200, era.cancelled(), id);
                }
            }
            Self::BodyBroke => {
                let (parts, _) = never.request().into_parts();
                let pieces = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))];
                let response = place.call(Request::from_parts(parts, Body::from_stream(stream::iter(pieces)))).await;
                Answer::of(response).await.error(400, -32600, None);
            }
            Self::BodyNeverCame => {
                let (parts, _) = never.request().into_parts();
                let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
                let mut asking = place.call(Request::from_parts(parts, body));
                assert!(polled(&mut asking).await.is_none());
            }
            Self::Refused(why) => {
                let refused = match why {
                    "{" => post("{"),
                    "accept" => never.with("accept", "text/html"),
                    "content-type" => never.with("content-type", "text/plain"),
                    "host" => never.with("host", "evil.example"),
                    "mcp-method" => modern(id, "tools/call", &json!({})).with("mcp-method", "other"),
                    _ => post(vec![b' '; 3_000]),
                };
                assert!((400..500).contains(&place.ask(&refused).await.status), "{why}");
            }
            Self::Notified => place.ask(&post(r#"{"jsonrpc":"2.0","method":"x"}"#).to(path)).await.accepted(),
            Self::NotifiedLeft => {
                let waits = r#"{"jsonrpc":"2.0","method":"late","params":{"ends":"never"}}"#;
                let mut asking = place.call(post(waits).to(path).request());
                assert!(polled(&mut asking).await.is_none());
            }
            Self::RememberedCancel => {
                let session = |request: Post| request.and("mcp-session-id", id);
                place.ask(&session(cancels)).await.accepted();
                place.ask(&session(legacy_never)).await.error(200, support::CANCELLED, id);
            }
            Self::UnusedCancel => place.ask(&cancels.and("mcp-session-id", "never comes")).await.accepted(),
        }
    }
}

async fn until_parked(place: &Place, number: usize) {
    until(|| place.server.parked() == number).await;
}

/// Nothing is left, once all that has a time to end has ended.
async fn nothing_is_left(place: &Place, tasks: usize) {
    sleep(Duration::from_secs(60)).await;
    until(|| place.server.parked() == 0).await;
    until(|| place.handlers.number() == 0).await;
    until(|| Handle::current().metrics().num_alive_tasks() <= tasks).await;
}

/// The memory of a wave is free again, but for what is tolerated.
#[track_caller]
fn no_more(before: isize, tolerated: isize, what: &str) {
    let more = live_bytes() - before;
    assert!(more < tolerated, "{more} bytes more are left of {what}");
}

fn held_clock() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

#[test]
fn every_way_to_end_leaves_nothing() {
    const TIMES: usize = 60;
    let _alone = alone();
    held_clock().block_on(async {
        let honours = |options: McpServerBuilder| {
            options.honour_modern_cancel(true).ambiguous_cancel(mcp_layer::AmbiguousCancel::All)
        };
        let place = Place::new(honours);
        let tasks = Handle::current().metrics().num_alive_tasks();
        for way in Way::ALL {
            let mut before = 0;
            // The first waves may make things grow; the last must find room in what there is.
            for _ in 0..3 {
                before = live_bytes();
                for id in 0..TIMES {
                    for era in Era::BOTH {
                        for path in ["/mcp", "/polite"] {
                            way.go(&place, era, path, &id.to_string()).await;
                        }
                    }
                }
                nothing_is_left(&place, tasks).await;
            }
            no_more(before, 1_024, &format!("{way:?}"));
        }
    });
}

#[test]
fn all_ways_at_once_leave_nothing() {
    const TIMES: usize = 300;
    let _alone = alone();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = |options: McpServerBuilder| {
            options.honour_modern_cancel(true).cancel_grace(Duration::from_millis(50)).max_parked(100_000)
        };
        let place = Arc::new(Place::new(options));
        let tasks = Handle::current().metrics().num_alive_tasks();
        let mut before = 0;
        for wave in 0..3 {
            if wave == 2 {
                before = live_bytes();
            }
            let mut going = tokio::task::JoinSet::new();
            for id in 0..TIMES {
                let place = Arc::clone(&place);
                going.spawn(async move {
                    let (era, path) = (Era::BOTH[id % 2], ["/mcp", "/polite"][id / 2 % 2]);
                    for ends in ["", "error", "panic", "status", "nonsense"] {
                        for notes in [0, 3, 70] {
                            Way::Answered(ends, notes).go(&place, era, path, &id.to_string()).await;
                        }
                    }
                    let id = id.to_string();
                    let (never, streams) = (json!({ "ends": "never" }), json!({ "ends": "never", "notes": 3 }));
                    // In turn: cancelled, left, left and cancelled, never read, overtaken.
                    let asking = place.call(era.call(&id, &never).to(path).request());
                    let asking = tokio::spawn(asking);
                    let events = place.open(&era.call(&id, &streams).to(path).and("authorization", &id)).await;
                    drop(events);
                    asking.abort();
                    drop(asking.await);
                    place.ask(&post(cancel(&id))).await.accepted();
                    place.ask(&post(cancel(&id)).and("authorization", &id)).await.accepted();
                    let late = json!({ "ends": "never", "notes": 3 });
                    place.ask(&post(request(&id, "late", &late)).to(path)).await;
                });
            }
            while let Some(gone) = going.join_next().await {
                gone.unwrap();
            }
            until(|| place.server.parked() == 0).await;
            until(|| place.handlers.number() == 0).await;
            until(|| Handle::current().metrics().num_alive_tasks() <= tasks).await;
        }
        no_more(before, 64 * 1_024, "all ways at once");
    });
}

#[test]
fn a_shutdown_leaves_nothing() {
    let _alone = alone();
    held_clock().block_on(async {
        let tasks = Handle::current().metrics().num_alive_tasks();
        let mut before = 0;
        for wave in 0..3 {
            if wave == 2 {
                before = live_bytes();
            }
            let place = Place::new(|options| options.request_timeout(None));
            let (mut asking, mut streams) = (Vec::new(), Vec::new());
            for id in 0..500 {
                let id = id.to_string();
                for (era, path) in [(Era::Legacy, "/mcp"), (Era::Modern, "/polite")] {
                    let never = era.call(&id, &json!({ "ends": "never" })).to(path);
                    asking.push((era, place.begin(&never).await));
                    streams.push((
                        era,
                        place.open(&era.call(&id, &json!({ "ends": "never", "notes": 100 })).to(path)).await,
                    ));
                    drop(place.begin(&Era::Legacy.call(&id, &json!({ "ends": "never" })).to(path)).await);
                }
            }
            assert_eq!(place.server.parked(), 3_000);
            place.server.shutdown(Duration::from_secs(1)).await;
            assert_eq!(place.server.parked(), 0);
            // They are gone before anybody reads.
            until(|| place.handlers.number() == 0).await;
            for (era, asking) in asking {
                assert!(Answer::of(asking.await).await.text().contains(&era.shut_down().to_string()));
            }
            for (era, events) in streams {
                let id = if era == Era::Legacy { "legacy" } else { "modern" };
                assert_eq!(last_code(events).await, era.shut_down(), "{id}");
            }
            nothing_is_left(&place, tasks).await;
        }
        no_more(before, 1_024, "a shutdown");
    });
}

async fn last_code(mut events: Events) -> i64 {
    let mut last = String::new();
    while let Some(event) = events.next().await {
        last = event;
    }
    let last: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    last["error"]["code"].as_i64().unwrap()
}

/// Asks its client.
async fn asks(State(handlers): State<Handlers>, message: McpMessage, client: Client) -> Response {
    let _at_work = handlers.begin();
    if !message.is_request() {
        return StatusCode::OK.into_response();
    }
    let Wish { ends, .. } = message.params().unwrap_or_default();
    let ask = |client: Client| async move { client.request::<Value>("roots/list", json!({ "n": 1 })).await };
    match ends.as_str() {
        "impatient" => return ask(client.timeout(Duration::from_millis(5))).await.map(Reply).into_response(),
        "given up" => tokio::select! {
            _ = ask(client) => {}
            () = sleep(Duration::from_millis(5)) => {}
        },
        "panic" => tokio::select! {
            _ = ask(client) => {}
            () = async {
                sleep(Duration::from_millis(5)).await;
                resume_unwind(Box::new("as asked"))
            } => {}
        },
        "task" => drop(tokio::spawn(ask(client.clone()))),
        "many" => drop(join_all((0..100).map(|_| ask(client.clone()))).await),
        _ => return ask(client).await.map(Reply).into_response(),
    }
    Reply(json!({})).into_response()
}

async fn asks_politely(state: State<Handlers>, _token: Cancellation, message: McpMessage, client: Client) -> Response {
    asks(state, message, client).await
}

/// How a question ends: `ends`, and what its client does then.
async fn ask(place: &Place, path: &str, id: &str, (ends, does): (&str, &str)) {
    let method = if does == "late" { "late" } else { "tools/call" };
    let call = post(request(id, method, &json!({ "ends": ends }))).to(path);
    if does == "json" {
        place.ask(&call.with("accept", "application/json")).await.error(200, support::INTERNAL_ERROR, id);
        return;
    }
    let mut events = place.open(&call).await;
    if does == "unread" {
        place.ask(&post(cancel(id)).to(path)).await.accepted();
        return;
    }
    let question: Value = serde_json::from_str(&events.message().await).unwrap();
    let responds = |member: &str| post(format!(r#"{{"jsonrpc":"2.0","id":{},{member}}}"#, question["id"])).to(path);
    match does {
        "answers" => place.ask(&responds(r#""result":{"roots":[]}"#)).await.accepted(),
        "fails" => place.ask(&responds(r#""error":{"code":1,"message":"no"}"#)).await.accepted(),
        "repeats" => {
            for _ in 0..3 {
                place.ask(&responds(r#""result":1"#)).await.accepted();
            }
        }
        "leaves" => return,
        "cancels" => place.ask(&post(cancel(id)).to(path)).await.accepted(),
        _ => {}
    }
    while events.next().await.is_some() {}
}

#[test]
fn every_way_for_a_question_to_end_leaves_nothing() {
    const TIMES: usize = 60;
    let _alone = alone();
    held_clock().block_on(async {
        let mut place = Place::new(|options| options);
        let app = Router::new().route("/mcp", on_post(asks)).route("/polite", on_post(asks_politely));
        place.app = app.with_state(place.handlers.clone()).layer(McpLayer::new(place.server.clone()));
        let tasks = Handle::current().metrics().num_alive_tasks();
        for way in [
            ("", "answers"),
            ("", "fails"),
            ("", "repeats"),
            ("", "leaves"),
            ("", "cancels"),
            ("", "late"),
            ("", "unread"),
            ("", "json"),
            ("impatient", ""),
            ("given up", ""),
            ("panic", ""),
            ("many", "cancels"),
            ("many", "leaves"),
            ("many", "late"),
            ("many", "unread"),
        ] {
            let mut before = 0;
            for _ in 0..3 {
                before = live_bytes();
                for id in 0..TIMES {
                    for path in ["/mcp", "/polite"] {
                        ask(&place, path, &id.to_string(), way).await;
                    }
                }
                nothing_is_left(&place, tasks).await;
            }
            // Ids are random, and so is which shard of a table grows. 120 that are left are 16 KiB at least.
            no_more(before, 8 * 1_024, &format!("{way:?}"));
        }
        // What asks after its call has ended.
        let mut before = 0;
        for _ in 0..3 {
            before = live_bytes();
            for id in 0..TIMES {
                place
                    .ask(&post(request(&id.to_string(), "x", &json!({ "ends": "task" }))))
                    .await
                    .result(&id.to_string());
            }
            nothing_is_left(&place, tasks).await;
        }
        no_more(before, 8 * 1_024, "tasks");
    });
}

#[test]
fn subscriptions_leave_nothing() {
    const TIMES: usize = 100;
    let _alone = alone();
    held_clock().block_on(async {
        let subscriptions = Subscriptions::new();
        let mcp = McpRouter::new(ServerInfo::new("n", "1")).request("resources/read", asks);
        let mut place = Place::new(|options| options.honour_modern_cancel(true));
        let mcp = mcp.subscriptions(&subscriptions).with_state(place.handlers.clone());
        place.app = Router::new().route_service("/mcp", mcp).layer(McpLayer::new(place.server.clone()));
        let tasks = Handle::current().metrics().num_alive_tasks();
        for ends in ["left", "unread", "cancelled", "slow"] {
            let mut before = 0;
            for _ in 0..3 {
                before = live_bytes();
                for id in 0..TIMES {
                    let id = id.to_string();
                    let uris: Vec<_> = (0..100).map(|n| format!("{id}:{n}")).collect();
                    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
                    let mut events = place.open(&modern(&id, "subscriptions/listen", &filter)).await;
                    if ends == "unread" {
                        continue;
                    }
                    events.message().await;
                    if ends == "slow" {
                        for n in 0..400 {
                            subscriptions.publish(Change::ResourceUpdated(format!("{id}:{}", n % 100)));
                            tokio::task::yield_now().await;
                        }
                    }
                    if ends == "cancelled" {
                        place.ask(&post(cancel(&id))).await.accepted();
                        events.ends_with_error(-32800, &id).await;
                    }
                }
                nothing_is_left(&place, tasks).await;
            }
            no_more(before, 4 * 1_024, ends);
        }
    });
}

/// Sends progress as fast as it can.
async fn floods(State(handlers): State<Handlers>, notifier: Notifier) -> Reply<Value> {
    const MESSAGES: u32 = 20_000;
    let _at_work = handlers.begin();
    let text = "x".repeat(1_000);
    let before = live_bytes();
    for n in 0..MESSAGES {
        notifier.progress(f64::from(n), None, Some(&text));
        if n % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    Reply(json!(live_bytes() - before))
}

#[test]
fn a_client_that_never_reads_costs_what_waits_at_most() {
    let _alone = alone();
    held_clock().block_on(async {
        let handlers = Handlers::default();
        let server = McpServer::new();
        let app = Router::new().route("/mcp", on_post(floods)).with_state(handlers.clone());
        let place = Place { app: app.layer(McpLayer::new(server.clone())), handlers, server };
        for era in Era::BOTH {
            let mut events = place.open(&era.call("1", &json!({ "_meta": { "progressToken": 1 } }))).await;
            until(|| place.server.parked() == 0).await;
            let mut number = 0;
            let mut last = String::new();
            while let Some(event) = events.next().await {
                (number, last) = (number + 1, event);
            }
            assert_eq!(number, 66);
            let grown = support::result_of(last.strip_prefix("data: ").unwrap(), "1").as_i64().unwrap();
            assert!(grown < 256 * 1024, "{grown} bytes for 65 messages of a kilobyte");
        }
    });
}

#[test]
fn connections_leave_nothing() {
    const CONNECTIONS: usize = 300;
    let _alone = alone();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let place = Place::new(|options| options.cancel_grace(Duration::from_millis(50)));
        let site = support::Site::build(|_| McpServer::builder(), |_, _| place.app.clone());
        let live = site.listen().await;
        // `serve` has a task of its own, once it has been polled.
        until(|| Handle::current().metrics().num_alive_tasks() == 2).await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        let mut before = 0;
        for wave in 0..3 {
            if wave == 2 {
                before = live_bytes();
            }
            for id in 0..CONNECTIONS {
                let (era, path) = (Era::BOTH[id % 2], ["/mcp", "/polite"][id / 2 % 2]);
                let (id, way) = (id.to_string(), id % 7);
                let never = era.call(&id, &json!({ "ends": "never" })).to(path);
                let streams = era.call(&id, &json!({ "ends": "never", "notes": 3 })).to(path);
                let mut connection = live.connect().await;
                match way {
                    0 => drop(connection.post(&era.call(&id, &json!({}))).await.result(&id)),
                    1 => {
                        connection.send(never.bytes()).await;
                        until(|| place.server.parked() > 0).await;
                    }
                    2 => {
                        connection.send(streams.bytes()).await;
                        connection.head().await;
                    }
                    3 => {
                        connection.send(streams.bytes()).await;
                        connection.head().await;
                        connection.event().await;
                    }
                    // Half a body, half a head.
                    4 => connection.send(&never.bytes()[..never.bytes().len() - 5]).await,
                    5 => connection.send(&never.bytes()[..40]).await,
                    _ => over_http_2(&live, &streams).await,
                }
                drop::<Connection>(connection);
                until(|| {
                    // Legacy requests go on: they are cancelled from elsewhere.
                    place.server.parked() <= usize::from(era == Era::Legacy)
                })
                .await;
                if era == Era::Legacy {
                    live.post(&post(cancel(&id))).await.accepted();
                }
                until(|| place.server.parked() == 0).await;
            }
            until(|| place.handlers.number() == 0).await;
            until(|| Handle::current().metrics().num_alive_tasks() <= tasks).await;
        }
        no_more(before, 64 * 1_024, "connections");
    });
}

/// A connection with a stream that is reset, and one that is not.
async fn over_http_2(live: &support::Live, streams: &Post) {
    let sender = http2::connect(live).await;
    let reset = http2::open(&sender, http2::local(streams)).await;
    drop(reset);
    http2::ask(&sender, http2::local(&Era::Legacy.call("\"other\"", &json!({})))).await.result("\"other\"");
}
