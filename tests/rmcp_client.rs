//! A router on a socket, and rmcp's client, the official one in Rust: what both say to each other is up to them.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use mcp_layer::{
    Arguments, CallToolResult, Cancellation, Change, Client, ClientError, ExchangeInfo, InputRequired, InputResponses,
    McpLayer, McpMessage, McpRouter, McpServerBuilder, Notifier, Outcome, ProtocolVersion, Reply, ServerInfo,
    Subscriptions, Tool,
};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, Implementation, ProgressNotificationParam,
    ProtocolVersion as Version, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, QuitReason,
    RequestContext, RoleClient, RunningService, SubscriptionEnd,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ServiceError};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use support::{BOUND, Era, Live, Probe, Site, until};

async fn in_time<T>(task: impl Future<Output = T>) -> T {
    timeout(BOUND, task).await.expect("in time")
}

/// A server with tools, and what tells its subscribers of changes.
struct Workshop {
    live: Live,
    subscriptions: Subscriptions,
}

impl Workshop {
    async fn open() -> Self {
        Self::with(|options| options).await
    }

    async fn with(options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Self {
        let subscriptions = Subscriptions::new();
        let mcp = router().subscriptions(&subscriptions);
        let site = Site::build(options, |server, probe| {
            let mcp = mcp.with_state(Arc::clone(probe));
            Router::new().route_service("/mcp", mcp).layer(McpLayer::new(server.clone()))
        });
        Self { live: site.listen().await, subscriptions }
    }

    async fn visit(&self, era: Era) -> Visit {
        self.enter(Host::default(), lifecycle(era)).await.unwrap()
    }

    async fn enter(&self, host: Host, lifecycle: ClientLifecycleMode) -> Result<Visit, ClientInitializeError> {
        let transport = StreamableHttpClientTransport::from_uri(format!("http://{}/mcp", self.live.address));
        in_time(host.serve_with_lifecycle(transport, lifecycle)).await
    }

    fn ended(&self) -> usize {
        self.live.outcomes.all().len()
    }

    /// The end of the exchange that is the first one to end after this many.
    async fn outcome_after(&self, ended: usize) -> Outcome {
        until(|| self.ended() > ended).await;
        self.live.outcomes.all()[ended].1
    }
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![Version::V_2026_07_28] },
    }
}

fn router() -> McpRouter<Arc<Probe>> {
    let object = json!({ "type": "object" });
    let text = json!({
        "type": "object",
        "properties": { "text": { "type": "string", "x-mcp-header": "Text" } },
        "required": ["text"],
    });
    McpRouter::new(ServerInfo::new("workshop", "1.0.0"))
        .instructions("Ask politely.")
        .tool(Tool::with_schema("doubt", "Asks, and does not wait for the answer", object.clone(), doubt))
        .tool(Tool::with_schema("echo", "Returns its text", object.clone(), echo))
        .tool(Tool::with_schema("greet", "Asks for a name", object.clone(), greet))
        .tool(Tool::with_schema("hold", "Waits for its gate", object.clone(), hold))
        .tool(Tool::with_schema("label", "Returns its text, and the header with it", text, label).title("Label"))
        .tool(Tool::with_schema("obey", "Waits until it is told to stop", object, obey))
        .tool(Tool::with_schema("welcome", "Asks for a name", json!({ "type": "object" }), welcome))
        .notification("notifications/cancelled", heard)
        .request("resources/read", read)
}

async fn echo(Arguments(arguments): Arguments<Value>) -> CallToolResult {
    CallToolResult::text(arguments["text"].as_str().unwrap())
}

async fn label(headers: HeaderMap, Arguments(arguments): Arguments<Value>) -> CallToolResult {
    let header = headers.get("mcp-param-text").map(|text| text.to_str().unwrap());
    CallToolResult::structured(json!({ "text": arguments["text"], "header": header }))
}

async fn hold(State(probe): State<Arc<Probe>>, notifier: Notifier, arguments: Arguments<Value>) -> CallToolResult {
    let mut work = Work::begin(&probe, &notifier, &arguments);
    probe.pass(&work.name).await;
    work.is_done = true;
    CallToolResult::text(&work.name)
}

