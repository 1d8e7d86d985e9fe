//! What a child behind the example `stdio_bridge` may write, and how it reaches its client.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::bridge::{Bridge, message, text};
use support::{INTERNAL_ERROR, modern, post, request};

/// Lines of which some hold the answer `{"ok":1}`.
const ANSWERS: [&[&str]; 27] = [
    &[r#"{"jsonrpc":"2.0","id":ID.0,"result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":IDe0,"result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":ID0e-1,"result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":"ID","result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":"ID.0","result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1},"error":null,"method":null,"params":null}"#],
    &[r#"{"jsonrpc":"2.0","id":0,"id":ID,"result":{"ok":1}}"#],
    &["{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}\r"],
    &["\u{feff}{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}"],
    &[r#"{"jsonrpc":"2.0","\ud83d":"\ud83d","id":ID,"result":{"ok":1}}"#],
    &[r#"{"id":ID,"result":{"ok":1}}"#],
    &[r#" [ {"jsonrpc":"2.0","id":ID,"result":{"ok":1}} ] "#],
    // The last bytes of these are not UTF-8.
    &["latin-1 ÿþ", r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1},"latin-1":"é"}"#],
    &[r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1}} latin-1 é"#],
    // Several messages.
    &[r#"{"jsonrpc":"2.0","method":"notifications/x"}{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","method":"notifications/x"}  {"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}{"jsonrpc":"2.0","id":ID,"result":{"ok":2}}"#],
    &[r#"{"jsonrpc":"2.0","id":999,"result":{}} [{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}]"#],
    &[r#"[7][]null{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    // Beside something else.
    &[r#"Loading...{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    &[r#"[INFO] {debug} "{" {"jsonrpc":"2.0","id":ID,"result":{"ok":1}} done {"#],
    &[r#"{"jsonrpc":"2.0","id":ID,"res{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    &["\u{1b}[32m{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"ok\":1}}\u{1b}[0m"],
    &["", "  ", "\u{feff}", "\0", r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    &["rubbish", "{", "]", "\"", r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#],
    &[r#"{"jsonrpc":"2.0","id":ID,"result":null,"error":null}"#],
];

#[tokio::test]
#[ignore = "needs python3"]
async fn a_message_that_can_be_read_is_read() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.anonymous();
    for lines in ANSWERS {
        let answer = client.says("1", lines).await.answer().await;
        if lines[0].contains("\"result\":null") {
            answer.error(200, INTERNAL_ERROR, "1");
        } else {
            assert!(answer.text().contains(r#""result":{"ok":1}"#), "{lines:?}: {answer:?}");
        }
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn an_error_without_an_id_ends_the_only_call_in_flight() {
    let bridge = Bridge::new(&[], &[]).await;
    for client in [bridge.open().await, bridge.anonymous()] {
        for error in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cut","data":1.50}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"cut","data":1.50},"result":null}"#,
        ] {
            let answer = client.says("\"a\"", &[error]).await.answer().await;
            let expected = r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32700,"message":"cut","data":1.50}}"#;
            assert_eq!(answer.text(), expected);
        }
        // Of several nobody knows whose it is.
        let mut waits = client.begin("1", "hold", &json!({})).await;
        client.hears(|line| line["params"]["name"] == "hold").await;
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cut"}}"#;
        let answer = r#"{"jsonrpc":"2.0","id":ID,"result":{"ok":1}}"#;
        assert_eq!(client.says("2", &[error, answer]).await.answer().await.result("2"), json!({ "ok": 1 }));
        assert_eq!(client.value("release").await, "released");
        waits.answer().await.result("1");
    }
    // `initialize` is one, too.
    let bridge = Bridge::new(&[], &["nameless"]).await;
    let began = Instant::now();
    assert_eq!(bridge.initialize().await.error(200, -7, "0").message, "not you");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
#[ignore = "needs python3"]
async fn errors_and_results_of_a_child_reach_the_client_as_they_are() {
    let bridge = Bridge::new(&[], &[]).await;
    let nested = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for part in [
        r#""error":{"code":-32000,"message":"cut \ud83d"}"#,
        r#""error":{ "more":{"\udead":1.50} , "code":-32000.0,"message":"", "data":1.23456789012345678901e29}"#,
        r#""error":{"code":-1,"message":"a","data":[9007199254740993,1e400,{"a":1,"a":2}]}"#,
        r#""result":{ "n":1.23456789012345678901e29, "\ud83d":"\ud83d" , "n":2}"#,
        &format!(r#""error":{{"code":-1,"message":"a","data":{nested}}}"#),
        &format!(r#""result":{{"a":{nested}}}"#),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":ID,{part}}}"#);
        let answer = bridge.anonymous().says("7", &[&line]).await.answer().await;
        assert_eq!(answer.text(), format!(r#"{{"jsonrpc":"2.0","id":7,{part}}}"#));
    }
    for (error, kept) in [
        (r#"{"message":"a"}"#, r#""data":{"message":"a"}"#),
        (r#"{"code":"x","message":1.50}"#, r#""data":{"code":"x","message":1.50}"#),
        (r#""odd""#, r#""data":"odd""#),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":ID,"error":{error}}}"#);
        let answer = bridge.anonymous().says("7", &[&line]).await.answer().await;
        answer.error(200, INTERNAL_ERROR, "7");
        assert!(answer.text().contains(kept), "{answer:?}");
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_modern_client_gets_the_same_and_what_its_version_adds() {
    let bridge = Bridge::new(&[], &[]).await;
    let answer = async |line: &str| {
        let params = json!({ "name": "say", "arguments": { "lines": [line] } });
        bridge.post(&modern("7", "tools/call", &params).with("accept", "application/json")).await
    };
    let told = answer(r#"{"jsonrpc":"2.0","id":ID,"result":{ "n":1.50, "\ud83d":"\ud83d" }}"#).await;
    let expected =
        r#"{"jsonrpc":"2.0","id":7,"result":{ "n":1.50, "\ud83d":"\ud83d" ,"resultType":"complete","_meta":{"#;
    assert!(told.text().starts_with(expected), "{told:?}");
    let told = answer(r#"{"jsonrpc":"2.0","id":ID,"error":{"data":1.50,"code":-32002.0,"message":"\ud83d"}}"#).await;
    let expected = r#"{"jsonrpc":"2.0","id":7,"error":{"data":1.50,"code":-32602,"message":"\ud83d"}}"#;
    assert_eq!(told.text(), expected);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn progress_and_other_notifications_reach_the_client_as_they_are() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    for (said, told) in [
        (
            r#"{"progressToken":TOKEN,"progress":9007199254740993}"#,
            r#"{"progressToken":"its own","progress":9007199254740993}"#,
        ),
        (
            r#"{"progress":1.50,"progressToken":"TOKEN","more":{"\ud83d":1}}"#,
            r#"{"progress":1.50,"progressToken":"its own","more":{"\ud83d":1}}"#,
        ),
        (
            r#"{ "progressToken" : TOKEN.0 , "progress":1e0,"total":null}"#,
            r#"{ "progressToken" : "its own" , "progress":1e0,"total":null}"#,
        ),
        (r#"{"progressToken":TOKEN0e-1}"#, r#"{"progressToken":"its own"}"#),
    ] {
        let note = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{said}}}"#);
        let of_nobody =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":999,"progress":1}}"#;
        let mut stream = client.says("1", &[of_nobody, &note, r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#]).await;
        stream.head().await;
        let told = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{told}}}"#);
        assert_eq!(text(&mut stream).await, told);
        assert_eq!(message(&mut stream).await["result"], json!({}));
    }
    let params = r#"{ "level":"info", "data":1.23456789012345678901e29, "\ud83d":"\ud83d" }"#;
    let note = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
    let mut stream = client.says("1", &[&note]).await;
    stream.head().await;
    assert_eq!(text(&mut stream).await, note);
}

#[tokio::test]
#[ignore = "needs python3"]
async fn what_a_client_says_reaches_the_child_as_it_is() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    for answer in [
        r#""error":{"code":-1,"message":"cut \ud83d","data":1.23456789012345678901e29,"more":[1.50]}"#,
        r#""result":{"n":1.23456789012345678901e29,"\ud83d":"\ud83d"}"#,
    ] {
        let mut stream = client.begin("1", "ask", &json!({})).await;
        stream.head().await;
        let id = message(&mut stream).await["id"].clone();
        client.send(&post(format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#))).await.accepted();
        text(&mut stream).await;
        let told = client.value("lines").await;
        assert!(told.as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains(answer)), "{told}");
    }
    // A token that is not the bridge's own would name another call's progress.
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid","arguments":{"\ud83d":1.50},"_meta":{"progressToken":777}}}"#;
    client.send(&post(call)).await.result("1");
    let told = client.value("lines").await;
    let told: Vec<_> = told.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(told.iter().any(|line| line.contains(r#""\ud83d":1.50"#)), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("777")), "{told:?}");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_question_is_taken_back_by_its_id_however_that_is_spelled() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.open().await;
    for (asked, named) in [("1", "1.0"), ("1.0", "\"1\""), ("\"q\"", "\"\\u0071\""), ("\"\\ud83d\"", "\"\\uD83D\"")] {
        let question = format!(r#"{{"jsonrpc":"2.0","id":{asked},"method":"elicitation/create","error":null}}"#);
        let cancel =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{named}}}}}"#);
        let mut stream = client.says("1", &[&question]).await;
        stream.head().await;
        let id = message(&mut stream).await["id"].clone();
        client.says("2", &[&cancel, r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#]).await.answer().await.result("2");
        let taken_back = message(&mut stream).await;
        assert_eq!(taken_back["method"], "notifications/cancelled");
        assert_eq!(taken_back["params"]["requestId"], id);
    }
}

#[tokio::test]
#[ignore = "needs python3"]
async fn params_must_be_an_object_and_may_be_an_empty_array() {
    let bridge = Bridge::new(&[], &[]).await;
    let client = bridge.anonymous();
    let list = |params: &str| post(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#));
    for params in ["{}", "null", "[]", "[ ]"] {
        client.send(&list(params)).await.result("1");
    }
    client.send(&list("[1]")).await.error(200, support::INVALID_PARAMS, "1");
    let initialize = post(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}"#);
    let opened = bridge.post(&initialize).await;
    assert_eq!(opened.result("1")["protocolVersion"], "2025-11-25");
    assert!(opened.header("mcp-session-id").is_some());
    let error = bridge.post(&post(request("1", "initialize", &json!([7])))).await;
    error.error(200, support::INVALID_PARAMS, "1");
}
