//! Handlers that ask their clients during a call.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{
    Client, ClientError, McpError, McpLayer, McpMessage, McpRouter, McpServerBuilder, Notifier, Outcome, Reply,
    ServerInfo,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tower::ServiceExt;

use support::asker::{
    ELICIT, asked, asks, asks_so, goes_to_the_handler, question, read_question, responds, response, site, site_with,
    yes,
};
use support::{Answer, Era, Events, INTERNAL_ERROR, Post, Site, call, cancel, http2, initialize, post, request};

const MODERN: &str = "2026-07-28";

#[tokio::test]
async fn the_client_is_asked_on_the_stream_of_its_call_and_its_response_is_the_result() {
    for path in ["/mcp", "/polite"] {
        let (site, mut said) = site();
        let live = site.listen().await;
        let mut connection = live.connect().await;
        connection.send(asks("\"a\"").to(path).bytes()).await;
        let head = connection.head().await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        let event = connection.event().await;
        let id = read_question(event.strip_prefix("data: ").unwrap(), ELICIT, r#"{"message":"sure?"}"#);
        assert_eq!(live.server.parked(), 1);
        live.post(&responds(&id, &yes())).await.accepted();
        assert_eq!(connection.event().await, format!(r#"data: {{"jsonrpc":"2.0","id":"a","result":{}}}"#, yes()));
        connection.end_of_stream().await;
        assert_eq!(said.recv().await.unwrap(), Ok(yes()));
        connection.post(&post(call("2", &json!({ "questions": 0 })))).await.result("2");
        assert_eq!((live.server.parked(), live.probe.heard()), (0, Vec::<String>::new()));
        assert_eq!(live.outcomes.count(Outcome::Replied), 2);
    }
}

#[tokio::test]
async fn over_http_2_one_connection_carries_both() {
    let (site, _said) = site();
    let live = site.listen().await;
    let sender = http2::connect(&live).await;
    let mut events = Events::of(http2::open(&sender, http2::local(&asks("1"))).await, support::BOUND);
    let id = question(&mut events).await;
    http2::ask(&sender, http2::local(&responds(&id, &yes()))).await.accepted();
    events.ends_with_result("1", &yes()).await;
    assert!(live.probe.heard().is_empty());
}

#[tokio::test]
async fn a_client_that_takes_events_only_is_asked_too() {
    for accept in ["text/event-stream", "*/*", "text/*"] {
        let (site, _said) = site();
        let (events, id) = asked(&site, &asks("1").with("accept", accept)).await;
        site.ask(&responds(&id, &yes())).await.accepted();
        events.ends_with_result("1", &yes()).await;
        let (events, id) = asked(&site, &asks("1").without("accept")).await;
        site.ask(&responds(&id, &yes())).await.accepted();
        events.ends_with_result("1", &yes()).await;
    }
}

#[tokio::test]
async fn notes_questions_and_the_answer_keep_their_order() {
    let handler = async |notifier: Notifier, client: Client| -> Result<Reply<Value>, ClientError> {
        notifier.notify("notifications/message", json!(1)).await.unwrap();
        let first: Value = client.request("roots/list", json!({})).await?;
        notifier.progress(1.0, None, None);
        let second: Value = client.request("roots/list", json!({ "a": first })).await?;
        Ok(Reply(json!([first, second])))
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&post(call("1", &json!({ "_meta": { "progressToken": "t" } })))).await;
    assert_eq!(events.message().await, r#"{"jsonrpc":"2.0","method":"notifications/message","params":1}"#);
    let first = read_question(&events.message().await, "roots/list", "{}");
    site.ask(&responds(&first, &json!(1))).await.accepted();
    let progress = r#"{"progressToken":"t","progress":1}"#;
    assert_eq!(
        events.message().await,
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{progress}}}"#)
    );
    let second = read_question(&events.message().await, "roots/list", r#"{"a":1}"#);
    assert_ne!(first, second);
    site.ask(&responds(&second, &json!(2))).await.accepted();
    events.ends_with_result("1", &json!([1, 2])).await;
}

#[tokio::test]
async fn any_json_may_be_a_result() {
    for result in [json!(null), json!(0), json!("text"), json!([]), json!({ "a": "\n\r\u{2028}" }), json!(u64::MAX)] {
        let (site, mut said) = site();
        let (_events, id) = asked(&site, &asks("1")).await;
        site.ask(&responds(&id, &result)).await.accepted();
        assert_eq!(said.recv().await.unwrap(), Ok(result));
    }
}

#[tokio::test]
async fn an_error_of_the_client_is_told_with_all_its_parts() {
    let rejected = McpError::new(-1, "User rejected \"it\"\n");
    for (error, expected) in [
        (json!({ "code": -1, "message": "User rejected \"it\"\n" }), ClientError::Answered(rejected.clone())),
        (
            json!({ "code": -1, "message": "User rejected \"it\"\n", "data": { "a": [1] }, "other": 1 }),
            ClientError::Answered(rejected.clone().with_data(json!({ "a": [1] }))),
        ),
        (json!({ "code": -32042 }), ClientError::Answered(McpError::new(-32_042, ""))),
        (json!({ "code": 1, "message": "", "data": null }), ClientError::Answered(McpError::new(1, ""))),
    ] {
        let (site, mut said) = site();
        let (events, id) = asked(&site, &asks("1")).await;
        site.ask(&post(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))).await.accepted();
        assert_eq!(said.recv().await.unwrap(), Err(expected.clone()));
        events.ends_with_error(INTERNAL_ERROR, "1").await;
        assert!(site.probe.heard().is_empty());
    }
}

#[tokio::test]
async fn an_error_that_is_none_is_invalid() {
    for error in [
        json!({}),
        json!({ "message": "x" }),
        json!({ "code": "x" }),
        json!({ "code": 1.5 }),
        json!({ "code": 1, "message": 7 }),
    ] {
        let (site, mut said) = site();
        let (events, id) = asked(&site, &asks("1")).await;
        site.ask(&post(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))).await.accepted();
        assert!(matches!(said.recv().await.unwrap(), Err(ClientError::Invalid(_))), "{error}");
        events.ends_with_error(INTERNAL_ERROR, "1").await;
    }
}

#[tokio::test]
async fn a_result_of_another_type_is_invalid() {
    #[derive(Deserialize)]
    struct Roots {
        roots: Vec<String>,
    }

    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |client: Client| {
        let roots = client.request::<Roots>("roots/list", json!({})).await.map(|roots| roots.roots);
        says.send(roots.clone()).unwrap();
        roots.map(Reply)
    };
    let site = Site::over(on_post(handler));
    for (result, is_valid) in [(json!({ "roots": ["a"] }), true), (json!({ "roots": [1] }), false), (json!({}), false)]
    {
        let mut events = site.open(&asks("1")).await;
        let id = read_question(&events.message().await, "roots/list", "{}");
        site.ask(&responds(&id, &result)).await.accepted();
        if is_valid {
            events.ends_with_result("1", &json!(["a"])).await;
            assert_eq!(said.recv().await.unwrap(), Ok(vec!["a".to_owned()]));
        } else {
            events.ends_with_error(INTERNAL_ERROR, "1").await;
            assert!(matches!(said.recv().await.unwrap(), Err(ClientError::Invalid(_))), "{result}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_written_asks_nothing() {
    struct Odd;
    impl serde::Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("odd"))
        }
    }

    let handler = async |client: Client| match client.request::<Value>("roots/list", Odd).await {
        Err(ClientError::Invalid(why)) => Reply(json!(why)),
        other => panic!("{other:?}"),
    };
    let site = Site::over(on_post(handler));
    // As JSON: there was nothing to send.
    assert_eq!(site.ask(&asks("1")).await.result("1"), "the params cannot be written as JSON");
}

#[tokio::test]
async fn a_question_is_one_line_whatever_the_handler_wrote() {
    let handler = async |client: Client| -> Result<Reply<Value>, ClientError> {
        let raw = RawValue::from_string("{\r\n \"a\":\n [1,\r 2], \"b\": \"\\n\" }".to_owned()).unwrap();
        client.request("roots/\n\u{2028}\"list\"", raw).await.map(Reply)
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&asks("1")).await;
    let read: Value = serde_json::from_str(&events.message().await).unwrap();
    assert_eq!(read["method"], "roots/\n\u{2028}\"list\"");
    assert_eq!(read["params"], json!({ "a": [1, 2], "b": "\n" }));
    site.ask(&responds(&read["id"].to_string(), &json!(1))).await.accepted();
    events.ends_with_result("1", &json!(1)).await;
}

/// JSON-RPC 2.0, section 4.2: params are an object or an array, or are left out.
#[tokio::test]
async fn params_that_are_nothing_are_left_out() {
    let handler = async |client: Client| -> Result<Reply<Value>, ClientError> {
        client.request::<Value>("roots/list", ()).await?;
        client.request::<Value>("roots/list", Value::Null).await?;
        client.request("roots/list", None::<Value>).await.map(Reply)
    };
    let site = Site::over(on_post(handler));
    let mut events = site.open(&asks("1")).await;
    for _ in 0..3 {
        let message = events.message().await;
        let read: Value = serde_json::from_str(&message).unwrap();
        assert_eq!(message, format!(r#"{{"jsonrpc":"2.0","id":{},"method":"roots/list"}}"#, read["id"]));
        site.ask(&responds(&read["id"].to_string(), &json!(1))).await.accepted();
    }
    events.ends_with_result("1", &json!(1)).await;
}

#[tokio::test]
async fn only_the_response_of_the_same_caller_counts() {
    let (site, mut said) = site();
    let of = |post: Post, authorization: Option<&str>, session: Option<&str>| {
        let post = authorization.into_iter().fold(post, |post, value| post.and("authorization", value));
        session.into_iter().fold(post, |post, value| post.and("mcp-session-id", value))
    };
    let callers = [
        (None, None),
        (None, Some("s")),
        (None, Some("t")),
        (Some("Bearer a"), None),
        (Some("Bearer b"), None),
        (Some("Bearer a"), Some("s")),
        (Some("Bearer a"), Some("t")),
        (Some("Bearer b"), Some("s")),
    ];
    for (authorization, session) in callers {
        let (events, id) = asked(&site, &of(asks("1"), authorization, session)).await;
        let body = response(&id, &yes());
        for other in callers {
            if other != (authorization, session) {
                goes_to_the_handler(&site, &of(post(body.as_str()), other.0, other.1), &body).await;
            }
        }
        assert_eq!((site.server.parked(), said.try_recv().ok()), (1, None));
        site.ask(&of(post(body.as_str()), authorization, session)).await.accepted();
        events.ends_with_result("1", &yes()).await;
        assert_eq!(said.recv().await.unwrap(), Ok(yes()));
        assert_eq!(site.probe.count(&format!("heard {body}")), callers.len() - 1);
    }
}

#[tokio::test]
async fn a_principal_keeps_its_questions_over_a_new_token() {
    let (site, _said) = site_with(|options| {
        options.principal(|request| request.headers.get("x-user").map(|user| user.to_str().unwrap().to_owned()))
    });
    let of = |post: Post, user: &str, token: &str| post.and("x-user", user).and("authorization", token);
    let (events, id) = asked(&site, &of(asks("1"), "ada", "old")).await;
    let body = response(&id, &yes());
    goes_to_the_handler(&site, &of(post(body.as_str()), "bob", "old"), &body).await;
    site.ask(&of(post(body), "ada", "new")).await.accepted();
    events.ends_with_result("1", &yes()).await;
}

#[tokio::test]
async fn an_id_is_answered_as_it_was_asked_and_no_other() {
    let (site, _said) = site();
    let (events, id) = asked(&site, &asks("1")).await;
    let plain = id.trim_matches('"');
    let others = [
        "1".to_owned(),
        "\"1\"".to_owned(),
        "0".to_owned(),
        format!("\"{}\"", plain.to_uppercase() + "A"),
        format!("\"{}\"", &plain[1..]),
        format!("\" {plain}\""),
        format!("\"{plain}\\u0000\""),
        format!("\"{:032x}\"", u128::from_str_radix(plain, 16).unwrap().wrapping_add(1)),
    ];
    for other in others {
        let body = response(&other, &yes());
        goes_to_the_handler(&site, &post(body.as_str()), &body).await;
    }
    // Not a response at all: the client asks the server under that id, and cancels it.
    site.ask(&post(request(&id, "tools/call", &json!({ "questions": 0 })))).await.result(&id);
    site.ask(&post(cancel(&id))).await.accepted();
    assert_eq!(site.server.parked(), 1);
    // However it is escaped, it is the same.
    let escaped = format!("\"\\u{:04x}{}\"", u32::from(plain.as_bytes()[0]), &plain[1..]);
    site.ask(&responds(&escaped, &yes())).await.accepted();
    events.ends_with_result("1", &yes()).await;
}

/// The members of a posted response beside its id, and what the handler that asked is told.
#[tokio::test]
async fn a_response_is_read_however_absent_members_are_written() {
    let error = || Err(ClientError::Answered(McpError::new(1, "no")));
    let answers: [(&str, Result<Value, ClientError>); 9] = [
        (r#""jsonrpc":"2.0","result":7,"error":null"#, Ok(json!(7))),
        (r#""jsonrpc":"2.0","result":7,"error":null,"method":null,"params":null"#, Ok(json!(7))),
        (r#""jsonrpc":"2.0","method":null,"result":7"#, Ok(json!(7))),
        (r#""jsonrpc":"2.0","result":null"#, Ok(json!(null))),
        (r#""jsonrpc":"2.0","result":null,"error":null"#, Ok(json!(null))),
        (r#""jsonrpc":"2\u002e0","re\u0073ult":7"#, Ok(json!(7))),
        (r#""jsonrpc":"2.0","error":{"code":1,"message":"no"}"#, error()),
        (r#""jsonrpc":"2.0","result":null,"error":{"code":1,"message":"no"}"#, error()),
        (r#""jsonrpc":"2.0","result":null,"error":{"code":1,"message":"no","data":null},"method":null"#, error()),
    ];
    for (members, expected) in answers {
        let (site, mut said) = site();
        let (_events, id) = asked(&site, &asks("1")).await;
        site.ask(&post(format!(r#"{{"id":{id},{members}}}"#))).await.accepted();
        assert_eq!(said.recv().await.unwrap(), expected, "{members}");
        assert!(site.probe.heard().is_empty(), "{members}");
    }
}

#[tokio::test]
async fn a_malformed_response_ends_the_question_at_once() {
    let deep = format!(r#""jsonrpc":"2.0","result":{}{}"#, "[".repeat(200), "]".repeat(200));
    for (members, code) in [
        (r#""jsonrpc":"2.0""#, -32600),
        (r#""jsonrpc":"2.0","error":null"#, -32600),
        (r#""jsonrpc":"2.0","result":1,"error":{"code":1}"#, -32600),
        (r#""jsonrpc":"2.0","result":1,"result":2"#, -32600),
        (r#""jsonrpc":"2.0","error":"x""#, -32600),
        (r#""jsonrpc":"2.0","error":[1]"#, -32600),
        (r#""jsonrpc":"2.0","result":1,"method":"x""#, -32600),
        (r#""jsonrpc":"1.0","result":1"#, -32600),
        (r#""result":1"#, -32600),
        (deep.as_str(), -32700),
    ] {
        let (site, mut said) = site();
        let (events, id) = asked(&site, &asks("1")).await;
        let answer = site.ask(&post(format!(r#"{{"id":{id},{members}}}"#))).await;
        assert_eq!((answer.status, answer.text().contains(&code.to_string())), (400, true), "{members}");
        assert!(matches!(said.recv().await.unwrap(), Err(ClientError::Invalid(_))), "{members}");
        events.ends_with_error(INTERNAL_ERROR, "1").await;
        assert!(site.probe.heard().is_empty(), "{members}");
    }
}

#[tokio::test]
async fn a_refused_response_ends_the_question_at_once() {
    for (refused, headers) in [
        (r#"[{"jsonrpc":"2.0","id":ID,"result":1}]"#, None),
        (r#"[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":ID,"result":1}]"#, None),
        (r#"{"jsonrpc":"2.0","id":ID,"result":1}"#, Some("junk")),
        (r#"{"jsonrpc":"2.0","id":ID,"result":1}"#, Some("2025-11-25")),
    ] {
        let (site, mut said) = site();
        let (events, id) = asked(&site, &asks("1")).await;
        let refused = post(refused.replace("ID", &id));
        let refused = headers.into_iter().fold(refused, |post, version| post.and("mcp-protocol-version", version));
        site.ask(&refused).await.error(400, -32600, None);
        assert!(matches!(said.recv().await.unwrap(), Err(ClientError::Invalid(_))), "{refused:?}");
        events.ends_with_error(INTERNAL_ERROR, "1").await;
    }
}

#[tokio::test]
async fn a_malformed_response_of_another_caller_ends_nothing() {
    let (site, _said) = site();
    let (events, id) = asked(&site, &asks("1").and("authorization", "a")).await;
    let malformed = post(format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#));
    site.ask(&malformed.clone().and("authorization", "b")).await.error(400, -32600, id.as_str());
    site.ask(&malformed).await.error(400, -32600, id.as_str());
    site.ask(&malformed.and("authorization", "a")).await.error(400, -32600, None);
    events.ends_with_error(INTERNAL_ERROR, "1").await;
    let (events, id) = asked(&site, &asks("1").and("authorization", "a")).await;
    site.ask(&responds(&id, &yes()).and("authorization", "a")).await.accepted();
    events.ends_with_result("1", &yes()).await;
}

#[tokio::test]
async fn what_is_no_response_answers_nothing() {
    let (site, _said) = site();
    let (events, id) = asked(&site, &asks("1")).await;
    let twice = format!(r#"{{"jsonrpc":"2.0","id":{id},"id":{id},"result":1}}"#);
    site.ask(&post(twice)).await.error(400, -32600, None);
    site.ask(&responds(&id, &yes()).with("content-type", "text/plain")).await.error(415, -32600, None);
    site.ask(&responds(&id, &yes()).with("host", "evil.example")).await.error(403, -32600, None);
    assert_eq!(site.server.parked(), 1);
    site.ask(&responds(&id, &yes())).await.accepted();
    events.ends_with_result("1", &yes()).await;
}

#[tokio::test]
async fn the_version_of_a_response_does_not_matter() {
    for version in [Some("2025-03-26"), Some("2025-06-18"), Some(MODERN), None] {
        let (site, _said) = site();
        let (events, id) = asked(&site, &asks("1").and("mcp-session-id", "s")).await;
        let responds = responds(&id, &yes()).without("mcp-protocol-version").and("mcp-session-id", "s");
        let responds = version.into_iter().fold(responds, |post, version| post.and("mcp-protocol-version", version));
        site.ask(&responds).await.accepted();
        events.ends_with_result("1", &yes()).await;
    }
}

#[tokio::test]
async fn a_second_response_goes_to_the_handler() {
    let (site, _said) = site();
    let (events, id) = asked(&site, &asks("1")).await;
    site.ask(&responds(&id, &yes())).await.accepted();
    let body = response(&id, &json!("no"));
    goes_to_the_handler(&site, &post(body.as_str()), &body).await;
    events.ends_with_result("1", &yes()).await;
    goes_to_the_handler(&site, &post(body.as_str()), &body).await;
}

#[tokio::test]
async fn in_a_router_a_response_that_answers_nothing_goes_to_the_fallback() {
    let ask = async |client: Client| client.request::<Value>("roots/list", json!({})).await.map(Reply);
    let (says, mut said) = mpsc::unbounded_channel();
    let hears = async move |message: McpMessage| says.send(message.as_str().to_owned()).unwrap();
    let named = || McpRouter::new(ServerInfo::new("n", "1")).request("tools/call", ask);
    for (router, has_fallback) in [(named(), false), (named().fallback(hears), true)] {
        let site = Site::build(
            |options| options,
            |server, _| Router::new().route_service("/mcp", router).layer(McpLayer::new(server.clone())),
        );
        let mut events = site.open(&asks("1")).await;
        let id = read_question(&events.message().await, "roots/list", "{}");
        site.ask(&responds(&id, &yes())).await.accepted();
        events.ends_with_result("1", &yes()).await;
        let late = response(&id, &json!("late"));
        site.ask(&post(late.as_str())).await.accepted();
        assert_eq!(said.try_recv().ok(), has_fallback.then_some(late));
    }
}

#[tokio::test]
async fn another_server_has_other_questions() {
    let ((one, _one_said), (other, _other_said)) = (site(), site());
    let (events, id) = asked(&one, &asks("1")).await;
    let body = response(&id, &yes());
    goes_to_the_handler(&other, &post(body.as_str()), &body).await;
    // Another route of the same one has the same.
    one.ask(&post(body).to("/polite")).await.accepted();
    events.ends_with_result("1", &yes()).await;
}

#[tokio::test]
async fn a_response_finds_its_way_into_a_full_server() {
    let options = |options: McpServerBuilder| options.max_parked(1).max_parked_per_caller(1);
    let (site, _said) = site_with(options);
    let of_ada = |post: Post| post.and("authorization", "ada");
    let (events, id) = asked(&site, &of_ada(asks("1"))).await;
    site.ask(&of_ada(asks("2"))).await.error(503, INTERNAL_ERROR, "2");
    site.ask(&of_ada(responds(&id, &yes()))).await.accepted();
    events.ends_with_result("1", &yes()).await;
}

#[tokio::test]
async fn several_at_once_each_have_their_own_response() {
    let (site, _said) = site();
    let mut events = site.open(&asks_so("1", &json!({ "questions": 20 }))).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(read_question(&events.message().await, ELICIT, &json!({ "number": n }).to_string()));
    }
    for (n, id) in ids.iter().enumerate().rev() {
        site.ask(&responds(id, &json!(n))).await.accepted();
    }
    events.ends_with_result("1", &(0..20).collect()).await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20);
}

#[tokio::test]
async fn more_questions_than_wait_at_once_are_all_asked() {
    let (site, _said) = site();
    let mut events = site.open(&asks_so("1", &json!({ "questions": 200 }))).await;
    let mut numbers = Vec::new();
    for _ in 0..200 {
        let message: Value = serde_json::from_str(&events.message().await).unwrap();
        let number = message["params"]["number"].as_u64().unwrap();
        numbers.push(number);
        site.ask(&responds(&message["id"].to_string(), &json!(number))).await.accepted();
    }
    events.ends_with_result("1", &(0..200).collect()).await;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn questions_of_many_calls_of_one_caller_do_not_mix() {
    let (site, _said) = site();
    let mut calls = Vec::new();
    // Some popular clients give each of their requests the same id.
    for n in 0..20 {
        let (events, id) = asked(&site, &asks("1").to(["/mcp", "/polite"][n % 2])).await;
        calls.push((n, events, id));
    }
    for (n, _, id) in calls.iter().rev() {
        site.ask(&responds(id, &json!(n))).await.accepted();
    }
    for (n, events, _) in calls {
        events.ends_with_result("1", &json!(n)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_json_only_cannot_be_asked() {
    let (site, mut said) = site();
    for accept in ["application/json", "application/json, text/event-stream;q=0"] {
        let answer = site.ask(&asks("1").with("accept", accept)).await;
        let error = answer.error(200, INTERNAL_ERROR, "1");
        assert_eq!(error.message, ClientError::Unsupported.to_string());
        assert_eq!(said.recv().await.unwrap(), Err(ClientError::Unsupported));
    }
}

#[tokio::test]
async fn a_modern_client_cannot_be_asked() {
    let (site, mut said) = site();
    for accept in ["application/json, text/event-stream", "text/event-stream"] {
        site.ask(&Era::Modern.call("1", &json!({})).with("accept", accept)).await;
        assert_eq!(said.recv().await.unwrap(), Err(ClientError::Unsupported));
    }
}

#[tokio::test]
async fn nobody_is_asked_for_what_is_no_request_in_progress() {
    let (says, mut said) = mpsc::unbounded_channel();
    let handler = async move |message: McpMessage, client: Client| {
        says.send((message.method().to_owned(), client.request::<Value>("roots/list", json!({})).await)).unwrap();
        Reply(json!({ "protocolVersion": "2025-11-25" }))
    };
    let site = Site::over(on_post(handler));
    site.ask(&post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await.accepted();
    site.ask(&post(cancel("1"))).await.accepted();
    site.ask(&responds("\"x\"", &json!(1))).await.accepted();
    // The head of its answer names the session.
    let answer = site.ask(&post(initialize("0", &json!({})))).await;
    answer.result("0");
    assert!(answer.header("mcp-session-id").is_some());
    for method in ["notifications/initialized", "notifications/cancelled", "", "initialize"] {
        assert_eq!(said.recv().await.unwrap(), (method.to_owned(), Err(ClientError::Unsupported)));
    }
}

#[tokio::test]
async fn only_modern_clients_have_said_what_they_can() {
    let handler = async |client: Client| Reply(json!([client.capabilities()]));
    let site = Site::over(on_post(handler));
    assert_eq!(site.ask(&Era::Modern.call("1", &json!({}))).await.result("1"), json!([{}]));
    assert_eq!(site.ask(&asks("1")).await.result("1"), json!([null]));
    let params = json!({ "_meta": { "io.modelcontextprotocol/clientCapabilities": { "sampling": {} } } });
    assert_eq!(site.ask(&post(call("1", &params))).await.result("1"), json!([null]));
    let mut params = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} }, "extensions": { "a/b": {} } },
    } });
    let modern = post(call("1", &params)).with("mcp-protocol-version", MODERN).and("mcp-method", "tools/call");
    let capabilities = params["_meta"]["io.modelcontextprotocol/clientCapabilities"].take();
    assert_eq!(site.ask(&modern).await.result("1"), json!([capabilities]));
    let notifies = post(r#"{"jsonrpc":"2.0","method":"x"}"#).with("mcp-protocol-version", MODERN);
    site.ask(&notifies).await.accepted();
}

#[tokio::test]
async fn without_the_layer_it_says_what_to_do() {
    let app: Router = Router::new().route("/mcp", on_post(async |_: Client| StatusCode::OK));
    let answer = Answer::of(app.oneshot(asks("1").request()).await.unwrap()).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("McpLayer"), "{answer:?}");
}

/// A handler that tries again and again without any other wait must still let others run, or nothing could end it.
#[tokio::test]
async fn to_ask_in_vain_gives_way_to_others() {
    let (site, others) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let handler = {
        let (site, others) = (Arc::clone(&site), Arc::clone(&others));
        async move |client: Client| {
            site.notify_one();
            let mut tries = 0;
            while !others.load(Ordering::SeqCst) && tries < 100_000 {
                assert_eq!(client.request::<Value>("roots/list", json!({})).await, Err(ClientError::Unsupported));
                tries += 1;
            }
            Reply(json!(tries < 100_000))
        }
    };
    let place = Site::over(on_post(handler));
    tokio::spawn(async move {
        site.notified().await;
        others.store(true, Ordering::SeqCst);
    });
    assert_eq!(place.ask(&asks("1").with("accept", "application/json")).await.result("1"), true);
}

#[tokio::test]
async fn an_error_becomes_an_error_of_the_request() {
    let answered = ClientError::Answered(McpError::new(-1, "User rejected it"));
    for error in [
        answered,
        ClientError::Ended(Outcome::TimedOut),
        ClientError::Gone,
        ClientError::Invalid("why".to_owned()),
        ClientError::TimedOut,
        ClientError::Unsupported,
    ] {
        let returned = error.clone();
        let handler = async move || -> Result<Reply<Value>, ClientError> { Err(returned) };
        let answer = Site::over(on_post(handler)).ask(&asks("1")).await;
        assert_eq!(answer.error(200, INTERNAL_ERROR, "1").message, error.to_string());
    }
}
