//! What `McpRouter` answers by itself: `initialize`, `ping`, `server/discover`, and what it says of its server there.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::response::IntoResponse;
use http::StatusCode;
use mcp_layer::{
    CallToolResult, ExchangeInfo, McpError, McpRouter, McpServerBuilder, Params, ProtocolVersion, Reply, ServerInfo,
    Tool,
};
use serde_json::{Value, json};

use support::{
    Answer, Era, INVALID_REQUEST, METHOD_NOT_FOUND, MODERN, Post, Site, UNSUPPORTED_VERSION, completed, initialize,
    mcp, modern, post, request,
};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

fn hello(params: &Value) -> Post {
    post(initialize("0", params)).without("mcp-protocol-version")
}

fn discover() -> Post {
    modern("0", "server/discover", &json!({}))
}

async fn empty() -> Reply<Value> {
    Reply(json!({}))
}

fn tool<S: Clone + Send + Sync + 'static>() -> Tool<S> {
    Tool::with_schema("t", "A tool", json!({ "type": "object" }), async || CallToolResult::text("t"))
}

/// The capabilities that the router declares to clients of the two eras.
async fn capabilities(mcp: McpRouter) -> [Value; 2] {
    let site = Site::serving(mcp);
    let legacy = site.ask(&hello(&json!({ "protocolVersion": "2025-11-25" }))).await.result("0");
    let modern = site.ask(&discover()).await.result("0");
    [legacy["capabilities"].clone(), modern["capabilities"].clone()]
}

#[tokio::test]
async fn initialize_says_all_that_a_client_has_to_know() {
    let site = Site::serving(mcp());
    let answer = site.ask(&hello(&json!({ "protocolVersion": "2025-06-18", "capabilities": {} }))).await;
    let expected = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "serverInfo": { "name": "test", "version": "1.2.3" },
    });
    assert_eq!(answer.result("0"), expected);
    assert!(answer.header("mcp-session-id").unwrap().starts_with("mcpl-"));
}

#[tokio::test]
async fn discover_says_all_that_a_client_has_to_know() {
    let answer = Site::serving(mcp()).ask(&discover()).await;
    let expected = json!({
        "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
        "capabilities": {},
        "ttlMs": 60_000,
        "cacheScope": "private",
    });
    assert_eq!(answer.result("0"), completed(Era::Modern, &expected));
    assert_eq!(answer.header("mcp-session-id"), None);
}

#[tokio::test]
async fn a_server_may_say_more_of_itself() {
    let info = ServerInfo::new("n", "1").title("T").description("D\n\"").website_url("https://example.com");
    let expected = json!({
        "name": "n", "version": "1", "title": "T", "description": "D\n\"", "websiteUrl": "https://example.com",
    });
    let site = Site::serving(McpRouter::new(info).instructions("Ask\nfirst.").request("x", empty));
    let result = site.ask(&hello(&json!({}))).await.result("0");
    assert_eq!((&result["serverInfo"], &result["instructions"]), (&expected, &json!("Ask\nfirst.")));
    let result = site.ask(&discover()).await.result("0");
    assert_eq!((&result["_meta"][SERVER_INFO], &result["instructions"]), (&expected, &json!("Ask\nfirst.")));
    let result = site.ask(&modern("1", "x", &json!({}))).await.result("1");
    assert_eq!(result, json!({ "resultType": "complete", "_meta": { SERVER_INFO: expected } }));
}

#[tokio::test]
async fn initialize_negotiates_the_version() {
    let site = Site::serving(mcp());
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let result = site.ask(&hello(&json!({ "protocolVersion": version }))).await.result("0");
        assert_eq!(result["protocolVersion"], version);
    }
    // What is not served, is modern, or is no version at all gets the latest that has an `initialize`.
    for params in [
        json!({ "protocolVersion": "2099-01-01" }),
        json!({ "protocolVersion": "2024-11-05" }),
        json!({ "protocolVersion": MODERN }),
        json!({ "protocolVersion": "" }),
        json!({ "protocolVersion": 7 }),
        json!({ "protocolVersion": null }),
        json!({ "protocolVersion": ["2025-06-18"] }),
        json!({}),
        json!([]),
        json!(null),
    ] {
        for header in [None, Some("2025-03-26"), Some("2099-01-01"), Some("junk")] {
            let asks = hello(&params);
            let asks = header.map_or(asks.clone(), |header| asks.and("mcp-protocol-version", header));
            let result = site.ask(&asks).await.result("0");
            assert_eq!(result["protocolVersion"], "2025-11-25", "{params} {header:?}");
        }
    }
}

