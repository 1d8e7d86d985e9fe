//! `notifications/cancelled` completes the POST that it names.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post as on_post;
use http::{HeaderMap, StatusCode};
use mcp_layer::{McpLayer, Outcome};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use support::{CANCELLED, Live, Site, call, cancel, cancel_because, held, initialize, post};

#[tokio::test]
async fn cancelled_by_another_post_is_answered_and_the_cancel_accepted() {
    for path in ["/mcp", "/polite"] {
        let live = Live::new().await;
        let parked = live.park(&post(held("7")).to(path));
        live.parked(1).await;
        live.post(&post(cancel("7"))).await.accepted();
        let error = parked.answer().await.error(200, CANCELLED, "7");
        assert_eq!(error.data, None);
        assert_eq!(live.server.parked(), 0);
        assert_eq!(live.outcomes.all(), [("7".to_owned(), Outcome::Cancelled)]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_waits_for_nothing() {
    let site = Site::new();
    let stubborn = call("7", &json!({ "gate": "gate", "stays_for": "ever" }));
    let parked = site.begin(&post(stubborn).to("/polite"));
    site.parked(1).await;
    let began = Instant::now();
    site.ask(&post(cancel("7"))).await.accepted();
    parked.answer().await.error(200, CANCELLED, "7");
    assert!(began.elapsed().is_zero(), "{:?}", began.elapsed());
}

#[tokio::test]
async fn ids_are_echoed_as_they_were_sent() {
    let live = Live::new().await;
    for id in [
        "0",
        "-3",
        "1774232524389",
        "9007199254740993",
        "9223372036854775808",
        "18446744073709551615",
        "-9223372036854775808",
        r#""""#,
        r#""7""#,
        r#""a\"b\\c\n\u0001""#,
        "\"gr\u{fc}\u{df}e \u{1f980}\"",
        r#""</script>""#,
    ] {
        let parked = live.park(&post(held(id)));
        live.parked(1).await;
        live.post(&post(cancel(id))).await.accepted();
        parked.answer().await.error(200, CANCELLED, id);
    }
}

#[tokio::test]
async fn an_id_is_what_its_escapes_spell() {
    let live = Live::new().await;
    let parked = live.park(&post(held(r#""\u0041\/""#)));
    live.parked(1).await;
    live.post(&post(cancel(r#""A/""#))).await.accepted();
    parked.answer().await.error(200, CANCELLED, r#""A/""#);
}

#[tokio::test]
async fn a_cancel_names_its_request_and_does_not_point_at_it() {
    let live = Live::new().await;
    let parked = live.park(&post(held("5")));
    live.parked(1).await;
    for params in [
        r#"[5,"r"]"#,
        "[5]",
        r#"[{"requestId":5}]"#,
        "[]",
        r#"{"requestId":[5]}"#,
        r#"{"requestId":{"requestId":5}}"#,
        r#"{"requestId":5,"requestId":5}"#,
        r#"{"requestid":5}"#,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
        live.post(&post(body.as_str())).await.accepted();
        assert_eq!((live.server.parked(), live.probe.heard().last()), (1, Some(&body)), "{params}");
    }
    // A key that no reader can spell is one that no reader looks for.
    let odd = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"\ud800":[1],"requestId":5}}"#;
    live.post(&post(odd)).await.accepted();
    parked.answer().await.error(200, CANCELLED, "5");
}

#[tokio::test]
async fn neighbouring_ids_are_left_alone() {
    let live = Live::new().await;
    for (ended, spared) in [(r#""7""#, "7"), ("9007199254740993", "9007199254740992"), ("0", r#""""#), ("-1", "1")] {
        let live_gate = call(spared, &json!({ "gate": ended }));
        let (ending, other) = (live.park(&post(held(ended))), live.park(&post(live_gate)));
        live.parked(2).await;
        live.post(&post(cancel(ended))).await.accepted();
        ending.answer().await.error(200, CANCELLED, ended);
        assert!(!other.is_answered());
        live.probe.open(ended);
        other.answer().await.result(spared);
    }
}

#[tokio::test]
async fn the_notification_reaches_the_handler_once_and_as_it_was_sent() {
    let (hears, mut heard) = mpsc::unbounded_channel();
    let listen = async move |headers: HeaderMap, body: Bytes| {
        hears.send((headers, body)).unwrap();
        StatusCode::OK
    };
    let live = Site::build(
        |options| options,
        |server, probe| {
            let routes = Site::routes(probe).route("/listen", on_post(listen));
            routes.layer(McpLayer::new(server.clone()))
        },
    );
    let live = live.listen().await;
    let parked = live.park(&post(held("7")));
    live.parked(1).await;
    for id in ["7", "7", "99", r#""none""#] {
        let odd = format!(
            " {{ \"params\" : {{\"x\":[1.50,1e2],\"requestId\":{id} , \"reason\":\"\\u0041\"}},\r\n\t\"method\":\
             \"notifications/cancelled\", \"jsonrpc\":\"2.0\"}} "
        );
        live.post(&post(odd.clone()).to("/listen").and("x-trace", "a").and("x-trace", "b")).await.accepted();
        let (headers, body) = heard.try_recv().unwrap();
        assert_eq!(body, odd);
        assert_eq!(headers.get_all("x-trace").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(headers["content-length"], odd.len().to_string());
        assert_eq!(headers["mcp-protocol-version"], "2025-11-25");
        assert!(heard.try_recv().is_err());
    }
    parked.answer().await.error(200, CANCELLED, "7");
}

#[tokio::test]
async fn what_names_no_parked_request_does_nothing() {
    let live = Live::new().await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    let nothing = [
        cancel("2"),
        cancel(r#""1""#),
        cancel("-1"),
        cancel("1.0"),
        cancel("1e0"),
        cancel("null"),
        cancel("[1]"),
        cancel(r#"{"a":1}"#),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":null}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestid":1}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":1}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"cancelled","params":{"requestId":1}}"#.to_owned(),
    ];
    for message in &nothing {
        live.post(&post(message.clone())).await.accepted();
    }
    // It is heard, but it is a request: it asks for an answer and cancels nothing.
    let request = r#"{"jsonrpc":"2.0","id":5,"method":"notifications/cancelled","params":{"requestId":1}}"#;
    live.post(&post(request)).await.result("5");
    assert_eq!(live.probe.heard(), nothing);
    assert!(!parked.is_answered());
    live.probe.open("gate");
    parked.answer().await.result("1");
    live.post(&post(cancel("1"))).await.accepted();
}

#[tokio::test]
async fn initialize_is_never_cancelled() {
    let live = Live::new().await;
    let parked = live.park(&post(initialize("0", &json!({ "gate": "gate" }))).to("/polite"));
    live.parked(1).await;
    live.post(&post(cancel("0"))).await.accepted();
    assert_eq!(live.server.parked(), 1);
    live.probe.open("gate");
    parked.answer().await.result("0");
    assert_eq!(live.outcomes.all(), [("0".to_owned(), Outcome::Replied)]);
    assert!(!live.probe.log().iter().any(|line| line.starts_with("fired")));
}

#[tokio::test]
async fn initialize_makes_no_cancel_ambiguous() {
    let live = Live::new().await;
    let first = live.park(&post(initialize("0", &json!({ "gate": "gate" }))));
    live.parked(1).await;
    let other = live.park(&post(call("0", &json!({ "gate": "other" }))));
    live.parked(2).await;
    live.post(&post(cancel("0"))).await.accepted();
    other.answer().await.error(200, CANCELLED, "0");
    live.probe.open("gate");
    first.answer().await.result("0");
}

#[tokio::test]
async fn the_code_can_be_set() {
    let live = Site::with(|options| options.cancel_code(-32800)).listen().await;
    let parked = live.park(&post(held("1")));
    live.parked(1).await;
    live.post(&post(cancel("1"))).await.accepted();
    parked.answer().await.error(200, -32800, "1");
}

#[tokio::test]
async fn every_version_is_cancelled_whatever_the_cancel_says_it_is() {
    let live = Live::new().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        for cancels in ["2025-03-26", "2025-11-25"] {
            let parked = live.park(&post(held("1")).with("mcp-protocol-version", version));
            live.parked(1).await;
            live.post(&post(cancel("1")).with("mcp-protocol-version", cancels)).await.accepted();
            parked.answer().await.error(200, CANCELLED, "1");
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_events_only_gets_the_error_as_one() {
    let live = Live::new().await;
    let parked = live.park(&post(held("9")).with("accept", "text/event-stream"));
    live.parked(1).await;
    live.post(&post(cancel_because("9", &json!("a\nb\r\n\ndata: x"))).with("accept", "text/event-stream"))
        .await
        .accepted();
    let answer = parked.answer().await;
    support::error_of(answer.event(), CANCELLED, Some("9"));
}

#[tokio::test]
async fn a_failing_handler_of_the_notification_does_not_undo_it() {
    for (wish, status) in
        [(json!({ "fail": true }), 202), (json!({ "panic": true }), 202), (json!({ "status": 500 }), 500)]
    {
        let live = Live::new().await;
        let parked = live.park(&post(held("3")));
        live.parked(1).await;
        let mut params = wish;
        params["requestId"] = json!(3);
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        let answer = live.post(&post(message.to_string())).await;
        assert_eq!((answer.status, answer.text()), (status, ""));
        parked.answer().await.error(200, CANCELLED, "3");
        assert_eq!(live.probe.heard().len(), 1);
    }
}

#[tokio::test]
async fn the_connection_serves_on_after_a_cancel() {
    let live = Live::new().await;
    let mut connection = live.send_and_park(&post(held("1")), 1).await;
    live.post(&post(cancel("1"))).await.accepted();
    connection.answer().await.error(200, CANCELLED, "1");
    for id in ["2", "3"] {
        connection.post(&post(call(id, &json!({})))).await.result(id);
    }
    connection.post(&post(cancel("3"))).await.accepted();
    connection.post(&post(call("3", &json!({})))).await.result("3");
}

#[tokio::test]
async fn a_cancel_on_one_route_ends_a_request_on_another() {
    let site = Site::build(
        |options| options,
        |server, probe| {
            let layer = McpLayer::new(server.clone());
            let (one, two) = (Site::routes(probe).layer(layer.clone()), Site::routes(probe).layer(layer));
            Router::new().nest("/one", one).nest("/two", two)
        },
    );
    let live = site.listen().await;
    let parked = live.park(&post(held("1")).to("/one/mcp"));
    live.parked(1).await;
    live.post(&post(cancel("1")).to("/two/polite")).await.accepted();
    parked.answer().await.error(200, CANCELLED, "1");
}
