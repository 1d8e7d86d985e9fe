//! What a handler may return, and what its client gets.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::collections::HashMap;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post as on_post;
use axum::{Json, Router};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, StatusCode};
use mcp_layer::{McpError, McpLayer, Outcome, Params, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{Answer, INTERNAL_ERROR, Post, Site, call, cancel, post};
use tower::util::MapResponseLayer;

fn quick() -> Post {
    post(call("1", &json!({})))
}

/// What the client gets of what a handler returns.
async fn answers<R: IntoResponse + Send>(returns: impl Fn() -> R + Clone + Send + Sync + 'static) -> Answer {
    let site = Site::over(on_post(async move || returns()));
    let answer = site.ask(&quick()).await;
    assert_eq!(site.server.parked(), 0);
    assert_eq!(site.outcomes.all(), [("1".to_owned(), Outcome::Replied)]);
    answer
}

fn body(text: &str) -> impl Fn() -> Response + Clone + Send + Sync + 'static {
    let text = text.to_owned();
    move || text.clone().into_response()
}

#[tokio::test]
async fn a_reply_becomes_the_result() {
    for result in [json!({ "a": [1.5, "\u{1f980}\n"] }), json!([]), json!(null), json!("x"), json!(7)] {
        let answer = answers({
            let result = result.clone();
            move || Reply(result.clone())
        });
        // A null is a result too, but `Option` cannot tell it from none.
        let answer = answer.await;
        match result {
            Value::Null => assert_eq!(answer.text(), r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
            result => assert_eq!(answer.result("1"), result),
        }
    }
    answers(|| (StatusCode::CREATED, Reply(json!({})))).await.result("1");
}

#[tokio::test]
async fn an_mcp_error_becomes_the_error() {
    let error = answers(|| McpError::new(-7, "why")).await.error(200, -7, "1");
    assert_eq!((error.message.as_str(), error.data), ("why", None));
    let error = answers(|| McpError::invalid_params("no such file").with_data(json!({ "a": [1] }))).await;
    let error = error.error(200, -32602, "1");
    assert_eq!((error.message.as_str(), error.data), ("no such file", Some(json!({ "a": [1] }))));
    answers(|| Err::<Reply<Value>, _>(McpError::method_not_found("x"))).await.error(200, -32601, "1");
}

#[tokio::test]
async fn params_of_another_type_are_invalid() {
    #[derive(Deserialize)]
    struct Call {
        city: String,
    }

    let site = Site::over(on_post(async |Params(call): Params<Call>| Reply(json!(call.city))));
    assert_eq!(site.ask(&post(call("1", &json!({ "city": "x" })))).await.result("1"), json!("x"));
    site.ask(&quick()).await.error(200, -32602, "1");
}

#[tokio::test]
async fn a_complete_response_is_taken_as_it_is() {
    let whole = json!({ "jsonrpc": "2.0", "id": 1, "result": { "a": 1 } });
    assert_eq!(answers(move || Json(whole.clone())).await.result("1"), json!({ "a": 1 }));
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":1.50}}"#,
        " {\n\t\"result\" : { }, \"id\" : 1,\r\n\"jsonrpc\" : \"2.0\" }\n",
    ] {
        let answer = answers(body(text)).await;
        assert_eq!(answer.text(), text);
        answer.result("1");
    }
    answers(body(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"m"}}"#)).await.error(200, -5, "1");
    // A stream of bytes is one as well as a string.
    let pieces = [r#"{"jsonrpc":"2.0","#, r#""id":1,"#, r#""result":[1]}"#];
    let streams = move || {
        let pieces = stream::iter(pieces.map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes()))));
        Body::from_stream(pieces).into_response()
    };
    assert_eq!(answers(streams).await.result("1"), json!([1]));
}

/// A handler behind a middleware, both within the layer.
async fn behind<R: IntoResponse + 'static>(
    returns: impl Fn() -> R + Clone + Send + Sync + 'static,
    maps: impl Fn(Response) -> Response + Clone + Send + Sync + 'static,
) -> Answer {
    let site = Site::build(
        |options| options,
        |server, _| {
            let route = Router::new().route("/mcp", on_post(async move || returns()));
            route.layer(MapResponseLayer::new(maps)).layer(McpLayer::new(server.clone()))
        },
    );
    site.ask(&quick()).await
}

#[tokio::test]
async fn a_reply_whose_mark_is_lost_is_recognised() {
    let forgets = |mut response: Response| {
        response.extensions_mut().clear();
        response
    };
    assert_eq!(behind(|| Reply(json!({ "a": 1 })), forgets).await.result("1"), json!({ "a": 1 }));
    let error = behind(|| McpError::new(-7, "why").with_data(1), forgets).await.error(200, -7, "1");
    assert_eq!(error.data, Some(json!(1)));
}

