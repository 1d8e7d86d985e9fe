//! Modern clients that listen to changes.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{
    Cancellation, Change, Departure, McpError, McpLayer, McpRouter, McpServerBuilder, Outcome, Reply, ServerInfo,
    Subscription, SubscriptionFilter, Subscriptions, Tool,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use support::{
    Answer, BOUND, Era, Events, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Live, METHOD_NOT_FOUND, Post, Site,
    cancel, http2, initialize, modern, post, request, result_of, until,
};

const LISTEN: &str = "subscriptions/listen";
const ID: &str = "io.modelcontextprotocol/subscriptionId";
const INFO: &str = "io.modelcontextprotocol/serverInfo";

fn listens(id: &str, filter: &Value) -> Post {
    modern(id, LISTEN, &json!({ "notifications": filter }))
}

fn to_all() -> Value {
    json!({
        "promptsListChanged": true,
        "resourceSubscriptions": ["a:b"],
        "resourcesListChanged": true,
        "toolsListChanged": true,
    })
}

async fn nothing() -> Reply<Value> {
    Reply(json!({}))
}

fn tool() -> Tool {
    Tool::with_schema("t", "A tool", json!({ "type": "object" }), nothing)
}

fn named() -> McpRouter {
    McpRouter::new(ServerInfo::new("n", "1"))
}

fn over_with(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder, mcp: McpRouter) -> Site {
    Site::build(options, |server, _| Router::new().route_service("/mcp", mcp).layer(McpLayer::new(server.clone())))
}

fn over(mcp: McpRouter) -> Site {
    over_with(|options| options, mcp)
}

/// A server that has everything that changes.
fn site_with(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> (Site, Subscriptions) {
    let subscriptions = Subscriptions::new();
    let mcp = named().tool(tool()).request("prompts/list", nothing).request("resources/read", nothing);
    (over_with(options, mcp.subscriptions(&subscriptions)), subscriptions)
}

fn site() -> (Site, Subscriptions) {
    site_with(|options| options)
}

/// A notification of the subscription of this id.
fn note(id: &Value, name: &str, own: &Value) -> Value {
    let mut params = own.clone();
    params["_meta"] = json!({ ID: id });
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{name}"), "params": params })
}

fn acknowledged(id: &Value, filter: &Value) -> Value {
    note(id, "subscriptions/acknowledged", &json!({ "notifications": filter }))
}

fn note_of(id: &Value, change: &Change) -> Value {
    match change {
        Change::PromptsListChanged => note(id, "prompts/list_changed", &json!({})),
        Change::ResourceUpdated(uri) => note(id, "resources/updated", &json!({ "uri": uri })),
        Change::ResourcesListChanged => note(id, "resources/list_changed", &json!({})),
        Change::ToolsListChanged => note(id, "tools/list_changed", &json!({})),
    }
}

fn cancelled(id: &Value) -> Value {
    note(id, "cancelled", &json!({ "requestId": id }))
}

async fn read(events: &mut Events) -> Value {
    serde_json::from_str(&events.message().await).unwrap()
}

fn read_event(event: &str) -> Value {
    serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()
}

/// An open subscription that is acknowledged with this filter.
async fn opened(site: &Site, id: &str, filter: &Value) -> Events {
    let mut events = site.open(&listens(id, filter)).await;
    events.streams();
    assert_eq!(read(&mut events).await, acknowledged(&serde_json::from_str(id).unwrap(), filter));
    events
}

/// The clock is held: this passes at once, and before the first comment.
const SILENCE: Duration = Duration::from_millis(400);

/// Nothing more comes for now.
async fn is_silent(events: &mut Events) {
    assert!(timeout(SILENCE, events.next()).await.is_err());
}

/// The end that a server gives to a subscription.
async fn ends_in_order(mut events: Events, id: &Value, result: &Value) {
    assert_eq!(read(&mut events).await, cancelled(id));
    events.ends_with_result(&id.to_string(), result).await;
}

fn closed(id: &Value) -> Value {
    json!({ "resultType": "complete", "_meta": { ID: id } })
}

/// The same with the name of the server, as the router has it in every result.
fn closed_by_name(id: &Value) -> Value {
    let mut result = closed(id);
    result["_meta"][INFO] = json!({ "name": "n", "version": "1" });
    result
}

const LISTS: [Change; 3] = [Change::PromptsListChanged, Change::ResourcesListChanged, Change::ToolsListChanged];

fn all_changes() -> Vec<Change> {
    LISTS.into_iter().chain([updated("a:b"), updated("c:d")]).collect()
}

fn updated(uri: impl Into<String>) -> Change {
    Change::ResourceUpdated(uri.into())
}

#[tokio::test(start_paused = true)]
async fn the_stream_begins_at_once_with_an_acknowledgement() {
    let (site, _subscriptions) = site();
    let began = Instant::now();
    let mut events = site.open(&listens("1", &to_all())).await;
    events.streams();
    assert_eq!(
        events.message().await,
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"{ID}":1}},"notifications":{}}}}}"#,
            to_all()
        )
    );
    assert!(began.elapsed().is_zero());
    is_silent(&mut events).await;
    assert_eq!(site.server.parked(), 1);
}

