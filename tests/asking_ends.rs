//! How the questions end that handlers ask their clients, when they are not answered.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{
    Cancellation, Client, ClientError, Departure, McpLayer, McpMessage, McpServerBuilder, Notifier, Outcome, Reply,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep, timeout};
use tower::ServiceExt;

use support::asker::{
    ELICIT, Said, asked, asks, asks_so, ends_with_error, goes_to_the_handler, question, read_question, responds,
    response, site, site_with, taken_back, yes,
};
use support::{
    Answer, CANCELLED, Events, INTERNAL_ERROR, Live, Post, Site, call, cancel, error_of, http2, post, until,
};

#[tokio::test(start_paused = true)]
async fn a_client_has_five_minutes_and_is_told_when_they_are_over() {
    let (site, mut said) = site();
    let began = Instant::now();
    let (mut events, id) = asked(&site, &asks("1")).await;
    let mut last = events.next().await.unwrap();
    while last.starts_with(':') {
        last = events.next().await.unwrap();
    }
    assert_eq!(last, format!("data: {}", taken_back(&id)));
    assert_eq!(began.elapsed().as_millis() / 10, 30_000);
    assert_eq!(said.recv().await.unwrap(), Err(ClientError::TimedOut));
    let error = events.message().await;
    let error = error_of(&error, INTERNAL_ERROR, Some("1"));
    assert_eq!(error.message, ClientError::TimedOut.to_string());
    assert_eq!(events.next().await, None);
    // Too late.
    let body = response(&id, &yes());
    goes_to_the_handler(&site, &post(body.as_str()), &body).await;
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
}

