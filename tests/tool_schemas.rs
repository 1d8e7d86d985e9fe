//! Tools whose input schema comes from the type of their arguments.
#![cfg(feature = "schemars")]
#![allow(dead_code, reason = "of some types it is the schema that counts")]
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::handler::Handler;
use http::HeaderMap;
use mcp_layer::{
    Arguments, CallToolResult, Cancellation, ExchangeInfo, McpError, McpMessage, McpRouter, Notifier, Tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tower::layer::util::Identity;

use support::{Era, Site, call, mcp, modern, panics, post, request, texts};

/// The definition of a tool, as it is listed.
async fn listed<S: Clone + Send + Sync + 'static>(tool: Tool<S>, state: S) -> Value {
    let site = Site::serving(mcp().tool(tool).with_state(state));
    let listed = site.ask(&post(request("1", "tools/list", &json!({})))).await.result("1");
    listed["tools"][0].clone()
}

fn taking<A>() -> Tool
where
    A: JsonSchema + for<'de> Deserialize<'de> + Send + 'static,
{
    Tool::new("t", "A tool", async |_: Arguments<A>| CallToolResult::text("taken"))
}

async fn schema_of<A>() -> Value
where
    A: JsonSchema + for<'de> Deserialize<'de> + Send + 'static,
{
    listed(taking::<A>(), ()).await["inputSchema"].clone()
}

fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// What the type says of itself is not of its tool.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Weather {
    /// City name or zip code
    location: String,
    #[schemars(range(min = 1, max = 14))]
    days_ahead: Option<u8>,
    #[serde(default)]
    units: Units,
}

/// The units
#[derive(Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Units {
    Imperial,
    #[default]
    Metric,
}

#[tokio::test]
async fn the_schema_is_that_of_the_arguments_and_no_more() {
    let expected = json!({
        "type": "object",
        "properties": {
            "location": { "type": "string", "description": "City name or zip code" },
            "daysAhead": { "type": ["integer", "null"], "minimum": 1, "maximum": 14 },
            "units": {
                "type": "string", "description": "The units", "enum": ["imperial", "metric"], "default": "metric",
            },
        },
        "required": ["location"],
    });
    assert_eq!(schema_of::<Weather>().await, expected);
    let definition = json!({ "name": "t", "description": "A tool", "inputSchema": expected });
    assert_eq!(listed(taking::<Weather>(), ()).await, definition);
}

#[derive(Deserialize, JsonSchema)]
struct Outer {
    /// Of the field
    inner: Inner,
    maybe: Option<Inner>,
    many: Vec<Inner>,
    #[serde(flatten)]
    flat: Flat,
}