#[tokio::test]
async fn initialize_is_a_stream_for_clients_that_take_nothing_else() {
    let answer = Site::serving(mcp()).ask(&hello(&json!({})).with("accept", "text/event-stream")).await;
    let result = support::result_of(answer.event(), "0");
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert!(answer.header("mcp-session-id").unwrap().starts_with("mcpl-"));
}

fn serving(versions: &'static [ProtocolVersion]) -> Site {
    let versions = |options: McpServerBuilder| options.versions(versions.iter().copied());
    Site::serving_with(versions, mcp())
}

#[tokio::test]
async fn only_versions_that_are_served_are_negotiated_and_named() {
    use ProtocolVersion as V;

    let site = serving(&[V::V2025_06_18, V::V2026_07_28]);
    for asked in ["2025-03-26", "2025-06-18", "2025-11-25", MODERN, "2099-01-01"] {
        let result = site.ask(&hello(&json!({ "protocolVersion": asked }))).await.result("0");
        assert_eq!(result["protocolVersion"], "2025-06-18", "{asked}");
    }
    let supported = json!(["2026-07-28", "2025-06-18"]);
    assert_eq!(site.ask(&discover()).await.result("0")["supportedVersions"], supported);

    let legacy_only = serving(&[V::V2025_03_26, V::V2025_11_25]);
    let result = legacy_only.ask(&hello(&json!({ "protocolVersion": "2025-06-18" }))).await.result("0");
    assert_eq!(result["protocolVersion"], "2025-11-25");
    legacy_only.ask(&discover()).await.error(400, INVALID_REQUEST, "0");
    legacy_only.ask(&post(request("0", "server/discover", &json!({})))).await.error(200, METHOD_NOT_FOUND, "0");

    let modern_only = serving(&[V::V2026_07_28]);
    assert_eq!(modern_only.ask(&discover()).await.result("0")["supportedVersions"], json!([MODERN]));
    let refused = modern_only.ask(&hello(&json!({ "protocolVersion": "2025-11-25" }))).await;
    let data = refused.error(400, UNSUPPORTED_VERSION, "0").data.unwrap();
    assert_eq!(data, json!({ "supported": [MODERN], "requested": "2025-11-25" }));
    assert_eq!(refused.header("mcp-session-id"), None);
}

#[tokio::test]
async fn ping_is_for_legacy_clients() {
    let site = Site::serving(mcp());
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let ping = post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).with("mcp-protocol-version", version);
        assert_eq!(site.ask(&ping).await.result("1"), json!({}));
    }
    let unversioned = post(request("1", "ping", &json!({ "x": 1 }))).without("mcp-protocol-version");
    assert_eq!(site.ask(&unversioned).await.result("1"), json!({}));
    site.ask(&modern("1", "ping", &json!({}))).await.error(404, METHOD_NOT_FOUND, "1");
}

#[tokio::test]
async fn what_is_built_in_can_be_replaced() {
    async fn initialize(info: ExchangeInfo, Params(params): Params<Value>) -> Reply<Value> {
        Reply(json!({ "own": params["protocolVersion"], "version": info.version().as_str() }))
    }
    async fn refuse() -> McpError {
        McpError::new(-7, "not now")
    }

    let mcp = mcp()
        .request("initialize", initialize)
        .request("ping", async || Reply(json!({ "own": 1 })))
        .request("server/discover", async || Reply(json!({ "own": 2, "cacheScope": "public" })))
        .request("tools/list", async || Reply(json!({ "tools": [], "ttlMs": 5 })))
        .request("tools/call", refuse)
        .tool(tool());
    let site = Site::serving(mcp);
    let answer = site.ask(&hello(&json!({ "protocolVersion": "2025-06-18" }))).await;
    assert_eq!(answer.result("0"), json!({ "own": "2025-06-18", "version": "2025-06-18" }));
    assert!(answer.header("mcp-session-id").unwrap().starts_with("mcpl-"));
    assert_eq!(site.ask(&post(request("1", "ping", &json!({})))).await.result("1"), json!({ "own": 1 }));
    let discovered = json!({ "own": 2, "cacheScope": "public", "ttlMs": 0 });
    assert_eq!(site.ask(&discover()).await.result("0"), completed(Era::Modern, &discovered));
    for era in Era::BOTH {
        let listed = site.ask(&era.request("1", "tools/list", &json!({}))).await.result("1");
        let mut expected = completed(era, &json!({ "tools": [], "ttlMs": 5 }));
        if era == Era::Modern {
            expected["cacheScope"] = "private".into();
        }
        assert_eq!(listed, expected);
        site.ask(&era.call("1", &json!({ "name": "t" }))).await.error(200, -7, "1");
    }
}

