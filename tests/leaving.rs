//! Clients that go away: what that means is a matter of the protocol version, and of nothing else.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::post as on_post;
use hyper::client::conn::http2::SendRequest;
use mcp_layer::{Departure, McpLayer, McpMessage, McpServerBuilder, Notifier, Outcome, Reply};
use serde_json::json;
use tower::util::MapRequestLayer;

use support::{Connection, Era, Events, Live, Post, Probe, Site, call, cancel, held, http2, note, post, until};

/// A server with this many other middlewares about it.
async fn surrounded(middlewares: usize, options: fn(McpServerBuilder) -> McpServerBuilder) -> Live {
    let site = Site::build(options, |server, probe| {
        let mut app = Site::routes(probe).layer(McpLayer::new(server.clone()));
        for _ in 0..middlewares {
            app = app.layer(from_fn(async |request: Request, next: Next| next.run(request).await));
            app = app.layer(MapRequestLayer::new(|request: Request| request));
        }
        Router::new().merge(app)
    });
    site.listen().await
}

/// How far the reply has come when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Nothing has been sent, and it would be JSON.
    Json,
    /// Nothing has been sent, and it could only be a stream.
    Unbegun,
    /// The head and a note have been sent.
    Stream,
}

#[derive(Clone, Copy, Debug)]
enum Http {
    One,
    Two,
}

/// A request under way, and the connection that it came over.
#[expect(dead_code, reason = "they are kept to be dropped")]
enum Client {
    One(Connection),
    Two { asking: Option<tokio::task::JoinHandle<()>>, events: Option<Events>, sender: SendRequest<Body> },
}

impl Form {
    const ALL: [Self; 3] = [Self::Json, Self::Unbegun, Self::Stream];

    fn request(self, era: Era, id: &str) -> Post {
        match self {
            Self::Json => era.held(id).with("accept", "application/json"),
            Self::Unbegun => era.held(id).with("accept", "text/event-stream"),
            Self::Stream => era.call(id, &json!({ "notes": ["a"], "gate": "gate", "then_notes": [1, 2, 3] })),
        }
    }
}

impl Client {
    /// Asks, and reads as far as there is something to be read.
    async fn ask(live: &Live, http: Http, form: Form, request: &Post, number: usize) -> Self {
        match http {
            Http::One => {
                let mut connection = live.send_and_park(request, number).await;
                if form == Form::Stream {
                    connection.head().await;
                    assert_eq!(connection.event().await, format!("data: {}", note(&json!("a"))));
                }
                Self::One(connection)
            }
            Http::Two => Self::on(http2::connect(live).await, live, form, request, number).await,
        }
    }

    /// Over a connection that others may share.
    async fn on(sender: SendRequest<Body>, live: &Live, form: Form, request: &Post, number: usize) -> Self {
        let http = http2::local(request);
        if form == Form::Stream {
            let mut events = Events::of(http2::open(&sender, http).await, support::BOUND);
            assert_eq!(events.message().await, note(&json!("a")));
            return Self::Two { asking: None, events: Some(events), sender };
        }
        let asking = tokio::spawn({
            let sender = sender.clone();
            async move { drop(http2::ask(&sender, http).await) }
        });
        live.parked(number).await;
        Self::Two { asking: Some(asking), events: None, sender }
    }

    /// On HTTP/1.1 the connection is closed, on HTTP/2 the stream is reset.
    fn leave(self) {
        match self {
            Self::Two { asking: Some(asking), .. } => asking.abort(),
            other => drop(other),
        }
    }
}

/// How many response futures and bodies of the layer's there are is not to be seen from here. That a client's departure
/// has been seen shows by a modern request that left after it over the same kind of connection.
async fn departures_are_seen(live: &Live, http: Http) {
    let before = live.outcomes.count(Outcome::Disconnected);
    let request = Era::Modern.call("\"mark\"", &json!({ "gate": "mark" }));
    Client::ask(live, http, Form::Json, &request, live.server.parked() + 1).await.leave();
    until(|| live.outcomes.count(Outcome::Disconnected) > before).await;
}

fn outcomes(live: &Live) -> Vec<Outcome> {
    live.outcomes.all().into_iter().filter(|(id, _)| id == "1").map(|(_, outcome)| outcome).collect()
}