/// Of the type
#[derive(Deserialize, JsonSchema)]
struct Inner {
    a: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Flat {
    b: i64,
}

#[tokio::test]
async fn nested_types_stand_where_they_are_used() {
    let inner = |description: &str| {
        json!({
            "type": "object", "description": description, "properties": { "a": { "type": "boolean" } }, "required": ["a"],
        })
    };
    let mut maybe = inner("Of the type");
    maybe["type"] = json!(["object", "null"]);
    let expected = json!({
        "type": "object",
        "properties": {
            "inner": inner("Of the field"),
            "maybe": maybe,
            "many": { "type": "array", "items": inner("Of the type") },
            "b": { "type": "integer" },
        },
        "required": ["inner", "many", "b"],
    });
    assert_eq!(schema_of::<Outer>().await, expected);
}

#[tokio::test]
async fn a_type_that_holds_itself_is_named_where_it_has_to_be() {
    #[derive(Deserialize, JsonSchema)]
    struct Tree {
        children: Vec<Self>,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Forest {
        tree: Tree,
    }

    let tree = |itself: &str| {
        let children = json!({ "type": "array", "items": { "$ref": itself } });
        json!({ "type": "object", "properties": { "children": children }, "required": ["children"] })
    };
    assert_eq!(schema_of::<Tree>().await, tree("#"));
    let expected = json!({
        "type": "object",
        "properties": { "tree": tree("#/$defs/Tree") },
        "required": ["tree"],
        "$defs": { "Tree": tree("#/$defs/Tree") },
    });
    assert_eq!(schema_of::<Forest>().await, expected);
}

#[tokio::test]
async fn no_schema_names_its_dialect_or_its_type() {
    for schema in [
        schema_of::<Weather>().await,
        schema_of::<Outer>().await,
        schema_of::<Value>().await,
        schema_of::<HashMap<String, Inner>>().await,
        schema_of::<()>().await,
        listed(taking::<Inner>().output::<Outer>(), ()).await["outputSchema"].clone(),
    ] {
        let text = schema.to_string();
        for noise in ["$schema", "\"title\""] {
            assert!(!text.contains(noise), "{noise} in {text}");
        }
    }
}

#[tokio::test]
async fn a_type_of_any_object_has_a_schema_of_one() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind")]
    enum Tagged {
        A { x: i64 },
        B,
    }

    assert_eq!(schema_of::<Value>().await["type"], "object");
    assert_eq!(schema_of::<Map<String, Value>>().await["type"], "object");
    let expected = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    assert_eq!(schema_of::<HashMap<String, i64>>().await, expected);
    let tagged = schema_of::<Tagged>().await;
    assert_eq!((&tagged["type"], tagged["oneOf"].as_array().unwrap().len()), (&json!("object"), 2));
    let site = Site::serving(mcp().tool(taking::<Tagged>()));
    let called = site.ask(&post(call("1", &json!({ "name": "t", "arguments": { "kind": "B" } })))).await;
    assert_eq!(texts(&called.result("1")), ["taken"]);
}

#[test]
fn a_type_that_is_no_object_makes_no_tool() {
    for panic in
        [panics(taking::<Vec<i64>>), panics(taking::<String>), panics(taking::<Units>), panics(taking::<Option<Inner>>)]
    {
        assert!(panic.contains("tool \"t\"") && panic.contains("are no object"), "{panic}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing;

#[derive(Deserialize, JsonSchema)]
struct Empty {}

#[tokio::test]
async fn a_tool_without_arguments_says_so_and_can_be_called() {
    async fn none() -> CallToolResult {
        CallToolResult::text("taken")
    }

    for tool in [Tool::new("t", "A tool", none), taking::<()>(), taking::<Nothing>(), taking::<Empty>()] {
        let schema = listed(tool.clone(), ()).await["inputSchema"].clone();
        assert_eq!(schema["type"], "object");
        assert!(schema.get("properties").is_none_or(|properties| *properties == json!({})), "{schema}");
        let site = Site::serving(mcp().tool(tool));
        for era in Era::BOTH {
            for params in [
                json!({ "name": "t" }),
                json!({ "name": "t", "arguments": {} }),
                json!({ "name": "t", "arguments": [] }),
            ] {
                assert_eq!(texts(&site.ask(&era.call("1", &params)).await.result("1")), ["taken"]);
            }
            for arguments in [json!([1]), json!("x")] {
                let call = era.call("1", &json!({ "name": "t", "arguments": arguments }));
                site.ask(&call).await.error(200, support::INVALID_PARAMS, "1");
            }
        }
    }
}

#[tokio::test]
async fn what_stands_last_may_be_another_extractor_and_then_there_are_no_arguments() {
    async fn result() -> CallToolResult {
        CallToolResult::new()
    }

    let tools: Vec<Tool<u8>> = vec![
        Tool::new("t", "", result),
        Tool::new("t", "", async |_: Cancellation| CallToolResult::new()),
        Tool::new("t", "", async |_: ExchangeInfo| CallToolResult::new()),
        Tool::new("t", "", async |_: Notifier, _: HeaderMap| CallToolResult::new()),
        Tool::new("t", "", async |_: Cancellation, _: Notifier| CallToolResult::new()),
        Tool::new("t", "", async |_: ExchangeInfo, _: McpMessage| CallToolResult::new()),
        Tool::new("t", "", async |_: Notifier, _: State<u8>| CallToolResult::new()),
        Tool::new("t", "", async |_: State<u8>, _: Extension<Arc<u8>>| CallToolResult::new()),
        Tool::new("t", "", async |_: axum::http::Method, _: Arguments<()>| CallToolResult::new()),
    ];
    for tool in tools {
        assert_eq!(listed(tool, 7).await["inputSchema"], no_arguments());
    }
}

#[tokio::test]
async fn the_arguments_stand_last_behind_any_other_extractors() {
    async fn all(
        State(state): State<u8>,
        _: HeaderMap,
        _: Notifier,
        _: Cancellation,
        info: ExchangeInfo,
        Arguments(Inner { a }): Arguments<Inner>,
    ) -> Result<CallToolResult, McpError> {
        Ok(CallToolResult::text(format!("{state} {} {a}", info.method())))
    }

    let tool = Tool::new("t", "", all);
    assert_eq!(listed(tool.clone(), 7).await["inputSchema"]["required"], json!(["a"]));
    // So does that of a handler with a layer of its own.
    let layered = Tool::new("t", "", all.layer(Identity::new()));
    assert_eq!(listed(layered, 7).await["inputSchema"]["required"], json!(["a"]));
    let site = Site::serving(mcp().tool(tool).with_state(7));
    for era in Era::BOTH {
        let called = site.ask(&era.call("1", &json!({ "name": "t", "arguments": { "a": true } }))).await;
        assert_eq!(texts(&called.result("1")), ["7 tools/call true"]);
    }
}

#[tokio::test]
async fn a_tool_is_one_function_and_one_line() {
    #[derive(Deserialize, JsonSchema)]
    struct Greeting {
        name: String,
    }
    async fn greet(Arguments(Greeting { name }): Arguments<Greeting>) -> CallToolResult {
        CallToolResult::text(format!("Hello, {name}!"))
    }

    let site = Site::serving(mcp().tool(Tool::new("greet", "Greets somebody", greet)));
    for era in Era::BOTH {
        let called = site.ask(&era.call("1", &json!({ "name": "greet", "arguments": { "name": "Ada" } }))).await;
        assert_eq!(texts(&called.result("1")), ["Hello, Ada!"]);
        let wrong = site.ask(&era.call("1", &json!({ "name": "greet" }))).await.result("1");
        assert_eq!(wrong["isError"], true);
    }
}

#[tokio::test]
async fn an_output_schema_is_listed_and_its_results_are_structured() {
    #[derive(Clone, JsonSchema, Serialize)]
    struct Sum {
        /// Of all
        sum: i64,
    }

    let tool = Tool::new("t", "", async || CallToolResult::structured(Sum { sum: 7 })).output::<Sum>();
    let definition = listed(tool.clone(), ()).await;
    let expected = json!({
        "type": "object",
        "properties": { "sum": { "type": "integer", "description": "Of all" } },
        "required": ["sum"],
    });
    assert_eq!(definition["outputSchema"], expected);
    let site = Site::serving(mcp().tool(tool));
    for era in Era::BOTH {
        let result = site.ask(&era.call("1", &json!({ "name": "t" }))).await.result("1");
        assert_eq!((&result["structuredContent"], texts(&result)), (&json!({ "sum": 7 }), vec!["{\"sum\":7}"]));
    }
}

#[tokio::test]
async fn an_output_schema_is_that_of_what_is_written_and_an_input_schema_of_what_is_read() {
    #[derive(Deserialize, JsonSchema, Serialize)]
    struct Both {
        #[serde(rename(serialize = "written", deserialize = "read"))]
        name: String,
        #[serde(default)]
        always: u8,
        #[serde(skip_deserializing)]
        only_written: u8,
    }

    let definition = listed(taking::<Both>().output::<Both>(), ()).await;
    let names = |schema: &str| {
        let schema = &definition[schema];
        json!([schema["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), schema["required"]])
    };
    assert_eq!(names("inputSchema"), json!([["always", "read"], ["read"]]));
    let all = ["always", "only_written", "written"];
    assert_eq!(names("outputSchema"), json!([all, ["written", "always", "only_written"]]));
}

#[tokio::test]
async fn an_output_that_is_no_object_is_listed_for_those_clients_only_that_know_such() {
    let tool = || taking::<Inner>().title("T").member("annotations", json!({}));
    let mcp = mcp().tool(tool().output::<Vec<Inner>>());
    let object = tool().output::<Inner>();
    let site = Site::serving(mcp.nest("object", McpRouter::default().tool(object)));
    for era in Era::BOTH {
        let listed = site.ask(&era.request("1", "tools/list", &json!({}))).await.result("1");
        let [array, object] = [0, 1].map(|at| &listed["tools"][at]);
        assert_eq!(object["outputSchema"]["type"], "object");
        let kind = array.get("outputSchema").map(|schema| &schema["type"]);
        assert_eq!(kind, (era == Era::Modern).then_some(&json!("array")));
        for tool in [array, object] {
            assert_eq!((&tool["title"], &tool["annotations"]), (&json!("T"), &json!({})));
        }
    }
}

#[tokio::test]
async fn a_schema_of_anything_is_an_object_as_clients_take_no_other() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Any {
        any: Value,
        maybe: Option<Value>,
        many: Vec<Value>,
        map: Map<String, Value>,
    }

    let expected = json!({
        "type": "object",
        "properties": {
            "any": {},
            "maybe": {},
            "many": { "type": "array", "items": {} },
            "map": { "type": "object", "additionalProperties": true },
        },
        "required": ["any", "many", "map"],
        "additionalProperties": false,
    });
    assert_eq!(schema_of::<Any>().await, expected);
}

#[derive(Deserialize, JsonSchema)]
struct Query {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: Option<String>,
    #[schemars(extend("x-mcp-header" = "Limit"))]
    #[serde(default)]
    limit: Option<u32>,
    #[schemars(extend("x-mcp-header" = "Dry-Run"))]
    dry_run: bool,
    place: Place,
    other: Option<Place2>,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    #[schemars(extend("x-mcp-header" = "Zone"))]
    zone: Option<Zone>,
}

#[derive(Deserialize, JsonSchema)]
struct Place2 {
    #[schemars(extend("x-mcp-header" = "Zone-2"))]
    zone: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
enum Zone {
    A,
    B,
}

#[tokio::test]
async fn an_optional_parameter_in_a_header_has_a_plain_type() {
    let schema = schema_of::<Query>().await;
    let properties = &schema["properties"];
    for (property, kind, header) in [
        (&properties["region"], "string", "Region"),
        (&properties["limit"], "integer", "Limit"),
        (&properties["dry_run"], "boolean", "Dry-Run"),
        (&properties["place"]["properties"]["zone"], "string", "Zone"),
        (&properties["other"]["properties"]["zone"], "string", "Zone-2"),
    ] {
        assert_eq!((&property["type"], &property["x-mcp-header"]), (&json!(kind), &json!(header)), "{schema}");
        // What such a type has no value for is neither its default nor one of its values.
        assert_ne!(property.get("default"), Some(&Value::Null), "{schema}");
        assert!(
            property.get("enum").is_none_or(|values| !values.as_array().unwrap().contains(&Value::Null)),
            "{schema}"
        );
    }
}

#[tokio::test]
async fn a_parameter_in_a_header_is_checked_and_an_absent_one_needs_none() {
    let site = Site::serving(mcp().tool(taking::<Query>()));
    let full = json!({
        "region": "eu", "limit": 7, "dry_run": false, "place": { "zone": "A" }, "other": { "zone": "x" },
    });
    let call = |arguments: &Value| modern("1", "tools/call", &json!({ "name": "t", "arguments": arguments }));
    let with_all = [("region", "eu"), ("limit", "7"), ("dry-run", "false"), ("zone", "A"), ("zone-2", "x")];
    let headed = with_all.iter().fold(call(&full), |it, (name, value)| it.and(&format!("mcp-param-{name}"), value));
    assert_eq!(texts(&site.ask(&headed).await.result("1")), ["taken"]);
    for (name, _) in with_all {
        let error = site.ask(&headed.clone().without(&format!("mcp-param-{name}"))).await;
        error.error(400, support::HEADER_MISMATCH, "1");
    }
    for arguments in [
        json!({ "dry_run": true, "place": {} }),
        json!({ "dry_run": true, "place": { "zone": null }, "region": null, "limit": null, "other": null }),
        json!({ "dry_run": true, "place": {}, "other": {} }),
    ] {
        let few = call(&arguments).and("mcp-param-dry-run", "true");
        assert_eq!(texts(&site.ask(&few).await.result("1")), ["taken"]);
    }
}

#[test]
fn a_parameter_that_no_header_can_repeat_makes_no_tool() {
    macro_rules! with {
        ($header:literal, $kind:ty) => {{
            #[derive(Deserialize, JsonSchema)]
            struct Parameter {
                #[schemars(extend("x-mcp-header" = $header))]
                parameter: $kind,
            }
            panics(taking::<Parameter>)
        }};
    }

    for panic in [with!("P", f64), with!("P", Vec<String>), with!("P", Inner), with!("", String), with!("a b", bool)] {
        assert!(panic.contains("tool \"t\"") && panic.contains("x-mcp-header"), "{panic}");
    }
    assert!(panics(taking::<Vec<Place>>).contains("no object"));
    assert!(panics(taking::<HashMap<String, Place>>).contains("not on a property"));
}

#[tokio::test]
async fn a_tool_lives_in_any_router() {
    let inner = McpRouter::default().tool(taking::<Inner>());
    let site = Site::serving(mcp().tool(taking::<Inner>()).nest("nested", inner));
    for name in ["t", "nested.t"] {
        let called = site.ask(&post(call("1", &json!({ "name": name, "arguments": { "a": true } })))).await;
        assert_eq!(texts(&called.result("1")), ["taken"]);
    }
}
