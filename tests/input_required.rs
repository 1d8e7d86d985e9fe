//! Modern clients that must bring more, and what they bring.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post as on_post;
use http::StatusCode;
use mcp_layer::{
    Arguments, CallToolResult, Client, ClientError, Deferred, DeferredReply, InputRequired, InputResponses, McpError,
    McpLayer, McpRouter, McpServer, Notifier, Reply, ServerInfo, Tool,
};
use serde_json::{Value, json};
use tower::ServiceExt;

use support::{
    Answer, INTERNAL_ERROR, INVALID_PARAMS, Post, Site, call, calls as in_each_version, modern, note, post, request,
};

const INFO: &str = "io.modelcontextprotocol/serverInfo";

fn asks_for_the_name() -> InputRequired {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    InputRequired::of(
        "name",
        "elicitation/create",
        json!({ "mode": "form", "message": "What is your name?", "requestedSchema": schema }),
    )
    .state("first")
}

async fn greet(responses: InputResponses) -> Response {
    match responses.get("name").and_then(|response| response["content"]["name"].as_str()) {
        Some(name) => CallToolResult::text(format!("Hello, {name}! {:?}", responses.state())).into_response(),
        None => asks_for_the_name().into_response(),
    }
}

fn requests() -> Value {
    json!({ "name": { "method": "elicitation/create", "params": {
        "mode": "form",
        "message": "What is your name?",
        "requestedSchema": {
            "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
        },
    } } })
}

fn over(mcp: McpRouter) -> Site {
    Site::build(
        |options| options,
        |server, _| Router::new().route_service("/mcp", mcp).layer(McpLayer::new(server.clone())),
    )
}

fn router() -> McpRouter {
    let schema = json!({ "type": "object" });
    McpRouter::new(ServerInfo::new("n", "1"))
        .tool(Tool::with_schema("greet", "Greets", schema, greet))
        .request("prompts/get", greet)
        .request("resources/read", greet)
}

/// A request of a client that can do all that it may be asked for.
fn calls(method: &str, own: &Value) -> Post {
    calls_declaring(&json!({ "elicitation": {}, "roots": {}, "sampling": {} }), method, own)
}

fn calls_declaring(capabilities: &Value, method: &str, own: &Value) -> Post {
    let mut params = own.clone();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    match method {
        "resources/read" => params["uri"] = "a:b".into(),
        _ => params["name"] = "greet".into(),
    }
    modern("1", method, &params)
}

/// Replies with all that the client brings for these keys, and the state.
fn reads(keys: &'static [&'static str]) -> Site {
    let handler = async move |responses: InputResponses| {
        let read: Vec<_> = keys.iter().map(|key| responses.get(key)).collect();
        Reply(json!({ "read": read, "state": responses.state(), "is_none": responses == InputResponses::default() }))
    };
    Site::over(on_post(handler))
}

#[tokio::test]
async fn a_request_is_asked_for_more_and_then_done() {
    let site = over(router());
    for method in ["tools/call", "prompts/get", "resources/read"] {
        let first = site.ask(&calls(method, &json!({}))).await.result("1");
        let expected = json!({
            "resultType": "input_required",
            "inputRequests": requests(),
            "requestState": "first",
            "_meta": { INFO: { "name": "n", "version": "1" } },
        });
        // No hints for caches either: it is not complete.
        assert_eq!(first, expected, "{method}");
        let brings = json!({
            "inputResponses": { "name": { "action": "accept", "content": { "name": "Ada" } } },
            "requestState": "first",
        });
        let second = site.ask(&calls(method, &brings)).await.result("1");
        assert_eq!(second["content"][0]["text"], "Hello, Ada! Some(\"first\")");
        assert_eq!(second["resultType"], "complete");
        assert_eq!(second.get("ttlMs").is_some(), method == "resources/read");
        assert_eq!(site.server.parked(), 0);
    }
}

#[tokio::test]
async fn it_says_so_without_the_router_too() {
    let result = Site::over(on_post(greet)).ask(&calls("tools/call", &json!({}))).await.result("1");
    assert_eq!(result, json!({ "resultType": "input_required", "inputRequests": requests(), "requestState": "first" }));
}

