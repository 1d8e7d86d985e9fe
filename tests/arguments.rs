//! The arguments of tools: what they are read as, and what is answered where they are wrong.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::routing::post as on_post;
use mcp_layer::{Arguments, CallToolResult, Params, Reply, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use support::{Era, INVALID_PARAMS, MODERN, Site, call, calls, completed, mcp, post, texts};

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

async fn add(Arguments(Add { a, b }): Arguments<Add>) -> CallToolResult {
    CallToolResult::text((a + b).to_string())
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } })
}

fn adds() -> Tool {
    Tool::with_schema("add", "Adds two numbers", schema(), add)
}

/// A tool that has no arguments, and looks at none.
fn now() -> Tool {
    Tool::with_schema("now", "Tells the time", json!({}), async || CallToolResult::text("noon"))
}

/// A tool that takes what it gets.
fn echo() -> Tool {
    let echo = async |Arguments(arguments): Arguments<Value>| CallToolResult::text(arguments.to_string());
    Tool::with_schema("echo", "Says it again", json!({ "type": "object" }), echo)
}

fn site() -> Site {
    Site::serving(mcp().tool(adds()).tool(now()).tool(echo()))
}

#[tokio::test]
async fn absent_arguments_are_empty_ones() {
    for era in Era::BOTH {
        for (name, text) in [("now", "noon"), ("echo", "{}")] {
            for params in [
                json!({ "name": name }),
                json!({ "name": name, "arguments": {} }),
                json!({ "name": name, "arguments": null }),
                json!({ "name": name, "task": {}, "x": [] }),
            ] {
                assert_eq!(texts(&site().ask(&era.call("1", &params)).await.result("1")), [text], "{params}");
            }
        }
    }
}

/// Arguments that the tool `add` does not take, and what a model has to mend.
fn wrong() -> Vec<(Value, &'static str)> {
    vec![
        (json!({}), "`a` is required"),
        (json!({ "a": 1 }), "`b` is required"),
        (json!({ "a": "x", "b": 2 }), "`a`: expected an integer, found string \"x\""),
        (json!({ "a": 1.5, "b": 2 }), "`a`: expected an integer, found number `1.5`"),
        (json!({ "a": null, "b": 2 }), "`a`: expected an integer, found null"),
        (json!({ "a": {}, "b": 2 }), "`a`: expected an integer, found an object"),
        (json!({ "a": u64::MAX, "b": 2 }), "`a`: expected an integer, found integer `18446744073709551615`"),
    ]
}

#[tokio::test]
async fn wrong_arguments_are_a_result_that_a_model_reads_since_2025_11_25() {
    for (arguments, what) in wrong() {
        for (version, call) in calls(&json!({ "name": "add", "arguments": arguments })) {
            let answer = site().ask(&call).await;
            if version < "2025-11-25" {
                let error = answer.error(200, INVALID_PARAMS, "1");
                assert!(error.message.contains(what), "{version}: {}", error.message);
                continue;
            }
            let result = answer.result("1");
            let [text] = texts(&result)[..] else { panic!("more than a block: {result}") };
            assert!(text.starts_with("Invalid arguments: ") && text.contains(what), "{version}: {text}");
            let own = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
            assert_eq!(result, completed(if version == MODERN { Era::Modern } else { Era::Legacy }, &own));
        }
    }
}

