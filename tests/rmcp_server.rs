//! `rmcp`'s own Streamable HTTP service behind the layer, in each way in which it answers.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::HeaderMap;
use mcp_layer::{McpLayer, McpServerBuilder, Outcome};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequestParams, ElicitationSchema,
    ProgressNotificationParam, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use support::{
    Answer, BOUND, Connection, Era, INVALID_REQUEST, Live, Post, Probe, Site, cancel, error_of, initialize, post,
    request, result_of,
};

/// A tool that does what its arguments say, and notes what becomes of it.
#[derive(Clone)]
struct Tools(Arc<Probe>);

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (probe, arguments) = (&self.0, Value::Object(request.arguments.unwrap_or_default()));
        probe.note(format!("started {}", context.id));
        for progress in 0..arguments["steps"].as_u64().unwrap_or(0) {
            let token = context.meta.get_progress_token().unwrap();
            let note = ProgressNotificationParam::new(token, progress as f64);
            context.peer.notify_progress(note).await.unwrap();
        }
        if arguments["asks"] == true {
            let form = ElicitRequestParams::FormElicitationParams {
                meta: None,
                message: "Which?".to_owned(),
                requested_schema: ElicitationSchema::new(BTreeMap::new()),
            };
            let given = context.peer.create_elicitation(form).await.unwrap();
            probe.note(format!("given {:?}", given.action));
        }
        if let Some(gate) = arguments["gate"].as_str() {
            tokio::select! {
                () = probe.pass(gate) => {}
                () = context.ct.cancelled() => {
                    probe.note(format!("fired {}", context.id));
                    if let Some(gate) = arguments["stays_for"].as_str() {
                        probe.pass(gate).await;
                        probe.note(format!("returned {}", context.id));
                    }
                }
            }
        }
        if arguments["fails"] == true {
            return Err(ErrorData::internal_error("failed, as asked", None));
        }
        let text = arguments["text"].as_str().unwrap_or_default();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// How rmcp answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Json,
    Sse,
    Stateful,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Json, Self::Sse, Self::Stateful];

    fn service(self, probe: &Arc<Probe>) -> StreamableHttpService<Tools, LocalSessionManager> {
        let tools = Tools(Arc::clone(probe));
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(self == Self::Stateful)
            .with_json_response(self == Self::Json);
        StreamableHttpService::new(move || Ok(tools.clone()), Arc::new(LocalSessionManager::default()), config)
    }
}

/// A client of one of these servers, in a session if there are any.
struct Client {
    live: Live,
    session: Option<String>,
}

impl Client {
    async fn of(mode: Mode) -> Self {
        Self::with(mode, |options| options).await
    }

    async fn with(mode: Mode, options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Self {
        let app = |server: &_, probe: &_| {
            let service = mode.service(probe);
            Router::new().route_service("/mcp", service).layer(McpLayer::transparent(Clone::clone(server)))
        };
        Self::opened(mode, Site::build(options, app)).await
    }

    /// Without the layer.
    async fn bare(mode: Mode) -> Self {
        let app = |_: &_, probe: &_| Router::new().route_service("/mcp", mode.service(probe));
        Self::opened(mode, Site::build(|options| options, app)).await
    }

    async fn opened(mode: Mode, site: Site) -> Self {
        let mut client = Self { live: site.listen().await, session: None };
        if mode == Mode::Stateful {
            let opened = client.live.post(&opening()).await;
            client.session = opened.header("mcp-session-id").map(str::to_owned);
            client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.accepted();
        }
        client
    }

    fn within(&self, post: Post) -> Post {
        match &self.session {
            Some(session) => post.and("mcp-session-id", session),
            None => post,
        }
    }

    fn call(&self, era: Era, id: &str, arguments: &Value) -> Post {
        let params = json!({ "name": "tool", "arguments": arguments, "_meta": { "progressToken": "t" } });
        let post = era.call(id, &params);
        if era == Era::Modern { post } else { self.within(post) }
    }

    /// A call whose tool waits for the gate `gate`, once it has begun.
    async fn held(&self, era: Era, id: &str) -> Connection {
        self.begun(&self.call(era, id, &json!({ "gate": "gate", "text": "late" })), id).await
    }

    async fn begun(&self, post: &Post, id: &str) -> Connection {
        let mut connection = self.live.connect().await;
        connection.send(post.bytes()).await;
        self.live.probe.until(&format!("started {}", id.trim_matches('"'))).await;
        connection
    }

    async fn post(&self, message: &str) -> Answer {
        self.live.post(&self.within(post(message))).await
    }

    fn get(&self) -> Post {
        self.within(post("").method("GET").without("content-type").with("accept", "text/event-stream"))
    }
}

fn opening() -> Post {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "tests", "version": "0" },
    });
    post(initialize("0", &params)).without("mcp-protocol-version")
}