async fn obey(
    State(probe): State<Arc<Probe>>,
    notifier: Notifier,
    token: Cancellation,
    arguments: Arguments<Value>,
) -> CallToolResult {
    let mut work = Work::begin(&probe, &notifier, &arguments);
    let outcome = token.cancelled().await;
    work.is_done = true;
    probe.note(format!("{} was told {outcome:?} {:?}", work.name, token.reason()));
    CallToolResult::text(&work.name)
}

/// Asks in the way of the client's version, with a state where there is one.
async fn greet(info: ExchangeInfo, client: Client, responses: InputResponses) -> Result<Response, ClientError> {
    let answer = match responses.get("name") {
        Some(answer) => answer.clone(),
        None if info.version().is_modern() => {
            let required = InputRequired::of("name", "elicitation/create", question("Your name?"));
            return Ok(required.state("asked").into_response());
        }
        None => client.request("elicitation/create", question("Your name?")).await?,
    };
    Ok(CallToolResult::structured(json!({ "answer": answer, "state": responses.state() })).into_response())
}

/// Asks twice, and leaves the way to the library.
async fn welcome(client: Client) -> Result<CallToolResult, ClientError> {
    let name: Value = client.ask("name", "elicitation/create", question("Your name?")).await?;
    let again: Value = client.ask("again", "elicitation/create", question("Your name, again?")).await?;
    Ok(CallToolResult::structured(json!([name["content"], again["content"]])))
}

async fn doubt(State(probe): State<Arc<Probe>>, client: Client) -> CallToolResult {
    tokio::select! {
        answer = client.request::<Value>("elicitation/create", question("Anybody?")) => panic!("{answer:?}"),
        () = probe.pass("doubt") => CallToolResult::text("never mind"),
    }
}

fn question(message: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    json!({ "mode": "form", "message": message, "requestedSchema": schema })
}

async fn read(message: McpMessage) -> Reply<Value> {
    let params: Value = message.params().unwrap();
    Reply(json!({ "contents": [{ "uri": params["uri"], "text": "a page" }] }))
}

async fn heard(State(probe): State<Arc<Probe>>, message: McpMessage) {
    probe.note(format!("heard {}", message.as_str()));
}

/// A call of the tools `hold` and `obey`, which says how it went.
struct Work {
    is_done: bool,
    name: String,
    probe: Arc<Probe>,
}

impl Work {
    /// Its steps go out before the answer, which makes a stream of it.
    fn begin(probe: &Arc<Probe>, notifier: &Notifier, Arguments(arguments): &Arguments<Value>) -> Self {
        let name = arguments["name"].as_str().unwrap().to_owned();
        for step in arguments["steps"].as_array().into_iter().flatten() {
            notifier.progress(step.as_f64().unwrap(), Some(2.5), Some(&name));
        }
        probe.note(format!("{name} has begun"));
        Self { is_done: false, name, probe: Arc::clone(probe) }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.is_done {
            self.probe.note(format!("{} was dropped", self.name));
        }
    }
}

type Visit = RunningService<RoleClient, Host>;

/// The application that the client is in, and its user.
#[derive(Debug)]
struct Host {
    config: ClientConfig,
    heard: watch::Sender<Vec<Heard>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Progress { name: String, progress: f64, total: Option<f64> },
    Question(String),
    TakenBack,
}

impl Default for Host {
    fn default() -> Self {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        let config = ClientConfig::new(capabilities, Implementation::new("host", "1.0.0"));
        Self { config, heard: watch::Sender::default() }
    }
}

impl Host {
    fn of_version(version: Version) -> Self {
        let mut host = Self::default();
        host.config.protocol_version = version;
        host
    }

    fn hears(&self, what: Heard) {
        self.heard.send_modify(|heard| heard.push(what));
    }