#[tokio::test]
async fn several_things_may_be_asked_for_at_once_and_a_key_stands_for_one() {
    let handler = async || {
        InputRequired::of("a", "roots/list", json!({}))
            .and("b \"\u{fc}\n", "sampling/createMessage", json!({ "maxTokens": 1 }))
            .and("a", "elicitation/create", json!({ "message": "x" }))
            .state("one")
            .state("")
    };
    let result = Site::over(on_post(handler)).ask(&calls("tools/call", &json!({}))).await.result("1");
    let requests = json!({
        "a": { "method": "elicitation/create", "params": { "message": "x" } },
        "b \"\u{fc}\n": { "method": "sampling/createMessage", "params": { "maxTokens": 1 } },
    });
    assert_eq!(result, json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "" }));
}

/// JSON-RPC 2.0, section 4.2: params are an object or an array, or are left out.
#[tokio::test]
async fn params_that_are_nothing_are_left_out() {
    let handler = async || InputRequired::of("a", "roots/list", ()).and("b", "roots/list", Value::Null);
    let result = Site::over(on_post(handler)).ask(&calls("tools/call", &json!({}))).await.result("1");
    let roots = json!({ "method": "roots/list" });
    assert_eq!(result["inputRequests"], json!({ "a": roots, "b": roots }));
}

#[tokio::test]
async fn a_state_alone_is_enough() {
    let handler = async || InputRequired::later("busy");
    let result = Site::over(on_post(handler)).ask(&calls("tools/call", &json!({}))).await.result("1");
    assert_eq!(result, json!({ "resultType": "input_required", "requestState": "busy" }));
}

#[tokio::test]
async fn it_may_end_a_stream() {
    let handler = async |notifier: Notifier| {
        let params = json!({ "level": "info", "data": "a" });
        notifier.notify("notifications/message", params).await.unwrap();
        asks_for_the_name()
    };
    let mut events = Site::over(on_post(handler)).open(&calls("tools/call", &json!({}))).await;
    events.streams();
    assert_eq!(events.message().await, note(&json!("a")));
    let expected = json!({ "resultType": "input_required", "inputRequests": requests(), "requestState": "first" });
    events.ends_with_result("1", &expected).await;
}

