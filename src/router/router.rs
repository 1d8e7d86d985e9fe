use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use axum::BoxError;
use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::ALLOW;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tower::Service;

use super::about::{About, TTL_MS};
use super::capabilities::Features;
use super::endpoint::{BoxFuture, Endpoint};
use super::methods::Methods;
use super::server_info::ServerInfo;
use super::subscriptions::Subscriptions;
use super::tool::Tool;
use super::tools::Tools;
use crate::extract::{Context, Subscription};
use crate::jsonrpc::{Kind, McpError, Message};
use crate::protocol::ProtocolVersion;
use crate::reply::Reply;

/// JSON-RPC methods to axum handlers, and tools: a whole MCP server, behind [`McpLayer`](crate::McpLayer).
///
/// Handlers are axum handlers, with any extractors. These are built in, and a handler of yours replaces them:
/// - `initialize` (legacy), with version negotiation, and `server/discover` (modern). The capabilities are those that the
///   methods tell of; declare others with [`capability`](Self::capability).
/// - `ping` (legacy).
/// - `tools/list` and `tools/call`, if there are [tools](Self::tool).
/// - `subscriptions/listen` (modern), if there are [subscriptions](Self::subscriptions).
///
/// Other requests are answered by the error -32601, with HTTP status 404 for modern versions; so are those for methods
/// that MCP has, but not in the version of the request. Notifications and responses that nobody handles are accepted (202).
/// Results of modern versions get their `resultType`, the `serverInfo` in their `_meta`, and the hints for caches that
/// some need, where the handler left them out.
///
/// There are no resumable streams: an event has no id, and a GET is answered by 405, as all methods but POST are.
///
/// ```
/// use axum::Router;
/// use axum::extract::State;
/// use mcp_layer::{McpLayer, McpMessage, McpRouter, McpServer, Reply, ServerInfo};
/// use serde_json::{Value, json};
///
/// #[derive(Clone)]
/// struct Prompts(Vec<&'static str>);
///
/// async fn list(State(Prompts(names)): State<Prompts>) -> Reply<Value> {
///     let prompts: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
///     Reply(json!({ "prompts": prompts }))
/// }
///
/// async fn cancelled(message: McpMessage) {
///     println!("{}", message.as_str());
/// }
///
/// let mcp = McpRouter::new(ServerInfo::new("example", "1.0.0"))
///     .request("prompts/list", list)
///     .notification("notifications/cancelled", cancelled)
///     .with_state(Prompts(vec!["greet"]));
/// let app: Router = Router::new().route_service("/mcp", mcp).layer(McpLayer::new(McpServer::new()));
/// ```
#[derive(Debug)]
#[must_use]
pub struct McpRouter<S = ()> {
    inner: Arc<Inner<S>>,
}

#[derive(Debug)]
struct Inner<S> {
    about: About,
    methods: Methods<S>,
    subscriptions: Option<Subscriptions>,
    tools: Tools<S>,
}

