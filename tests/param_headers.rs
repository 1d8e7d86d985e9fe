//! Parameters that modern clients repeat in a header `Mcp-Param-…` (2026-07-28, *Custom Headers from Tool Parameters*).
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use mcp_layer::{Arguments, CallToolResult, McpRouter, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use support::{Answer, Era, HEADER_MISMATCH, Post, Site, call, mcp, modern, panics, post, texts};

/// What the tool `query` takes, by whose type it can also be read from an array.
#[derive(Deserialize)]
struct Query {
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    limit: Option<Value>,
    #[serde(default)]
    dry: Option<Value>,
    #[serde(default)]
    place: Option<Place>,
}

#[derive(Deserialize)]
struct Place {
    #[serde(default)]
    zone: Option<String>,
}

async fn query(Arguments(query): Arguments<Query>) -> CallToolResult {
    let zone = query.place.and_then(|place| place.zone);
    CallToolResult::text(json!([query.region, query.limit, query.dry, zone]).to_string())
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "limit": { "type": "integer", "x-mcp-header": "Limit" },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" },
            "place": {
                "type": "object", "properties": { "zone": { "type": "string", "x-mcp-header": "Zone" } },
            },
            "plain": { "type": "string" },
        },
    })
}

fn router() -> McpRouter {
    mcp().tool(Tool::with_schema("query", "", schema(), query))
}

fn site() -> Site {
    Site::serving(router())
}

/// A call with these arguments, as they stand in the text, and these headers behind `Mcp-Param-`.
fn with(arguments: &str, headers: &[(&str, &str)]) -> Post {
    let params = format!(
        r#"{{"name":"query","arguments":{arguments},"_meta":{{"io.modelcontextprotocol/protocolVersion":"{}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#,
        support::MODERN
    );
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let headed = post(body).with("mcp-protocol-version", support::MODERN);
    let headed = headed.and("mcp-method", "tools/call").and("mcp-name", "query");
    headers.iter().fold(headed, |it, (name, value)| it.and(&format!("mcp-param-{name}"), value))
}

async fn asks(arguments: &str, headers: &[(&str, &str)]) -> Answer {
    site().ask(&with(arguments, headers)).await
}

async fn agrees(arguments: &str, headers: &[(&str, &str)]) {
    let answer = asks(arguments, headers).await;
    assert_eq!(answer.status, 200, "{arguments} {headers:?}: {answer:?}");
    let result = answer.result("1");
    assert_eq!(result.get("isError"), None, "{arguments} {headers:?}: {result}");
}

/// It is refused, for this header's sake.
async fn mismatches(arguments: &str, headers: &[(&str, &str)], named: &str) {
    let answer = asks(arguments, headers).await;
    let error = answer.error(400, HEADER_MISMATCH, "1");
    assert!(error.message.contains(&format!("{named} is")), "{arguments} {headers:?}: {}", error.message);
}

#[tokio::test]
async fn a_header_says_what_the_argument_says() {
    let full = r#"{"region":"eu","limit":42,"dry":true,"place":{"zone":"a"},"plain":"x"}"#;
    let headers = [("region", "eu"), ("limit", "42"), ("dry", "true"), ("zone", "a")];
    let result = asks(full, &headers).await.result("1");
    assert_eq!(texts(&result), [r#"["eu",42,true,"a"]"#]);
    for (at, named) in ["Mcp-Param-Region", "Mcp-Param-Limit", "Mcp-Param-Dry", "Mcp-Param-Zone"].iter().enumerate() {
        let without: Vec<_> = headers.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, it)| *it).collect();
        mismatches(full, &without, named).await;
        let wrong = headers.iter().enumerate().map(|(other, it)| if other == at { (it.0, "wrong") } else { *it });
        mismatches(full, &wrong.collect::<Vec<_>>(), named).await;
        let twice: Vec<_> = headers.iter().chain([&headers[at]]).copied().collect();
        mismatches(full, &twice, named).await;
    }
}

