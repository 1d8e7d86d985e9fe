//! One handler that asks clients of both eras.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::routing::post as on_post;
use mcp_layer::{CallToolResult, Client, ClientError, Params, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use support::{Answer, INTERNAL_ERROR, INVALID_PARAMS, Post, Site, call, modern, post};

#[derive(Deserialize)]
struct Elicited {
    content: Content,
}

#[derive(Deserialize)]
struct Content {
    text: String,
}

/// Asks for two things, one after the other.
async fn asks(client: Client) -> Result<CallToolResult, ClientError> {
    let first: Elicited = client.ask("first", "elicitation/create", json!({ "message": "1" })).await?;
    let second: Elicited = client.ask("second", "elicitation/create", json!({ "message": "2" })).await?;
    Ok(CallToolResult::text(first.content.text + &second.content.text))
}

fn elicited(text: &str) -> Value {
    json!({ "action": "accept", "content": { "text": text } })
}

/// A call of a modern client that can do this.
fn from_one_that_can(capabilities: &Value, params: &Value) -> Post {
    let mut params = params.clone();
    params["name"] = "tool".into();
    params["_meta"] = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
    modern("1", "tools/call", &params)
}

async fn round(site: &Site, params: &Value) -> Value {
    site.ask(&from_one_that_can(&json!({ "elicitation": {} }), params)).await.result("1")
}

fn question(message: &str) -> Value {
    json!({ "method": "elicitation/create", "params": { "message": message } })
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_is_asked_on_the_stream_of_its_call() {
    let site = Site::over(on_post(asks));
    let mut events = site.open(&post(call("1", &json!({})))).await;
    for text in ["a", "b"] {
        let asked: Value = serde_json::from_str(&events.message().await).unwrap();
        assert_eq!(asked["method"], "elicitation/create");
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": elicited(text) });
        site.ask(&post(answer.to_string())).await.accepted();
    }
    events.ends_with_result("1", &json!({ "content": [{ "type": "text", "text": "ab" }] })).await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_is_asked_by_the_answer_and_brings_what_it_has_with_each_round() {
    let site = Site::over(on_post(asks));
    let first = round(&site, &json!({})).await;
    let required = json!({ "resultType": "input_required", "inputRequests": { "first": question("1") } });
    assert_eq!(first, required);

    let responses = json!({ "first": elicited("a"), "other": 7 });
    let second = round(&site, &json!({ "inputResponses": responses })).await;
    assert_eq!(second["inputRequests"], json!({ "second": question("2") }));

    let params = json!({ "inputResponses": { "second": elicited("b") }, "requestState": second["requestState"] });
    let done = round(&site, &params).await;
    assert_eq!(done, json!({ "content": [{ "type": "text", "text": "ab" }] }));
}

#[tokio::test(start_paused = true)]
async fn what_a_modern_client_brings_and_does_not_fit_is_asked_for_again() {
    let site = Site::over(on_post(asks));
    for odd in [json!(7), json!(null), json!({ "action": "decline" })] {
        let again = round(&site, &json!({ "inputResponses": { "first": odd } })).await;
        assert_eq!(again["inputRequests"], json!({ "first": question("1") }));
    }
    for state in ["", "{", "[]", r#"{"mcp-layer/given":[]}"#, r#"{"mcp-layer/given":{"first":null}}"#] {
        let again = round(&site, &json!({ "requestState": state })).await;
        assert_eq!(again["inputRequests"], json!({ "first": question("1") }), "{state}");
    }
    for (name, odd) in [("inputResponses", json!([1])), ("inputResponses", json!("x")), ("requestState", json!({}))] {
        let answer: Answer = site.ask(&modern("1", "tools/call", &json!({ "name": "tool", name: odd }))).await;
        answer.error(200, INVALID_PARAMS, "1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_is_not_asked_for_what_it_cannot_give() {
    async fn asks_for(client: Client, Params(Asked { method }): Params<Asked>) -> Result<Reply<Value>, ClientError> {
        client.ask("key", &method, json!({})).await.map(Reply)
    }

    #[derive(Deserialize)]
    struct Asked {
        method: String,
    }

    let site = Site::over(on_post(asks_for));
    let methods =
        [("elicitation/create", "elicitation"), ("sampling/createMessage", "sampling"), ("roots/list", "roots")];
    for (method, capability) in methods {
        let params = json!({ "method": method });
        let mut others = json!({ "elicitation": {}, "extensions": {}, "roots": {}, "sampling": {} });
        let able = site.ask(&from_one_that_can(&others, &params)).await.result("1");
        assert_eq!(able["inputRequests"]["key"]["method"], method);

        others.as_object_mut().unwrap().remove(capability);
        let error = site.ask(&from_one_that_can(&others, &params)).await.error(400, -32021, "1");
        assert_eq!(error.data, Some(json!({ "requiredCapabilities": { capability: {} } })));

        // It has it all the same.
        let brings = json!({ "method": method, "inputResponses": { "key": 7 } });
        assert_eq!(site.ask(&from_one_that_can(&others, &brings)).await.result("1"), 7);
    }
    // MCP has no other requests for input.
    let custom = from_one_that_can(&json!({ "com.example": {} }), &json!({ "method": "com.example/ask" }));
    site.ask(&custom).await.error(200, INTERNAL_ERROR, "1");
}
