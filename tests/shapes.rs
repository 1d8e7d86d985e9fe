//! What is read from an object, and what clients are told of anything else.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use mcp_layer::{Arguments, CallToolResult, Params, Reply, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use support::{Era, INVALID_PARAMS, Site, mcp, texts};

#[derive(Deserialize)]
struct Complete {
    #[serde(rename = "ref")]
    of: Reference,
    argument: Argument,
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
}

#[derive(Deserialize)]
struct Argument {
    value: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    arguments: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Place {
    #[serde(default)]
    at: Point,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Point {
    x: i32,
}

async fn complete(Params(Complete { of, argument, context }): Params<Complete>) -> Reply<Value> {
    let context = context.unwrap_or_default().arguments;
    Reply(json!({ "completion": { "values": [of.name, argument.value], "total": context.len() } }))
}

async fn place(Arguments(Place { at }): Arguments<Place>) -> CallToolResult {
    CallToolResult::text(at.x.to_string())
}

fn site() -> Site {
    let tool = Tool::with_schema("place", "Places", json!({}), place);
    let prompts = async |_: Params<Point>| Reply(json!({ "prompts": [] }));
    Site::serving(mcp().request("completion/complete", complete).request("prompts/list", prompts).tool(tool))
}

/// A request whose params are this JSON, with what a modern one has to say.
async fn ask(era: Era, method: &str, params: &str) -> support::Answer {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let request = era.request("1", method, &json!({ "name": "place" }));
    let request = if method == "tools/call" { request } else { request.without("mcp-name") };
    let params = match (era, params.strip_prefix('{')) {
        (Era::Modern, Some("}")) => format!("{{{meta}}}"),
        (Era::Modern, Some(members)) => format!("{{{meta},{members}"),
        _ => params.to_owned(),
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    site().ask(&request.body(body)).await
}

#[tokio::test]
async fn an_empty_array_is_read_as_an_empty_object() {
    for method in ["ping", "tools/list", "prompts/list"] {
        for params in ["[]", "[ ]", "{}", "null"] {
            ask(Era::Legacy, method, params).await.result("1");
        }
    }
    assert_eq!(ask(Era::Legacy, "initialize", "[]").await.result("1")["protocolVersion"], "2025-11-25");
    for era in Era::BOTH {
        for params in [
            r#"{"name":"place"}"#,
            r#"{"name":"place","arguments":[]}"#,
            r#"{"name":"place","arguments":{"at":[]}}"#,
            r#"{"name":"place","arguments":{"at":{}}}"#,
        ] {
            assert_eq!(texts(&ask(era, "tools/call", params).await.result("1")), ["0"], "{params}");
        }
        for context in ["{}", "[]", r#"{"arguments":[]}"#, "null"] {
            let params = format!(r#"{{"ref":{{"name":"a"}},"argument":{{"value":"b"}},"context":{context}}}"#);
            let result = ask(era, "completion/complete", &params).await.result("1");
            assert_eq!(result["completion"], json!({ "values": ["a", "b"], "total": 0 }), "{context}");
        }
    }
}

#[tokio::test]
async fn what_is_not_an_object_is_invalid_params_in_plain_words() {
    for method in ["ping", "initialize", "tools/list", "tools/call", "prompts/list", "completion/complete", "x"] {
        for params in ["[1]", "[null]", r#"["a",{"value":"b"}]"#] {
            let error = ask(Era::Legacy, method, params).await.error(200, INVALID_PARAMS, "1");
            assert_eq!(error.message, "params must be an object", "{method}");
        }
    }
    for era in Era::BOTH {
        for (method, params, text) in [
            ("tools/call", r#"{"name":"place","arguments":[1]}"#, "arguments must be an object"),
            ("tools/call", r#"{"name":"place","arguments":"{}"}"#, "arguments must be an object"),
            (
                "completion/complete",
                r#"{"ref":["a"],"argument":{"value":"b"}}"#,
                "Invalid params: `ref`: expected an object, found an array",
            ),
            (
                "completion/complete",
                r#"{"ref":{"name":"a"},"argument":["b"]}"#,
                "Invalid params: `argument`: expected an object, found an array",
            ),
            (
                "completion/complete",
                r#"{"ref":{"name":"a"},"argument":[]}"#,
                "Invalid params: `argument`: `value` is required",
            ),
            (
                "completion/complete",
                r#"{"ref":{"name":"a"},"argument":null}"#,
                "Invalid params: `argument`: expected an object, found null",
            ),
            (
                "completion/complete",
                r#"{"ref":{"name":"a"},"argument":{"value":"b"},"context":{"arguments":[["k","v"]]}}"#,
                "Invalid params: `context.arguments`: expected an object, found an array",
            ),
            ("completion/complete", "{}", "Invalid params: `ref` is required"),
        ] {
            let error = ask(era, method, params).await.error(200, INVALID_PARAMS, "1");
            assert_eq!(error.message, text, "{params}");
        }
        let at = r#"{"name":"place","arguments":{"at":[7]}}"#;
        let result = ask(era, "tools/call", at).await.result("1");
        assert_eq!(texts(&result), ["Invalid arguments: `at`: expected an object, found an array"]);
    }
}
