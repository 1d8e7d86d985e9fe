//! The state of `McpRouter`'s handlers, and their extractors.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use axum::extract::{Extension, FromRef, FromRequestParts, MatchedPath, OriginalUri, Path, Query, Request, State};
use axum::routing::{get, post as on_post};
use axum::{Json, Router};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use mcp_layer::{Arguments, CallToolResult, ExchangeInfo, McpLayer, McpMessage, McpRouter, Params, Reply, Tool};
use serde_json::{Value, json};

use support::{Era, Site, mcp, post, request};

fn on(app: impl FnOnce(McpLayer) -> Router) -> Site {
    Site::build(|options| options, |server, _| app(McpLayer::new(server.clone())))
}

#[derive(Clone, Debug)]
struct Prompts(Vec<&'static str>);

async fn prompts(State(Prompts(names)): State<Prompts>) -> Reply<Value> {
    Reply(json!(names))
}

fn stateful_tool() -> Tool<Prompts> {
    let call = async |State(Prompts(names)): State<Prompts>| CallToolResult::text(names.concat());
    Tool::with_schema("t", "A tool", json!({ "type": "object" }), call)
}

async fn has_state(site: &Site) {
    for era in Era::BOTH {
        let list = site.ask(&era.request("1", "prompts/list", &json!({}))).await;
        assert_eq!(list.result("1"), json!(["a", "b"]));
        let called = site.ask(&era.call("1", &json!({ "name": "t" }))).await.result("1");
        assert_eq!(called["content"][0]["text"], "ab");
    }
}

#[tokio::test]
async fn a_router_may_be_given_its_state() {
    let mcp = mcp().request("prompts/list", prompts).tool(stateful_tool()).with_state(Prompts(vec!["a", "b"]));
    has_state(&Site::serving(mcp)).await;
}

#[tokio::test]
async fn the_state_may_be_that_of_the_axum_router() {
    let mcp = mcp().request("prompts/list", prompts).tool(stateful_tool());
    let site = on(|layer| {
        Router::new()
            .route("/mcp", on_post(mcp))
            .route("/names", get(async |State(Prompts(names)): State<Prompts>| names.concat()))
            .layer(layer)
            .with_state(Prompts(vec!["a", "b"]))
    });
    has_state(&site).await;
    assert_eq!(site.ask(&post("").method("GET").to("/names")).await.text(), "ab");
    // Another method than POST is axum's business then, and it says the same.
    let refused = site.ask(&post("").method("DELETE")).await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
}

#[tokio::test]
async fn a_part_of_the_state_may_be_taken() {
    #[derive(Clone)]
    struct App {
        number: usize,
        prompts: Prompts,
    }
    impl FromRef<App> for Prompts {
        fn from_ref(app: &App) -> Self {
            app.prompts.clone()
        }
    }

    let number = async |State(app): State<App>| Reply(json!(app.number));
    let mcp = mcp().request("prompts/list", prompts).request("number", number);
    let app = App { number: 7, prompts: Prompts(vec!["x"]) };
    for site in [
        Site::serving(mcp.clone().with_state(app.clone())),
        on(|layer| Router::new().route("/mcp", on_post(mcp)).layer(layer).with_state(app)),
    ] {
        assert_eq!(site.ask(&post(request("1", "prompts/list", &json!({})))).await.result("1"), json!(["x"]));
        assert_eq!(site.ask(&post(request("1", "number", &json!({})))).await.result("1"), json!(7));
    }
}

#[tokio::test]
async fn routers_of_different_states_are_put_together() {
    let number = async |State(number): State<u8>| Reply(json!(number));
    let numbers = McpRouter::default().request("number", number).with_state(7);
    let own = mcp().request("prompts/list", prompts).tool(stateful_tool()).merge(numbers);
    let text = McpRouter::default().request("get", async |State(text): State<String>| Reply(json!(text)));
    let own = own.nest("text", text.with_state("t".to_owned()));
    let site = Site::serving(own.with_state(Prompts(vec!["a", "b"])));
    has_state(&site).await;
    assert_eq!(site.ask(&post(request("1", "number", &json!({})))).await.result("1"), json!(7));
    assert_eq!(site.ask(&post(request("1", "text/get", &json!({})))).await.result("1"), json!("t"));
}

#[tokio::test]
async fn a_router_that_has_its_state_fits_an_axum_router_of_any() {
    let mcp = mcp().request("prompts/list", prompts).tool(stateful_tool());
    let state = Prompts(vec!["a", "b"]);
    let as_handler = mcp.clone().with_state::<u8>(state.clone());
    has_state(&on(|layer| Router::new().route("/mcp", on_post(as_handler)).layer(layer).with_state(7_u8))).await;
    let as_service = mcp.with_state(state);
    has_state(&on(|layer| Router::<u8>::new().route_service("/mcp", as_service).layer(layer).with_state(7))).await;
}

#[derive(Clone)]
struct User(&'static str);

/// An extractor of the user's own.
struct Agent(String);

impl<S: Sync> FromRequestParts<S> for Agent {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let agent = parts.headers.get("user-agent").and_then(|agent| agent.to_str().ok());
        agent.map(|agent| Self(agent.to_owned())).ok_or((StatusCode::FORBIDDEN, "who are you?"))
    }
}

#[tokio::test]
async fn any_extractor_serves() {
    #[expect(clippy::too_many_arguments, reason = "to have so many is the point")]
    async fn all(
        Path(tenant): Path<String>,
        Query(query): Query<Vec<(String, String)>>,
        path: MatchedPath,
        OriginalUri(uri): OriginalUri,
        Extension(User(user)): Extension<User>,
        Agent(agent): Agent,
        method: Method,
        message: McpMessage,
        info: ExchangeInfo,
        Params(params): Params<Value>,
        headers: HeaderMap,
        Json(body): Json<Value>,
    ) -> Reply<Value> {
        Reply(json!([
            tenant,
            query,
            path.as_str(),
            uri.path(),
            user,
            agent,
            method.as_str(),
            message.method(),
            info.id().unwrap(),
            params["a"],
            headers["x-own"].to_str().unwrap(),
            body["method"],
        ]))
    }
    async fn raw(request: Request) -> Reply<Value> {
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
        Reply(json!(String::from_utf8(body.into()).unwrap()))
    }

    let mcp: McpRouter = mcp().request("all", all).request("raw", raw);
    let inner = Router::new().route("/{tenant}/mcp", on_post(mcp)).layer(Extension(User("u")));
    let site = on(|layer| Router::new().nest("/api", inner).layer(layer));
    let asks = |method| post(request("\"7\"", method, &json!({ "a": 1 }))).to("/api/t%20x/mcp?k=v").and("x-own", "o");
    let expected = json!([
        "t x",
        [["k", "v"]],
        "/api/{tenant}/mcp",
        "/api/t%20x/mcp",
        "u",
        "curl",
        "POST",
        "all",
        "7",
        1,
        "o",
        "all",
    ]);
    assert_eq!(site.ask(&asks("all").and("user-agent", "curl")).await.result("\"7\""), expected);
    let refused = site.ask(&asks("all")).await;
    assert_eq!((refused.status, refused.text()), (403, "who are you?"));
    assert_eq!(site.ask(&asks("raw")).await.result("\"7\""), request("\"7\"", "raw", &json!({ "a": 1 })));
}

#[tokio::test]
async fn a_tool_takes_any_extractor_too() {
    async fn call(
        State(Prompts(names)): State<Prompts>,
        Path(tenant): Path<String>,
        Agent(agent): Agent,
        Arguments(arguments): Arguments<Value>,
    ) -> CallToolResult {
        CallToolResult::structured(json!({ "all": [names, tenant, agent, arguments] }))
    }

    let tool = Tool::with_schema("t", "A tool", json!({ "type": "object" }), call);
    let mcp = mcp().tool(tool).with_state::<()>(Prompts(vec!["a"]));
    let site = on(|layer| Router::new().route("/{tenant}", on_post(mcp)).layer(layer));
    for era in Era::BOTH {
        let call = era.call("1", &json!({ "name": "t", "arguments": { "b": 1 } })).to("/x");
        let result = site.ask(&call.clone().and("user-agent", "curl")).await.result("1");
        assert_eq!(result["structuredContent"], json!({ "all": [["a"], "x", "curl", { "b": 1 }] }));
        assert_eq!(site.ask(&call).await.status, 403);
    }
}