/// The message in an event, and its id.
fn read(event: &str) -> (Option<&str>, &str) {
    let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
    (field("id: "), field("data: ").unwrap_or_else(|| panic!("no data: {event:?}")))
}

/// The message of the next event that holds one, after those that prime the client.
async fn message(connection: &mut Connection) -> String {
    loop {
        let event = connection.event().await;
        if !read(&event).1.is_empty() {
            return read(&event).1.to_owned();
        }
    }
}

/// The only message of a reply, whichever form it has.
async fn only_message(connection: &mut Connection, streams: bool) -> String {
    if !streams {
        let answer = connection.answer().await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        return answer.text().to_owned();
    }
    let head = connection.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let message = message(connection).await;
    connection.end_of_stream().await;
    message
}

#[tokio::test]
async fn a_cancelled_call_is_answered_at_once_and_its_tool_is_told() {
    for mode in Mode::ALL {
        for id in ["1", r#""one""#, "9007199254740993"] {
            let client = Client::of(mode).await;
            let mut call = client.held(Era::Legacy, id).await;
            let asked = std::time::Instant::now();
            client.post(&cancel(id)).await.accepted();
            let answer = only_message(&mut call, mode != Mode::Json).await;
            error_of(&answer, Era::Legacy.cancelled(), Some(id));
            assert!(asked.elapsed() < Duration::from_secs(5), "{mode:?}: not at once");
            client.live.probe.until(&format!("fired {}", id.trim_matches('"'))).await;
            client.live.parked(0).await;
            assert_eq!(client.live.outcomes.count(Outcome::Cancelled), 1, "{mode:?}");
            assert_eq!(client.live.outcomes.count(Outcome::Replied), usize::from(mode == Mode::Stateful));
            // The connection is as good as before.
            let echo = client.call(Era::Legacy, "2", &json!({ "text": "hello" }));
            call.send(echo.bytes()).await;
            let answer = only_message(&mut call, mode != Mode::Json).await;
            assert_eq!(result_of(&answer, "2")["content"][0]["text"], "hello");
        }
    }
}

#[tokio::test]
async fn a_modern_call_is_cancelled_where_that_is_honoured() {
    for mode in Mode::ALL {
        for steps in [0, 2] {
            let client = Client::with(mode, |options| options.honour_modern_cancel(true)).await;
            let post = client.call(Era::Modern, "1", &json!({ "gate": "gate", "steps": steps }));
            let mut call = client.begun(&post, "1").await;
            if steps > 0 {
                call.head().await;
                for progress in [0.0, 1.0] {
                    let note: Value = serde_json::from_str(&message(&mut call).await).unwrap();
                    assert_eq!(note["params"]["progress"], progress);
                }
            }
            client.live.post(&post_cancel_modern("1")).await.accepted();
            if steps > 0 {
                error_of(&message(&mut call).await, Era::Modern.cancelled(), Some("1"));
                call.end_of_stream().await;
            } else {
                // rmcp has no head before its first message.
                call.answer().await.error(200, Era::Modern.cancelled(), "1");
            }
            client.live.probe.until("fired 1").await;
            client.live.parked(0).await;
        }
    }
}

fn post_cancel_modern(id: &str) -> Post {
    post(cancel(id))
        .with("mcp-protocol-version", support::modern(id, "x", &json!({})).header("mcp-protocol-version").unwrap())
        .and("mcp-method", "notifications/cancelled")
}