#[tokio::test]
async fn an_initialize_of_its_own_that_fails_opens_no_session() {
    let unauthorized = (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]);
    for (mcp, status) in [
        (mcp().request("initialize", async || McpError::new(-7, "no")), 200),
        (mcp().request("initialize", async move || unauthorized.into_response()), 401),
    ] {
        let answer = Site::serving(mcp).ask(&hello(&json!({}))).await;
        assert_eq!((answer.status, answer.header("mcp-session-id")), (status, None));
    }
}

#[tokio::test]
async fn capabilities_are_those_that_the_methods_tell_of() {
    let same = |capabilities: Value| [capabilities.clone(), capabilities];
    assert_eq!(capabilities(mcp()).await, same(json!({})));
    assert_eq!(capabilities(mcp().tool(tool())).await, same(json!({ "tools": {} })));
    for (method, capability) in [
        ("completion/complete", "completions"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/read", "resources"),
        ("resources/templates/list", "resources"),
        ("tools/list", "tools"),
    ] {
        assert_eq!(capabilities(mcp().request(method, empty)).await, same(json!({ capability: {} })), "{method}");
        // A notification of that name is another thing, and so is a method of a nested router.
        let other = mcp().notification(method, empty).nest("x", McpRouter::default().request(method, empty));
        assert_eq!(capabilities(other).await, same(json!({})), "{method}");
    }
    assert_eq!(capabilities(mcp().nest("prompts", McpRouter::default().request("list", empty))).await, {
        same(json!({ "prompts": {} }))
    });
    assert_eq!(capabilities(mcp().fallback(empty)).await, same(json!({})));
}

#[tokio::test]
async fn a_capability_of_one_era_is_not_declared_in_the_other() {
    let mcp = mcp().request("logging/setLevel", empty).request("resources/subscribe", empty);
    let legacy = json!({ "logging": {}, "resources": { "subscribe": true } });
    assert_eq!(capabilities(mcp.clone()).await, [legacy.clone(), json!({})]);
    let with_list = mcp.request("resources/list", empty);
    assert_eq!(capabilities(with_list).await, [legacy, json!({ "resources": {} })]);
}

#[tokio::test]
async fn a_declared_capability_takes_the_place_of_what_the_methods_tell() {
    let mcp = mcp()
        .tool(tool())
        .request("prompts/list", empty)
        .capability("tools", json!({ "listChanged": true }))
        .capability("prompts", json!({ "listChanged": false }))
        .capability("prompts", json!({ "listChanged": true }))
        .capability("extensions", json!({ "com.example/x": {} }));
    let expected = json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "extensions": { "com.example/x": {} },
    });
    assert_eq!(capabilities(mcp).await, [expected.clone(), expected]);
}

#[tokio::test]
async fn what_is_built_in_is_the_same_each_time() {
    let mcp = ["a", "b", "c", "d", "e"].into_iter().fold(mcp(), |mcp, name| mcp.capability(name, json!({})));
    let (site, again) = (Site::serving(mcp.clone()), Site::serving(mcp));
    for request in [post(initialize("0", &json!({}))), discover()] {
        let first = site.ask(&request).await;
        for answer in [site.ask(&request).await, again.ask(&request).await] {
            assert_eq!(answer.text(), first.text());
        }
    }
}

#[tokio::test]
async fn a_router_without_a_name_is_a_server_without_one() {
    let site = Site::serving(McpRouter::default().request("x", empty).tool(tool()));
    // Nothing of it is a name that the router has no business to invent; all of it is JSON, and what a schema asks for.
    let result = site.ask(&hello(&json!({}))).await.result("0");
    assert!(result["serverInfo"]["name"].is_string() && result["serverInfo"]["version"].is_string(), "{result}");
    for method in ["x", "server/discover", "tools/list"] {
        let answer: Answer = site.ask(&modern("1", method, &json!({}))).await;
        let result = answer.result("1");
        assert_eq!(result["resultType"], "complete");
        let info = result.get("_meta").and_then(|meta| meta.get(SERVER_INFO));
        assert!(info.is_none_or(|info| info["name"].is_string() && info["version"].is_string()), "{result}");
    }
    site.ask(&Era::Modern.call("1", &json!({ "name": "t" }))).await.result("1");
}
