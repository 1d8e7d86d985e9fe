//! A server that ends: everybody has an answer, and nobody is waited for who does not ask.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post as on_post};
use futures_util::{StreamExt, stream};
use http::StatusCode;
use mcp_layer::{Cancellation, McpLayer, McpMessage, McpServer, Outcome, Reply};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use support::{
    Answer, BOUND, CANCELLED, Connection, Era, Events, INTERNAL_ERROR, Live, Post, Probe, Site, call, cancel, chunk,
    error_of, held, http2, modern, note, post, request, until,
};

/// Drains from now on.
async fn begins(server: &McpServer, drain: Duration) -> JoinHandle<()> {
    let server = server.clone();
    let mut shutdown = Box::pin(async move { server.shutdown(drain).await });
    let is_over = poll_fn(|cx| Poll::Ready(shutdown.as_mut().poll(cx).is_ready())).await;
    assert!(!is_over, "there was nothing to wait for");
    tokio::spawn(shutdown)
}

async fn in_time<T>(task: impl Future<Output = T>) -> T {
    timeout(BOUND, task).await.expect("in time")
}

fn notification(params: &Value) -> Post {
    post(json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": params }).to_string())
}

/// Sends something, and never ends.
fn endless() -> Body {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b": first\n\n"))]);
    Body::from_stream(first.chain(stream::pending()))
}

/// With a stream of the inner service's own on GET.
fn with_get(server: &McpServer, probe: &Arc<Probe>) -> Router {
    let streams = get(async || ([("content-type", "text/event-stream")], endless()));
    let never = get(async || std::future::pending::<StatusCode>().await);
    let routes = Router::new().route("/streams", streams).route("/never", never);
    Site::routes(probe).merge(routes).layer(McpLayer::new(server.clone()))
}

fn get_of(path: &str) -> Post {
    post("").method("GET").to(path)
}

/// With axum's graceful shutdown, as the documentation wants it.
async fn graceful(site: Site) -> (Live, oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (live, served) = site
        .listen_until(async {
            stopped.await.ok();
        })
        .await;
    (live, stop, served)
}

#[tokio::test]
async fn what_finishes_while_it_drains_has_its_result_and_the_others_an_error() {
    let (live, stop, served) = graceful(Site::new()).await;
    let finishes = |id: &str, notes: Value| json!({ "gate": "finishes", "notes": notes, "text": id });
    let stays = |notes: Value| json!({ "gate": "stays", "notes": notes });
    let mut asked = Vec::new();
    for (era, path) in [(Era::Legacy, "/mcp"), (Era::Modern, "/polite")] {
        for notes in [json!([]), json!(["a"])] {
            asked.push((era, true, live.park(&era.call("1", &finishes("1", notes.clone())).to(path))));
            asked.push((era, false, live.park(&era.call("2", &stays(notes)).to(path))));
        }
    }
    live.parked(8).await;
    stop.send(()).unwrap();
    let shutdown = begins(&live.server, Duration::from_millis(300)).await;
    live.probe.open("finishes");
    for (era, finishes, asked) in asked {
        let answer = in_time(asked.answer()).await;
        assert_eq!(answer.status, 200);
        let text = answer.text();
        let last = match answer.header("content-type") {
            Some("application/json") => text.to_owned(),
            _ => {
                let first = format!("data: {}\n\ndata: ", note(&json!("a")));
                text.strip_prefix(&first).and_then(|last| last.strip_suffix("\n\n")).unwrap().to_owned()
            }
        };
        if finishes {
            assert_eq!(support::result_of(&last, "1"), json!({ "text": "1" }));
        } else {
            error_of(&last, era.shut_down(), Some("2"));
        }
    }
    in_time(shutdown).await.unwrap();
    in_time(served).await.unwrap();
    assert_eq!((live.outcomes.count(Outcome::Replied), live.outcomes.count(Outcome::ShutDown)), (4, 4));
    assert_eq!(live.server.parked(), 0);
    // They are dropped with the rest of what goes on in the background.
    assert_eq!(live.probe.log().iter().filter(|line| line.starts_with("dropped")).count(), 4);
}