impl<S: Clone + Send + Sync + 'static> McpRouter<S> {
    /// A router of this server. One that is to be merged or nested needs no name of its own: see
    /// [`default`](Self::default).
    pub fn new(info: ServerInfo) -> Self {
        let mut router = Self::default();
        router.edit().about = About::of(info);
        router
    }

    /// Handles the requests of this method. The handler returns a [`Reply`], an [`McpError`], or whatever else answers a
    /// request.
    ///
    /// # Panics
    ///
    /// If the method has a handler already.
    #[track_caller]
    pub fn request<H, T>(mut self, method: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.edit().methods.add_request(method.into(), Endpoint::new(handler));
        self
    }

    /// Handles the notifications of this method. They have no answer, so what the handler returns goes nowhere.
    ///
    /// # Panics
    ///
    /// If the notification has a handler already.
    #[track_caller]
    pub fn notification<H, T>(mut self, method: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.edit().methods.add_notification(method.into(), Endpoint::new(handler));
        self
    }

    /// Handles all messages that nobody else does: requests, notifications, and the client's responses.
    ///
    /// # Panics
    ///
    /// If there is one already.
    #[track_caller]
    pub fn fallback<H, T>(mut self, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.edit().methods.add_fallback(String::new(), Endpoint::new(handler));
        self
    }

    /// Adds a tool. `tools/list` shows them in the order in which they are added.
    ///
    /// # Panics
    ///
    /// If there is one of its name already.
    #[track_caller]
    pub fn tool(mut self, tool: Tool<S>) -> Self {
        self.edit().tools.add(tool);
        self
    }

    /// Lets modern clients listen to changes (`subscriptions/listen`): to those of the lists of prompts, resources and tools,
    /// and of single resources, as far as there are methods for them. Declares that they can.
    ///
    /// Legacy clients would hear of them by a GET stream, which this router has not.
    pub fn subscriptions(mut self, subscriptions: &Subscriptions) -> Self {
        self.edit().subscriptions = Some(subscriptions.clone());
        self
    }

    /// Declares a capability, in place of what the methods tell of it.
    ///
    /// ```
    /// use mcp_layer::{McpRouter, ServerInfo};
    /// use serde_json::json;
    ///
    /// let mcp: McpRouter = McpRouter::new(ServerInfo::new("example", "1.0.0"))
    ///     .capability("tools", json!({ "listChanged": true }));
    /// ```
    pub fn capability(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.edit().about.capabilities.insert(name.into(), value.into());
        self
    }

    /// How a model should use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.edit().about.instructions = Some(instructions.into());
        self
    }

    /// Adds the methods, tools, subscriptions and capabilities of another router. What that one says of its server is dropped.
    ///
    /// # Panics
    ///
    /// If both have subscriptions, or a method, a tool or a fallback of the same name.
    #[track_caller]
    pub fn merge(mut self, other: Self) -> Self {
        let Inner { about, methods, subscriptions, tools } = Arc::unwrap_or_clone(other.inner);
        let own = self.edit();
        assert!(
            own.subscriptions.is_none() || subscriptions.is_none(),
            "both routers have subscriptions: give one of them to the router that they are merged in"
        );
        own.subscriptions = own.subscriptions.take().or(subscriptions);
        for (name, capability) in about.capabilities {
            own.about.capabilities.entry(name).or_insert(capability);
        }
        own.methods.merge(methods);
        own.tools.merge(tools);
        self
    }

    /// The same with longer names: nested at `tasks`, the request `get` is `tasks/get`, the notification
    /// `notifications/status` is `notifications/tasks/status`, the tool `list` is `tasks.list`, and a fallback handles what
    /// else begins with `tasks/`. `tasks/` is the same prefix.
    ///
    /// # Panics
    ///
    /// If the prefix is empty, or both have subscriptions, or a method or a tool of the same name then.
    #[track_caller]
    pub fn nest(self, prefix: &str, other: Self) -> Self {
        let prefix = prefix.trim_matches('/');
        assert!(!prefix.is_empty(), "a router is nested at a name; merge it instead");
        let Inner { about, methods, subscriptions, tools } = Arc::unwrap_or_clone(other.inner);
        let nested = Inner { about, methods: methods.nested(prefix), subscriptions, tools: tools.nested(prefix) };
        self.merge(Self { inner: Arc::new(nested) })
    }

    /// Gives the handlers their state.
    pub fn with_state<S2: Clone + Send + Sync + 'static>(self, state: S) -> McpRouter<S2> {
        let Inner { about, methods, subscriptions, tools } = Arc::unwrap_or_clone(self.inner);
        let (methods, tools) = (methods.with_state(&state), tools.with_state(&state));
        let inner = Inner { about, methods, subscriptions, tools };
        McpRouter { inner: Arc::new(inner) }
    }

    fn edit(&mut self) -> &mut Inner<S> {
        Arc::make_mut(&mut self.inner)
    }
}

impl<S> Inner<S> {
    fn respond(&self, request: Request, state: S) -> BoxFuture<Response>
    where
        S: 'static,
    {
        let context = match Context::of(request.extensions()) {
            Ok(context) => context,
            Err(_) if request.method() != Method::POST => return at_once(not_allowed()),
            Err(rejection) => return at_once(rejection),
        };
        let message = context.subject.message();
        let mut completion = None;
        let found = match message.kind() {
            Kind::Request { method, .. } => {
                completion = context.version.is_modern().then(|| self.about.completion(method));
                if let (Some(completion), Some(exchange)) = (&completion, context.subject.exchange())
                    && exchange.is_subscription()
                {
                    // At a shutdown the layer closes it without its handler.
                    exchange.set_server_info(completion.server_info.clone());
                }
                self.request(method, message, context, request.headers())
            }
            Kind::Notification { method, .. } => self.unanswered(self.methods.notification(method), method),
            Kind::Response { .. } => self.unanswered(None, ""),
        };
        match found {
            Found::Handler(endpoint) => endpoint.call(request, state, completion),
            Found::Listen(subscriptions) => {
                let (subscriptions, features) = (subscriptions.clone(), self.features(context.version));
                let listen = async move |subscription: Subscription| {
                    let honoured = features.changes(subscription.requested());
                    subscriptions.listen_for(subscription, honoured).await
                };
                Endpoint::new(listen).call(request, (), completion)
            }
            Found::Answer(mut response) => {
                if let Some(completion) = completion {
                    response.extensions_mut().insert(completion);
                }
                at_once(response)
            }
        }
    }