#[tokio::test]
async fn at_its_first_try_a_client_brings_nothing() {
    let site = reads(&["a"]);
    let nothing = json!({ "read": [null], "state": null, "is_none": true });
    for own in [json!({}), json!({ "inputResponses": null, "requestState": null }), json!({ "input_responses": 1 })] {
        assert_eq!(site.ask(&calls("tools/call", &own)).await.result("1"), nothing);
    }
    assert_eq!(site.ask(&post(call("1", &json!({})))).await.result("1"), nothing);
    assert_eq!(site.ask(&post(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#)).await.result("1"), nothing);
}

#[tokio::test]
async fn whatever_a_client_brings_is_read_as_it_is() {
    let site = reads(&["a", "", "\u{fc}\"", "missing"]);
    let brings = json!({
        "inputResponses": { "a": { "action": "decline" }, "": 7, "\u{fc}\"": null, "other": [1] },
        "requestState": "\u{0}\"\\ \u{1f600}",
        "arguments": { "inputResponses": 1 },
    });
    let result = site.ask(&calls("tools/call", &brings)).await.result("1");
    let read = json!([{ "action": "decline" }, 7, null, null]);
    assert_eq!(result, json!({ "read": read, "state": "\u{0}\"\\ \u{1f600}", "is_none": false }));
    // An empty object, or an empty state, is something.
    let result = site.ask(&calls("tools/call", &json!({ "inputResponses": {}, "requestState": "" }))).await.result("1");
    assert_eq!(result, json!({ "read": [null, null, null, null], "state": "", "is_none": false }));
}

#[tokio::test]
async fn a_response_of_another_shape_asks_again() {
    let site = over(router());
    for response in [
        json!(7),
        json!(null),
        json!("Ada"),
        json!([]),
        json!([{ "content": { "name": "Ada" } }]),
        json!({ "action": "cancel" }),
        json!({ "action": "accept", "content": { "name": 7 } }),
        json!({ "content": null }),
    ] {
        for own in [json!({ "inputResponses": { "name": response } }), json!({ "inputResponses": { "x": response } })] {
            let result = site.ask(&calls("tools/call", &own)).await.result("1");
            assert_eq!(result["resultType"], "input_required", "{own}");
        }
    }
}

#[tokio::test]
async fn responses_that_are_no_object_and_a_state_that_is_no_string_are_refused() {
    let site = over(router());
    for own in [
        json!({ "inputResponses": [[]] }),
        json!({ "inputResponses": [{ "name": 1 }] }),
        json!({ "inputResponses": "x" }),
        json!({ "inputResponses": 7 }),
        json!({ "inputResponses": true }),
        json!({ "requestState": 7 }),
        json!({ "requestState": {} }),
        json!({ "requestState": ["a"] }),
        json!({ "requestState": false }),
    ] {
        site.ask(&calls("tools/call", &own)).await.error(200, INVALID_PARAMS, "1");
    }
    // As some languages write an empty object.
    site.ask(&calls("tools/call", &json!({ "inputResponses": [] }))).await.result("1");
    for twice in [r#"{"inputResponses":{},"inputResponses":{}}"#, r#"{"requestState":"a","requestState":"b"}"#] {
        let twice = call("1", &json!({})).replace("{}", twice);
        reads(&[]).ask(&post(twice)).await.error(200, INVALID_PARAMS, "1");
    }
}

#[tokio::test]
async fn it_stands_beside_the_arguments_of_a_tool() {
    async fn greet(responses: InputResponses, Arguments(arguments): Arguments<Value>) -> Response {
        match responses.get("name") {
            Some(name) => CallToolResult::structured(json!([arguments, name])).into_response(),
            None => asks_for_the_name().into_response(),
        }
    }

    let tool = Tool::with_schema("greet", "Greets", json!({ "type": "object" }), greet);
    let site = over(McpRouter::new(ServerInfo::new("n", "1")).tool(tool));
    let arguments = json!({ "arguments": { "a": 1 } });
    assert_eq!(site.ask(&calls("tools/call", &arguments)).await.result("1")["resultType"], "input_required");
    let both = json!({ "arguments": { "a": 1 }, "inputResponses": { "name": "Ada" } });
    let result = site.ask(&calls("tools/call", &both)).await.result("1");
    assert_eq!(result["structuredContent"], json!([{ "a": 1 }, "Ada"]));
}

#[tokio::test]
async fn a_handler_asks_for_what_the_client_has_declared() {
    async fn asks(client: Client) -> Result<InputRequired, McpError> {
        let can = |what| client.capabilities().is_some_and(|capabilities| capabilities.contains_key(what));
        match (can("elicitation"), can("sampling")) {
            (true, _) => Ok(asks_for_the_name()),
            (_, true) => Ok(InputRequired::of("name", "sampling/createMessage", json!({}))),
            _ => Err(McpError::missing_capabilities(json!({ "elicitation": {} }))),
        }
    }

    let site = over(McpRouter::new(ServerInfo::new("n", "1")).request("prompts/get", asks));
    let declared = |capabilities: &Value| {
        let mut params = json!({ "name": "x" });
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
        let post = post(request("1", "prompts/get", &params)).with("mcp-protocol-version", "2026-07-28");
        post.and("mcp-method", "prompts/get").and("mcp-name", "x")
    };
    let method = async |capabilities: &Value| {
        site.ask(&declared(capabilities)).await.result("1")["inputRequests"]["name"]["method"].clone()
    };
    assert_eq!(method(&json!({ "elicitation": {}, "sampling": {} })).await, "elicitation/create");
    assert_eq!(method(&json!({ "sampling": {} })).await, "sampling/createMessage");
    let error = site.ask(&declared(&json!({}))).await.error(400, -32021, "1");
    assert_eq!(error.data.unwrap(), json!({ "requiredCapabilities": { "elicitation": {} } }));
}

/// Each way in which this can answer a request.
fn each_way(required: &InputRequired) -> Vec<(&'static str, Site)> {
    let of = || required.clone();
    let (plain, as_error, with_header) = (of(), of(), of());
    let plain = async move || plain;
    let as_error = async move || -> Result<CallToolResult, ClientError> { Err(ClientError::InputRequired(as_error)) };
    let with_header = async move || ([("x-own", "1")], with_header);
    let by_ticket = {
        let required = of();
        async move |deferred: Deferred| -> DeferredReply {
            let (ticket, reply) = deferred.split();
            tokio::spawn(async move { ticket.answer(required).unwrap() });
            reply
        }
    };
    let mcp = McpRouter::new(ServerInfo::new("n", "1"));
    let all = ["prompts/get", "tools/call", "tools/list", "x"]
        .iter()
        .fold(mcp, |mcp, method| mcp.request(*method, plain.clone()));
    let transparent =
        Router::new().route("/mcp", on_post(plain.clone())).layer(McpLayer::transparent(McpServer::new()));
    vec![
        ("a router", over(all)),
        ("a transparent layer", Site::build(|options| options, |_, _| transparent)),
        ("a handler", Site::over(on_post(plain))),
        ("an error", Site::over(on_post(as_error))),
        ("a header", Site::over(on_post(with_header))),
        ("a ticket", Site::over(on_post(by_ticket))),
    ]
}

/// MUST NOT (2026-07-28, *Multi Round-Trip Requests*).
#[tokio::test]
async fn a_client_is_not_asked_for_what_it_has_not_declared() {
    let all = asks_for_the_name().and("b", "roots/list", ()).and("c", "sampling/createMessage", json!({}));
    for (way, site) in each_way(&all) {
        for (declared, missing) in [
            (json!({}), json!({ "elicitation": {}, "roots": {}, "sampling": {} })),
            (json!({ "elicitation": { "form": {} } }), json!({ "roots": {}, "sampling": {} })),
            (json!({ "roots": {}, "sampling": {}, "tasks": {} }), json!({ "elicitation": {} })),
            (json!({ "roots": {}, "elicitation": {}, "Sampling": {} }), json!({ "sampling": {} })),
        ] {
            for method in ["tools/call", "prompts/get"] {
                let answer = site.ask(&calls_declaring(&declared, method, &json!({}))).await;
                let error = answer.error(400, -32021, "1");
                assert_eq!(error.data, Some(json!({ "requiredCapabilities": missing })), "{way} {method}");
            }
        }
        let asked = site.ask(&calls("tools/call", &json!({}))).await.result("1");
        assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 3, "{way}");
    }
    // Nothing is asked for.
    for (way, site) in each_way(&InputRequired::later("busy")) {
        let asked = site.ask(&calls_declaring(&json!({}), "tools/call", &json!({}))).await.result("1");
        assert_eq!((&asked["resultType"], &asked["requestState"]), (&"input_required".into(), &"busy".into()), "{way}");
    }
}

#[tokio::test]
async fn a_handler_that_asks_where_nobody_may_is_at_fault() {
    for required in [asks_for_the_name(), InputRequired::later("busy")] {
        for (way, site) in each_way(&required) {
            for (version, call) in in_each_version(&json!({ "name": "greet" })) {
                if version != support::MODERN {
                    let error = site.ask(&call).await.error(200, INTERNAL_ERROR, "1");
                    assert_eq!((error.message.as_str(), error.data), ("Internal error", None), "{way} {version}");
                }
            }
            for method in ["tools/list", "x"] {
                let error =
                    site.ask(&calls(method, &json!({})).without("mcp-name")).await.error(200, INTERNAL_ERROR, "1");
                assert_eq!(error.message, "Internal error", "{way} {method}");
            }
        }
    }
    for method in ["ping", "tools/call", "elicitation/Create", ""] {
        for (way, site) in each_way(&asks_for_the_name().and("b", method, json!({}))) {
            let answer = site.ask(&calls("tools/call", &json!({}))).await;
            assert_eq!(answer.error(200, INTERNAL_ERROR, "1").message, "Internal error", "{way} {method}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_has_begun_ends_with_the_error() {
    let handler = async |notifier: Notifier| {
        notifier.notify("notifications/message", json!({ "level": "info", "data": "a" })).await.unwrap();
        asks_for_the_name()
    };
    let site = Site::over(on_post(handler));
    for (request, code) in
        [(calls_declaring(&json!({}), "tools/call", &json!({})), -32021), (post(call("1", &json!({}))), INTERNAL_ERROR)]
    {
        let mut events = site.open(&request).await;
        assert_eq!(events.message().await, note(&json!("a")));
        events.ends_with_error(code, "1").await;
    }
}

#[tokio::test]
async fn many_responses_are_read_in_no_time() {
    let site = reads(&["k49999"]);
    let responses: serde_json::Map<_, _> = (0..50_000).map(|n| (format!("k{n}"), json!({ "n": n }))).collect();
    let began = std::time::Instant::now();
    let result = site.ask(&calls("tools/call", &json!({ "inputResponses": responses }))).await.result("1");
    assert_eq!(result["read"], json!([{ "n": 49_999 }]));
    assert!(began.elapsed() < support::BOUND / 4, "{:?}", began.elapsed());
}

#[tokio::test]
async fn without_the_layer_it_says_what_to_do() {
    let app: Router = Router::new().route("/mcp", on_post(async |_: InputResponses| StatusCode::OK));
    let answer = Answer::of(app.oneshot(calls("tools/call", &json!({})).request()).await.unwrap()).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("McpLayer"), "{answer:?}");
}
