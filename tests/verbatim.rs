//! JSON that somebody else wrote passes as it is: no digit, no member, no character is lost.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::routing::post as on_post;
use mcp_layer::{Client, ClientError, McpError, McpMessage, Notifier, Reply};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use support::asker::{ELICIT, read_question};
use support::{Site, call, modern, post};

const ERRORS: [&str; 4] = [
    r#"{"code":-32000,"message":"cut \ud83d","data":1.23456789012345678901e29}"#,
    r#"{ "message":"a" , "more":{"\udead":1.50}, "code":-3.2e4, "data":{"a":1,"a":2} }"#,
    r#"{"code":-32000.0,"message":"","data":[9007199254740993, 1e400]}"#,
    r#"{"code":9223372036854775807,"message":"a","data":null}"#,
];

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[tokio::test]
async fn an_error_object_of_somebody_else_is_the_answer_as_it_is() {
    for error in ERRORS {
        let handler = async move |notifier: Notifier, message: mcp_layer::McpMessage| {
            if message.method() == "streams" {
                notifier.notify("notifications/message", json!(1)).await.unwrap();
            }
            McpError::from_json(&raw(error)).unwrap()
        };
        let site = Site::over(on_post(handler));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        assert_eq!(site.ask(&post(call("1", &json!({})))).await.text(), answer);
        let mut events = site.open(&post(support::request("1", "streams", &json!({})))).await;
        events.message().await;
        assert_eq!(events.message().await, answer);
    }
}

#[tokio::test]
async fn an_error_object_of_somebody_else_has_the_status_of_its_code() {
    let site = Site::over(on_post(async || McpError::from_json(&raw(r#"{"code":-32601.0,"message":"no"}"#)).unwrap()));
    assert_eq!(site.ask(&modern("1", "tools/list", &json!({}))).await.status, 404);
}

#[tokio::test]
async fn data_is_written_as_it_was_handed_over() {
    let data = "{ \"a\":\r\n1.23456789012345678901e29, \"a\":\"\\ud83d\" }";
    let site = Site::over(on_post(async move || McpError::new(-1, "a").with_data(raw(data))));
    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-1,"message":"a","data":{data}}}}}"#);
    assert_eq!(site.ask(&post(call("1", &json!({})))).await.text(), answer);
    // An event is one line.
    let accept = post(call("1", &json!({}))).with("accept", "text/event-stream");
    assert_eq!(site.open(&accept).await.message().await, answer.replace(['\r', '\n'], " "));
}

#[tokio::test]
async fn an_error_of_the_client_can_be_passed_on_as_it_is() {
    for error in ERRORS {
        let handler = async |client: Client| match client.request::<Value>(ELICIT, json!({})).await {
            Err(ClientError::Answered(error)) => error,
            other => panic!("{other:?}"),
        };
        let site = Site::over(on_post(handler));
        let mut events = site.open(&post(call("1", &json!({})))).await;
        let id = read_question(&events.message().await, ELICIT, "{}");
        site.ask(&post(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))).await.accepted();
        assert_eq!(events.message().await, format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#));
    }
}

#[tokio::test]
async fn progress_of_somebody_else_passes_with_the_token_of_the_request() {
    for (params, sent) in [
        (r#"{"progressToken":7,"progress":1}"#, r#"{"progressToken":TOKEN,"progress":1}"#),
        (
            r#"{ "progress":9007199254740993, "x":{}, "progressToken" : "2" }"#,
            r#"{ "progress":9007199254740993, "x":{}, "progressToken" : TOKEN }"#,
        ),
        (
            "{\"progress\":1.50,\n\"progressToken\":2.0,\"\\ud83d\":\"\\ud83d\"}",
            r#"{"progress":1.50, "progressToken":TOKEN,"\ud83d":"\ud83d"}"#,
        ),
        (r#"{"progress":1e400}"#, r#"{"progress":1e400,"progressToken":TOKEN}"#),
        ("{}", r#"{"progressToken":TOKEN}"#),
    ] {
        let handler = async move |notifier: Notifier| {
            assert!(notifier.is_open());
            notifier.progress_raw(&raw(params));
            notifier.progress_raw(&raw("[7]"));
            Reply(json!({}))
        };
        for token in ["\"t\"", "1", "18446744073709551615"] {
            let site = Site::over(on_post(handler));
            let call = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"progressToken":{token}}}}}}}"#
            );
            let mut events = site.open(&post(call)).await;
            let note = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{}}}"#,
                sent.replace("TOKEN", token)
            );
            assert_eq!(events.message().await, note);
            events.ends_with_result("1", &json!({})).await;
        }
        // Without a token there is nothing to send.
        Site::over(on_post(handler)).ask(&post(call("1", &json!({})))).await.result("1");
    }
}

#[tokio::test]
async fn other_notifications_pass_as_one_line() {
    let handler = async |notifier: Notifier| {
        let params = raw("{ \"n\":\r\n1.23456789012345678901e29, \"\\ud83d\":1, \"n\":9007199254740993 }");
        notifier.notify("notifications/message", &params).await.unwrap();
        Reply(json!({}))
    };
    let mut events = Site::over(on_post(handler)).open(&post(call("1", &json!({})))).await;
    let params = r#"{ "n":  1.23456789012345678901e29, "\ud83d":1, "n":9007199254740993 }"#;
    let note = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
    assert_eq!(events.message().await, note);
}

#[tokio::test]
async fn a_notifier_that_reaches_nobody_is_not_open() {
    let site = Site::over(on_post(async |notifier: Notifier| Reply(json!(notifier.is_open()))));
    let json_only = post(call("1", &json!({}))).with("accept", "application/json");
    assert_eq!(site.ask(&json_only).await.result("1"), false);
    assert_eq!(site.ask(&post(call("1", &json!({})))).await.result("1"), true);

    // After the end of its exchange, and after its client has left.
    let (gives, mut given) = tokio::sync::mpsc::unbounded_channel();
    let site = Site::over(on_post(async move |message: McpMessage, notifier: Notifier| {
        if message.is_request() {
            gives.send(notifier).unwrap();
            std::future::pending::<()>().await;
        }
    }));
    let cancelled = site.begin(&post(call("1", &json!({}))));
    let notifier: Notifier = given.recv().await.unwrap();
    assert!(notifier.is_open());
    site.ask(&post(support::cancel("1"))).await.accepted();
    cancelled.answer().await;
    assert!(!notifier.is_open());
    let leaves = site.begin(&post(call("2", &json!({}))));
    let notifier: Notifier = given.recv().await.unwrap();
    leaves.abort();
    support::until(|| !notifier.is_open()).await;
    assert_eq!(site.server.parked(), 1, "a legacy call goes on");
}