    async fn until_heard(&self, what: &[Heard]) {
        let mut heard = self.heard.subscribe();
        let is_heard = in_time(heard.wait_for(|heard| what.iter().all(|one| heard.contains(one)))).await.is_ok();
        assert!(is_heard);
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, note: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.hears(Heard::Progress { name: note.message.unwrap(), progress: note.progress, total: note.total });
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else { panic!("{request:?}") };
        self.hears(Heard::Question(message.clone()));
        if message == "Anybody?" {
            context.ct.cancelled().await;
            self.hears(Heard::TakenBack);
        }
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "name": "Ada" })))
    }
}

fn call(tool: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())
}

/// The same on a task of its own.
fn begin(visit: &Visit, call: CallToolRequestParams) -> JoinHandle<Result<rmcp::model::CallToolResult, ServiceError>> {
    let peer = visit.peer().clone();
    tokio::spawn(async move { peer.call_tool(call).await })
}

async fn text(call: impl Future<Output = Result<rmcp::model::CallToolResult, ServiceError>>) -> String {
    let result = in_time(call).await.unwrap();
    assert_ne!(result.is_error, Some(true));
    result.content[0].as_text().unwrap().text.clone()
}

async fn structured(visit: &Visit, call: CallToolRequestParams) -> Value {
    in_time(visit.call_tool(call)).await.unwrap().structured_content.unwrap()
}

async fn echoes(visit: &Visit) {
    assert_eq!(text(visit.call_tool(call("echo", &json!({ "text": "on" })))).await, "on");
}

/// How a host gives up a call that is at work.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It drops the future of the call.
    Abandon,
    Cancel,
    TimeOut,
}

impl Way {
    const ALL: [Self; 3] = [Self::Abandon, Self::Cancel, Self::TimeOut];