#[tokio::test]
async fn a_plain_value_is_compared_letter_for_letter() {
    agrees(r#"{"region":"us-west1"}"#, &[("region", "us-west1")]).await;
    agrees(r#"{"region":"a \"b\", c\td"}"#, &[("region", "a \"b\", c\td")]).await;
    agrees(r#"{"r\u0065gion":"\u0061\/b"}"#, &[("region", "a/b")]).await;
    agrees(r#"{"region":""}"#, &[("region", "")]).await;
    for wrong in ["us-west", "US-WEST1", "us-west1,us-west1", "us-west1, us-west1", "\"us-west1\"", "", "null"] {
        mismatches(r#"{"region":"us-west1"}"#, &[("region", wrong)], "Mcp-Param-Region").await;
    }
}

#[tokio::test]
async fn the_name_of_a_header_is_the_same_in_any_case() {
    let live = site().listen().await;
    for name in ["mcp-param-region", "Mcp-Param-Region", "MCP-PARAM-REGION"] {
        // Over HTTP the space around a value is none of it.
        for value in ["eu", "  eu \t"] {
            live.post(&with(r#"{"region":"eu"}"#, &[]).and(name, value)).await.result("1");
        }
        live.post(&with(r#"{"region":"eu"}"#, &[]).and(name, "EU")).await.error(400, HEADER_MISMATCH, "1");
    }
}

#[tokio::test]
async fn what_is_no_header_is_encoded() {
    for (value, encoded) in [
        ("Hello", "=?base64?SGVsbG8=?="),
        ("Hello, \u{4e16}\u{754c}", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", "=?base64??="),
    ] {
        agrees(&format!(r#"{{"region":"{value}"}}"#), &[("region", encoded)]).await;
    }
    agrees(r#"{"limit":42,"dry":false}"#, &[("limit", "=?base64?NDI=?="), ("dry", "=?base64?ZmFsc2U=?=")]).await;
    // What only looks like it is a value like any other.
    for literal in ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", "=?base64"] {
        agrees(&format!(r#"{{"region":"{literal}"}}"#), &[("region", literal)]).await;
        mismatches(r#"{"region":"Hello"}"#, &[("region", literal)], "Mcp-Param-Region").await;
    }
    for broken in
        ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "=?base64?/w==?=", "=?base64?=?="]
    {
        mismatches(r#"{"region":"Hello"}"#, &[("region", broken)], "Mcp-Param-Region").await;
        // Not even one that says itself.
        mismatches(&format!(r#"{{"region":"{broken}"}}"#), &[("region", broken)], "Mcp-Param-Region").await;
    }
}

#[tokio::test]
async fn raw_bytes_beyond_ascii_are_no_value() {
    let live = site().listen().await;
    for value in ["H\u{e9}", "\u{4e16}\u{754c}"] {
        let answer = live.post(&with(&json!({ "region": value }).to_string(), &[("region", value)])).await;
        answer.error(400, HEADER_MISMATCH, "1");
    }
}

#[tokio::test]
async fn no_header_is_expected_for_what_is_not_there() {
    for arguments in [
        "{}",
        r#"{"plain":"x"}"#,
        r#"{"region":null,"limit":null,"dry":null}"#,
        r#"{"place":null}"#,
        r#"{"place":{}}"#,
        r#"{"place":{"zone":null}}"#,
        "null",
    ] {
        agrees(arguments, &[]).await;
        for (header, named) in [("region", "Mcp-Param-Region"), ("zone", "Mcp-Param-Zone")] {
            for value in ["eu", "", "null"] {
                mismatches(arguments, &[(header, value)], named).await;
            }
        }
    }
    let absent = modern("1", "tools/call", &json!({ "name": "query" }));
    site().ask(&absent).await.result("1");
    site().ask(&absent.and("mcp-param-region", "eu")).await.error(400, HEADER_MISMATCH, "1");
    // The very name of a parameter somewhere else is not the parameter.
    agrees(r#"{"zone":"a","place":{"region":"b"}}"#, &[]).await;
    mismatches(r#"{"zone":"a"}"#, &[("zone", "a")], "Mcp-Param-Zone").await;
}

#[tokio::test]
async fn headers_that_no_parameter_knows_are_ignored() {
    agrees(r#"{"region":"eu"}"#, &[("region", "eu"), ("other", "x"), ("other", "y"), ("plain", "\u{1f980}")]).await;
    site().ask(&with(r#"{"region":"eu"}"#, &[("region", "eu")]).and("mcp-param-", "x")).await.result("1");
    let plain = async || CallToolResult::text("plain");
    let site = Site::serving(mcp().tool(Tool::with_schema("query", "", json!({}), plain)));
    site.ask(&with(r#"{"region":"eu"}"#, &[("region", "us"), ("region", "x")])).await.result("1");
}

#[tokio::test]
async fn integers_are_compared_as_numbers() {
    for (argument, headers) in [
        ("42", &["42", "42.0", "4.2e1", "042", "=?base64?NDIuMA==?="][..]),
        ("42.0", &["42", "42.0", "42.00"]),
        ("4.2e1", &["42"]),
        ("-7", &["-7", "-7.0"]),
        ("0", &["0", "-0", "0.0"]),
        ("9007199254740991", &["9007199254740991", "9007199254740991.0"]),
        ("-9007199254740991", &["-9007199254740991"]),
        ("18446744073709551615", &["18446744073709551615"]),
    ] {
        for header in headers {
            agrees(&format!(r#"{{"limit":{argument}}}"#), &[("limit", header)]).await;
        }
    }
    for (argument, headers) in [
        ("42", &["43", "4", "+42", "0x2a", "42 0", "42,", "forty-two", "", "42.5", "NaN", "inf", "true"][..]),
        ("-7", &["7", "- 7"]),
        ("9007199254740992", &["9007199254740993", "9007199254740991"]),
        // Beyond 2^53 a fraction would make other numbers of them, and so they are not the same.
        ("9007199254740993", &["9007199254740992.0", "9007199254740992"]),
        ("9007199254740993.0", &["9007199254740992"]),
        ("1e400", &["1e400", "inf"]),
    ] {
        for header in headers {
            mismatches(&format!(r#"{{"limit":{argument}}}"#), &[("limit", header)], "Mcp-Param-Limit").await;
        }
    }
}

#[tokio::test]
async fn a_boolean_is_one_of_two_words() {
    agrees(r#"{"dry":true}"#, &[("dry", "true")]).await;
    agrees(r#"{"dry":false}"#, &[("dry", "false")]).await;
    for wrong in ["false", "True", "TRUE", "1", "yes", "", "true, true"] {
        mismatches(r#"{"dry":true}"#, &[("dry", wrong)], "Mcp-Param-Dry").await;
    }
}

#[tokio::test]
async fn a_value_of_another_kind_has_no_header_that_says_it() {
    for argument in ["[1]", "{}", "[]", r#"{"a":1}"#] {
        for header in [argument, "", "[object Object]"] {
            mismatches(&format!(r#"{{"region":{argument}}}"#), &[("region", header)], "Mcp-Param-Region").await;
        }
    }
    // One that a header can say is a matter of the tool.
    let result = asks(r#"{"region":7}"#, &[("region", "7")]).await.result("1");
    assert_eq!(result["isError"], true);
}

#[tokio::test]
async fn what_stands_twice_agrees_with_nothing() {
    for header in ["eu", "us"] {
        mismatches(r#"{"region":"eu","region":"us"}"#, &[("region", header)], "Mcp-Param-Region").await;
        mismatches(r#"{"region":"eu","r\u0065gion":"us"}"#, &[("region", header)], "Mcp-Param-Region").await;
        mismatches(r#"{"region":null,"region":"us"}"#, &[("region", header)], "Mcp-Param-Region").await;
    }
    mismatches(r#"{"place":{},"place":{"zone":"a"}}"#, &[("zone", "a")], "Mcp-Param-Zone").await;
    mismatches(r#"{"place":{"zone":"b","zone":"a"}}"#, &[("zone", "a")], "Mcp-Param-Zone").await;
    // So does a header, whatever stands in it.
    mismatches(r#"{"region":"eu"}"#, &[("region", "eu"), ("region", "eu")], "Mcp-Param-Region").await;
}

#[tokio::test]
async fn an_array_hides_no_argument_from_its_header() {
    for arguments in [r#"["us"]"#, r#"["us",1,true,["a"]]"#] {
        for headers in [&[][..], &[("region", "eu")], &[("region", "us")]] {
            let answer = asks(arguments, headers).await;
            assert!(answer.text().contains("\"error\""), "{arguments} {headers:?}: {answer:?}");
        }
    }
    for headers in [&[][..], &[("zone", "b")], &[("zone", "a")]] {
        mismatches(r#"{"place":["a"]}"#, headers, "Mcp-Param-Zone").await;
    }
    // An empty one is an empty object, as some languages write it.
    agrees(r#"{"region":"eu","place":[]}"#, &[("region", "eu")]).await;
    mismatches(r#"{"place":[]}"#, &[("zone", "a")], "Mcp-Param-Zone").await;
}

#[tokio::test]
async fn legacy_calls_have_no_such_headers() {
    let arguments = json!({ "region": "eu", "limit": 42 });
    for version in support::LEGACY {
        let plain = post(call("1", &json!({ "name": "query", "arguments": arguments })));
        let plain = plain.with("mcp-protocol-version", version);
        for request in
            [plain.clone(), plain.clone().and("mcp-param-region", "us"), plain.and("mcp-param-region", "=?base64?!?=")]
        {
            assert_eq!(texts(&site().ask(&request).await.result("1")), [r#"["eu",42,null,null]"#]);
        }
    }
}

#[tokio::test]
async fn they_are_checked_before_the_tool_hears_of_the_call_and_after_it_is_found() {
    let called = async || -> CallToolResult { panic!("it was called") };
    let site = Site::serving(mcp().tool(Tool::with_schema("query", "", schema(), called)));
    site.ask(&with(r#"{"region":"eu"}"#, &[("region", "us")])).await.error(400, HEADER_MISMATCH, "1");
    // Arguments that are wrong besides.
    site.ask(&with(r#"{"region":"eu","limit":"x"}"#, &[])).await.error(400, HEADER_MISMATCH, "1");
    let unknown = modern("1", "tools/call", &json!({ "name": "other", "arguments": { "region": "eu" } }));
    site.ask(&unknown.and("mcp-param-region", "us")).await.error(200, support::INVALID_PARAMS, "1");
}

#[tokio::test]
async fn a_mismatch_is_json_whatever_the_client_takes() {
    for accept in ["text/event-stream", "application/json", "*/*"] {
        let request = with(r#"{"region":"eu"}"#, &[]).with("accept", accept);
        site().ask(&request).await.error(400, HEADER_MISMATCH, "1");
    }
}

#[tokio::test]
async fn a_tool_of_a_nested_router_is_checked_too() {
    let nested = Site::serving(mcp().nest("a", router()));
    let call = modern("1", "tools/call", &json!({ "name": "a.query", "arguments": { "region": "eu" } }));
    nested.ask(&call).await.error(400, HEADER_MISMATCH, "1");
    nested.ask(&call.and("mcp-param-region", "eu")).await.result("1");
}

#[tokio::test]
async fn the_annotation_is_listed_so_that_clients_know() {
    for era in Era::BOTH {
        let listed = site().ask(&era.request("1", "tools/list", &json!({}))).await.result("1");
        assert_eq!(listed["tools"][0]["inputSchema"], schema());
    }
}

#[test]
fn an_annotation_that_clients_reject_makes_no_tool() {
    let with = |schema: Value| panics(|| -> Tool { Tool::with_schema("query", "", schema, query) });
    let one = json!({ "type": "string", "x-mcp-header": "P" });
    for (schema, why) in [
        (json!({ "properties": { "a": { "type": "string", "x-mcp-header": "a b" } } }), "no name"),
        (json!({ "properties": { "a": { "type": "string", "x-mcp-header": "" } } }), "no name"),
        (json!({ "properties": { "a": { "type": "string", "x-mcp-header": null } } }), "no string"),
        (json!({ "properties": { "a": { "type": ["string", "null"], "x-mcp-header": "P" } } }), "not on a string"),
        (json!({ "properties": { "a": { "type": "number", "x-mcp-header": "P" } } }), "not on a string"),
        (json!({ "properties": { "a": one, "b": { "type": "string", "x-mcp-header": "p" } } }), "twice"),
        (json!({ "properties": { "a": { "properties": { "b": one } }, "b": one } }), "twice"),
        (json!({ "properties": { "a": { "type": "array", "items": one } } }), "not on a property"),
        (json!({ "oneOf": [{ "properties": { "a": one } }] }), "not on a property"),
        (json!({ "patternProperties": { "a": one } }), "not on a property"),
        (json!({ "additionalProperties": one }), "not on a property"),
        (json!({ "$defs": { "a": one } }), "not on a property"),
        (json!({ "x-mcp-header": "P" }), "not on a property"),
    ] {
        let panic = with(schema.clone());
        assert!(panic.contains("tool \"query\"") && panic.contains(why), "{schema}: {panic}");
    }
}