#[tokio::test]
async fn a_modern_request_ends() {
    for http in [Http::One, Http::Two] {
        for form in Form::ALL {
            for middlewares in [0, 1, 3] {
                for (path, end) in [("/mcp", "dropped 1"), ("/polite", "fired 1: Disconnected None")] {
                    let live = surrounded(middlewares, |options| options).await;
                    let request = form.request(Era::Modern, "1").to(path);
                    let client = Client::ask(&live, http, form, &request, 1).await;
                    live.probe.until("started 1").await;
                    let began = Instant::now();
                    client.leave();
                    live.parked(0).await;
                    live.probe.until(end).await;
                    assert!(began.elapsed() < Duration::from_secs(1), "{http:?} {form:?}: {:?}", began.elapsed());
                    assert_eq!(outcomes(&live), [Outcome::Disconnected], "{http:?} {form:?} {path}");
                    if path == "/polite" {
                        live.probe.until("returned 1").await;
                    }
                    assert_eq!(live.probe.log().len(), if path == "/polite" { 3 } else { 2 }, "{:?}", live.probe.log());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_legacy_request_goes_on() {
    for http in [Http::One, Http::Two] {
        for form in Form::ALL {
            for middlewares in [0, 1, 3] {
                for path in ["/mcp", "/polite"] {
                    let live = surrounded(middlewares, |options| options).await;
                    let request = form.request(Era::Legacy, "1").to(path);
                    Client::ask(&live, http, form, &request, 1).await.leave();
                    live.probe.until("started 1").await;
                    departures_are_seen(&live, http).await;
                    assert_eq!((live.server.parked(), outcomes(&live)), (1, vec![]), "{http:?} {form:?} {path}");
                    assert_eq!(live.probe.log().iter().filter(|line| line.ends_with(" 1")).count(), 1);
                    live.probe.open("gate");
                    live.probe.until("returned 1").await;
                    live.parked(0).await;
                    assert_eq!(outcomes(&live), [Outcome::Replied], "{http:?} {form:?} {path}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_legacy_request_that_was_left_can_be_cancelled_from_a_new_connection() {
    for http in [Http::One, Http::Two] {
        for form in Form::ALL {
            for middlewares in [0, 1, 3] {
                for (path, end) in [("/mcp", "dropped 1"), ("/polite", "fired 1: Cancelled None")] {
                    let live = surrounded(middlewares, |options| options).await;
                    let request = form.request(Era::Legacy, "1").to(path);
                    Client::ask(&live, http, form, &request, 1).await.leave();
                    live.probe.until("started 1").await;
                    departures_are_seen(&live, http).await;
                    live.post(&post(cancel("1"))).await.accepted();
                    assert_eq!((live.server.parked(), outcomes(&live)), (0, vec![Outcome::Cancelled]));
                    live.probe.until(end).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn what_it_means_can_be_set_for_each_era() {
    let turned: fn(McpServerBuilder) -> McpServerBuilder =
        |options| options.legacy_departure(Departure::Cancel).modern_departure(Departure::CarryOn);
    for http in [Http::One, Http::Two] {
        for form in Form::ALL {
            for path in ["/mcp", "/polite"] {
                let live = surrounded(1, turned).await;
                Client::ask(&live, http, form, &form.request(Era::Modern, "1").to(path), 1).await.leave();
                live.probe.until("started 1").await;
                let client = Client::ask(&live, http, form, &form.request(Era::Legacy, "2").to(path), 2).await;
                client.leave();
                live.parked(1).await;
                until(|| live.outcomes.all() == [("2".to_owned(), Outcome::Disconnected)]).await;
                live.probe.open("gate");
                live.probe.until("returned 1").await;
                live.parked(0).await;
                assert_eq!(outcomes(&live), [Outcome::Replied]);
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_leaves_the_others_of_its_connection_alone() {
    let live = Live::new().await;
    let sender = http2::connect(&live).await;
    let mut clients = Vec::new();
    for (number, (era, form)) in Era::BOTH
        .into_iter()
        .flat_map(|era| Form::ALL.map(|form| (era, form)))
        .chain([(Era::Modern, Form::Json)])
        .enumerate()
    {
        let request = form.request(era, &number.to_string());
        clients.push(Client::on(sender.clone(), &live, form, &request, number + 1).await);
    }
    clients.pop().unwrap().leave();
    live.parked(6).await;
    until(|| live.outcomes.all() == [("6".to_owned(), Outcome::Disconnected)]).await;
    live.probe.open("gate");
    live.parked(0).await;
    for (number, client) in clients.into_iter().enumerate() {
        match client {
            Client::Two { events: Some(mut events), .. } => {
                for n in [1, 2, 3] {
                    assert_eq!(events.message().await, note(&json!(n)));
                }
                events.ends_with_result(&number.to_string(), &json!({ "text": "" })).await;
            }
            // It was read whole, and without an error.
            Client::Two { asking: Some(asking), .. } => asking.await.unwrap(),
            _ => unreachable!("they are all of HTTP/2"),
        }
    }
    assert_eq!(live.outcomes.count(Outcome::Replied), 6);
}

#[tokio::test]
async fn a_connection_that_breaks_takes_all_its_streams_with_it() {
    let live = Live::new().await;
    // Its client lives on a runtime of its own, and goes with it.
    let address = live.address;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(async move {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let mut bodies = Vec::new();
        for id in 0..10 {
            let era = Era::BOTH[id % 2];
            let request = Form::Stream.request(era, &id.to_string());
            bodies.push(sender.send_request(http2::local(&request)).await.unwrap());
        }
        std::future::pending::<()>().await;
    });
    live.parked(10).await;
    runtime.shutdown_background();
    live.parked(5).await;
    until(|| live.outcomes.count(Outcome::Disconnected) == 5).await;
    live.probe.open("gate");
    live.parked(0).await;
    assert_eq!(live.outcomes.count(Outcome::Replied), 5);
}

#[tokio::test]
async fn a_reply_that_was_given_is_no_departure_any_more() {
    for era in Era::BOTH {
        for form in Form::ALL {
            let live = Live::new().await;
            let mut connection = live.connect().await;
            connection.send(form.request(era, "1").bytes()).await;
            live.probe.open("gate");
            live.probe.until("returned 1").await;
            live.parked(0).await;
            drop(connection);
            departures_are_seen(&live, Http::One).await;
            assert_eq!(outcomes(&live), [Outcome::Replied]);
        }
    }
}

/// A modern client leaves behind a request with unread bytes after it, and that is noticed.
async fn departures_behind_unread_bytes_are_seen(options: fn(McpServerBuilder) -> McpServerBuilder) {
    for (path, end) in [("/mcp", "dropped 1"), ("/polite", "fired 1: Disconnected None")] {
        for form in [Form::Stream, Form::Unbegun] {
            let live = surrounded(1, options).await;
            let mut connection = live.connect().await;
            let request = form.request(Era::Modern, "1").to(path).bytes();
            connection.send([request, post(call("2", &json!({}))).bytes()].concat()).await;
            live.parked(1).await;
            drop(connection);
            live.parked(0).await;
            live.probe.until(end).await;
            assert_eq!(live.outcomes.all(), [("1".to_owned(), Outcome::Disconnected)]);
        }
    }
}

#[tokio::test]
async fn unread_bytes_hide_a_departure_until_a_write_fails() {
    departures_behind_unread_bytes_are_seen(|options| {
        options.keep_alive(Some(Duration::from_millis(20))).stream_after(Some(Duration::from_millis(20)))
    })
    .await;
}

#[tokio::test]
async fn the_first_comment_shows_a_departure_that_unread_bytes_hide() {
    // No other comment comes during the test.
    departures_behind_unread_bytes_are_seen(|options| {
        options.keep_alive(Some(Duration::from_secs(3_600))).stream_after(Some(Duration::from_millis(20)))
    })
    .await;
}

#[tokio::test]
async fn unread_bytes_hide_a_departure_from_a_json_reply_and_nothing_is_left_at_its_end() {
    let live = Live::new().await;
    let mut connection = live.connect().await;
    let request = Form::Json.request(Era::Modern, "1").bytes();
    connection.send([request, post(call("2", &json!({}))).bytes()].concat()).await;
    live.parked(1).await;
    drop(connection);
    live.probe.until("started 1").await;
    live.probe.open("gate");
    live.probe.until("returned 1").await;
    live.parked(0).await;
    assert_eq!(outcomes(&live), [Outcome::Replied]);
}

#[tokio::test]
async fn notes_to_a_client_that_left_go_nowhere() {
    let many: serde_json::Value = (0..500).collect();
    for http in [Http::One, Http::Two] {
        for (form, notes) in [(Form::Json, json!([])), (Form::Stream, json!(["a"]))] {
            let live = Live::new().await;
            let wish = json!({ "notes": notes, "gate": "gate", "then_notes": many });
            Client::ask(&live, http, form, &Era::Legacy.call("1", &wish), 1).await.leave();
            live.probe.until("started 1").await;
            departures_are_seen(&live, http).await;
            live.probe.open("gate");
            live.probe.until("returned 1").await;
            live.parked(0).await;
            assert_eq!(outcomes(&live), [Outcome::Replied]);
        }
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_unread_is_a_departure_too() {
    let site = Site::new();
    for (era, outcome) in [(Era::Legacy, None), (Era::Modern, Some(Outcome::Disconnected))] {
        let events = site.open(&Form::Stream.request(era, "1")).await;
        assert_eq!(site.server.parked(), 1);
        drop(events);
        assert_eq!(outcome.is_none(), site.server.parked() == 1, "{era:?}");
        assert_eq!(site.outcomes.all().pop().map(|(_, outcome)| outcome), outcome);
        site.ask(&post(cancel("1"))).await.accepted();
        assert_eq!(site.server.parked(), 0);
    }
}

/// Says whether it was dropped.
struct Ends(Arc<Probe>, &'static str);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_does_nothing_but_send_notes_can_be_ended() {
    for accept in ["application/json, text/event-stream", "application/json"] {
        let probe = Arc::new(Probe::default());
        let handler = {
            let probe = Arc::clone(&probe);
            async move |message: McpMessage, notifier: Notifier| {
                let mut ends = Ends(Arc::clone(&probe), "dropped");
                let began = Instant::now();
                // So that the test ends.
                while message.is_request() && began.elapsed() < Duration::from_secs(3) {
                    notifier.notify("notifications/message", json!(1)).await.unwrap();
                }
                ends.1 = "never stopped";
                Reply(json!({}))
            }
        };
        let site = Arc::new(Site::over(on_post(handler)));
        let request = post(call("1", &json!({}))).with("accept", accept);
        let asked = tokio::spawn(tower::ServiceExt::oneshot(site.app.clone(), request.request()));
        if accept == "application/json" {
            site.parked(1).await;
        } else {
            // Its client leaves once it has the head.
            drop(asked.await.unwrap().unwrap());
            assert_eq!(site.server.parked(), 1);
        }
        site.ask(&post(cancel("1"))).await;
        assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Cancelled)]);
        // The handler of the cancel itself is one of the two.
        until(|| probe.log().len() == 2).await;
        assert_eq!(probe.count("dropped"), 1, "{accept}");
    }
}

#[tokio::test]
async fn a_full_table_drops_no_legacy_request_that_is_left() {
    let site = Site::with(|options| options.max_parked(1));
    let left = site.begin(&post(held("1")));
    site.parked(1).await;
    left.abort();
    site.probe.until("started 1").await;
    // So that the background drives it.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.server.parked(), 1);
    // All of this before the task of the first one is run again.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut cancelling = Box::pin(tower::ServiceExt::oneshot(site.app.clone(), post(cancel("1")).request()));
    assert!(cancelling.as_mut().poll(&mut context).is_ready());
    let mut next = Box::pin(tower::ServiceExt::oneshot(site.app.clone(), post(held("2")).request()));
    assert!(next.as_mut().poll(&mut context).is_pending());
    assert_eq!(site.server.parked(), 1);
    drop(next);
    assert_eq!(site.server.parked(), 1, "{:?}", site.outcomes.all());
    assert_eq!(site.outcomes.count(Outcome::Disconnected), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_reached_after_the_client_has_left_can_send_notes_too() {
    // Something before the handler waits, so that its extractors come late.
    let site = Site::build(
        |options| options,
        |server, probe| {
            let handler = async move |State(probe): State<Arc<Probe>>, notifier: Notifier| {
                for _ in 0..100 {
                    notifier.notify("notifications/message", json!({})).await.unwrap();
                }
                probe.note("sent all");
                Reply(json!({}))
            };
            let waits = from_fn_with_state(
                Arc::clone(probe),
                async |State(probe): State<Arc<Probe>>, request: Request, next: Next| {
                    probe.pass("gate").await;
                    next.run(request).await
                },
            );
            let routes = Router::new().route("/mcp", on_post(handler)).with_state(Arc::clone(probe)).layer(waits);
            routes.layer(McpLayer::new(server.clone()))
        },
    );
    let asked = site.begin(&post(call("1", &json!({}))));
    site.parked(1).await;
    asked.abort();
    tokio::task::yield_now().await;
    site.probe.open("gate");
    site.probe.until("sent all").await;
    site.parked(0).await;
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
}
