//! The example `stdio_bridge`, in front of a child that misbehaves on demand.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::time::sleep;

use super::{Answer, BOUND, Connection, Post, example, initialize, post, request};

/// The example, and the child's words.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) address: SocketAddr,
    pub(crate) process: Child,
}

/// A client, with or without a session.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) bridge: &'a Bridge,
    pub(crate) id: Option<String>,
}

impl Bridge {
    pub(crate) async fn new(options: &[&str], words: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/child.py");
        Self::before(options, &[&["python3", "-B", script], words].concat()).await
    }

    pub(crate) async fn before(options: &[&str], command: &[&str]) -> Self {
        Self::start(options, command, Stdio::inherit()).await
    }

    pub(crate) async fn start(options: &[&str], command: &[&str], stderr: Stdio) -> Self {
        let arguments = [&["--grace", "0.3"], options, &["--"], command].concat();
        let (address, process) = example::start("stdio_bridge", &arguments, stderr).await;
        Self { address, process }
    }

    pub(crate) async fn post(&self, post: &Post) -> Answer {
        Connection::open(self.address).await.post(post).await
    }

    pub(crate) async fn initialize(&self) -> Answer {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test", "version": "7" },
        });
        self.post(&post(initialize("0", &params))).await
    }

    pub(crate) async fn open(&self) -> Session<'_> {
        let answer = self.initialize().await;
        assert_eq!(answer.result("0")["serverInfo"]["name"], "child");
        let id = answer.header("mcp-session-id").expect("a session").to_owned();
        let session = Session { bridge: self, id: Some(id) };
        session.send(&post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await.accepted();
        session
    }

    /// A client without a session.
    pub(crate) fn anonymous(&self) -> Session<'_> {
        Session { bridge: self, id: None }
    }

    pub(crate) async fn exits(self) {
        self.exits_on(Signal::TERM).await;
    }

    pub(crate) async fn exits_on(mut self, signal: Signal) {
        example::signal(&self.process, signal);
        example::exits(&mut self.process).await;
    }
}

impl Session<'_> {
    pub(crate) fn with_session(&self, post: &Post) -> Post {
        self.id.as_ref().map_or(post.clone(), |id| post.clone().with("mcp-session-id", id))
    }

    pub(crate) async fn send(&self, post: &Post) -> Answer {
        self.bridge.post(&self.with_session(post)).await
    }

    /// Sends a call and leaves it open.
    pub(crate) async fn begin(&self, id: &str, name: &str, arguments: &Value) -> Connection {
        let mut connection = Connection::open(self.bridge.address).await;
        connection.send(self.with_session(&tool(id, name, arguments)).bytes()).await;
        connection
    }

    pub(crate) async fn call(&self, id: &str, name: &str, arguments: &Value) -> Answer {
        self.send(&tool(id, name, arguments)).await
    }

    pub(crate) async fn value(&self, name: &str) -> Value {
        self.call("99", name, &json!({})).await.result("99")["value"].clone()
    }

    /// Has the child write these lines, with its id of the call for `ID`, and its progress token for `TOKEN`. It does not
    /// answer by itself.
    pub(crate) async fn says(&self, call: &str, lines: &[&str]) -> Connection {
        let params = json!({
            "name": "say", "arguments": { "lines": lines }, "_meta": { "progressToken": "its own" },
        });
        let mut connection = Connection::open(self.bridge.address).await;
        connection.send(self.with_session(&post(request(call, "tools/call", &params))).bytes()).await;
        connection
    }

    /// The GET stream, once its head is there.
    pub(crate) async fn listen(&self) -> Connection {
        let mut connection = Connection::open(self.bridge.address).await;
        connection.send(self.with_session(&listening()).bytes()).await;
        let head = connection.head().await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
        assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(head.header("x-accel-buffering"), Some("no"));
        connection
    }

    /// What the child has heard, once it holds.
    pub(crate) async fn hears(&self, mut holds: impl FnMut(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let heard = self.value("heard").await;
            if heard.as_array().unwrap().iter().any(&mut holds) {
                return;
            }
            assert!(began.elapsed() < BOUND, "never heard; but: {heard}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A GET as the official SDKs send it.
pub(crate) fn listening() -> Post {
    post("").method("GET").without("content-type").with("accept", "text/event-stream")
}

pub(crate) fn tool(id: &str, name: &str, arguments: &Value) -> Post {
    post(request(id, "tools/call", &json!({ "name": name, "arguments": arguments })))
}

/// The message of the next event.
pub(crate) async fn message(connection: &mut Connection) -> Value {
    serde_json::from_str(&text(connection).await).unwrap()
}

/// The same, as it was sent.
pub(crate) async fn text(connection: &mut Connection) -> String {
    let event = connection.event().await;
    event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event}")).to_owned()
}

pub(crate) async fn gone(pid: &Value) {
    let began = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(began.elapsed() < BOUND, "process {pid} is still there");
        sleep(Duration::from_millis(10)).await;
    }
}