#[tokio::test]
async fn a_modern_client_that_leaves_stops_its_tool() {
    for mode in Mode::ALL {
        for steps in [0, 1] {
            let client = Client::of(mode).await;
            let post = client.call(Era::Modern, "1", &json!({ "gate": "gate", "steps": steps }));
            let mut call = client.begun(&post, "1").await;
            if steps > 0 {
                call.head().await;
                message(&mut call).await;
            }
            drop(call);
            client.live.probe.until("fired 1").await;
            client.live.parked(0).await;
            assert_eq!(client.live.outcomes.count(Outcome::Disconnected), 1, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_legacy_client_that_leaves_can_still_cancel() {
    for mode in Mode::ALL {
        let client = Client::of(mode).await;
        drop(client.held(Era::Legacy, "1").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
        // A stream that its client can come back for is left to rmcp.
        let parked = usize::from(mode != Mode::Stateful);
        assert_eq!((client.live.server.parked(), client.live.probe.count("fired 1")), (parked, 0), "{mode:?}");
        client.post(&cancel("1")).await.accepted();
        client.live.probe.until("fired 1").await;
        client.live.parked(0).await;
        assert_eq!(client.live.outcomes.count(Outcome::Cancelled), parked, "{mode:?}");
    }
}

#[tokio::test]
async fn a_legacy_client_that_leaves_comes_back_for_its_answer() {
    let client = Client::of(Mode::Stateful).await;
    let mut call = client.held(Era::Legacy, "1").await;
    call.head().await;
    let primed = call.event().await;
    let (id, _) = read(&primed);
    drop(call);
    let mut resumed = client.live.connect().await;
    resumed.send(client.get().and("last-event-id", id.unwrap()).bytes()).await;
    assert_eq!(resumed.head().await.status, 200);
    // The stream went over to the new connection, and with it what was parked here.
    client.live.parked(0).await;
    client.live.probe.open("gate");
    let answer = message(&mut resumed).await;
    assert_eq!(result_of(&answer, "1")["content"][0]["text"], "late");
    assert_eq!(client.live.probe.count("fired 1"), 0);
}

#[tokio::test]
async fn a_second_call_of_one_id_does_not_hang_the_first() {
    let client = Client::of(Mode::Stateful).await;
    let mut first = client.held(Era::Legacy, "1").await;
    let second = client.call(Era::Legacy, "1", &json!({ "text": "second" }));
    client.live.post(&second).await.error(400, INVALID_REQUEST, "1");
    assert_eq!(client.live.probe.count("started 1"), 1);
    client.live.probe.open("gate");
    let answer = only_message(&mut first, true).await;
    assert_eq!(result_of(&answer, "1")["content"][0]["text"], "late");
    let mut again = client.begun(&second, "1").await;
    assert_eq!(result_of(&only_message(&mut again, true).await, "1")["content"][0]["text"], "second");
}

#[tokio::test]
async fn what_a_tool_returns_after_its_cancel_goes_nowhere() {
    for mode in Mode::ALL {
        let client = Client::of(mode).await;
        let mut events = client.live.connect().await;
        if mode == Mode::Stateful {
            events.send(client.get().bytes()).await;
            assert_eq!(events.head().await.status, 200);
            assert_eq!(events.event().await, "data: \nid: 0\nretry: 3000");
        }
        let arguments = json!({ "gate": "gate", "stays_for": "stay", "text": "late" });
        let mut call = client.begun(&client.call(Era::Legacy, "1", &arguments), "1").await;
        client.live.parked(1).await;
        client.post(&cancel("1")).await.accepted();
        // The tool has not returned: nobody waits for it.
        error_of(&only_message(&mut call, mode != Mode::Json).await, Era::Legacy.cancelled(), Some("1"));
        client.live.probe.until("fired 1").await;
        client.live.probe.open("stay");
        client.live.probe.until("returned 1").await;
        // Another exchange on the same connection, and nothing before it.
        call.send(client.call(Era::Legacy, "2", &json!({ "text": "two" })).bytes()).await;
        assert_eq!(result_of(&only_message(&mut call, mode != Mode::Json).await, "2")["content"][0]["text"], "two");
        if mode == Mode::Stateful {
            client.live.post(&client.within(post("").method("DELETE"))).await;
            events.end_of_stream().await;
        }
    }
}

#[tokio::test]
async fn a_cancel_after_the_answer_changes_nothing() {
    for mode in Mode::ALL {
        let client = Client::of(mode).await;
        let mut call = client.held(Era::Legacy, "1").await;
        client.live.probe.open("gate");
        let answer = only_message(&mut call, mode != Mode::Json).await;
        assert_eq!(result_of(&answer, "1")["content"][0]["text"], "late");
        client.post(&cancel("1")).await.accepted();
        assert_eq!(client.live.outcomes.count(Outcome::Cancelled), 0);
    }
}

/// What goes over the wire, but for what differs from one time to the next.
fn comparable(mut answer: Answer) -> (u16, HeaderMap, Vec<u8>) {
    answer.headers.remove("date");
    if let Some(session) = answer.headers.get_mut("mcp-session-id") {
        *session = http::HeaderValue::from_static("a session");
    }
    (answer.status, answer.headers, answer.body.to_vec())
}

#[tokio::test]
async fn everything_else_passes_byte_for_byte() {
    for mode in Mode::ALL {
        let (bare, layered) = (Client::bare(mode).await, Client::of(mode).await);
        for make in [
            |client: &Client| client.call(Era::Legacy, "1", &json!({ "text": "one" })),
            |client: &Client| client.call(Era::Legacy, r#""two""#, &json!({ "text": "two", "steps": 3 })),
            |client: &Client| client.call(Era::Legacy, "3", &json!({ "fails": true, "steps": 1 })),
            |client: &Client| client.call(Era::Legacy, "4", &json!({ "fails": true })),
            |client: &Client| client.call(Era::Modern, "5", &json!({ "text": "five" })),
            |client: &Client| client.call(Era::Modern, "6", &json!({ "text": "six", "steps": 3 })),
            |client: &Client| client.call(Era::Modern, "7", &json!({ "fails": true })),
            |client: &Client| client.within(post(request("8", "tools/list", &json!({})))),
            |client: &Client| client.within(post(request("9", "nosuch", &json!({})))),
            |_: &Client| support::modern("10", "server/discover", &json!({})),
            |_: &Client| support::modern("11", "nosuch", &json!({})),
            |_: &Client| post(request("12", "tools/list", &json!({}))).and("mcp-session-id", "nosuch"),
            |_: &Client| post(request("13", "tools/list", &json!({}))),
            |client: &Client| client.within(post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)),
            |client: &Client| client.within(post(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#)),
            |_: &Client| post("").method("GET").with("accept", "text/event-stream"),
            |client: &Client| client.get().with("accept", "application/json"),
            |client: &Client| client.get().and("last-event-id", "99/99"),
            |_: &Client| post("").method("PUT"),
            |_: &Client| post("").method("DELETE"),
            |client: &Client| client.within(post("").method("DELETE")),
            |client: &Client| client.within(post("").method("DELETE")),
            |client: &Client| client.within(post(request("14", "tools/list", &json!({})))),
        ] {
            let request = make(&layered);
            let expected = comparable(bare.live.post(&make(&bare)).await);
            let passed = comparable(layered.live.post(&request).await);
            assert_eq!(passed, expected, "{mode:?} {request:?}");
        }
        layered.live.parked(0).await;
        let (expected, mut passed) = (bare.live.post(&opening()).await, layered.live.post(&opening()).await);
        if mode != Mode::Stateful {
            // So that its caller can be told from others.
            let session = passed.headers.remove("mcp-session-id").unwrap();
            assert!(session.to_str().unwrap().starts_with("mcpl-"), "{mode:?}");
        }
        assert_eq!(comparable(passed), comparable(expected), "{mode:?}");
    }
}

#[tokio::test]
async fn a_client_without_rmcp_sessions_has_one_of_the_layer() {
    for mode in [Mode::Json, Mode::Sse] {
        let mut client = Client::of(mode).await;
        client.session = client.live.post(&opening()).await.header("mcp-session-id").map(str::to_owned);
        let mut call = client.held(Era::Legacy, "1").await;
        // Of another caller.
        client.live.post(&post(cancel("1"))).await.accepted();
        assert_eq!(client.live.server.parked(), 1);
        client.post(&cancel("1")).await.accepted();
        error_of(&only_message(&mut call, mode == Mode::Sse).await, Era::Legacy.cancelled(), Some("1"));
        client.live.probe.until("fired 1").await;
    }
}

#[tokio::test]
async fn a_stream_is_primed_as_without_the_layer() {
    let client = Client::of(Mode::Stateful).await;
    let mut call = client.held(Era::Legacy, "1").await;
    let head = call.head().await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!((head.header("cache-control"), head.header("x-accel-buffering")), (Some("no-cache"), Some("no")));
    // Its client has it before there is any message.
    assert_eq!(call.event().await, "data: \nid: 0/0\nretry: 3000");
    client.live.probe.open("gate");
    let event = call.event().await;
    assert_eq!(read(&event).0, Some("1/0"));
    result_of(read(&event).1, "1");
    call.end_of_stream().await;
}

#[tokio::test]
async fn a_tool_asks_its_client() {
    let client = Client::of(Mode::Stateful).await;
    // Its own id, and later that of rmcp's question: they have nothing to do with each other.
    for id in ["0", "1"] {
        let mut call = client.live.connect().await;
        call.send(client.call(Era::Legacy, id, &json!({ "asks": true, "text": "asked" })).bytes()).await;
        call.head().await;
        let question: Value = serde_json::from_str(&message(&mut call).await).unwrap();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(client.live.server.parked(), 1);
        let given = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        client.post(&given.to_string()).await.accepted();
        let answer = message(&mut call).await;
        assert_eq!(result_of(&answer, id)["content"][0]["text"], "asked");
        call.end_of_stream().await;
    }
    assert_eq!(client.live.probe.count("given Decline"), 2);
}

#[tokio::test]
async fn a_call_that_asks_its_client_is_cancelled() {
    let client = Client::of(Mode::Stateful).await;
    let mut call = client.live.connect().await;
    call.send(client.call(Era::Legacy, "1", &json!({ "asks": true })).bytes()).await;
    call.head().await;
    assert!(message(&mut call).await.contains("elicitation/create"));
    client.post(&cancel("1")).await.accepted();
    error_of(&message(&mut call).await, Era::Legacy.cancelled(), Some("1"));
    call.end_of_stream().await;
}

#[tokio::test]
async fn a_session_ends_with_its_streams() {
    let client = Client::of(Mode::Stateful).await;
    let mut events = client.live.connect().await;
    events.send(client.get().bytes()).await;
    assert_eq!(events.head().await.status, 200);
    events.event().await;
    let delete = client.within(post("").method("DELETE"));
    assert_eq!(client.live.post(&delete).await.status, 202);
    events.end_of_stream().await;
    let late = client.live.post(&client.call(Era::Legacy, "1", &json!({}))).await;
    assert_eq!((late.status, late.text()), (404, "Not Found: Session not found"));
    client.live.parked(0).await;
}

/// What the TypeScript SDK 1.x does: it takes an error for no response, and comes back with the last event's id.
#[tokio::test]
async fn a_client_that_comes_back_after_the_error_is_told_that_nothing_follows() {
    let client = Client::of(Mode::Stateful).await;
    let mut call = client.held(Era::Legacy, "1").await;
    call.head().await;
    let primed = call.event().await;
    client.post(&cancel("1")).await.accepted();
    let last = call.event().await;
    call.end_of_stream().await;
    let (Some(before), (Some(id), error)) = (read(&primed).0, read(&last)) else { panic!("{primed:?} {last:?}") };
    error_of(error, Era::Legacy.cancelled(), Some("1"));
    assert_ne!(before, id);
    let resumed = client.live.post(&client.get().and("last-event-id", id)).await;
    resumed.error(405, INVALID_REQUEST, None);
    assert_eq!(resumed.header("allow"), Some("POST"));
    // rmcp itself ends each such stream at once, and the client would come back for ever.
    let resumed = client.live.post(&client.get().and("last-event-id", before)).await;
    assert_eq!((resumed.status, resumed.header("content-type")), (200, Some("text/event-stream")));
}

#[tokio::test]
async fn a_deadline_and_a_shutdown_end_a_call_and_stop_its_tool() {
    for mode in Mode::ALL {
        let timeout = Duration::from_millis(200);
        let client = Client::with(mode, |options| options.request_timeout(Some(timeout))).await;
        let mut call = client.held(Era::Legacy, "1").await;
        error_of(&only_message(&mut call, mode != Mode::Json).await, Era::Legacy.timed_out(), Some("1"));
        client.live.probe.until("fired 1").await;

        let client = Client::of(mode).await;
        let mut call = client.held(Era::Legacy, "1").await;
        client.live.parked(1).await;
        tokio::time::timeout(BOUND, client.live.server.shutdown(Duration::ZERO)).await.unwrap();
        error_of(&only_message(&mut call, mode != Mode::Json).await, Era::Legacy.shut_down(), Some("1"));
        client.live.probe.until("fired 1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_and_a_cancel_that_meet_are_one_answer() {
    const ROUNDS: usize = 300;
    for mode in Mode::ALL {
        let client = Client::of(mode).await;
        let mut cancels = client.live.connect().await;
        let mut events = client.live.connect().await;
        if mode == Mode::Stateful {
            events.send(client.get().bytes()).await;
            assert_eq!(events.head().await.status, 200);
        }
        let (mut answers, mut errors) = (0, 0);
        for round in 0..ROUNDS {
            let (id, gate) = (round.to_string(), format!("gate {round}"));
            let call = client.call(Era::Legacy, &id, &json!({ "gate": gate, "text": "late" }));
            let mut call = client.begun(&call, &id).await;
            // Whichever is first.
            if round % 2 == 0 {
                client.live.probe.open(&gate);
                cancels.send(client.within(post(cancel(&id))).bytes()).await;
            } else {
                cancels.send(client.within(post(cancel(&id))).bytes()).await;
                client.live.probe.open(&gate);
            }
            // A cancel may come before the head.
            let answer = call.answer().await;
            let streams = answer.header("content-type") == Some("text/event-stream");
            let messages = answer.text().lines().filter_map(|line| line.strip_prefix("data: "));
            let messages: Vec<_> = messages.filter(|message| !message.is_empty()).collect();
            let answer = if streams { messages.concat() } else { answer.text().to_owned() };
            if answer.contains(r#""error":"#) {
                error_of(&answer, Era::Legacy.cancelled(), Some(&id));
                errors += 1;
            } else {
                result_of(&answer, &id);
                answers += 1;
            }
            cancels.answer().await.accepted();
        }
        client.live.parked(0).await;
        assert_eq!(answers + errors, ROUNDS, "{mode:?}");
        assert!(answers > 0 && errors > 0, "{mode:?}: {answers} answers, {errors} cancels");
        if mode == Mode::Stateful {
            client.live.post(&client.within(post("").method("DELETE"))).await;
            let mut rest = events.rest_of_stream().await;
            rest.retain(|event| event.contains("jsonrpc"));
            assert!(rest.is_empty(), "nothing is answered here, too: {rest:?}");
        }
    }
}

/// A client that has left comes back once its tool has returned.
#[tokio::test]
async fn what_a_client_misses_is_there_as_without_the_layer() {
    let mut seen = Vec::new();
    for layered in [false, true] {
        let client = if layered { Client::of(Mode::Stateful).await } else { Client::bare(Mode::Stateful).await };
        for leaves in [true, false] {
            let id = if leaves { "1" } else { "2" };
            let arguments = json!({ "gate": format!("gate {id}"), "text": "late", "steps": 2 });
            let mut call = client.begun(&client.call(Era::Legacy, id, &arguments), id).await;
            call.head().await;
            let primed = call.event().await;
            let last = read(&primed).0.unwrap().to_owned();
            if leaves {
                drop(call);
                // Long enough for the server to see it.
                tokio::time::sleep(Duration::from_millis(100)).await;
                client.live.probe.open(&format!("gate {id}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            } else {
                client.live.probe.open(&format!("gate {id}"));
                message(&mut call).await;
            }
            let resumed = client.live.post(&client.get().and("last-event-id", &last)).await;
            seen.push((resumed.status, resumed.text().to_owned()));
        }
    }
    assert_eq!(seen[..2], seen[2..]);
}
