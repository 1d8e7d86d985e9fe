//! How large, how slow, and how many at once.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::routing::post as on_post;
use axum::{Json, Router};
use futures_util::stream;
use http::HeaderMap;
use mcp_layer::{McpLayer, Reply};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;
use tower_http::limit::RequestBodyLimitLayer;

use support::{
    Answer, Asked, CANCELLED, Connection, INTERNAL_ERROR, INVALID_REQUEST, Live, Site, call, cancel, chunk, held, post,
    until,
};

const LIMIT: usize = 64 * 1024;

async fn small() -> Live {
    Site::with(|options| options.max_body_bytes(LIMIT)).listen().await
}

/// A request of exactly this size.
fn sized(bytes: usize) -> String {
    let empty = call("1", &json!({ "pad": "" })).len();
    call("1", &json!({ "pad": "x".repeat(bytes - empty) }))
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit() {
    let live = small().await;
    for (size, fits) in [(LIMIT, true), (LIMIT + 1, false)] {
        let request = post(sized(size));
        let mut connections = [live.connect().await, live.connect().await];
        connections[0].send(request.bytes()).await;
        connections[1].send(request.chunked(1_000)).await;
        for mut connection in connections {
            let answer = connection.answer().await;
            if fits {
                answer.result("1");
            } else {
                let error = answer.error(413, INVALID_REQUEST, None);
                assert!(error.message.contains("65536"), "the limit is not named: {}", error.message);
            }
        }
    }
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test]
async fn by_default_it_is_4_mib() {
    let site = Site::new();
    site.ask(&post(sized(4 * 1024 * 1024))).await.result("1");
    site.ask(&post(sized(4 * 1024 * 1024 + 1))).await.error(413, INVALID_REQUEST, None);
}

#[tokio::test]
async fn a_length_over_the_limit_is_refused_before_the_body_comes() {
    let live = small().await;
    for length in ["65537", "9223372036854775807"] {
        let mut connection = live.connect().await;
        connection.send(post("").and("content-length", length).head_alone()).await;
        connection.answer().await.error(413, INVALID_REQUEST, None);
    }
}

#[tokio::test]
async fn a_client_that_is_still_writing_reads_the_refusal() {
    let live = small().await;
    let piece = vec![b'x'; 64 * 1024];

    let mut connection = live.connect().await;
    connection.send(post("").chunked_head()).await;
    for _ in 0..64 {
        connection.send(chunk(&piece)).await;
    }
    connection.send("0\r\n\r\n").await;
    connection.answer().await.error(413, INVALID_REQUEST, None);

    let mut connection = live.connect().await;
    connection.send(post("").and("content-length", &(64 * piece.len()).to_string()).head_alone()).await;
    for _ in 0..64 {
        connection.send(&piece).await;
    }
    connection.answer().await.error(413, INVALID_REQUEST, None);
}

#[tokio::test]
async fn an_upload_without_end_is_refused_before_its_end() {
    let live = small().await;
    let mut connection = live.connect().await;
    connection.send(post("").chunked_head()).await;
    connection.send(chunk(&vec![b'x'; LIMIT + 1])).await;
    connection.answer().await.error(413, INVALID_REQUEST, None);
}

/// A request whose body never comes.
async fn stalls(site: &Site) -> (Answer, Duration) {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
    let body = Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()));
    let (parts, _) = post("").request().into_parts();
    let began = Instant::now();
    let response = site.app.clone().oneshot(http::Request::from_parts(parts, body)).await.unwrap();
    (Answer::of(response).await, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_body_has_30_seconds() {
    let site = Site::new();
    let (answer, took) = stalls(&site).await;
    answer.error(408, INVALID_REQUEST, None);
    assert!((30_000..30_010).contains(&took.as_millis()), "{took:?}");
    assert_eq!(site.server.parked(), 0);

    let (answer, took) = stalls(&Site::with(|options| options.body_timeout(Duration::from_millis(500)))).await;
    answer.error(408, INVALID_REQUEST, None);
    assert!((500..510).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_trickle_does_not_buy_time() {
    let drip = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(b" ")), ()))
    });
    let (parts, _) = post("").request().into_parts();
    let began = Instant::now();
    let request = http::Request::from_parts(parts, Body::from_stream(drip));
    let response = Site::new().app.oneshot(request).await.unwrap();
    Answer::of(response).await.error(408, INVALID_REQUEST, None);
    assert!((30_000..31_010).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

/// A request whose body the test sends piece by piece, on a clock that is held.
struct Upload {
    answer: Asked,
    pieces: mpsc::UnboundedSender<std::io::Result<Bytes>>,
}

impl Upload {
    async fn begin(site: &Site, first: impl Into<Bytes>) -> Self {
        let (pieces, mut body) = mpsc::unbounded_channel();
        let body = stream::poll_fn(move |cx| body.poll_recv(cx));
        let (parts, _) = post("").request().into_parts();
        let request = http::Request::from_parts(parts, Body::from_stream(body));
        let response = site.app.clone().oneshot(request);
        let upload = Self { answer: Asked::new(async { Answer::of(response.await.unwrap()).await }), pieces };
        upload.send(first).await;
        upload
    }

    /// Sends a piece, and lets the server read it.
    async fn send(&self, piece: impl Into<Bytes>) {
        self.pieces.send(Ok(piece.into())).unwrap();
        sleep(Duration::from_millis(1)).await;
    }

    async fn ends_with(self, last: impl Into<Bytes>) -> Answer {
        self.pieces.send(Ok(last.into())).unwrap();
        drop(self.pieces);
        self.answer.answer().await
    }

    #[track_caller]
    fn is_waited_for(&self) {
        assert!(!self.answer.is_answered());
    }

    async fn ends_as_one_too_many(self) {
        let refused = self.answer.answer().await;
        refused.error(503, INTERNAL_ERROR, None);
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
}

const BUDGET: usize = 100_000;
/// More than a body may have for nothing.
const CHARGED: usize = 5_000;

fn with_a_budget() -> Site {
    Site::with(|options| options.max_buffered_body_bytes(BUDGET).max_body_bytes(2 * BUDGET))
}

/// Nothing of the budget is in use.
async fn all_is_given_back(site: &Site) {
    let whole = Upload::begin(site, vec![b' '; BUDGET]).await;
    whole.is_waited_for();
    let refused = Upload::begin(site, vec![b' '; CHARGED]).await;
    refused.ends_as_one_too_many().await;
    whole.answer.abort();
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_not_whole_yet_share_a_budget() {
    let site = with_a_budget();
    let spaces = |count: usize| vec![b' '; 100 * count];
    let one = Upload::begin(&site, spaces(600)).await;
    Upload::begin(&site, spaces(401)).await.ends_as_one_too_many().await;
    let other = Upload::begin(&site, spaces(399)).await;
    one.is_waited_for();
    other.is_waited_for();
    other.send(spaces(1)).await;
    other.is_waited_for();
    // What a body promises is not held, nor is a body of which nothing has come.
    let nothing = Upload::begin(&site, "").await;
    nothing.is_waited_for();

    other.send(spaces(1)).await;
    other.ends_as_one_too_many().await;
    one.send(spaces(400)).await;
    one.is_waited_for();
    nothing.send(vec![b' '; CHARGED]).await;
    nothing.ends_as_one_too_many().await;
    // The last piece of a body is not held, because the body is handed on.
    one.ends_with(call("1", &json!({}))).await.result("1");
    all_is_given_back(&site).await;
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_budget_keeps_out_no_request_that_arrives_whole() {
    let site = with_a_budget();
    let parked = site.begin(&post(held("1")));
    site.parked(1).await;
    let slow = Upload::begin(&site, vec![b' '; BUDGET]).await;
    site.ask(&post(sized(2 * BUDGET))).await.result("1");
    // In two pieces, of which the first is empty: a head that comes alone, say.
    Upload::begin(&site, "").await.ends_with(call("2", &json!({}))).await.result("2");
    // However it is framed: its end may come late, and so may all of it.
    let late = Upload::begin(&site, cancel("2")).await;
    late.is_waited_for();
    late.ends_with("").await.accepted();
    let piece_by_piece = Upload::begin(&site, "").await;
    for byte in cancel("1").bytes() {
        piece_by_piece.send(vec![byte]).await;
    }
    piece_by_piece.ends_with("").await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
    slow.is_waited_for();
    let none = Site::with(|options| options.max_buffered_body_bytes(0));
    none.ask(&post(call("1", &json!({})))).await.result("1");
    Upload::begin(&none, vec![b' '; CHARGED]).await.ends_as_one_too_many().await;
}

#[tokio::test(start_paused = true)]
async fn each_way_out_gives_the_budget_back() {
    let site = with_a_budget();
    let begin = || Upload::begin(&site, vec![b' '; BUDGET]);
    for _ in 0..3 {
        begin().await.ends_with(call("1", &json!({}))).await.result("1");
        all_is_given_back(&site).await;
        begin().await.ends_with(cancel("1")).await.accepted();
        all_is_given_back(&site).await;
        begin().await.ends_with("{").await.error(400, support::PARSE_ERROR, None);
        all_is_given_back(&site).await;
        begin().await.ends_with(vec![b' '; BUDGET + 1]).await.error(413, INVALID_REQUEST, None);
        all_is_given_back(&site).await;

        let over = begin().await;
        over.send(" ").await;
        over.ends_as_one_too_many().await;
        all_is_given_back(&site).await;

        let broken = begin().await;
        broken.pieces.send(Err(std::io::Error::other("gone"))).unwrap();
        broken.answer.answer().await.error(400, INVALID_REQUEST, None);
        all_is_given_back(&site).await;

        let late = begin().await;
        sleep(Duration::from_secs(31)).await;
        late.answer.answer().await.error(408, INVALID_REQUEST, None);
        all_is_given_back(&site).await;

        let left = begin().await;
        left.answer.abort();
        sleep(Duration::from_millis(1)).await;
        all_is_given_back(&site).await;
    }
    // What begins while the server drains may be a cancel, and is read.
    let parked = site.begin(&post(held("2")));
    site.parked(1).await;
    let in_the_way = begin().await;
    let draining = tokio::spawn({
        let server = site.server.clone();
        async move { server.shutdown(Duration::from_secs(5)).await }
    });
    in_the_way.answer.answer().await.error(503, INTERNAL_ERROR, None);
    all_is_given_back(&site).await;
    draining.await.unwrap();
    parked.answer().await.error(200, -32000, "2");
}

#[tokio::test]
async fn slow_uploads_over_sockets_are_refused_beyond_the_budget() {
    const UPLOADS: usize = 40;
    const HALF: usize = 100_000;
    // Ten halves, and not eleven.
    let live = Site::with(|options| options.max_buffered_body_bytes(1_050_000)).listen().await;
    let body = sized(2 * HALF);
    let (goes_on, waits) = tokio::sync::watch::channel(false);
    let upload = |_| {
        let (address, body, mut waits) = (live.address, body.clone(), waits.clone());
        Asked::new(async move {
            let mut connection = Connection::open(address).await;
            connection.send(post(body.as_str()).head()).await;
            connection.send(&body[..HALF]).await;
            tokio::select! {
                answer = connection.answer() => return answer,
                waited = waits.wait_for(|goes_on| *goes_on) => drop(waited.unwrap()),
            }
            connection.send(&body[HALF..]).await;
            connection.answer().await
        })
    };
    let uploads: Vec<_> = (0..UPLOADS).map(upload).collect();
    until(|| uploads.iter().filter(|upload| upload.is_answered()).count() >= UPLOADS - 10).await;
    live.post(&post(call("1", &json!({})))).await.result("1");
    live.post(&post(cancel("1"))).await.accepted();
    goes_on.send(true).unwrap();
    let mut whole = 0;
    for upload in uploads {
        let answer = upload.answer().await;
        if answer.status == 200 {
            answer.result("1");
            whole += 1;
        } else {
            answer.error(503, INTERNAL_ERROR, None);
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    assert!((1..=10).contains(&whole), "{whole}");
    // All of the budget has been given back.
    Upload::begin(&live, vec![b' '; 1_050_000]).await.is_waited_for();
}

#[tokio::test]
async fn a_limit_of_another_layer_is_413_too() {
    let site = Site::build(
        |options| options,
        |server, probe| {
            let routes = Site::routes(probe).layer(McpLayer::new(server.clone()));
            routes.layer(RequestBodyLimitLayer::new(LIMIT))
        },
    );
    let live = site.listen().await;
    let too_large = post(sized(LIMIT + 1));
    assert_eq!(live.post(&too_large).await.status, 413);
    let mut connection = live.connect().await;
    connection.send(too_large.chunked(1_000)).await;
    connection.answer().await.error(413, INVALID_REQUEST, None);
    live.post(&post(sized(LIMIT))).await.result("1");
    assert_eq!(live.server.parked(), 0);
}

#[tokio::test]
async fn a_handler_that_takes_less_refuses_by_itself() {
    async fn takes_json(Json(_): Json<Value>) -> Reply<Value> {
        Reply(json!({}))
    }

    let site = Site::over(on_post(takes_json));
    let answer = site.ask(&post(sized(3 * 1024 * 1024))).await;
    assert_eq!(answer.status, 413);
    assert!(!answer.text().contains("jsonrpc"));
    assert_eq!(site.server.parked(), 0);
    site.ask(&post(sized(1024 * 1024))).await.result("1");
}

#[tokio::test]
async fn chunks_are_handed_on_as_one_body_of_its_length() {
    let shows = async |headers: HeaderMap, body: String| {
        Reply(json!({
            "length": headers["content-length"].to_str().unwrap(),
            "chunked": headers.contains_key("transfer-encoding"),
            "body": body,
        }))
    };
    let live = Site::over(on_post(shows)).listen().await;
    let body = call("1", &json!({ "pad": "xyz" }));
    let mut connection = live.connect().await;
    for request in [post(body.clone()).bytes(), post(body.clone()).chunked(7)] {
        connection.send(request).await;
        let seen = connection.answer().await.result("1");
        assert_eq!(seen, json!({ "length": body.len().to_string(), "chunked": false, "body": body }));
    }
}

#[tokio::test]
async fn only_so_many_are_parked_but_cancels_still_get_in() {
    let live = Site::with(|options| options.max_parked(3)).listen().await;
    let mut parked = Vec::new();
    for id in ["0", "1", "2"] {
        parked.push(live.park(&post(held(id))));
        live.parked(parked.len()).await;
    }
    let refused = live.post(&post(call("\"nine\"", &json!({})))).await;
    refused.error(503, INTERNAL_ERROR, "\"nine\"");
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    live.post(&post(cancel("0"))).await.accepted();
    parked.remove(0).answer().await.error(200, CANCELLED, "0");
    live.post(&post(call("9", &json!({})))).await.result("9");
    live.probe.open("gate");
    for (asked, id) in parked.into_iter().zip(["1", "2"]) {
        asked.answer().await.result(id);
    }
    assert_eq!(live.outcomes.all().len(), 4);
}

#[tokio::test]
async fn only_so_many_are_parked_of_one_owner() {
    let site = Site::with(|options| options.max_parked_per_caller(2));
    let of = |who: &str, id: &str| post(held(id)).and("authorization", who);
    let mut parked = Vec::new();
    for id in ["1", "2"] {
        parked.push(site.begin(&of("a", id)));
        site.parked(parked.len()).await;
    }
    for refused in [of("a", "3"), of("a", "4").and("mcp-session-id", "s")] {
        let refused = site.ask(&refused).await;
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    }
    site.ask(&of("a", "3")).await.error(429, INVALID_REQUEST, "3");
    parked.push(site.begin(&of("b", "1")));
    // Those without an owner are not one owner.
    for id in ["5", "6", "7"] {
        parked.push(site.begin(&post(held(id))));
    }
    site.parked(6).await;
    site.ask(&post(cancel("1")).and("authorization", "a")).await.accepted();
    site.parked(5).await;
    parked.push(site.begin(&of("a", "3")));
    site.parked(6).await;
}

#[tokio::test]
async fn every_end_gives_its_place_back() {
    let site = Site::with(|options| options.max_parked(1));
    for round in 0..5 {
        for (wish, path) in [
            (json!({}), "/mcp"),
            (json!({ "fail": true }), "/mcp"),
            (json!({ "panic": true }), "/polite"),
            (json!({ "status": 404 }), "/mcp"),
            (json!({ "pad": round }), "/nowhere"),
        ] {
            site.ask(&post(call("1", &wish)).to(path)).await;
        }
        for path in ["/mcp", "/polite"] {
            // The one that stays in its grace time has given its place back.
            let stubborn = call("1", &json!({ "gate": "gate", "stays_for": "ever" }));
            let parked = site.begin(&post(stubborn).to(path));
            site.parked(1).await;
            site.ask(&post(cancel("1"))).await.accepted();
            parked.answer().await.error(200, CANCELLED, "1");
        }
        site.ask(&post("{")).await;
        site.ask(&post(call("1", &json!({}))).with("accept", "text/html")).await;
    }
    site.ask(&post(call("1", &json!({})))).await.result("1");
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn a_router_that_finds_no_route_answers_and_ends_the_exchange() {
    let site = Site::build(
        |options| options,
        |server, probe| Router::new().merge(Site::routes(probe)).layer(McpLayer::new(server.clone())),
    );
    let answer = site.ask(&post(call("1", &json!({}))).to("/nowhere")).await;
    assert_eq!((answer.status, answer.text()), (404, ""));
    assert_eq!(site.server.parked(), 0);
}