    /// What rmcp gives as the reason.
    fn reason(self) -> &'static str {
        match self {
            Self::Abandon => "request abandoned by the caller",
            Self::Cancel => "enough",
            Self::TimeOut => "request timeout",
        }
    }

    /// Makes this call and gives it up once it is at work; the host is free again right then.
    async fn give_up(self, visit: &Visit, call: CallToolRequestParams, at_work: impl Future<Output = ()>) {
        if matches!(self, Self::Abandon) {
            let call = begin(visit, call);
            at_work.await;
            call.abort();
            assert!(in_time(call).await.unwrap_err().is_cancelled());
            return;
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(call));
        let mut handle = visit.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
        at_work.await;
        let error = match self {
            Self::TimeOut => {
                handle.options.timeout = Some(Duration::ZERO);
                in_time(handle.await_response()).await
            }
            _ => {
                // The handle is used up, so its answer is taken out first.
                let answer = replace(&mut handle.rx, oneshot::channel().1);
                in_time(handle.cancel(Some(self.reason().to_owned()))).await.unwrap();
                in_time(answer).await.unwrap()
            }
        };
        match (self, error.unwrap_err()) {
            (Self::Cancel, ServiceError::Cancelled { reason }) => assert_eq!(reason.as_deref(), Some(self.reason())),
            (Self::TimeOut, ServiceError::Timeout { .. }) => {}
            (_, error) => panic!("{self:?}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn each_version_is_agreed_on() {
    let workshop = Workshop::open().await;
    let ask = ClientLifecycleMode::Auto { preferred_versions: vec![Version::V_2026_07_28], legacy_version: None };
    for (version, lifecycle, agreed) in [
        (Version::V_2025_03_26, lifecycle(Era::Legacy), Version::V_2025_03_26),
        (Version::V_2025_06_18, lifecycle(Era::Legacy), Version::V_2025_06_18),
        (Version::V_2025_11_25, lifecycle(Era::Legacy), Version::V_2025_11_25),
        // As rmcp does by default, though this version has no `initialize`.
        (Version::V_2026_07_28, lifecycle(Era::Legacy), Version::V_2025_11_25),
        (Version::V_2026_07_28, lifecycle(Era::Modern), Version::V_2026_07_28),
        (Version::V_2025_11_25, ask, Version::V_2026_07_28),
    ] {
        let visit = workshop.enter(Host::of_version(version), lifecycle).await.unwrap();
        let server = visit.peer_info().unwrap();
        assert_eq!(server.protocol_version, agreed);
        assert_eq!(server.server_info.as_ref().unwrap().name, "workshop");
        assert_eq!(server.instructions.as_deref(), Some("Ask politely."));
        let list_changed = server.capabilities.tools.as_ref().unwrap().list_changed;
        assert_eq!(list_changed, (agreed == Version::V_2026_07_28).then_some(true));
        echoes(&visit).await;
        assert!(matches!(in_time(visit.cancel()).await.unwrap(), QuitReason::Cancelled));
    }
}

#[tokio::test]
async fn a_client_of_both_eras_takes_the_one_that_is_served() {
    for version in ProtocolVersion::ALL {
        let workshop = Workshop::with(|options| options.versions([version])).await;
        let ask = ClientLifecycleMode::Auto { preferred_versions: vec![Version::V_2026_07_28], legacy_version: None };
        let visit = workshop.enter(Host::default(), ask).await.unwrap();
        assert_eq!(visit.peer_info().unwrap().protocol_version.as_str(), version.as_str());
        echoes(&visit).await;
    }
}

#[tokio::test]
async fn a_client_of_the_other_era_is_refused() {
    let of_the_other = [(Era::Legacy, ProtocolVersion::V2026_07_28), (Era::Modern, ProtocolVersion::V2025_11_25)];
    for (era, version) in of_the_other {
        let workshop = Workshop::with(|options| options.versions([version])).await;
        let refused = workshop.enter(Host::default(), lifecycle(era)).await.unwrap_err();
        assert!(matches!(refused, ClientInitializeError::JsonRpcError(_)), "{refused:?}");
    }
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let workshop = Workshop::open().await;
    for (era, header) in [(Era::Legacy, Value::Null), (Era::Modern, json!("=?base64?w6Q=?="))] {
        let visit = workshop.visit(era).await;
        let tools = in_time(visit.list_all_tools()).await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["doubt", "echo", "greet", "hold", "label", "obey", "welcome"]);
        let label = &tools[4];
        assert_eq!(label.title.as_deref(), Some("Label"));
        assert_eq!(label.input_schema["required"], json!(["text"]));
        echoes(&visit).await;
        // A modern client has read in the list that it is to repeat the text in a header.
        let labelled = structured(&visit, call("label", &json!({ "text": "ä" }))).await;
        assert_eq!(labelled, json!({ "text": "ä", "header": header }));
    }
}

#[tokio::test]
async fn calls_at_the_same_time_have_answers_of_their_own() {
    let workshop = Workshop::open().await;
    for era in Era::BOTH {
        let visit = workshop.visit(era).await;
        let names = ["a", "b", "c"].map(|name| format!("{era:?} {name}"));
        let calls = names.clone().map(|name| begin(&visit, call("hold", &json!({ "name": name }))));
        workshop.live.parked(3).await;
        for (name, call) in names.iter().zip(calls).rev() {
            workshop.live.probe.open(name);
            assert_eq!(text(async { call.await.unwrap() }).await, *name);
        }
    }
}

#[tokio::test]
async fn errors_reach_whoever_called() {
    let workshop = Workshop::open().await;
    for era in Era::BOTH {
        let visit = workshop.visit(era).await;
        let code = |error| match error {
            ServiceError::McpError(error) => error.code.0,
            error => panic!("{era:?}: {error:?}"),
        };
        let unknown_tool = in_time(visit.call_tool(call("nothing", &json!({})))).await.unwrap_err();
        assert_eq!(code(unknown_tool), -32602);
        // For a modern client this is HTTP status 404, which in legacy versions would tell of a session that is lost.
        let unknown_method = in_time(visit.list_all_prompts()).await.unwrap_err();
        assert_eq!(code(unknown_method), -32601);
        let panic = in_time(visit.call_tool(call("hold", &json!({})))).await.unwrap_err();
        assert_eq!(code(panic), -32603);
        assert!(!visit.is_closed());
    }
}

#[tokio::test]
async fn progress_arrives_before_the_result() {
    let workshop = Workshop::open().await;
    for era in Era::BOTH {
        let visit = workshop.visit(era).await;
        let name = format!("{era:?}");
        let call = begin(&visit, call("hold", &json!({ "name": name, "steps": [1, 2, 2.5] })));
        let step = |progress| Heard::Progress { name: name.clone(), progress, total: Some(2.5) };
        visit.service().until_heard(&[1.0, 2.0, 2.5].map(step)).await;
        assert!(!call.is_finished());
        workshop.live.probe.open(&name);
        assert_eq!(text(async { call.await.unwrap() }).await, name);
    }
}

#[tokio::test]
async fn the_user_is_asked_during_a_call() {
    let workshop = Workshop::open().await;
    for (era, state, exchanges) in [(Era::Legacy, Value::Null, 1), (Era::Modern, json!("asked"), 2)] {
        let visit = workshop.visit(era).await;
        let ended = workshop.ended();
        let greeted = structured(&visit, call("greet", &json!({}))).await;
        let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
        assert_eq!(greeted, json!({ "answer": answer, "state": state }));
        assert_eq!(*visit.service().heard.borrow(), [Heard::Question("Your name?".to_owned())]);
        assert_eq!(workshop.ended() - ended, exchanges, "{era:?}");
    }
}

#[tokio::test]
async fn the_user_is_asked_again_and_again_in_both_eras_by_the_same_tool() {
    let workshop = Workshop::open().await;
    for (era, exchanges) in [(Era::Legacy, 1), (Era::Modern, 3)] {
        let visit = workshop.visit(era).await;
        let ended = workshop.ended();
        let welcomed = text(visit.call_tool(call("welcome", &json!({})))).await;
        assert_eq!(welcomed, r#"[{"name":"Ada"},{"name":"Ada"}]"#);
        let questions = ["Your name?", "Your name, again?"].map(|question| Heard::Question(question.to_owned()));
        assert_eq!(*visit.service().heard.borrow(), questions);
        assert_eq!(workshop.ended() - ended, exchanges, "{era:?}");
    }
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_is_taken_back() {
    let workshop = Workshop::open().await;
    let visit = workshop.visit(Era::Legacy).await;
    let call = begin(&visit, call("doubt", &json!({})));
    visit.service().until_heard(&[Heard::Question("Anybody?".to_owned())]).await;
    workshop.live.probe.open("doubt");
    assert_eq!(text(async { call.await.unwrap() }).await, "never mind");
    visit.service().until_heard(&[Heard::TakenBack]).await;
}

/// A legacy client posts a cancel, a modern one just closes the connection of the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_call_that_is_given_up_ends_at_once_and_the_next_one_works() {
    let workshop = Workshop::open().await;
    let Workshop { live, .. } = &workshop;
    for era in Era::BOTH {
        let visit = workshop.visit(era).await;
        let neighbour = format!("{era:?} neighbour");
        let held = begin(&visit, call("hold", &json!({ "name": neighbour })));
        live.probe.until(&format!("{neighbour} has begun")).await;
        for (tool, steps, way) in ["hold", "obey"]
            .into_iter()
            .flat_map(|tool| [vec![], vec![1.0]].map(|steps| (tool, steps)))
            .flat_map(|(tool, steps)| Way::ALL.map(|way| (tool, steps.clone(), way)))
        {
            let name = format!("{era:?} {tool} {steps:?} {way:?}");
            let at_work = async {
                live.probe.until(&format!("{name} has begun")).await;
                let step = |progress| Heard::Progress { name: name.clone(), progress, total: Some(2.5) };
                visit.service().until_heard(&steps.iter().copied().map(step).collect::<Vec<_>>()).await;
            };
            let ended = workshop.ended();
            way.give_up(&visit, call(tool, &json!({ "name": name, "steps": steps })), at_work).await;

            let (outcome, reason) = match era {
                Era::Legacy => (Outcome::Cancelled, Some(way.reason())),
                Era::Modern => (Outcome::Disconnected, None),
            };
            live.probe
                .until(&match tool {
                    "hold" => format!("{name} was dropped"),
                    _ => format!("{name} was told {outcome:?} {reason:?}"),
                })
                .await;
            assert_eq!(workshop.outcome_after(ended).await, outcome, "{name}");
            live.parked(1).await;
            echoes(&visit).await;
        }
        assert!(!held.is_finished());
        live.probe.open(&neighbour);
        assert_eq!(text(async { held.await.unwrap() }).await, neighbour);
        // Of the legacy client's cancels the router hears as well. A modern one sends none.
        until(|| live.probe.heard().len() >= 12).await;
        assert_eq!(live.probe.heard().len(), 12, "{era:?}");
    }
}

/// The cancel may overtake its call, and the call may never be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_call_that_is_given_up_on_its_way_leaves_nothing_behind() {
    let workshop = Workshop::with(|options| options.early_cancels(BOUND)).await;
    for era in Era::BOTH {
        let visit = workshop.visit(era).await;
        for (round, way) in (0..20).flat_map(|round| Way::ALL.map(|way| (round, way))) {
            let on_its_way = async {
                for _ in 0..round {
                    yield_now().await;
                }
            };
            way.give_up(&visit, call("hold", &json!({ "name": "nobody" })), on_its_way).await;
        }
        echoes(&visit).await;
        workshop.live.parked(0).await;
        let probe = &workshop.live.probe;
        until(|| probe.count("nobody has begun") == probe.count("nobody was dropped")).await;
    }
}

#[tokio::test]
async fn a_subscriber_hears_of_changes() {
    let workshop = Workshop::open().await;
    let visit = workshop.visit(Era::Modern).await;
    let filter = SubscriptionFilter::builder()
        .prompts_list_changed()
        .resource_subscriptions(["page:1"])
        .resources_list_changed()
        .tools_list_changed();
    let mut subscription = in_time(visit.listen(filter.build())).await.unwrap();
    let acknowledged = subscription.acknowledged();
    assert_eq!(acknowledged.prompts_list_changed, None, "there are no prompts");
    assert_eq!(acknowledged.resource_subscriptions.as_deref(), Some(&["page:1".to_owned()][..]));

    for change in [
        Change::PromptsListChanged,
        Change::ResourceUpdated("page:2".to_owned()),
        Change::ToolsListChanged,
        Change::ResourceUpdated("page:1".to_owned()),
        Change::ResourcesListChanged,
    ] {
        workshop.subscriptions.publish(change);
    }
    let mut next = async || in_time(subscription.next()).await.unwrap().unwrap();
    assert!(matches!(next().await, ServerNotification::ToolListChangedNotification(_)));
    assert!(matches!(next().await, ServerNotification::ResourceUpdatedNotification(of) if of.params.uri == "page:1"));
    assert!(matches!(next().await, ServerNotification::ResourceListChangedNotification(_)));

    echoes(&visit).await;
    let ended = workshop.ended();
    in_time(subscription.cancel()).await.unwrap();
    assert_eq!(workshop.outcome_after(ended).await, Outcome::Disconnected);
    echoes(&visit).await;
}

#[tokio::test]
async fn a_subscriber_is_told_that_the_server_shuts_down() {
    let workshop = Workshop::open().await;
    let visit = workshop.visit(Era::Modern).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = in_time(visit.listen(filter)).await.unwrap();
    let ended = workshop.ended();
    in_time(workshop.live.server.shutdown(Duration::ZERO)).await;
    // rmcp hears of it in two ways, and says what it has heard first.
    match in_time(subscription.next()).await {
        Ok(None) => assert_eq!(subscription.end(), Some(&SubscriptionEnd::Cancelled)),
        Err(ServiceError::Cancelled { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(workshop.outcome_after(ended).await, Outcome::ShutDown);
}

#[tokio::test]
async fn a_modern_client_keeps_a_list_until_it_hears_of_a_change() {
    let workshop = Workshop::open().await;
    let visit = workshop.visit(Era::Modern).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = in_time(visit.listen(filter)).await.unwrap();
    let lists = async || {
        let ended = workshop.ended();
        in_time(visit.list_all_tools()).await.unwrap();
        workshop.ended() - ended
    };
    assert_eq!([lists().await, lists().await], [1, 0]);
    workshop.subscriptions.publish(Change::ToolsListChanged);
    assert!(in_time(subscription.next()).await.unwrap().is_some());
    assert_eq!([lists().await, lists().await], [1, 0]);
}