#[tokio::test]
async fn absent_arguments_may_be_wrong_too() {
    for arguments in [json!({}), json!({ "arguments": null }), json!({ "arguments": [] })] {
        let mut params = arguments;
        params["name"] = "add".into();
        let result = site().ask(&post(call("1", &params))).await.result("1");
        assert_eq!(result["isError"], true);
        assert!(texts(&result)[0].contains("`a` is required"), "{result}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_invalid_params_always() {
    for arguments in [json!([1, 2]), json!([{}]), json!([[]]), json!("{}"), json!(7), json!(true)] {
        for name in ["add", "now", "echo"] {
            for (version, call) in calls(&json!({ "name": name, "arguments": arguments })) {
                let error = site().ask(&call).await.error(200, INVALID_PARAMS, "1");
                assert_eq!(error.message, "arguments must be an object", "{name} {version}");
            }
        }
        // So they are where no router looks at them first.
        let plain = Site::over(on_post(async |Arguments(Add { a, .. }): Arguments<Add>| Reply(json!(a))));
        for (_, call) in calls(&json!({ "name": "add", "arguments": arguments })) {
            plain.ask(&call).await.error(200, INVALID_PARAMS, "1");
        }
    }
}

#[tokio::test]
async fn what_is_told_of_wrong_arguments_is_short() {
    let long = "\u{e9}".repeat(1 << 20);
    let site = Site::serving(mcp().tool(Tool::with_schema("add", "Adds", json!({}), add)));
    for era in Era::BOTH {
        let call = era.call("1", &json!({ "name": "add", "arguments": { "a": long } }));
        let result = site.ask(&call).await.result("1");
        let text = texts(&result)[0];
        assert!(
            text.starts_with("Invalid arguments: `a`: expected an integer, found string \"\u{e9}") && text.len() < 300,
            "{}",
            text.len()
        );
    }
}

#[tokio::test]
async fn the_arguments_may_be_of_any_type_that_an_object_is_read_as() {
    #[derive(Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Shape {
        Circle { radius: f64 },
        Point,
    }
    #[derive(Deserialize)]
    struct Whole(Map<String, Value>);
    #[derive(Deserialize)]
    struct Nothing;

    let shape = async |Arguments(shape): Arguments<Shape>| match shape {
        Shape::Circle { radius } => CallToolResult::text(radius.to_string()),
        Shape::Point => CallToolResult::text("a point"),
    };
    let whole = async |Arguments(Whole(map)): Arguments<Whole>| CallToolResult::text(map.len().to_string());
    let nothing = async |Arguments(Nothing): Arguments<Nothing>| CallToolResult::text("nothing");
    let unit = async |Arguments(()): Arguments<()>| CallToolResult::text("unit");
    let with = |name: &str| json!({ "type": "object", "title": name });
    let mcp = mcp()
        .tool(Tool::with_schema("shape", "", with("shape"), shape))
        .tool(Tool::with_schema("whole", "", with("whole"), whole))
        .tool(Tool::with_schema("nothing", "", with("nothing"), nothing))
        .tool(Tool::with_schema("unit", "", with("unit"), unit));
    let site = Site::serving(mcp);
    for (name, arguments, text) in [
        ("shape", json!({ "kind": "circle", "radius": 2 }), "2"),
        ("shape", json!({ "kind": "point" }), "a point"),
        ("whole", json!({ "a": 1, "b": 2 }), "2"),
        ("whole", json!({}), "0"),
        ("nothing", json!({}), "nothing"),
        ("nothing", json!(null), "nothing"),
        ("unit", json!({}), "unit"),
        ("unit", json!(null), "unit"),
    ] {
        for era in Era::BOTH {
            let call = era.call("1", &json!({ "name": name, "arguments": arguments }));
            assert_eq!(texts(&site.ask(&call).await.result("1")), [text], "{name} {arguments}");
        }
    }
    site.ask(&post(call("1", &json!({ "name": "unit" })))).await.result("1");
    let wrong = site.ask(&post(call("1", &json!({ "name": "unit", "arguments": { "a": 1 } })))).await.result("1");
    assert_eq!(wrong["isError"], true);
}

#[tokio::test]
async fn arguments_are_what_was_sent_digit_for_digit() {
    let text = r#"{"name":"raw","arguments":{ "b" : 1.50, "a":"\u00e9\n", "n": 18446744073709551615 }}"#;
    let raw = async |Params(params): Params<Box<serde_json::value::RawValue>>| CallToolResult::text(params.get());
    let site = Site::serving(mcp().tool(Tool::with_schema("raw", "", json!({}), raw)).tool(echo()));
    let body = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    assert_eq!(texts(&site.ask(&post(body(text))).await.result("1")), [text]);
    let echoed = site.ask(&post(body(&text.replace("raw", "echo")))).await.result("1");
    assert_eq!(texts(&echoed), ["{\"a\":\"\u{e9}\\n\",\"b\":1.5,\"n\":18446744073709551615}"]);
}