#[tokio::test(start_paused = true)]
async fn its_time_can_be_set() {
    for (millis, is_answered) in [(1, false), (4_000, true), (4_000, false)] {
        let (site, mut said) = site();
        let began = Instant::now();
        let (mut events, id) = asked(&site, &asks_so("1", &json!({ "millis": millis }))).await;
        if is_answered {
            advance(Duration::from_millis(millis - 10)).await;
            site.ask(&responds(&id, &yes())).await.accepted();
            assert_eq!(said.recv().await.unwrap(), Ok(yes()));
        } else {
            assert_eq!(events.message().await, taken_back(&id));
            assert_eq!(said.recv().await.unwrap(), Err(ClientError::TimedOut));
            assert!((u128::from(millis)..=u128::from(millis) + 2).contains(&began.elapsed().as_millis()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_any_time_is_not_asked() {
    let (site, mut said) = site();
    site.ask(&asks_so("1", &json!({ "millis": 0 }))).await.error(200, INTERNAL_ERROR, "1");
    assert_eq!(said.recv().await.unwrap(), Err(ClientError::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn time_without_end_ends_with_the_request() {
    let (site, _said) = site_with(|options| options.keep_alive(None));
    let (events, id) = asked(&site, &asks_so("1", &json!({ "millis": u64::MAX }))).await;
    ends_with_error(events, &id, -32001, "1").await;
    site.probe.until("dropped 1").await;
}

#[tokio::test]
async fn a_cancel_ends_the_question_with_its_request() {
    let (site, mut said) = site();
    for path in ["/mcp", "/polite"] {
        let (events, id) = asked(&site, &asks("1").to(path)).await;
        site.ask(&post(cancel("1"))).await.accepted();
        assert_eq!(site.server.parked(), 0);
        ends_with_error(events, &id, CANCELLED, "1").await;
        if path == "/polite" {
            assert_eq!(said.recv().await.unwrap(), Err(ClientError::Ended(Outcome::Cancelled)));
            site.probe.until("returned 1").await;
        } else {
            site.probe.until("dropped 1").await;
        }
        let body = response(&id, &yes());
        goes_to_the_handler(&site, &post(body.as_str()), &body).await;
    }
    assert_eq!((site.probe.count("returned 1"), said.try_recv().ok()), (1, None));
    assert_eq!(site.outcomes.count(Outcome::Cancelled), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_question_with_its_request() {
    for path in ["/mcp", "/polite"] {
        let (site, mut said) = site_with(|options| options.request_timeout(Some(Duration::from_secs(9))));
        let (events, id) = asked(&site, &asks("1").to(path)).await;
        let began = Instant::now();
        ends_with_error(events, &id, -32001, "1").await;
        assert_eq!(began.elapsed().as_millis() / 10, 900);
        if path == "/polite" {
            assert_eq!(said.recv().await.unwrap(), Err(ClientError::Ended(Outcome::TimedOut)));
        } else {
            site.probe.until("dropped 1").await;
        }
        let body = response(&id, &yes());
        goes_to_the_handler(&site, &post(body.as_str()), &body).await;
    }
}

#[tokio::test]
async fn a_response_still_gets_in_while_the_server_drains() {
    for path in ["/mcp", "/polite"] {
        let (site, _said) = site();
        let live = site.listen().await;
        let mut connection = live.connect().await;
        connection.send(asks("1").to(path).bytes()).await;
        connection.head().await;
        let event = connection.event().await;
        let id = read_question(event.strip_prefix("data: ").unwrap(), ELICIT, r#"{"message":"sure?"}"#);
        let shutdown = tokio::spawn({
            let server = live.server.clone();
            async move { server.shutdown(support::BOUND).await }
        });
        refuses(&live).await;
        // The head and the body in a segment each, as many clients write.
        let (responds, mut second) = (responds(&id, &yes()), live.connect().await);
        second.send(responds.head()).await;
        live.post(&post(r#"{"jsonrpc":"2.0","method":"x"}"#)).await.accepted();
        second.send(response(&id, &yes())).await;
        second.answer().await.accepted();
        assert_eq!(connection.event().await, format!(r#"data: {{"jsonrpc":"2.0","id":1,"result":{}}}"#, yes()));
        connection.end_of_stream().await;
        timeout(support::BOUND, shutdown).await.unwrap().unwrap();
        // Then nothing gets in.
        live.post(&responds).await.error(503, INTERNAL_ERROR, None);
    }
}

/// It drains.
async fn refuses(live: &Live) {
    until(|| live.server.parked() == 1).await;
    while live.post(&post(call("9", &json!({ "questions": 0 })))).await.status != 503 {}
}

#[tokio::test(start_paused = true)]
async fn a_question_is_over_when_the_drain_is() {
    for path in ["/mcp", "/polite"] {
        let (site, _said) = site();
        let (events, id) = asked(&site, &asks("1").to(path)).await;
        site.server.shutdown(Duration::from_secs(2)).await;
        ends_with_error(events, &id, -32000, "1").await;
        site.probe.until("dropped 1").await;
        site.ask(&responds(&id, &yes())).await.error(503, INTERNAL_ERROR, None);
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_it_is_asked_is_gone_and_the_handler_goes_on() {
    for path in ["/mcp", "/polite"] {
        let (site, mut said) = site();
        let (events, id) = asked(&site, &asks("1").to(path)).await;
        drop(events);
        assert_eq!(said.recv().await.unwrap(), Err(ClientError::Gone));
        site.probe.until("returned 1").await;
        site.parked(0).await;
        let body = response(&id, &yes());
        goes_to_the_handler(&site, &post(body.as_str()), &body).await;
        assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
    }
}

#[tokio::test]
async fn over_a_socket_too() {
    let (site, mut said) = site();
    let live = site.listen().await;
    let mut connection = live.connect().await;
    connection.send(asks("1").bytes()).await;
    connection.head().await;
    connection.event().await;
    drop(connection);
    let gone = timeout(Duration::from_secs(1), said.recv()).await.expect("within a second");
    assert_eq!(gone.unwrap(), Err(ClientError::Gone));
    let sender = http2::connect(&live).await;
    let mut events = Events::of(http2::open(&sender, http2::local(&asks("1"))).await, support::BOUND);
    question(&mut events).await;
    drop(events);
    let gone = timeout(Duration::from_secs(1), said.recv()).await.expect("within a second");
    assert_eq!(gone.unwrap(), Err(ClientError::Gone));
    live.parked(0).await;
}

#[tokio::test]
async fn a_client_that_has_left_before_is_not_asked() {
    let (site, mut said) = site();
    // While its reply was JSON.
    let leaving = site.begin(&asks_so("1", &json!({ "gate": "gate" })));
    site.probe.until("started 1").await;
    leaving.abort();
    // While it was a stream.
    let mut events = site.open(&asks_so("2", &json!({ "notes": 1, "gate": "gate" }))).await;
    events.message().await;
    drop(events);
    tokio::task::yield_now().await;
    site.probe.open("gate");
    for _ in 0..2 {
        assert_eq!(said.recv().await.unwrap(), Err(ClientError::Gone));
    }
    site.parked(0).await;
    assert_eq!(site.outcomes.count(Outcome::Replied), 2);
}

#[tokio::test]
async fn a_departure_that_ends_the_request_ends_the_question() {
    for path in ["/mcp", "/polite"] {
        let (site, mut said) = site_with(|options| options.legacy_departure(Departure::Cancel));
        let (events, _id) = asked(&site, &asks("1").to(path)).await;
        drop(events);
        if path == "/polite" {
            let disconnected = ClientError::Ended(Outcome::Disconnected);
            assert_eq!(said.recv().await.unwrap(), Err(disconnected));
        } else {
            site.probe.until("dropped 1").await;
            assert!(said.try_recv().is_err());
        }
        assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Disconnected)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_room_on_the_stream_no_longer_than_it_may() {
    let (site, mut said) = site();
    let began = Instant::now();
    // What waits for the client to read leaves no room.
    let mut events = site.open(&asks_so("1", &json!({ "notes": 64, "millis": 5_000 }))).await;
    assert_eq!(said.recv().await.unwrap(), Err(ClientError::TimedOut));
    assert_eq!(began.elapsed().as_millis() / 10, 500);
    for n in 0..64 {
        let expected = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{n}}}"#);
        assert_eq!(events.message().await, expected);
    }
    // It was never asked, so there is nothing to take back (MCP, *Cancellation*, Behavior Requirements).
    events.ends_with_error(INTERNAL_ERROR, "1").await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_waited_for_room_is_asked() {
    let (site, _said) = site();
    let mut events = site.open(&asks_so("1", &json!({ "notes": 64 }))).await;
    sleep(Duration::from_secs(10)).await;
    for _ in 0..64 {
        events.message().await;
    }
    let id = question(&mut events).await;
    site.ask(&responds(&id, &yes())).await.accepted();
    events.ends_with_result("1", &yes()).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_holds_up_no_end_of_a_question() {
    for path in ["/mcp", "/polite"] {
        let options = |options: McpServerBuilder| options.request_timeout(Some(Duration::from_secs(100)));
        let (site, mut said) = site_with(options);
        let full = json!({ "notes": 64 });
        let unread = json!({ "questions": 3 });
        let mut streams = Vec::new();
        for (id, wish) in [("1", &full), ("2", &unread)] {
            streams.push((id, CANCELLED, site.open(&asks_so(id, wish).to(path)).await));
            site.ask(&post(cancel(id))).await.accepted();
            assert_eq!(site.server.parked(), 0);
        }
        for (id, wish) in [("3", &full), ("4", &unread)] {
            streams.push((id, -32001, site.open(&asks_so(id, wish).to(path)).await));
        }
        sleep(Duration::from_secs(101)).await;
        assert_eq!(site.server.parked(), 0);
        for (id, code, events) in streams {
            events.ends_with_error(code, id).await;
            until(|| site.probe.count(&format!("returned {id}")) + site.probe.count(&format!("dropped {id}")) == 1)
                .await;
        }
        if path == "/polite" {
            for outcome in [[Outcome::Cancelled; 4], [Outcome::TimedOut; 4]].concat() {
                assert_eq!(said.recv().await.unwrap(), Err(ClientError::Ended(outcome)));
            }
        }
        assert!(said.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_question_that_is_given_up_is_taken_back() {
    let (site, mut said) = site();
    let (mut events, id) = asked(&site, &asks_so("1", &json!({ "until": "gate" }))).await;
    site.probe.open("gate");
    assert_eq!(events.message().await, taken_back(&id));
    events.ends_with_result("1", &json!("given up")).await;
    let body = response(&id, &yes());
    goes_to_the_handler(&site, &post(body.as_str()), &body).await;
    assert!(said.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_given_up_before_there_was_room_for_it_is_not_told_of() {
    let (site, _said) = site();
    let mut events = site.open(&asks_so("1", &json!({ "notes": 64, "until": "gate" }))).await;
    site.probe.open("gate");
    site.parked(0).await;
    for _ in 0..64 {
        events.message().await;
    }
    events.ends_with_result("1", &json!("given up")).await;
}

#[tokio::test(start_paused = true)]
async fn that_nobody_waits_any_more_is_told_whatever_else_waits_for_the_client_to_read() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |notifier: Notifier, client: Client| {
        let client = client.timeout(Duration::from_secs(9));
        let full = async {
            for n in 0..64 {
                sleep(Duration::from_millis(10)).await;
                notifier.notify("notifications/message", json!(n)).await.unwrap();
            }
        };
        let asks = || client.request::<Value>("roots/list", json!({}));
        let answers = tokio::join!(asks(), asks(), full);
        // Each of them keeps the newest only.
        for n in 0..10 {
            notifier.progress(f64::from(n), None, None);
        }
        says.send((answers.0, answers.1)).unwrap();
        Reply(json!({}))
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&post(call("1", &json!({ "_meta": { "progressToken": 1 } })))).await;
    let ids = [
        read_question(&events.message().await, "roots/list", "{}"),
        read_question(&events.message().await, "roots/list", "{}"),
    ];
    assert_eq!(said.recv().await.unwrap(), (Err(ClientError::TimedOut), Err(ClientError::TimedOut)));
    site.parked(0).await;
    let mut rest = Vec::new();
    while let Some(event) = events.next().await {
        rest.push(event.strip_prefix("data: ").unwrap_or(&event).to_owned());
    }
    for id in ids {
        assert_eq!(rest.iter().filter(|message| **message == taken_back(&id)).count(), 1, "{rest:?}");
    }
    assert_eq!(rest.len(), 64 + 2 + 1 + 1, "{rest:?}");
}

/// A call that leaves a task behind which asks, and asks again when it may.
struct Left {
    site: Site,
    said: mpsc::UnboundedReceiver<Said>,
    /// The call ends.
    ends: Arc<Notify>,
    /// The task asks again.
    again: Arc<Notify>,
}

impl Left {
    fn new() -> Self {
        let (says, said) = mpsc::unbounded_channel();
        let (ends, again) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let of_handler = (Arc::clone(&ends), Arc::clone(&again));
        let handler = async move |message: McpMessage, client: Client| {
            let (says, (ends, again)) = (says.clone(), of_handler.clone());
            if !message.is_request() {
                return Reply(json!({}));
            }
            tokio::spawn(async move {
                says.send(client.request("roots/list", json!({})).await).unwrap();
                again.notified().await;
                says.send(client.request("roots/list", json!({})).await).unwrap();
            });
            ends.notified().await;
            Reply(json!("done"))
        };
        Self { site: Site::over(on_post(handler)), said, ends, again }
    }

    /// The task is told twice, and at once, that the call has ended.
    async fn ended(&mut self, outcome: Outcome) {
        let began = Instant::now();
        assert_eq!(self.said.recv().await.unwrap(), Err(ClientError::Ended(outcome)));
        self.again.notify_one();
        assert_eq!(self.said.recv().await.unwrap(), Err(ClientError::Ended(outcome)));
        assert!(began.elapsed().is_zero());
    }
}

#[tokio::test(start_paused = true)]
async fn no_question_outlives_its_call() {
    let mut left = Left::new();
    let mut events = left.site.open(&asks("1")).await;
    let id = read_question(&events.message().await, "roots/list", "{}");
    left.ends.notify_one();
    left.ended(Outcome::Replied).await;
    left.site.ask(&responds(&id, &yes())).await.accepted();
    assert_eq!(events.message().await, taken_back(&id));
    events.ends_with_result("1", &json!("done")).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_client_has_not_read_goes_with_its_call() {
    let mut left = Left::new();
    let events = left.site.open(&asks("1")).await;
    left.ends.notify_one();
    left.ended(Outcome::Replied).await;
    events.ends_with_result("1", &json!("done")).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_learns_how_the_call_has_ended_that_it_asks_for() {
    for (outcome, code) in [(Outcome::Cancelled, CANCELLED), (Outcome::ShutDown, -32000), (Outcome::TimedOut, -32001)] {
        let mut left = Left::new();
        let site = Site::build(
            |options| options.request_timeout(Some(Duration::from_secs(9))),
            |server, _| left.site.app.clone().layer(McpLayer::new(server.clone())),
        );
        let mut events = site.open(&asks("1")).await;
        let id = read_question(&events.message().await, "roots/list", "{}");
        match outcome {
            Outcome::Cancelled => site.ask(&post(cancel("1"))).await.accepted(),
            Outcome::ShutDown => site.server.shutdown(Duration::ZERO).await,
            _ => sleep(Duration::from_secs(9)).await,
        }
        left.ended(outcome).await;
        ends_with_error(events, &id, code, "1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_call_though_nobody_drives_the_response_on() {
    let mut left = Left::new();
    // Its future is kept, but nobody polls it any more.
    let mut response = pin!(left.site.app.clone().oneshot(asks("1").request()));
    assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // The task asks.
    sleep(Duration::from_secs(1)).await;
    left.site.ask(&post(cancel("1"))).await.accepted();
    left.ended(Outcome::Cancelled).await;
    Answer::of(response.await.unwrap()).await.error(200, CANCELLED, "1");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_in_its_grace_time_is_told_at_once() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |message: McpMessage, token: Cancellation, client: Client| {
        if message.is_request() {
            token.cancelled().await;
            says.send(client.request::<Value>("roots/list", json!({})).await).unwrap();
        }
        Reply(json!({}))
    };
    let site = Site::over(on_post(handler));
    let began = Instant::now();
    let parked = site.begin(&asks("1"));
    site.parked(1).await;
    site.ask(&post(cancel("1"))).await.accepted();
    assert_eq!(said.recv().await.unwrap(), Err(ClientError::Ended(Outcome::Cancelled)));
    parked.answer().await.error(200, CANCELLED, "1");
    assert!(began.elapsed().is_zero());
}

#[tokio::test]
async fn a_panic_beside_a_question_takes_it_back() {
    let handler = async |client: Client| {
        let panics = async {
            tokio::task::yield_now().await;
            panic!("a secret of the handler")
        };
        let (answer, ()) = tokio::join!(client.request::<Value>("roots/list", json!({})), panics);
        answer.map(Reply)
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&asks("1")).await;
    let id = read_question(&events.message().await, "roots/list", "{}");
    assert_eq!(events.message().await, taken_back(&id));
    events.ends_with_error(INTERNAL_ERROR, "1").await;
}

/// Lets each of them be first at times.
fn head_start(turn: usize) {
    for _ in 0..turn * 25 {
        std::hint::spin_loop();
    }
}

/// What a race has to know of its handler.
#[derive(Default)]
struct Lane {
    gives_up: Notify,
    heard: AtomicBool,
}

type Lanes = Arc<Vec<Lane>>;

#[derive(Deserialize)]
struct Of {
    lane: usize,
}

/// A third of them have little patience.
async fn race(State(lanes): State<Lanes>, client: Client, message: McpMessage) -> Response {
    if !message.is_request() {
        // Responses say which lane they are of, whoever hears them.
        if message.method().is_empty() {
            let response: Value = serde_json::from_str(message.as_str()).unwrap();
            let lane = usize::try_from(response["result"].as_u64().unwrap()).unwrap();
            assert!(!lanes[lane].heard.swap(true, Ordering::SeqCst), "heard twice: {lane}");
        }
        return StatusCode::OK.into_response();
    }
    let Of { lane } = message.params().unwrap();
    let client = client.timeout(Duration::from_millis(if lane % 3 == 0 { 5 } else { 60_000 }));
    tokio::select! {
        answer = client.request::<usize>("roots/list", json!({})) => match answer {
            Ok(number) => {
                assert_eq!(number, lane);
                Reply(json!("answered")).into_response()
            }
            Err(ClientError::TimedOut) => Reply(json!("timed out")).into_response(),
            Err(error) => error.into_response(),
        },
        () = lanes[lane].gives_up.notified() => Reply(json!("given up")).into_response(),
    }
}

async fn race_politely(lanes: State<Lanes>, _token: Cancellation, client: Client, message: McpMessage) -> Response {
    race(lanes, client, message).await
}

/// The id of the question, if there was time to ask it, and all that came after it.
async fn run_lane(site: Arc<Site>, lanes: Lanes, lane: usize) -> Option<(String, Vec<String>)> {
    let path = ["/mcp", "/polite"][lane % 2];
    let mut events = site.open(&post(call(&lane.to_string(), &json!({ "lane": lane }))).to(path)).await;
    if events.headers["content-type"] != "text/event-stream" {
        return None;
    }
    let first = events.message().await;
    if first.contains("timed out") {
        return None;
    }
    let id = read_question(&first, "roots/list", "{}");
    let barrier = Arc::new(Barrier::new(3));
    let meets = |request: Post, start: usize| {
        let (site, barrier) = (Arc::clone(&site), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            head_start(start);
            site.ask(&request).await.accepted();
        })
    };
    let answering = meets(responds(&id, &json!(lane)), lane % 7);
    let cancelling = meets(post(cancel(&lane.to_string())), lane % 11);
    barrier.wait().await;
    head_start(lane % 5);
    lanes[lane].gives_up.notify_one();
    answering.await.unwrap();
    cancelling.await.unwrap();
    let mut messages = Vec::new();
    while let Some(event) = events.next().await {
        messages.push(event.strip_prefix("data: ").unwrap().to_owned());
    }
    Some((id, messages))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_response_a_cancel_and_an_end_of_patience_that_meet_give_one_answer() {
    const RACES: usize = 10_000;
    let lanes: Lanes = Arc::new(std::iter::repeat_with(Lane::default).take(RACES).collect());
    let site = Site::build(
        |options| options,
        |server, _| {
            let routes = Router::new().route("/mcp", on_post(race)).route("/polite", on_post(race_politely));
            routes.with_state(Arc::clone(&lanes)).layer(McpLayer::new(server.clone()))
        },
    );
    let site = Arc::new(site);
    let mut ends = BTreeMap::<String, usize>::new();
    for batch in (0..RACES).collect::<Vec<_>>().chunks(200) {
        let mut races = JoinSet::new();
        for lane in batch.iter().copied() {
            let (site, lanes) = (Arc::clone(&site), Arc::clone(&lanes));
            races.spawn(async move { (lane, run_lane(site, lanes, lane).await) });
        }
        while let Some(race) = races.join_next().await {
            let end = match race.unwrap() {
                (lane, Some((id, messages))) => end_of(lane, &id, messages, lanes[lane].heard.load(Ordering::SeqCst)),
                (_, None) => "too early".to_owned(),
            };
            *ends.entry(end).or_default() += 1;
        }
    }
    assert_eq!(ends.values().sum::<usize>(), RACES);
    for end in ["answered", "cancelled", "given up"] {
        assert!(ends.contains_key(end), "no race: {ends:?}");
    }
    assert_eq!(site.server.parked(), 0);
    until(|| site.outcomes.all().len() == RACES).await;
    assert_eq!(site.outcomes.count(Outcome::Cancelled), ends["cancelled"]);
}

/// Whichever end it is, it is one, and the client knows whether its response is waited for.
fn end_of(lane: usize, id: &str, mut messages: Vec<String>, heard: bool) -> String {
    let answer = messages.pop().unwrap();
    let is_taken_back = messages == [taken_back(id)];
    assert!(is_taken_back || messages.is_empty(), "{lane}: {messages:?}");
    let read: Value = serde_json::from_str(&answer).unwrap();
    match read["result"].as_str() {
        Some("answered") => assert!(!is_taken_back && !heard, "{lane}"),
        Some(end) => assert!(is_taken_back, "{lane}: {end}"),
        None => {
            error_of(&answer, CANCELLED, Some(&lane.to_string()));
            assert!(!heard || is_taken_back, "{lane}");
        }
    }
    read["result"].as_str().unwrap_or("cancelled").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_equal_responses_that_meet_one_is_the_answer() {
    const RACES: usize = 500;
    const RESPONSES: usize = 8;
    let (site, mut said) = site();
    let site = Arc::new(site);
    for lane in 0..RACES {
        let (events, id) = asked(&site, &asks(&lane.to_string())).await;
        let barrier = Arc::new(Barrier::new(RESPONSES));
        let mut races = JoinSet::new();
        for n in 0..RESPONSES {
            let (site, barrier, responds) = (Arc::clone(&site), Arc::clone(&barrier), responds(&id, &json!(n)));
            races.spawn(async move {
                barrier.wait().await;
                site.ask(&responds).await.accepted();
            });
        }
        races.join_all().await;
        let answer = said.recv().await.unwrap().unwrap();
        events.ends_with_result(&lane.to_string(), &answer).await;
    }
    let mut heard = site.probe.heard();
    assert_eq!(heard.len(), RACES * (RESPONSES - 1));
    heard.sort();
    heard.dedup();
    assert_eq!(heard.len(), RACES * (RESPONSES - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_departure_that_meets_a_response_leaves_nothing() {
    const RACES: usize = 2_000;
    let (site, mut said) = site();
    let site = Arc::new(site);
    let mut races = JoinSet::new();
    for lane in 0..RACES {
        let site = Arc::clone(&site);
        races.spawn(async move {
            let (events, id) = asked(&site, &asks(&lane.to_string()).to(["/mcp", "/polite"][lane % 2])).await;
            let barrier = Arc::new(Barrier::new(2));
            let leaving = tokio::spawn({
                let barrier = Arc::clone(&barrier);
                async move {
                    barrier.wait().await;
                    head_start(lane % 7);
                    drop(events);
                }
            });
            barrier.wait().await;
            head_start(lane % 11);
            site.ask(&responds(&id, &yes())).await.accepted();
            leaving.await.unwrap();
        });
    }
    while let Some(race) = races.join_next().await {
        race.unwrap();
    }
    site.parked(0).await;
    until(|| site.outcomes.all().len() == RACES).await;
    assert_eq!(site.outcomes.count(Outcome::Replied), RACES);
    let (mut answered, mut gone) = (0, 0);
    for _ in 0..RACES {
        match said.recv().await.unwrap() {
            Ok(result) => {
                assert_eq!(result, yes());
                answered += 1;
            }
            Err(ClientError::Gone) => gone += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(answered > 0 && gone > 0, "no race: {answered} answered, {gone} gone");
    // Either it was the answer, or it went to the handler.
    assert!(site.probe.heard().len() <= gone);
}