#[tokio::test]
async fn a_stream_ends_with_one_error_and_properly() {
    for era in Era::BOTH {
        let (live, stop, served) = graceful(Site::new()).await;
        let mut connection = live.connect().await;
        connection.send(era.call("1", &json!({ "notes": ["a"], "gate": "gate" })).bytes()).await;
        connection.head().await;
        assert_eq!(connection.event().await, format!("data: {}", note(&json!("a"))));
        stop.send(()).unwrap();
        in_time(live.server.shutdown(Duration::from_millis(50))).await;
        let last = connection.event().await;
        error_of(last.strip_prefix("data: ").unwrap(), era.shut_down(), Some("1"));
        connection.end_of_stream().await;
        connection.closed().await;
        in_time(served).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_new_is_let_in_while_it_drains_and_after() {
    let site = Site::build(|options| options, with_get);
    let live = site.listen().await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    let shutdown = begins(&live.server, BOUND).await;
    for is_down in [false, true] {
        if is_down {
            live.probe.open("gate");
            parked_result(&live, &shutdown).await;
        }
        for era in Era::BOTH {
            let answer = live.post(&era.call("\"m\"", &json!({}))).await;
            answer.error(503, INTERNAL_ERROR, "\"m\"");
            assert_eq!(answer.header("retry-after"), None);
        }
        live.post(&get_of("/streams")).await.error(503, INTERNAL_ERROR, None);
        live.post(&post("").method("DELETE")).await.error(503, INTERNAL_ERROR, None);
        assert_eq!(live.post(&post("").method("OPTIONS")).await.status, 405);
        let answer = live.post(&notification(&json!({}))).await;
        if is_down {
            answer.error(503, INTERNAL_ERROR, None);
        } else {
            answer.accepted();
        }
    }
    parked.answer().await.result("1");
    in_time(shutdown).await.unwrap();
    assert_eq!(live.probe.log().iter().filter(|line| line.starts_with("started")).count(), 2);
}

async fn parked_result(live: &Live, shutdown: &JoinHandle<()>) {
    live.parked(0).await;
    until(|| shutdown.is_finished()).await;
}

#[tokio::test]
async fn half_an_upload_is_refused_at_once() {
    let live = Live::new().await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    let mut uploads = Vec::new();
    for request in [post(held("2")).bytes(), post(held("3")).chunked(20), Era::Modern.held("4").bytes()] {
        let mut connection = live.connect().await;
        connection.send(&request[..request.len() - 10]).await;
        uploads.push(connection);
    }
    // So that it has read what there is.
    live.post(&notification(&json!({}))).await.accepted();
    let shutdown = begins(&live.server, BOUND).await;
    for mut connection in uploads {
        connection.answer().await.error(503, INTERNAL_ERROR, None);
    }
    live.probe.open("gate");
    parked.answer().await.result("1");
    in_time(shutdown).await.unwrap();
}

/// Writes on, as one that has much to send.
async fn writes_on(connection: &mut Connection) {
    for _ in 0..64 {
        connection.send(chunk(&[b' '; 64 * 1024])).await;
    }
    connection.send("0\r\n\r\n").await;
}

#[tokio::test]
async fn a_client_that_is_still_writing_reads_the_refusal() {
    let live = Live::new().await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    let mut connection = live.connect().await;
    connection.send(post("").chunked_head()).await;
    connection.send(chunk(b"{")).await;
    live.post(&notification(&json!({}))).await.accepted();
    let shutdown = begins(&live.server, BOUND).await;
    writes_on(&mut connection).await;
    connection.answer().await.error(503, INTERNAL_ERROR, None);
    live.probe.open("gate");
    parked.answer().await.result("1");
    in_time(shutdown).await.unwrap();
}

#[tokio::test]
async fn a_client_that_is_still_writing_reads_the_refusal_where_nothing_else_is_left() {
    for drain in [Duration::ZERO, BOUND] {
        let live = Live::new().await;
        let mut connection = live.connect().await;
        connection.send(post("").chunked_head()).await;
        connection.send(chunk(b"{")).await;
        live.post(&notification(&json!({}))).await.accepted();
        in_time(live.server.shutdown(drain)).await;
        writes_on(&mut connection).await;
        connection.answer().await.error(503, INTERNAL_ERROR, None);
    }
}

#[tokio::test]
async fn cancels_still_work_while_it_drains() {
    let live = Live::new().await;
    let parked = live.park(&post(held("1")).to("/polite"));
    live.parked(1).await;
    let shutdown = begins(&live.server, BOUND).await;
    live.post(&post(cancel("1"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
    in_time(shutdown).await.unwrap();
    // Within the drain the handler has its grace time.
    assert_eq!((live.probe.count("fired 1: Cancelled None"), live.probe.count("returned 1")), (1, 1));
    assert_eq!(live.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
}

#[tokio::test]
async fn cancels_whose_body_follows_their_head_still_work_while_it_drains() {
    let live = Live::new().await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    let shutdown = begins(&live.server, BOUND).await;
    let mut connection = live.connect().await;
    let cancels = post(cancel("1"));
    connection.send(cancels.head()).await;
    // As many clients write: the head and the body in a segment each.
    live.post(&notification(&json!({}))).await.accepted();
    connection.send(cancel("1")).await;
    connection.answer().await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
    in_time(shutdown).await.unwrap();
}

fn listens(era: Era, id: &str, notes: &Value) -> Post {
    let params = json!({ "notes": notes, "gate": "never", "stays_for": "stays" });
    match era {
        Era::Legacy => post(request(id, "subscriptions/listen", &params)),
        Era::Modern => modern(id, "subscriptions/listen", &params),
    }
}

fn closed(id: &Value) -> Value {
    json!({ "resultType": "complete", "_meta": { "io.modelcontextprotocol/subscriptionId": id } })
}

#[tokio::test]
async fn a_subscription_is_closed_when_the_drain_begins() {
    for path in ["/mcp", "/polite"] {
        let live = Live::new().await;
        let others = live.park(&post(held("1")));
        live.parked(1).await;
        let json = live.park(&listens(Era::Modern, "\"s\"", &json!([])).with("accept", "application/json").to(path));
        live.parked(2).await;
        let mut connection = live.connect().await;
        connection.send(listens(Era::Modern, "7", &json!(["a"])).to(path).bytes()).await;
        connection.head().await;
        assert_eq!(connection.event().await, format!("data: {}", note(&json!("a"))));
        let shutdown = begins(&live.server, BOUND).await;
        assert_eq!(json.answer().await.result("\"s\""), closed(&json!("s")));
        let cancelled = connection.event().await;
        let cancelled: Value = serde_json::from_str(cancelled.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(cancelled["method"], "notifications/cancelled");
        let id = json!({ "requestId": 7, "_meta": { "io.modelcontextprotocol/subscriptionId": 7 } });
        assert_eq!((&cancelled["params"], cancelled.get("id")), (&id, None));
        let last = connection.event().await;
        assert_eq!(support::result_of(last.strip_prefix("data: ").unwrap(), "7"), closed(&json!(7)));
        connection.end_of_stream().await;
        assert_eq!((live.server.parked(), live.outcomes.count(Outcome::ShutDown)), (1, 2));
        if path == "/polite" {
            live.probe.until("fired 7: ShutDown None").await;
            live.probe.open("stays");
            live.probe.until("returned 7").await;
        }
        live.probe.open("gate");
        others.answer().await.result("1");
        in_time(shutdown).await.unwrap();
    }
}

#[tokio::test]
async fn a_subscription_that_was_left_ends_too() {
    let site = Site::new();
    let asked = site.begin(&listens(Era::Legacy, "1", &json!([])));
    site.parked(1).await;
    asked.abort();
    site.probe.until("started 1").await;
    tokio::task::yield_now().await;
    in_time(site.server.shutdown(BOUND)).await;
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::ShutDown)]);
}

#[tokio::test]
async fn streams_of_the_inner_service_end_with_the_drain_and_not_before() {
    let (live, stop, served) = graceful(Site::build(|options| options, with_get)).await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    let mut streams = live.connect().await;
    streams.send(get_of("/streams").bytes()).await;
    assert_eq!(streams.head().await.status, 200);
    assert_eq!(streams.event().await, ": first");
    let mut never = live.connect().await;
    never.send(get_of("/never").bytes()).await;
    let sender = http2::connect(&live).await;
    let mut over_2 = Events::of(http2::open(&sender, http2::local(&get_of("/streams"))).await, BOUND);
    assert_eq!(over_2.next().await.unwrap(), ": first");

    stop.send(()).unwrap();
    let shutdown = begins(&live.server, BOUND).await;
    let mut ends = Box::pin(streams.end_of_stream());
    assert!(timeout(Duration::from_millis(50), &mut ends).await.is_err(), "it ended too early");
    live.probe.open("gate");
    parked.answer().await.result("1");
    in_time(shutdown).await.unwrap();
    ends.await;
    never.answer().await.error(503, INTERNAL_ERROR, None);
    assert_eq!(over_2.next().await, None);
    drop(sender);
    in_time(served).await.unwrap();
}

#[tokio::test]
async fn a_body_of_the_handlers_own_status_ends_too() {
    let handler = async || -> Response { (StatusCode::FORBIDDEN, endless()).into_response() };
    for message in [call("1", &json!({})), cancel("1")] {
        let site = Site::over(on_post(handler));
        let mut events = site.open(&post(message)).await;
        assert_eq!(events.status, 403);
        assert_eq!(events.next().await.unwrap(), ": first");
        in_time(site.server.shutdown(Duration::ZERO)).await;
        let end = timeout(Duration::from_secs(1), events.next()).await;
        assert_eq!(end.expect("an end"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn it_takes_no_longer_than_the_drain() {
    for path in ["/mcp", "/polite"] {
        for drain in [0, 1, 10, 3_000] {
            let site = Site::with(|options| options.request_timeout(None).stream_after(None));
            let parked = site.begin(&post(held("1")).to(path));
            site.parked(1).await;
            site.probe.until("started 1").await;
            let began = Instant::now();
            site.server.shutdown(Duration::from_secs(drain)).await;
            let took = began.elapsed().as_millis();
            assert!((u128::from(drain) * 1_000..u128::from(drain) * 1_000 + 10).contains(&took), "{took} ms");
            assert_eq!(site.server.parked(), 0);
            assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::ShutDown)]);
            let answer = parked.answer().await;
            answer.error(200, -32000, "1");
            site.probe.until("dropped 1").await;
            assert!(began.elapsed().as_millis() - took < 10);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_over_as_soon_as_nothing_is_left() {
    let began = Instant::now();
    Site::new().server.shutdown(BOUND).await;
    assert!(began.elapsed().is_zero());

    let site = Site::with(|options| options.max_parked_per_caller(100));
    site.ask(&post(call("0", &json!({})))).await.result("0");
    // Parked, left by its client, a notification's handler, and one in its grace time.
    let parked = site.begin(&post(call("1", &json!({ "gate": "1" }))));
    let left = site.begin(&post(call("2", &json!({ "gate": "2" }))).and("authorization", "Bearer a"));
    site.parked(2).await;
    left.abort();
    site.ask(&notification(&json!({ "gate": "3" }))).await.accepted();
    let graceful = site.begin(&post(call("4", &json!({ "gate": "never", "stays_for": "4" }))).to("/polite"));
    site.probe.until("started 4").await;
    site.ask(&post(cancel("4"))).await.accepted();
    graceful.answer().await.error(200, CANCELLED, "4");
    site.probe.until("fired 4: Cancelled None").await;

    let shutdown = begins(&site.server, BOUND).await;
    let began = Instant::now();
    for gate in ["1", "2", "4", "3"] {
        sleep(Duration::from_secs(1)).await;
        assert!(!shutdown.is_finished(), "before {gate}");
        site.probe.open(gate);
    }
    shutdown.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 4);
    parked.answer().await.result("1");
    for line in ["returned 1", "returned 2", "returned 4", "returned notifications/x"] {
        assert_eq!(site.probe.count(line), 1, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_in_the_background_is_dropped_when_the_drain_is_over() {
    let site = Site::with(|options| options.cancel_grace(Duration::from_secs(3_000)));
    let left = site.begin(&post(call("1", &json!({ "gate": "never" }))));
    site.parked(1).await;
    left.abort();
    site.ask(&notification(&json!({ "gate": "never" }))).await.accepted();
    let graceful = site.begin(&post(call("4", &json!({ "gate": "never", "stays_for": "ever" }))).to("/polite"));
    site.probe.until("started 4").await;
    site.ask(&post(cancel("4"))).await.accepted();
    graceful.answer().await.error(200, CANCELLED, "4");
    site.probe.until("fired 4: Cancelled None").await;
    let began = Instant::now();
    site.server.shutdown(Duration::from_secs(10)).await;
    for line in ["dropped 1", "dropped 4", "dropped notifications/x"] {
        site.probe.until(line).await;
    }
    assert!((10_000..10_010).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(site.outcomes.all().last().unwrap(), &("1".to_owned(), Outcome::ShutDown));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_its_notification_waits_no_longer_than_the_drain() {
    for drain in [0, 900] {
        let site = Site::new();
        let waiting = site.begin(&notification(&json!({ "gate": "never" })));
        site.probe.until("started notifications/x").await;
        let began = Instant::now();
        site.server.shutdown(Duration::from_millis(drain)).await;
        waiting.answer().await.accepted();
        site.probe.until("dropped notifications/x").await;
        // An example ends `serve` a second after `shutdown`.
        let took = began.elapsed().as_millis();
        assert!((u128::from(drain)..u128::from(drain) + 10).contains(&took), "{took} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_the_handlers_learn_of_it_by_their_token() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |_: McpMessage, token: Cancellation| {
        let says = says.clone();
        tokio::spawn(async move { says.send(token.cancelled().await).unwrap() });
        std::future::pending::<Reply<Value>>().await
    };
    let site = Site::over(on_post(handler));
    let parked = site.begin(&post(call("1", &json!({}))));
    site.parked(1).await;
    site.server.shutdown(Duration::ZERO).await;
    assert_eq!(said.recv().await.unwrap(), Outcome::ShutDown);
    parked.answer().await.error(200, -32000, "1");
}

#[tokio::test(start_paused = true)]
async fn it_may_be_called_twice_and_the_shorter_drain_counts() {
    let site = Site::new();
    let parked = site.begin(&post(held("1")));
    site.parked(1).await;
    let began = Instant::now();
    let first = begins(&site.server, Duration::from_secs(30)).await;
    let second = begins(&site.server, Duration::from_secs(3)).await;
    second.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 3);
    parked.answer().await.error(200, -32000, "1");
    first.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 3);
    site.server.shutdown(Duration::from_secs(30)).await;
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::ShutDown)]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_given_up_goes_on_draining_until_the_next() {
    let site = Site::new();
    let parked = site.begin(&post(held("1")));
    site.parked(1).await;
    assert!(timeout(Duration::from_secs(1), site.server.shutdown(BOUND)).await.is_err());
    site.ask(&post(call("2", &json!({})))).await.error(503, INTERNAL_ERROR, "2");
    assert_eq!(site.server.parked(), 1);
    site.probe.open("gate");
    parked.answer().await.result("1");
    let began = Instant::now();
    site.server.shutdown(BOUND).await;
    assert!(began.elapsed().is_zero());
}

#[tokio::test]
async fn idle_connections_and_half_heads_do_not_matter() {
    let (live, stop, served) = graceful(Site::new()).await;
    let mut idle = live.connect().await;
    idle.post(&post(call("1", &json!({})))).await.result("1");
    let unused = live.connect().await;
    let mut half = live.connect().await;
    half.send(&post(held("2")).bytes()[..30]).await;
    let parked = live.park(&post(held("3")));
    live.parked(1).await;
    stop.send(()).unwrap();
    in_time(live.server.shutdown(Duration::from_millis(50))).await;
    parked.answer().await.error(200, -32000, "3");
    idle.closed().await;
    // What is left is what the layer never sees, and its client can end it.
    drop((unused, half));
    in_time(served).await.unwrap();
}

#[tokio::test]
async fn over_http_2_every_stream_ends_in_order() {
    let (live, stop, served) = graceful(Site::new()).await;
    let sender = http2::connect(&live).await;
    let mut asking = Vec::new();
    for era in Era::BOTH {
        let (sender, asks) = (sender.clone(), http2::local(&era.held("1")));
        asking.push((era, tokio::spawn(async move { http2::ask(&sender, asks).await })));
    }
    live.parked(2).await;
    let mut streams = Vec::new();
    for era in Era::BOTH {
        let asks = era.call("2", &json!({ "notes": ["a"], "gate": "gate" }));
        let mut events = Events::of(http2::open(&sender, http2::local(&asks)).await, BOUND);
        assert_eq!(events.message().await, note(&json!("a")));
        streams.push((era, events));
    }
    stop.send(()).unwrap();
    in_time(live.server.shutdown(Duration::from_millis(50))).await;
    for (era, asked) in asking {
        in_time(asked).await.unwrap().error(200, era.shut_down(), "1");
    }
    for (era, events) in streams {
        events.ends_with_error(era.shut_down(), "2").await;
    }
    drop(sender);
    in_time(served).await.unwrap();
}

#[tokio::test]
async fn a_legacy_request_that_was_left_may_finish_while_it_drains() {
    let site = Site::new();
    let asked = site.begin(&post(held("1")));
    site.parked(1).await;
    asked.abort();
    site.probe.until("started 1").await;
    tokio::task::yield_now().await;
    let shutdown = begins(&site.server, BOUND).await;
    site.probe.open("gate");
    in_time(shutdown).await.unwrap();
    assert_eq!((site.probe.count("returned 1"), site.outcomes.count(Outcome::Replied)), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_that_come_while_it_begins_are_answered_or_refused() {
    for drain in [Duration::ZERO, Duration::from_millis(1)] {
        for _ in 0..50 {
            let site = Arc::new(Site::new());
            let asking: Vec<_> = (0..40)
                .map(|id| {
                    let site = Arc::clone(&site);
                    let era = Era::BOTH[id % 2];
                    tokio::spawn(async move {
                        for _ in 0..id {
                            std::hint::spin_loop();
                        }
                        let answer = site.ask(&era.held("1").with("accept", "application/json")).await;
                        if answer.status == 503 {
                            answer.error(503, INTERNAL_ERROR, "1");
                        } else {
                            answer.error(200, era.shut_down(), "1");
                        }
                    })
                })
                .collect();
            in_time(site.server.shutdown(drain)).await;
            for asked in asking {
                in_time(asked).await.unwrap();
            }
            assert_eq!(site.server.parked(), 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_is_at_work_when_it_is_cancelled_has_its_grace_time_too() {
    let probe = Arc::new(Probe::default());
    let handler = {
        let probe = Arc::clone(&probe);
        async move |message: McpMessage, token: Cancellation| {
            if !message.is_request() {
                return StatusCode::OK.into_response();
            }
            probe.note("works");
            // Something that does not await, such as much arithmetic.
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(300)));
            token.cancelled().await;
            sleep(Duration::from_millis(10)).await;
            probe.note("stopped in order");
            StatusCode::OK.into_response()
        }
    };
    let site = Site::over(on_post(handler));
    let parked = site.begin(&post(call("1", &json!({}))));
    probe.until("works").await;
    site.ask(&post(cancel("1"))).await.accepted();
    in_time(site.server.shutdown(BOUND)).await;
    parked.answer().await.error(200, CANCELLED, "1");
    assert_eq!(probe.count("stopped in order"), 1);
}

#[tokio::test]
async fn a_request_without_a_route_or_a_reader_is_no_reason_to_wait() {
    let site = Site::new();
    let response = site.app.clone().oneshot(post(call("1", &json!({}))).request()).await.unwrap();
    in_time(site.server.shutdown(BOUND)).await;
    // It was answered, and can still be read.
    Answer::of(response).await.result("1");
}