#[tokio::test]
async fn over_a_socket_too() {
    let (site, subscriptions) = site();
    let live = site.listen().await;
    let mut connection = live.connect().await;
    connection.send(listens("1", &to_all()).bytes()).await;
    let head = connection.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(read_event(&connection.event().await), acknowledged(&json!(1), &to_all()));
    let sender = http2::connect(&live).await;
    let mut events = Events::of(http2::open(&sender, http2::local(&listens("\"2\"", &to_all()))).await, BOUND);
    assert_eq!(read(&mut events).await, acknowledged(&json!("2"), &to_all()));
    for change in &all_changes()[..4] {
        subscriptions.publish(change.clone());
        assert_eq!(read_event(&connection.event().await), note_of(&json!(1), change));
        assert_eq!(read(&mut events).await, note_of(&json!("2"), change));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_of_what_it_has_asked_for_and_of_nothing_else() {
    let (site, subscriptions) = site();
    for (filter, heard) in [
        (json!({}), vec![]),
        (json!({ "promptsListChanged": true }), vec![Change::PromptsListChanged]),
        (json!({ "resourcesListChanged": true }), vec![Change::ResourcesListChanged]),
        (json!({ "toolsListChanged": true }), vec![Change::ToolsListChanged]),
        (json!({ "resourceSubscriptions": ["a:b"] }), vec![updated("a:b")]),
        (json!({ "resourceSubscriptions": ["a:b", "c:d", "e:f"] }), vec![updated("a:b"), updated("c:d")]),
        (to_all(), [LISTS.as_slice(), &[updated("a:b")]].concat()),
    ] {
        let mut events = opened(&site, "1", &filter).await;
        for _ in 0..2 {
            for change in all_changes().into_iter().chain(["", "a", "a:b ", "A:B", "a:b/c"].map(updated)) {
                subscriptions.publish(change);
            }
            for change in &heard {
                assert_eq!(read(&mut events).await, note_of(&json!(1), change), "{filter}");
            }
        }
        is_silent(&mut events).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_false_or_empty_is_not_asked_for() {
    let (site, subscriptions) = site();
    let filter = json!({
        "promptsListChanged": false,
        "resourceSubscriptions": [],
        "resourcesListChanged": false,
        "toolsListChanged": false,
        "logsListChanged": true,
        "taskIds": ["a:b"],
    });
    let mut events = site.open(&listens("1", &filter)).await;
    assert_eq!(read(&mut events).await, acknowledged(&json!(1), &json!({})));
    all_changes().into_iter().for_each(|change| subscriptions.publish(change));
    is_silent(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn only_what_the_server_has_is_acknowledged_and_sent() {
    let lists = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), json!(true))).collect::<Value>();
    let of = |router: McpRouter, subscriptions: &Subscriptions| over(router.subscriptions(subscriptions));
    let resources = json!({ "resourcesListChanged": true, "resourceSubscriptions": ["a:b"] });
    for (router, filter, heard) in [
        (named(), json!({}), vec![]),
        (named().request("completion/complete", nothing), json!({}), vec![]),
        (named().tool(tool()), lists(&["toolsListChanged"]), vec![Change::ToolsListChanged]),
        (named().request("tools/list", nothing), lists(&["toolsListChanged"]), vec![Change::ToolsListChanged]),
        (named().request("prompts/list", nothing), lists(&["promptsListChanged"]), vec![Change::PromptsListChanged]),
        (
            named().request("resources/list", nothing),
            resources.clone(),
            vec![Change::ResourcesListChanged, updated("a:b")],
        ),
        (
            named().request("resources/templates/list", nothing),
            resources,
            vec![Change::ResourcesListChanged, updated("a:b")],
        ),
        // Of the other era.
        (named().request("resources/subscribe", nothing), json!({}), vec![]),
    ] {
        let subscriptions = Subscriptions::new();
        let site = of(router, &subscriptions);
        let mut events = site.open(&listens("1", &to_all())).await;
        assert_eq!(read(&mut events).await, acknowledged(&json!(1), &filter));
        all_changes().into_iter().for_each(|change| subscriptions.publish(change));
        for change in heard {
            assert_eq!(read(&mut events).await, note_of(&json!(1), &change));
        }
        is_silent(&mut events).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_message_carries_the_id_of_its_request_as_it_is() {
    let (site, subscriptions) = site();
    for id in ["1", "-1", "0", "18446744073709551615", "\"1\"", "\"\"", "\"a\\\"b\\n\u{fc}\u{2028}\""] {
        let value: Value = serde_json::from_str(id).unwrap();
        let mut events = opened(&site, id, &to_all()).await;
        subscriptions.publish(updated("a:b"));
        assert_eq!(read(&mut events).await, note_of(&value, &updated("a:b")));
        drop(events);
        site.parked(0).await;
    }
    let mut events = opened(&site, "\"1\"", &to_all()).await;
    site.server.shutdown(Duration::ZERO).await;
    assert_eq!(read(&mut events).await, cancelled(&json!("1")));
    events.ends_with_result("\"1\"", &closed_by_name(&json!("1"))).await;
}

#[tokio::test(start_paused = true)]
async fn one_client_may_have_several_subscriptions() {
    let (site, subscriptions) = site();
    let [tools, resources] =
        [json!({ "toolsListChanged": true }), json!({ "resourceSubscriptions": ["a:b"], "toolsListChanged": true })];
    let mut first = opened(&site, "1", &tools).await;
    let mut second = opened(&site, "2", &resources).await;
    // Some clients give each of their requests the same id.
    let mut again = opened(&site, "1", &resources).await;
    assert_eq!(site.server.parked(), 3);
    subscriptions.publish(updated("a:b"));
    subscriptions.publish(Change::ToolsListChanged);
    assert_eq!(read(&mut first).await, note_of(&json!(1), &Change::ToolsListChanged));
    for (id, events) in [(2, &mut second), (1, &mut again)] {
        assert_eq!(read(events).await, note_of(&json!(id), &updated("a:b")));
        assert_eq!(read(events).await, note_of(&json!(id), &Change::ToolsListChanged));
    }
    drop(first);
    site.parked(2).await;
    subscriptions.publish(Change::ToolsListChanged);
    assert_eq!(read(&mut second).await, note_of(&json!(2), &Change::ToolsListChanged));
    assert_eq!(read(&mut again).await, note_of(&json!(1), &Change::ToolsListChanged));
}

#[tokio::test(start_paused = true)]
async fn clones_of_the_subscribers_are_the_same_and_of_any_thread() {
    let (site, subscriptions) = site();
    // Nobody hears of this.
    subscriptions.publish(Change::ToolsListChanged);
    let mut events = opened(&site, "1", &to_all()).await;
    let clone = subscriptions.clone();
    std::thread::spawn(move || clone.publish(updated("a:b"))).join().unwrap();
    assert_eq!(read(&mut events).await, note_of(&json!(1), &updated("a:b")));
    drop(subscriptions);
    is_silent(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_published_while_the_acknowledgement_is_on_its_way_is_heard_of() {
    let (site, subscriptions) = site();
    let mut events = site.open(&listens("1", &to_all())).await;
    subscriptions.publish(updated("a:b"));
    assert_eq!(read(&mut events).await, acknowledged(&json!(1), &to_all()));
    assert_eq!(read(&mut events).await, note_of(&json!(1), &updated("a:b")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_changes_after_the_acknowledgement_is_heard_of_however_much_changes_meanwhile() {
    const SUBSCRIBERS: usize = 100;
    const MOST: usize = 1_000;
    let (site, subscriptions) = site();
    let (site, published) = (Arc::new(site), Arc::new(AtomicUsize::new(0)));
    let publishing = tokio::spawn({
        let published = Arc::clone(&published);
        async move {
            loop {
                subscriptions.publish(updated(format!("n:{}", published.fetch_add(1, Ordering::SeqCst))));
                yield_now().await;
            }
        }
    });
    let mut listening = JoinSet::new();
    for id in 0..SUBSCRIBERS {
        let (site, published) = (Arc::clone(&site), Arc::clone(&published));
        listening.spawn(async move {
            let from = published.load(Ordering::SeqCst);
            let uris: Vec<_> = (from..from + MOST).map(|number| format!("n:{number}")).collect();
            let mut events = site.open(&listens(&id.to_string(), &json!({ "resourceSubscriptions": uris }))).await;
            read(&mut events).await;
            let since = published.load(Ordering::SeqCst) + 1;
            let mut missing: BTreeSet<_> = (since..since + 5).map(|number| format!("n:{number}")).collect();
            if since + 5 >= from + MOST {
                return 0;
            }
            while !missing.is_empty() {
                let note = timeout(BOUND, read(&mut events)).await.unwrap_or_else(|_| panic!("never: {missing:?}"));
                missing.remove(note["params"]["uri"].as_str().unwrap());
            }
            1
        });
    }
    let mut complete = 0;
    while let Some(listened) = listening.join_next().await {
        complete += listened.unwrap();
    }
    publishing.abort();
    assert!(complete > 0, "all were too late");
    site.parked(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_hears_of_everything_in_the_end() {
    let (site, subscriptions) = site();
    let wanted: Vec<_> = (0..500).map(|n| format!("n:{n}")).collect();
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": wanted });
    let mut events = site.open(&listens("1", &filter)).await;
    yield_now().await;
    for n in 0..10_000 {
        subscriptions.publish(updated(format!("n:{}", n % 1_000)));
        if n % 50 == 0 {
            yield_now().await;
        }
    }
    subscriptions.publish(Change::ToolsListChanged);
    read(&mut events).await;
    let mut heard = BTreeMap::<String, usize>::new();
    while let Ok(event) = timeout(SILENCE, events.next()).await {
        let event = read_event(&event.unwrap());
        let what = event["params"]["uri"].as_str().unwrap_or(event["method"].as_str().unwrap()).to_owned();
        *heard.entry(what).or_default() += 1;
    }
    let expected: BTreeSet<_> = wanted.into_iter().chain(["notifications/tools/list_changed".to_owned()]).collect();
    assert_eq!(heard.keys().cloned().collect::<BTreeSet<_>>(), expected);
    // What waited, what was on its way, and everything once.
    let all: usize = heard.values().sum();
    assert!(all <= 64 + 501 + 501, "{all} for 5,001 changes");
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_the_stream_is_full_is_heard_of_in_the_end() {
    let (site, subscriptions) = site();
    let filter = json!({ "resourceSubscriptions": ["a:b", "c:d"] });
    let mut events = opened(&site, "1", &filter).await;
    // 64 wait for the client to read. `c:d` changes after all of those, once.
    for n in 0..2_000 {
        subscriptions.publish(updated(if n == 900 { "c:d" } else { "a:b" }));
        yield_now().await;
    }
    let mut heard = Vec::new();
    while let Ok(event) = timeout(SILENCE, events.next()).await {
        heard.push(read_event(&event.unwrap())["params"]["uri"].as_str().unwrap().to_owned());
    }
    // Those that wait, the one that waits for room, and each that has changed since.
    assert_eq!(heard[..65], vec!["a:b"; 65]);
    assert_eq!(heard[65..], ["a:b", "c:d"]);
}

#[tokio::test(start_paused = true)]
async fn however_much_else_changes_a_client_hears_of_nothing_that_has_not_changed() {
    let (site, subscriptions) = site();
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["a:b", "c:d"] });
    let mut events = opened(&site, "1", &filter).await;
    // All at one moment, as a server does that has read all that it has anew.
    for n in 0..10_000 {
        subscriptions.publish(updated(format!("n:{n}")));
    }
    is_silent(&mut events).await;
    for n in 0..10_000 {
        subscriptions.publish(updated(if n == 5_000 { "c:d".to_owned() } else { format!("n:{n}") }));
    }
    assert_eq!(read(&mut events).await, note_of(&json!(1), &updated("c:d")));
    is_silent(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn what_changes_several_times_before_it_is_told_is_told_once() {
    let (site, subscriptions) = site();
    let mut events = opened(&site, "1", &to_all()).await;
    for change in [updated("a:b"), Change::ToolsListChanged, updated("a:b"), updated("a:b"), Change::ToolsListChanged] {
        subscriptions.publish(change);
    }
    assert_eq!(read(&mut events).await, note_of(&json!(1), &updated("a:b")));
    assert_eq!(read(&mut events).await, note_of(&json!(1), &Change::ToolsListChanged));
    is_silent(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_holds_up_nobody() {
    let (site, subscriptions) = site();
    let unread = site.open(&listens("1", &to_all())).await;
    let mut events = opened(&site, "2", &to_all()).await;
    for _ in 0..1_000 {
        subscriptions.publish(Change::ToolsListChanged);
        assert_eq!(read(&mut events).await, note_of(&json!(2), &Change::ToolsListChanged));
    }
    assert_eq!(site.server.parked(), 2);
    site.server.shutdown(Duration::ZERO).await;
    assert_eq!(site.server.parked(), 0);
    ends_in_order(events, &json!(2), &closed_by_name(&json!(2))).await;
    drop(unread);
}

#[tokio::test]
async fn a_client_that_takes_no_event_stream_gets_406() {
    let (site, _subscriptions) = site();
    for accept in ["application/json", "application/json, text/event-stream;q=0", "application/*"] {
        for id in ["1", "\"a\""] {
            let answer = site.ask(&listens(id, &to_all()).with("accept", accept)).await;
            answer.error(406, INVALID_REQUEST, id);
        }
    }
    assert_eq!(site.server.parked(), 0);
    for accept in ["text/event-stream", "*/*"] {
        let mut events = site.open(&listens("1", &to_all()).with("accept", accept)).await;
        assert_eq!(read(&mut events).await, acknowledged(&json!(1), &to_all()));
    }
    site.open(&listens("1", &to_all()).without("accept")).await.streams();
}

#[tokio::test]
async fn an_empty_array_is_an_empty_filter() {
    let (site, _subscriptions) = site();
    let mut events = site.open(&listens("1", &json!([]))).await;
    assert_eq!(read(&mut events).await, acknowledged(&json!(1), &json!({})));
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused() {
    let (site, _subscriptions) = site();
    for filter in [
        json!(null),
        json!([true]),
        json!([true, ["a:b"], true, true]),
        json!("toolsListChanged"),
        json!(true),
        json!({ "toolsListChanged": "true" }),
        json!({ "toolsListChanged": 1 }),
        json!({ "promptsListChanged": {} }),
        json!({ "resourcesListChanged": [] }),
        json!({ "resourceSubscriptions": "a:b" }),
        json!({ "resourceSubscriptions": {} }),
        json!({ "resourceSubscriptions": true }),
        json!({ "resourceSubscriptions": ["a:b", 1] }),
        json!({ "resourceSubscriptions": [["a:b"]] }),
        json!({ "resourceSubscriptions": [null] }),
    ] {
        let answer = timeout(BOUND / 4, site.ask(&listens("1", &filter))).await;
        let answer = answer.unwrap_or_else(|_| panic!("accepted: {filter}"));
        answer.error(200, INVALID_PARAMS, "1");
    }
    site.ask(&modern("1", LISTEN, &json!({}))).await.error(200, INVALID_PARAMS, "1");
    for twice in [r#"{"toolsListChanged":true,"toolsListChanged":false}"#, r#"{},"notifications":{}"#] {
        let refused = format!("\"notifications\":{twice}");
        let text = listens("1", &json!({})).request().into_body();
        let text = http_body_util::BodyExt::collect(text).await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap().replace("\"notifications\":{}", &refused);
        let headers = modern("1", LISTEN, &json!({}));
        let (parts, _) = headers.request().into_parts();
        let posted = http::Request::from_parts(parts, axum::body::Body::from(text));
        let answer = Answer::of(site.app.clone().oneshot(posted).await.unwrap()).await;
        answer.error(200, INVALID_PARAMS, "1");
    }
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn legacy_versions_have_no_subscriptions() {
    let (site, _subscriptions) = site();
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        for accept in ["application/json, text/event-stream", "application/json"] {
            let asks = post(request("1", LISTEN, &json!({ "notifications": to_all() })));
            let asks = asks.with("mcp-protocol-version", version).with("accept", accept);
            site.ask(&asks).await.error(200, -32601, "1");
        }
    }
}

#[tokio::test]
async fn a_server_without_subscribers_does_not_know_the_method() {
    let site = over(named().tool(tool()));
    site.ask(&listens("1", &to_all())).await.error(404, -32601, "1");
}

/// As large as a body may be, with no way to make it cost more than its size.
#[tokio::test]
async fn a_hostile_filter_costs_no_more_than_its_size() {
    let (site, subscriptions) = site();
    let unique: Vec<_> = (0..1_024).map(|n| format!("n:{n:08}")).collect();
    let equal = vec!["a:b"; 400_000];
    let both: Vec<_> = (0..200_000).map(|n| format!("n:{:08}", n % 1_024)).collect();
    for (filter, number) in [(json!(unique), 1_024), (json!(equal), 1), (json!(both), 1_024)] {
        let began = std::time::Instant::now();
        let filter = json!({ "resourceSubscriptions": filter });
        let asks = listens("1", &filter);
        assert!(asks.bytes().len() < 4 << 20);
        let mut events = site.open(&asks).await;
        let acknowledged = read(&mut events).await;
        let honoured = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(honoured.as_array().unwrap().len(), number);
        for _ in 0..1_000 {
            subscriptions.publish(updated("x:y"));
        }
        subscriptions.publish(updated("a:b"));
        yield_now().await;
        drop(events);
        site.parked(0).await;
        assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_filter_names_no_more_uris_than_its_limits_allow() {
    let (site, _subscriptions) = site();
    let numbered = |count: usize| (0..count).map(|number| format!("n:{number}")).collect::<Vec<_>>();
    let long = |lengths: &[usize]| lengths.iter().map(|&length| "x".repeat(length)).collect::<Vec<_>>();
    for (uris, limit) in [
        (numbered(1_024), None),
        (numbered(1_025), Some("1024 URIs")),
        (numbered(300_000), Some("1024 URIs")),
        (long(&[60_000, 5_536]), None),
        (long(&[60_000, 5_537]), Some("65536 bytes of URIs")),
        (long(&[4_000_000]), Some("65536 bytes of URIs")),
    ] {
        let filter = json!({ "resourceSubscriptions": uris });
        let Some(limit) = limit else {
            let mut events = site.open(&listens("1", &filter)).await;
            let honoured = &read(&mut events).await["params"]["notifications"]["resourceSubscriptions"];
            assert_eq!(honoured.as_array().unwrap().len(), uris.len());
            continue;
        };
        let error = site.ask(&listens("1", &filter)).await.error(200, INVALID_PARAMS, "1");
        assert!(error.message.contains(limit) && error.message.contains("resourceSubscriptions"), "{}", error.message);
        // What the client sent is not part of it.
        assert!(error.message.len() < 120, "{}", error.message);
    }
    site.parked(0).await;
}

#[tokio::test(start_paused = true)]
async fn it_has_no_deadline_and_is_kept_alive() {
    let (site, subscriptions) = site_with(|options| options.request_timeout(Some(Duration::from_secs(1))));
    let mut events = opened(&site, "1", &to_all()).await;
    let began = Instant::now();
    for times in 0..=1_000_u64 {
        assert_eq!(events.next().await.unwrap(), ": ");
        // The first two come early.
        let at = if times == 0 { 5 } else { 10 + u128::from(times - 1) * 150 };
        assert_eq!(began.elapsed().as_millis() / 100, at);
    }
    subscriptions.publish(Change::ToolsListChanged);
    assert_eq!(read(&mut events).await, note_of(&json!(1), &Change::ToolsListChanged));
    assert_eq!(site.server.parked(), 1);
}

#[tokio::test]
async fn it_ends_within_a_second_when_its_client_leaves() {
    let (site, _subscriptions) = site();
    let live = site.listen().await;
    let sender = http2::connect(&live).await;
    for is_read in [false, true] {
        let mut connection = live.connect().await;
        connection.send(listens("1", &to_all()).bytes()).await;
        connection.head().await;
        if is_read {
            connection.event().await;
        }
        live.parked(1).await;
        drop(connection);
        timeout(Duration::from_secs(1), live.parked(0)).await.expect("within a second");

        let mut events = Events::of(http2::open(&sender, http2::local(&listens("1", &to_all()))).await, BOUND);
        if is_read {
            read(&mut events).await;
        }
        live.parked(1).await;
        drop(events);
        timeout(Duration::from_secs(1), live.parked(0)).await.expect("within a second");
    }
    until(|| live.outcomes.all().len() == 4).await;
    assert_eq!(live.outcomes.count(Outcome::Disconnected), 4);
    // The connection serves others.
    http2::ask(&sender, http2::local(&modern("2", "tools/list", &json!({})))).await.result("2");
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_its_client_leaves_wherever_other_requests_go_on() {
    let (site, _subscriptions) = site_with(|options| options.modern_departure(Departure::CarryOn));
    drop(opened(&site, "1", &to_all()).await);
    site.parked(0).await;
    until(|| site.outcomes.all() == [("1".to_owned(), Outcome::Disconnected)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_posted_cancel_ends_it_only_where_that_is_honoured() {
    for honours in [false, true] {
        let (site, _subscriptions) = site_with(|options| options.honour_modern_cancel(honours));
        let mut events = opened(&site, "1", &to_all()).await;
        site.ask(&post(cancel("1")).with("mcp-protocol-version", "2026-07-28")).await.accepted();
        if honours {
            events.ends_with_error(-32800, "1").await;
        } else {
            is_silent(&mut events).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_closes_it_when_it_begins() {
    let (site, subscriptions) = site();
    let mut read_all = opened(&site, "1", &to_all()).await;
    // What is on its way comes before its end, the acknowledgement first of all.
    let mut unread = site.open(&listens("\"2\"", &to_all())).await;
    subscriptions.publish(updated("a:b"));
    assert_eq!(read(&mut read_all).await, note_of(&json!(1), &updated("a:b")));
    let began = Instant::now();
    site.server.shutdown(Duration::from_secs(10)).await;
    assert!(began.elapsed().is_zero());
    assert_eq!(site.server.parked(), 0);
    ends_in_order(read_all, &json!(1), &closed_by_name(&json!(1))).await;
    assert_eq!(read(&mut unread).await, acknowledged(&json!("2"), &to_all()));
    assert_eq!(read(&mut unread).await, note_of(&json!("2"), &updated("a:b")));
    ends_in_order(unread, &json!("2"), &closed_by_name(&json!("2"))).await;
    assert_eq!(site.outcomes.count(Outcome::ShutDown), 2);
    site.ask(&listens("3", &to_all())).await.error(503, INTERNAL_ERROR, "3");
}

#[tokio::test]
async fn over_sockets_a_shutdown_closes_all_of_them() {
    let (site, _subscriptions) = site();
    let live: Live = site.listen().await;
    let sender = http2::connect(&live).await;
    let mut connections = Vec::new();
    for id in 0..20 {
        let mut connection = live.connect().await;
        connection.send(listens(&id.to_string(), &to_all()).bytes()).await;
        connection.head().await;
        connection.event().await;
        connections.push((id, connection));
    }
    let mut events = Events::of(http2::open(&sender, http2::local(&listens("\"h\"", &to_all()))).await, BOUND);
    read(&mut events).await;
    timeout(Duration::from_secs(1), live.server.shutdown(BOUND)).await.expect("nothing else is left");
    for (id, mut connection) in connections {
        assert_eq!(read_event(&connection.event().await), cancelled(&json!(id)));
        let last = connection.event().await;
        assert_eq!(result_of(last.strip_prefix("data: ").unwrap(), &id.to_string()), closed_by_name(&json!(id)));
        connection.end_of_stream().await;
    }
    ends_in_order(events, &json!("h"), &closed_by_name(&json!("h"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_slow_reader() {
    let (site, subscriptions) = site();
    let mut unread = site.open(&listens("1", &to_all())).await;
    for _ in 0..400 {
        subscriptions.publish(Change::ToolsListChanged);
        yield_now().await;
    }
    let began = Instant::now();
    site.server.shutdown(Duration::from_secs(10)).await;
    assert!(began.elapsed().is_zero());
    assert_eq!(read(&mut unread).await, acknowledged(&json!(1), &to_all()));
    let mut last = read(&mut unread).await;
    let mut number = 1;
    while last == note_of(&json!(1), &Change::ToolsListChanged) {
        last = read(&mut unread).await;
        number += 1;
    }
    assert_eq!((last, number), (cancelled(&json!(1)), 64));
    unread.ends_with_result("1", &closed_by_name(&json!(1))).await;
}

/// 2026-07-28, *Result Responses*: the layer gives this result where the router gives all others.
#[tokio::test(start_paused = true)]
async fn a_shutdown_closes_it_with_the_name_of_the_server_that_its_router_knows() {
    let waits = async |subscription: Subscription| -> Reply<Value> {
        let requested = subscription.requested().clone();
        let _stream = subscription.acknowledge(requested).await;
        std::future::pending().await
    };
    let takes_the_token = async move |token: Cancellation, subscription: Subscription| {
        let stream = subscription.acknowledge(SubscriptionFilter::default()).await;
        token.cancelled().await;
        stream.close().await
    };
    let subscriptions = Subscriptions::new();
    let of_its_own = named().tool(tool()).subscriptions(&subscriptions);
    let of_another = McpRouter::default().tool(tool()).subscriptions(&subscriptions);
    for (site, expected) in [
        (over(of_its_own), closed_by_name(&json!(1))),
        (over(named().merge(of_another)), closed_by_name(&json!(1))),
        (over(named().request(LISTEN, waits)), closed_by_name(&json!(1))),
        (over(named().fallback(waits)), closed_by_name(&json!(1))),
        (over(named().request(LISTEN, takes_the_token)), closed_by_name(&json!(1))),
        (Site::over(on_post(waits)), closed(&json!(1))),
    ] {
        let mut events = site.open(&listens("1", &json!({}))).await;
        assert_eq!(read(&mut events).await, acknowledged(&json!(1), &json!({})));
        site.server.shutdown(Duration::from_secs(10)).await;
        ends_in_order(events, &json!(1), &expected).await;
        assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::ShutDown)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_that_meets_a_shutdown_is_closed_or_refused() {
    let (mut closed_ones, mut refused) = (0, 0);
    for turn in 0..100 {
        let (site, _subscriptions) = site();
        let site = Arc::new(site);
        let mut listening = JoinSet::new();
        for id in 0..40 {
            let site = Arc::clone(&site);
            listening.spawn(async move {
                for _ in 0..id * 10 {
                    std::hint::spin_loop();
                }
                let answer = site.ask(&listens("1", &to_all())).await;
                if answer.status == 503 {
                    answer.error(503, INTERNAL_ERROR, "1");
                    return false;
                }
                if answer.header("content-type") == Some("application/json") {
                    // Without a name, where the shutdown came before the router.
                    assert!([closed(&json!(1)), closed_by_name(&json!(1))].contains(&answer.result("1")));
                    return true;
                }
                let messages: Vec<_> = answer.text().trim_end().split("\n\n").map(read_event).collect();
                let result = json!({ "jsonrpc": "2.0", "id": 1, "result": closed_by_name(&json!(1)) });
                assert_eq!(messages, [acknowledged(&json!(1), &to_all()), cancelled(&json!(1)), result]);
                true
            });
        }
        until(|| site.server.parked() >= turn % 30).await;
        timeout(BOUND, site.server.shutdown(BOUND)).await.expect("nothing is left");
        for is_closed in timeout(BOUND, listening.join_all()).await.expect("all have an answer") {
            *(if is_closed { &mut closed_ones } else { &mut refused }) += 1;
        }
        assert_eq!(site.server.parked(), 0);
    }
    assert!(closed_ones > 0 && refused > 0, "no race: {closed_ones} closed, {refused} refused");
}

#[tokio::test]
async fn it_is_declared_to_those_who_can_listen() {
    let capabilities = async |site: &Site, era: Era| {
        let asks = match era {
            Era::Legacy => post(initialize("1", &json!({ "protocolVersion": "2025-11-25" }))),
            Era::Modern => modern("1", "server/discover", &json!({})),
        };
        site.ask(&asks).await.result("1")["capabilities"].clone()
    };
    let (all, _subscriptions) = site();
    let list = json!({ "listChanged": true });
    let expected = json!({ "prompts": list, "resources": { "listChanged": true, "subscribe": true }, "tools": list });
    assert_eq!(capabilities(&all, Era::Modern).await, expected);
    let expected = json!({ "prompts": {}, "resources": {}, "tools": {} });
    assert_eq!(capabilities(&all, Era::Legacy).await, expected);

    let subscriptions = Subscriptions::new();
    let some = over(named().tool(tool()).subscriptions(&subscriptions));
    assert_eq!(capabilities(&some, Era::Modern).await, json!({ "tools": list }));
    let none = over(named().subscriptions(&subscriptions));
    assert_eq!(capabilities(&none, Era::Modern).await, json!({}));
    let silent = over(named().tool(tool()));
    assert_eq!(capabilities(&silent, Era::Modern).await, json!({ "tools": {} }));
    let own = over(named().tool(tool()).subscriptions(&subscriptions).capability("tools", json!({ "own": 1 })));
    assert_eq!(capabilities(&own, Era::Modern).await, json!({ "tools": { "own": 1 } }));
    let legacy = over(named().request("resources/subscribe", nothing).subscriptions(&subscriptions));
    assert_eq!(capabilities(&legacy, Era::Legacy).await, json!({ "resources": { "subscribe": true } }));
    assert_eq!(capabilities(&legacy, Era::Modern).await, json!({}));
}

#[tokio::test(start_paused = true)]
async fn routers_hand_their_subscribers_on() {
    let subscriptions = Subscriptions::new();
    let inner = || McpRouter::default().tool(tool()).subscriptions(&subscriptions);
    let stated: McpRouter<String> = McpRouter::default()
        .request("prompts/list", async |State(name): State<String>| Reply(json!({ "name": name })))
        .subscriptions(&subscriptions);
    for router in [
        named().merge(inner()),
        inner().merge(McpRouter::default().request("x", nothing)),
        named().nest("a", inner()),
        named().tool(tool()).merge(stated.with_state("s".to_owned())),
        inner().clone(),
    ] {
        let site = over(router);
        let filter = json!({ "toolsListChanged": true });
        let mut events = opened(&site, "1", &filter).await;
        subscriptions.publish(Change::ToolsListChanged);
        assert_eq!(read(&mut events).await, note_of(&json!(1), &Change::ToolsListChanged));
    }
    let quietly = |merge: fn(McpRouter, McpRouter) -> McpRouter| {
        let (one, other) = (inner(), McpRouter::default().subscriptions(&subscriptions));
        catch_unwind(AssertUnwindSafe(|| merge(one, other))).is_err()
    };
    assert!(quietly(McpRouter::merge) && quietly(|one, other| one.nest("a", other)));
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_ones_own_takes_its_place() {
    let subscriptions = Subscriptions::new();
    let own = async || Reply(json!({ "own": true }));
    let site = over(named().tool(tool()).request(LISTEN, own).subscriptions(&subscriptions));
    assert_eq!(site.ask(&listens("1", &to_all())).await.result("1")["own"], true);
    // A fallback does not.
    let site = over(named().tool(tool()).fallback(own).subscriptions(&subscriptions));
    opened(&site, "1", &json!({ "toolsListChanged": true })).await;
}

#[tokio::test(start_paused = true)]
async fn subscribers_serve_a_handler_of_ones_own_with_all_that_is_requested() {
    let subscriptions = Subscriptions::new();
    let handler = {
        let subscriptions = subscriptions.clone();
        async move |subscription: Subscription| subscriptions.listen(subscription).await
    };
    // A plain one, and one that the router knows nothing else of.
    for site in [Site::over(on_post(handler.clone())), over(named().request(LISTEN, handler))] {
        let mut events = opened(&site, "1", &to_all()).await;
        for change in &all_changes()[..4] {
            subscriptions.publish(change.clone());
            assert_eq!(read(&mut events).await, note_of(&json!(1), change));
        }
        drop(events);
        site.parked(0).await;
    }
}

/// Acknowledges the tools and a resource, tells of all changes, and closes.
async fn tells(subscription: Subscription) -> Reply<Value> {
    assert!(subscription.requested().prompts_list_changed);
    let honoured = SubscriptionFilter {
        tools_list_changed: true,
        resource_subscriptions: ["a:b".to_owned(), "c:d".to_owned()].into(),
        ..SubscriptionFilter::default()
    };
    let stream = subscription.acknowledge(honoured).await;
    assert_eq!(stream.honoured().resource_subscriptions, ["a:b".to_owned()].into());
    for change in all_changes() {
        stream.send(&change).await;
    }
    stream.close().await
}

#[tokio::test(start_paused = true)]
async fn a_handler_acknowledges_what_was_asked_for_and_closes_in_order() {
    for is_router in [false, true] {
        let site = if is_router { over(named().request(LISTEN, tells)) } else { Site::over(on_post(tells)) };
        let mut events = site.open(&listens("1", &to_all())).await;
        let filter = json!({ "resourceSubscriptions": ["a:b"], "toolsListChanged": true });
        assert_eq!(read(&mut events).await, acknowledged(&json!(1), &filter));
        assert_eq!(read(&mut events).await, note_of(&json!(1), &Change::ToolsListChanged));
        assert_eq!(read(&mut events).await, note_of(&json!(1), &updated("a:b")));
        let result = if is_router { closed_by_name(&json!(1)) } else { closed(&json!(1)) };
        // 2026-07-28, *Cancellation* and *Subscriptions*, as at a shutdown.
        ends_in_order(events, &json!(1), &result).await;
        assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
    }
}

#[tokio::test(start_paused = true)]
async fn more_changes_than_wait_at_once_wait_for_the_client() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |subscription: Subscription| {
        let requested = subscription.requested().clone();
        let stream = subscription.acknowledge(requested).await;
        for n in 0..100 {
            stream.send(&updated("a:b")).await;
            stream.send(&updated("not:wanted")).await;
            says.send(n).unwrap();
        }
        stream.close().await
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&listens("1", &to_all())).await;
    sleep(Duration::from_secs(1)).await;
    let sent = || std::iter::from_fn(|| said.try_recv().ok()).count();
    // With the acknowledgement.
    assert_eq!({ sent }(), 63);
    read(&mut events).await;
    for _ in 0..100 {
        assert_eq!(read(&mut events).await, note_of(&json!(1), &updated("a:b")));
    }
    ends_in_order(events, &json!(1), &closed(&json!(1))).await;
}

/// A handler without any other wait must still let others run, or nothing could end it.
#[tokio::test]
async fn to_send_what_nobody_hears_of_gives_way_to_others() {
    let (begins, others) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let handler = {
        let (begins, others) = (Arc::clone(&begins), Arc::clone(&others));
        async move |subscription: Subscription| {
            let stream = subscription.acknowledge(SubscriptionFilter::default()).await;
            begins.notify_one();
            let mut tries = 0;
            while !others.load(Ordering::SeqCst) && tries < 100_000 {
                stream.send(&Change::ToolsListChanged).await;
                tries += 1;
            }
            Reply(json!(tries < 100_000))
        }
    };
    let site = Site::over(on_post(handler));
    tokio::spawn(async move {
        begins.notified().await;
        others.store(true, Ordering::SeqCst);
    });
    let mut events = site.open(&listens("1", &json!({}))).await;
    read(&mut events).await;
    events.ends_with_result("1", &json!(true)).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_fail_before_and_after_the_acknowledgement() {
    let fails = async |subscription: Subscription| -> Result<Reply<Value>, McpError> {
        if subscription.requested().tools_list_changed {
            subscription.acknowledge(SubscriptionFilter::default()).await;
        }
        Err(McpError::new(-1, "failed"))
    };
    let site = Site::over(on_post(fails));
    site.ask(&listens("1", &json!({}))).await.error(200, -1, "1");
    let mut events = site.open(&listens("1", &to_all())).await;
    assert_eq!(read(&mut events).await, acknowledged(&json!(1), &json!({})));
    events.ends_with_error(-1, "1").await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_the_token_learns_of_the_end() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |token: Cancellation, subscription: Subscription| {
        let stream = subscription.acknowledge(SubscriptionFilter::default()).await;
        says.send(token.cancelled().await).unwrap();
        // Goes nowhere, and holds nobody up.
        for _ in 0..100 {
            stream.send(&Change::ToolsListChanged).await;
        }
        stream.close().await
    };
    let site = Site::over(on_post(handler));
    drop(site.open(&listens("1", &json!({}))).await);
    assert_eq!(said.recv().await.unwrap(), Outcome::Disconnected);
    let mut events = site.open(&listens("2", &json!({}))).await;
    read(&mut events).await;
    let shutdown = tokio::spawn({
        let server = site.server.clone();
        async move { server.shutdown(Duration::from_secs(3)).await }
    });
    assert_eq!(said.recv().await.unwrap(), Outcome::ShutDown);
    ends_in_order(events, &json!(2), &closed(&json!(2))).await;
    shutdown.await.unwrap();
}

#[tokio::test]
async fn a_legacy_client_has_no_subscriptions() {
    let handler = async |_: Subscription| -> Response { panic!("there is none") };
    let site = Site::over(on_post(handler));
    let listens = post(request("1", LISTEN, &json!({ "notifications": {} })));
    site.ask(&listens).await.error(200, METHOD_NOT_FOUND, "1");
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test]
async fn a_message_that_is_no_request_subscribes_to_nothing() {
    let handler = async |_: Subscription| -> Response { panic!("there is none") };
    let site = Site::over(on_post(handler));
    let notifies = post(r#"{"jsonrpc":"2.0","method":"subscriptions/listen","params":{"notifications":{}}}"#);
    site.ask(&notifies.with("mcp-protocol-version", "2026-07-28")).await.accepted();
    let app: Router = Router::new().route("/mcp", on_post(async |_: Subscription| StatusCode::OK));
    let answer = Answer::of(app.oneshot(listens("1", &json!({})).request()).await.unwrap()).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("McpLayer"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn no_progress_is_told_on_it() {
    let (site, subscriptions) = site();
    let params = json!({ "notifications": to_all(), "_meta": { "progressToken": 1 } });
    let mut events = site.open(&modern("1", LISTEN, &params)).await;
    assert_eq!(read(&mut events).await, acknowledged(&json!(1), &to_all()));
    subscriptions.publish(Change::ToolsListChanged);
    assert_eq!(read(&mut events).await, note_of(&json!(1), &Change::ToolsListChanged));
    is_silent(&mut events).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscribers_that_come_and_go_while_much_is_published_leave_nothing() {
    const SUBSCRIBERS: usize = 2_000;
    let (site, subscriptions) = site();
    let site = Arc::new(site);
    let mut going = JoinSet::new();
    for id in 0..SUBSCRIBERS {
        let (site, subscriptions) = (Arc::clone(&site), subscriptions.clone());
        going.spawn(async move {
            let id = id.to_string();
            let mut events = site.open(&listens(&id, &to_all())).await;
            subscriptions.publish(Change::ToolsListChanged);
            let first = read(&mut events).await;
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
            if id.len() % 2 == 0 {
                assert_eq!(read(&mut events).await["params"]["_meta"][ID].to_string(), id);
            }
        });
    }
    while let Some(gone) = going.join_next().await {
        gone.unwrap();
    }
    site.parked(0).await;
    until(|| site.outcomes.all().len() == SUBSCRIBERS).await;
    assert_eq!(site.outcomes.count(Outcome::Disconnected), SUBSCRIBERS);
}
