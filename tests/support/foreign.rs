//! A service that knows nothing of this crate, and clients that read what it sends bit by bit.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use mcp_layer::{McpLayer, McpServerBuilder};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tower::ServiceExt;

use super::{BOUND, Era, Post, Site};

/// The service: it gives the replies that a test has made, in the order of the requests.
#[derive(Clone, Default)]
pub(crate) struct Foreign(pub(crate) Arc<Shared>);

#[derive(Default)]
pub(crate) struct Shared {
    replies: Mutex<VecDeque<Response>>,
    pub(crate) heard: Mutex<Vec<(HeaderMap, String)>>,
    /// Handlers and bodies that are there.
    alive: AtomicUsize,
}

pub(crate) struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) async fn handle(State(Foreign(shared)): State<Foreign>, request: Request) -> Response {
    let _alive = alive(&shared);
    let (parts, body) = request.into_parts();
    let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
    let is_request =
        body.contains(r#""id":"#) && body.contains(r#""method":"#) || parts.method == "GET" || parts.method == "HEAD";
    shared.heard.lock().unwrap().push((parts.headers, body));
    if !is_request {
        return StatusCode::ACCEPTED.into_response();
    }
    let reply = shared.replies.lock().unwrap().pop_front();
    match reply {
        Some(reply) => reply,
        None => std::future::pending().await,
    }
}

pub(crate) fn alive(shared: &Arc<Shared>) -> Alive {
    shared.alive.fetch_add(1, Ordering::SeqCst);
    Alive(Arc::clone(shared))
}

/// A body that a test sends piece by piece.
pub(crate) type Feed = mpsc::Sender<io::Result<Bytes>>;

impl Foreign {
    pub(crate) fn site(&self) -> Site {
        self.site_with(|options| options)
    }

    pub(crate) fn site_with(&self, options: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Site {
        Site::build(options, |server, _| {
            let routes = Router::new().route("/mcp", any(handle)).with_state(self.clone());
            routes.layer(McpLayer::transparent(server.clone()))
        })
    }

    pub(crate) fn replies(&self, reply: Response) {
        self.0.replies.lock().unwrap().push_back(reply);
    }

    /// The next reply has this type, and a body that comes bit by bit.
    pub(crate) fn feeds(&self, kind: &'static str) -> Feed {
        self.feeds_with(&[("content-type", kind)])
    }

    pub(crate) fn feeds_with(&self, headers: &[(&'static str, &'static str)]) -> Feed {
        let (feed, pieces) = mpsc::channel(1);
        let alive = alive(&self.0);
        let pieces = stream::unfold((pieces, alive), |(mut pieces, alive)| async {
            let piece: io::Result<Bytes> = pieces.recv().await?;
            Some((piece, (pieces, alive)))
        });
        self.replies(reply(headers, Body::from_stream(pieces)));
        feed
    }

    pub(crate) fn streams(&self) -> Feed {
        self.feeds("text/event-stream")
    }

    /// Replies that no request has come for are none.
    pub(crate) fn forget(&self) {
        self.0.replies.lock().unwrap().clear();
    }

    pub(crate) fn alive(&self) -> usize {
        self.0.alive.load(Ordering::SeqCst)
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        self.0.heard.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }
}

pub(crate) fn reply(headers: &[(&'static str, &'static str)], body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    for (name, value) in headers {
        response.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    response
}

pub(crate) fn json_reply(body: impl Into<Body>) -> Response {
    reply(&[("content-type", "application/json")], body)
}

/// The headers of a reply. axum adds the length of a body that is whole.
#[track_caller]
pub(crate) fn has_headers(passed: &HeaderMap, own: &[(&'static str, &'static str)]) {
    let (mut passed, expected) = (passed.clone(), reply(own, ""));
    if !expected.headers().contains_key("content-length") {
        passed.remove("content-length");
    }
    assert_eq!(&passed, expected.headers());
}

pub(crate) async fn send(feed: &Feed, piece: impl Into<Bytes>) {
    timeout(BOUND, feed.send(Ok(piece.into()))).await.expect("it is read").expect("it is wanted");
}

/// Breaks the body off.
pub(crate) async fn breaks(feed: &Feed) {
    timeout(BOUND, feed.send(Err(io::ErrorKind::ConnectionReset.into()))).await.expect("it is read").unwrap();
}

pub(crate) fn answer(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"answer"}}}}"#)
}

pub(crate) fn event(message: &str) -> String {
    format!("data: {message}\n\n")
}

pub(crate) const NOTE: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;

pub(crate) fn a_call(era: Era, id: &str) -> Post {
    era.call(id, &json!({ "name": "tool" }))
}

/// A response whose body is read as it comes.
pub(crate) struct Reading {
    pub(crate) response: http::response::Parts,
    pub(crate) body: Body,
    pub(crate) read: Vec<u8>,
}

impl Reading {
    pub(crate) async fn of(site: &Site, request: &Post) -> Self {
        let response = timeout(BOUND, site.app.clone().oneshot(request.request())).await.expect("a head in time");
        let (response, body) = response.unwrap().into_parts();
        Self { response, body, read: Vec::new() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Waits until this many bytes are read.
    pub(crate) async fn has(&mut self, bytes: usize) {
        while self.read.len() < bytes {
            let frame = timeout(BOUND, self.body.frame()).await.expect("more in time").expect("more").unwrap();
            self.read.extend_from_slice(&frame.into_data().unwrap());
        }
        assert_eq!(self.read.len(), bytes, "{:?}", String::from_utf8_lossy(&self.read));
    }

    /// What is left, up to the end.
    pub(crate) async fn rest(mut self) -> String {
        let begun = self.read.len();
        while let Some(frame) = timeout(BOUND, self.body.frame()).await.expect("an end in time") {
            self.read.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        String::from_utf8(self.read.split_off(begun)).unwrap()
    }
}

/// The one event of this text, without the id that it may have.
#[track_caller]
pub(crate) fn only_event(text: &str) -> &str {
    let text = match text.strip_prefix("id: mcpl-") {
        Some(with_id) => with_id.split_once('\n').unwrap().1,
        None => text,
    };
    let data = text.strip_prefix("data: ").and_then(|text| text.strip_suffix("\n\n"));
    data.filter(|data| !data.contains('\n')).unwrap_or_else(|| panic!("not one event: {text:?}"))
}
