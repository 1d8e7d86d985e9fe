use std::borrow::Cow;

use axum::handler::Handler;
use http::HeaderMap;
use serde::Serialize;
use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use super::param_header::ParamHeader;
#[cfg(feature = "schemars")]
use super::tool_input::{ToolInput, output_schema};
use crate::jsonrpc::McpError;
use crate::protocol::ProtocolVersion;
use crate::rejection::Rejection;

const OUTPUT: &str = "outputSchema";

/// A tool: what `tools/list` says of it, and the axum handler that `tools/call` runs (MCP, *Tools*).
///
/// The handler takes any extractors, and its [`Arguments`](crate::Arguments) last, if it has any. It returns a
/// [`CallToolResult`](crate::CallToolResult), or whatever else answers a request.
///
/// A parameter whose schema has an `x-mcp-header` is repeated by modern clients in a header `Mcp-Param-…`; a call whose
/// headers do not say what its arguments say is answered by the error -32020 (2026-07-28, *Custom Headers from Tool
/// Parameters*).
///
/// ```
/// # #[cfg(feature = "schemars")] {
/// use mcp_layer::{Arguments, CallToolResult, McpRouter, ServerInfo, Tool};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Greeting {
///     /// Whom to greet
///     name: String,
/// }
///
/// async fn greet(Arguments(Greeting { name }): Arguments<Greeting>) -> CallToolResult {
///     CallToolResult::text(format!("Hello, {name}!"))
/// }
///
/// let mcp: McpRouter = McpRouter::new(ServerInfo::new("hello", "1.0.0"))
///     .tool(Tool::new("greet", "Greets somebody", greet));
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Tool<S = ()> {
    definition: Definition,
    endpoint: Endpoint<S>,
    headers: Vec<ParamHeader>,
}

/// The tool as clients see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    description: String,
    input_schema: Map<String, Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl<S: 'static> Tool<S> {
    /// A tool whose input schema is that of its handler's [`Arguments`](crate::Arguments), in JSON Schema 2020-12.
    ///
    /// # Panics
    ///
    /// If the arguments are no object, or clients would reject an `x-mcp-header` of theirs.
    #[cfg(feature = "schemars")]
    #[track_caller]
    pub fn new<H, T>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: ToolInput + 'static,
    {
        Self::with_schema(name, description, Value::Object(T::schema()), handler)
    }

    /// A tool with an input schema of your own making.
    ///
    /// ```
    /// use mcp_layer::{Arguments, CallToolResult, Tool};
    /// use serde_json::{Value, json};
    ///
    /// async fn echo(Arguments(arguments): Arguments<Value>) -> CallToolResult {
    ///     CallToolResult::structured(arguments)
    /// }
    ///
    /// let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    /// let echo: Tool = Tool::with_schema("echo", "Returns its arguments", schema, echo);
    /// ```
    ///
    /// # Panics
    ///
    /// If the schema is not one of an object, or clients would reject an `x-mcp-header` in it.
    #[track_caller]
    pub fn with_schema<H, T>(name: impl Into<String>, description: impl Into<String>, schema: Value, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let name = name.into();
        let mut schema = match schema {
            Value::Object(schema) => schema,
            other => panic!("the input schema of tool {name:?} is no object: {other}"),
        };
        // Without one it may be an object; clients want to read it.
        let kind = schema.entry("type").or_insert_with(|| "object".into());
        assert!(kind == "object", "the arguments of tool {name:?} are no object, but of type {kind}");
        let headers = ParamHeader::all(&schema).unwrap_or_else(|why| panic!("tool {name:?}: {why}"));
        Self {
            definition: Definition {
                name,
                title: None,
                description: description.into(),
                input_schema: schema,
                others: Map::new(),
            },
            endpoint: Endpoint::new(handler),
            headers,
        }
    }
}

impl<S> Tool<S> {
    /// What people see instead of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// The schema of the `structuredContent` of its results.
    #[cfg(feature = "schemars")]
    pub fn output<O: schemars::JsonSchema>(self) -> Self {
        self.member(OUTPUT, output_schema::<O>())
    }

    /// Any other member of its definition: `annotations`, `icons`, `_meta` …
    ///
    /// ```
    /// # use mcp_layer::{CallToolResult, Tool};
    /// # use serde_json::json;
    /// # let schema = json!({ "type": "object" });
    /// # async fn now() -> CallToolResult { CallToolResult::text("now") }
    /// let now: Tool = Tool::with_schema("now", "Tells the time", schema, now)
    ///     .member("annotations", json!({ "readOnlyHint": true }));
    /// ```
    ///
    /// # Panics
    ///
    /// If it is one that is set otherwise: `name`, `title`, `description` or `inputSchema`.
    #[track_caller]
    pub fn member(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = name.into();
        let is_other = !["name", "title", "description", "inputSchema"].contains(&name.as_str());
        assert!(is_other, "the member {name:?} of tool {:?} would stand twice", self.definition.name);
        self.definition.others.insert(name, value.into());
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.definition.name
    }

    /// Legacy versions know no output but objects, and a client of theirs may take a list with such a tool for no list.
    pub(super) fn definition(&self, version: ProtocolVersion) -> impl Serialize {
        let is_unknown = |schema: &Value| schema.get("type").is_none_or(|kind| kind != "object");
        let mut definition = Cow::Borrowed(&self.definition);
        if !version.is_modern() && self.definition.others.get(OUTPUT).is_some_and(is_unknown) {
            definition.to_mut().others.remove(OUTPUT);
        }
        definition
    }

    pub(super) fn endpoint(&self) -> &Endpoint<S> {
        &self.endpoint
    }

    /// The `Mcp-Param-*` headers of a call say what its arguments say.
    pub(super) fn check_headers(&self, headers: &HeaderMap, arguments: &str) -> Result<(), McpError> {
        match self.headers.iter().find(|header| !header.agrees(headers, arguments)) {
            None => Ok(()),
            Some(header) => Err(Rejection::ParamHeaderMismatch(header.shown_as().to_owned()).error()),
        }
    }

    pub(super) fn nested(mut self, prefix: &str) -> Self {
        self.definition.name = format!("{prefix}.{}", self.definition.name);
        self
    }

    pub(super) fn with_state<S2: 'static>(self, state: &S) -> Tool<S2>
    where
        S: Clone + Send + Sync + 'static,
    {
        Tool { definition: self.definition, endpoint: self.endpoint.with_state(state), headers: self.headers }
    }
}

impl<S> Clone for Tool<S> {
    fn clone(&self) -> Self {
        Self { definition: self.definition.clone(), endpoint: self.endpoint.clone(), headers: self.headers.clone() }
    }
}