#[tokio::test]
async fn an_error_with_a_status_of_its_own_is_complete() {
    let lost = || (StatusCode::NOT_FOUND, [("x-own", "1")], McpError::new(-7, "no such session"));
    let site = Site::over(on_post(async move || lost()));
    let refused = site.ask(&quick()).await;
    refused.error(404, -7, "1");
    assert_eq!(refused.header("x-own"), Some("1"));
    // A notification has no id.
    site.ask(&post(cancel("1"))).await.error(404, -7, None);
}

#[tokio::test]
async fn headers_that_speak_of_the_handlers_body_do_not_stay_with_another() {
    for (name, value, body) in [
        ("content-length", "7", "garbage"),
        ("content-length", "13", r#"{"result":{}}"#),
        ("content-encoding", "gzip", "garbage"),
        ("etag", "\"7\"", "garbage"),
    ] {
        let site = Site::over(on_post(async move || ([(name, value)], Body::from(body)))).listen().await;
        let answer = site.post(&quick()).await;
        if body == "garbage" {
            answer.error(200, INTERNAL_ERROR, "1");
        } else {
            answer.result("1");
        }
        let length = answer.body.len().to_string();
        assert_eq!(answer.header(name), (name == "content-length").then_some(length.as_str()));
    }
}

#[tokio::test]
async fn a_middleware_may_complete_a_reply() {
    // It keeps the extensions, as middlewares do with what they do not know.
    let completes = |it: Response| it.map(|_| Body::from(r#"{"result":{"a":1},"id":1,"jsonrpc":"2.0"}"#));
    assert_eq!(behind(|| Reply(json!({ "a": 1 })), completes).await.result("1"), json!({ "a": 1 }));
}

#[tokio::test]
async fn a_middleware_that_breaks_a_reply_is_found_out() {
    for broken in [r#"{"result":{"a":1"#, r#"{"result":1}{}"#, r#"{"result":1,"error":{}}"#, r#"{"result":}"#] {
        let breaks = move |it: Response| it.map(|_| Body::from(broken));
        behind(|| Reply(json!({})), breaks).await.error(200, INTERNAL_ERROR, "1");
    }
}

#[tokio::test]
async fn a_middleware_may_make_an_error_of_a_reply() {
    let swaps = |it: Response| it.map(|_| Body::from(r#"{"error":{"code":-5,"message":"m"}}"#));
    behind(|| Reply(json!({})), swaps).await.error(200, -5, "1");
    let swaps = |it: Response| it.map(|_| Body::from(r#"{"result":[1]}"#));
    assert_eq!(behind(|| McpError::new(1, "m"), swaps).await.result("1"), json!([1]));
}

#[tokio::test]
async fn what_does_not_answer_the_request_becomes_an_internal_error() {
    for text in [
        "hello",
        "",
        "{}",
        "[]",
        "null",
        "{\"result\":",
        r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"id":1,"result":{}}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":[-5,"m"]}"#,
        // Strict clients do not take these for a response.
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"method":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"},"result":null}"#,
        r#"{"result":{},"error":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}} {}"#,
    ] {
        answers(body(text)).await.error(200, INTERNAL_ERROR, "1");
    }
    for status in [StatusCode::NO_CONTENT, StatusCode::ACCEPTED, StatusCode::OK] {
        answers(move || status).await.error(200, INTERNAL_ERROR, "1");
    }
    answers(|| b"{\"result\":\"\xff\"}".to_vec()).await.error(200, INTERNAL_ERROR, "1");
    let breaks_off = || Body::from_stream(stream::iter([Ok("{"), Err(std::io::Error::other("gone"))])).into_response();
    answers(breaks_off).await.error(200, INTERNAL_ERROR, "1");
}

#[tokio::test]
async fn an_encoded_or_streamed_reply_becomes_an_internal_error() {
    let whole = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let encoded = answers(move || ([("content-encoding", "gzip")], whole)).await;
    encoded.error(200, INTERNAL_ERROR, "1");
    assert_eq!(encoded.header("content-encoding"), None);
    for kind in ["text/event-stream", "text/event-stream; charset=utf-8"] {
        let endless = move || {
            let events = stream::iter([Ok::<_, Infallible>("data: {}\n\n")]).chain(stream::pending());
            ([("content-type", kind)], Body::from_stream(events))
        };
        answers(endless).await.error(200, INTERNAL_ERROR, "1");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_is_one_in_any_case() {
    let events =
        || ([("content-type", "Text/Event-Stream")], Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
    let answered = tokio::time::timeout(std::time::Duration::from_secs(5), answers(events)).await;
    answered.expect("an answer, although the stream does not end").error(200, INTERNAL_ERROR, "1");
}

#[tokio::test]
async fn what_is_no_success_passes_unchanged() {
    let unauthorized = answers(|| {
        let headers = [("www-authenticate", "Bearer"), ("content-type", "text/html"), ("etag", "\"x\"")];
        (StatusCode::UNAUTHORIZED, headers, "<p>no</p>")
    });
    let unauthorized = unauthorized.await;
    assert_eq!((unauthorized.status, unauthorized.text()), (401, "<p>no</p>"));
    for (name, value) in [("www-authenticate", "Bearer"), ("content-type", "text/html"), ("etag", "\"x\"")] {
        assert_eq!(unauthorized.header(name), Some(value));
    }
    let moved = answers(|| Redirect::temporary("/other")).await;
    assert_eq!((moved.status, moved.header("location")), (307, Some("/other")));
    for status in [400, 404, 429, 500, 503] {
        let answer = answers(move || (StatusCode::from_u16(status).unwrap(), "text")).await;
        assert_eq!((answer.status, answer.text()), (status, "text"));
    }
}

#[tokio::test]
async fn a_refusal_may_stream_for_as_long_as_it_likes() {
    let streams = || {
        let pieces = stream::iter(["a", "b"].map(Ok::<_, Infallible>));
        (StatusCode::BAD_GATEWAY, Body::from_stream(pieces))
    };
    let answer = answers(streams).await;
    assert_eq!((answer.status, answer.text()), (502, "ab"));
}

#[tokio::test]
async fn a_value_that_is_no_json_becomes_an_internal_error() {
    let odd = || Reply(HashMap::from([((1, 2), "a map whose keys are no strings")]));
    answers(odd).await.error(200, INTERNAL_ERROR, "1");
}

#[tokio::test]
async fn the_handlers_own_headers_are_kept() {
    let answer = answers(|| {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", "a=1".parse().unwrap());
        headers.append("set-cookie", "b=2".parse().unwrap());
        headers.insert("x-own", "1".parse().unwrap());
        headers.insert("content-type", "application/json; charset=utf-8".parse().unwrap());
        for of_the_body in ["etag", "content-length", "digest", "content-digest", "last-modified"] {
            headers.insert(of_the_body, "12".parse().unwrap());
        }
        (headers, Reply(json!({})))
    });
    let answer = answer.await;
    answer.result("1");
    assert_eq!(answer.headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!(answer.header("x-own"), Some("1"));
    for of_the_body in ["etag", "digest", "content-digest", "last-modified"] {
        assert_eq!(answer.header(of_the_body), None, "{of_the_body} speaks of another body");
    }
}

#[tokio::test]
async fn large_replies_come_whole() {
    for size in [1_000, 2_040, 2_060, 70_000, 1 << 20] {
        let text = "\u{e9}".repeat(size / 2);
        let result = json!({ "text": text });
        let live = Site::over(on_post({
            let result = result.clone();
            async move || Reply(result)
        }));
        let live = live.listen().await;
        for accept in ["application/json", "text/event-stream"] {
            let answer = live.post(&quick().with("accept", accept)).await;
            match accept {
                "application/json" => {
                    assert_eq!(answer.result("1"), result);
                    assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
                }
                _ => assert_eq!(support::result_of(answer.event(), "1"), result),
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_events_only_gets_one_with_one_line() {
    let asks = async |site: Site| site.ask(&quick().with("accept", "text/event-stream")).await;
    let pretty = " {\r\n\t\"result\" : { \"a\":\n\"b\\nc\" }, \"id\" : 1,\r\n\"jsonrpc\" : \"2.0\"\r}\n\n";
    let answer = asks(Site::over(on_post(async move || pretty))).await;
    assert_eq!(support::result_of(answer.event(), "1"), json!({ "a": "b\nc" }));
    let answer = asks(Site::over(on_post(async || ([("x-own", "1")], McpError::new(-7, "a\nb"))))).await;
    assert_eq!(support::error_of(answer.event(), -7, Some("1")).message, "a\nb");
    assert_eq!(answer.header("x-own"), Some("1"));
    let answer = asks(Site::over(on_post(async || "hello"))).await;
    support::error_of(answer.event(), INTERNAL_ERROR, Some("1"));
    let answer = asks(Site::over(on_post(async || (StatusCode::NOT_FOUND, "hello")))).await;
    assert_eq!((answer.status, answer.text()), (404, "hello"));
}