    fn request(&self, method: &str, message: &Message, context: &Context, headers: &HeaderMap) -> Found<'_, S> {
        if context.version.lacks(method) {
            return Found::answer(McpError::method_not_found(method));
        }
        if let Some(endpoint) = self.methods.request(method) {
            return Found::Handler(endpoint);
        }
        match method {
            "initialize" => Found::answer(Reply(self.initialized(context))),
            "ping" => Found::answer(Reply(json!({}))),
            "server/discover" => Found::answer(Reply(self.discovered(context))),
            "tools/call" if !self.tools.is_empty() => {
                self.tools.call(message, headers, context.version).map_or_else(Found::answer, Found::Handler)
            }
            "tools/list" if !self.tools.is_empty() => Found::answer(self.tools.list(message, context.version)),
            _ => match (&self.subscriptions, self.methods.fallback(method)) {
                (Some(subscriptions), _) if method == "subscriptions/listen" => Found::Listen(subscriptions),
                (_, Some(endpoint)) => Found::Handler(endpoint),
                (_, None) => Found::answer(McpError::method_not_found(method)),
            },
        }
    }

    /// A notification or a response.
    fn unanswered<'a>(&'a self, handler: Option<&'a Endpoint<S>>, method: &str) -> Found<'a, S> {
        let handler = handler.or_else(|| self.methods.fallback(method));
        handler.map_or_else(|| Found::answer(StatusCode::ACCEPTED), Found::Handler)
    }

    /// 2025-11-25, *Lifecycle*, Initialization.
    fn initialized(&self, context: &Context) -> Value {
        let mut result = self.capable(context);
        result["protocolVersion"] = context.version.as_str().into();
        result["serverInfo"] = self.about.server_info_value.clone();
        result
    }

    /// 2026-07-28, *Discovery*.
    fn discovered(&self, context: &Context) -> Value {
        let mut result = self.capable(context);
        result["supportedVersions"] = context.served.names().into();
        result["ttlMs"] = TTL_MS.into();
        result["cacheScope"] = "private".into();
        result
    }

    fn features(&self, version: ProtocolVersion) -> Features {
        Features::of(&self.methods, !self.tools.is_empty(), version)
    }

    fn capable(&self, context: &Context) -> Value {
        let listens = self.subscriptions.is_some() && context.version.is_modern();
        let capabilities = self.features(context.version).capabilities(listens, &self.about.capabilities);
        let mut result = json!({ "capabilities": capabilities });
        if let Some(instructions) = &self.about.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        result
    }
}

/// What is to become of a message.
enum Found<'a, S> {
    Answer(Response),
    Handler(&'a Endpoint<S>),
    Listen(&'a Subscriptions),
}

impl<S> Found<'_, S> {
    fn answer(answer: impl IntoResponse) -> Self {
        Self::Answer(answer.into_response())
    }
}

fn at_once(response: impl IntoResponse) -> BoxFuture<Response> {
    Box::pin(ready(response.into_response()))
}

fn not_allowed() -> impl IntoResponse {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "POST")])
}

/// A router without a name: one that is to be merged or nested. As a server of its own its name and version are empty.
impl<S> Default for McpRouter<S> {
    fn default() -> Self {
        let about = About::of(ServerInfo::new("", ""));
        let (methods, tools) = (Methods::default(), Tools::default());
        Self { inner: Arc::new(Inner { about, methods, subscriptions: None, tools }) }
    }
}

impl<S> Clone for McpRouter<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S> Clone for Inner<S> {
    fn clone(&self) -> Self {
        Self {
            about: self.about.clone(),
            methods: self.methods.clone(),
            subscriptions: self.subscriptions.clone(),
            tools: self.tools.clone(),
        }
    }
}

/// For [`route_service`](axum::Router::route_service).
impl<B> Service<Request<B>> for McpRouter
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let response = self.inner.respond(request.map(Body::new), ());
        Box::pin(async move { Ok(response.await) })
    }
}

/// For [`post`](axum::routing::post): the state is that of the axum router.
impl<S: Clone + Send + Sync + 'static> Handler<(), S> for McpRouter<S> {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, state: S) -> Self::Future {
        self.inner.respond(request, state)
    }
}
