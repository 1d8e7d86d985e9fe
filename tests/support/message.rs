use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

/// A request. The id is JSON as it is to stand in the text.
pub(crate) fn call(id: &str, params: &Value) -> String {
    request(id, "tools/call", params)
}

/// A request whose handler waits for the gate `gate`.
pub(crate) fn held(id: &str) -> String {
    call(id, &json!({ "gate": "gate" }))
}

pub(crate) fn initialize(id: &str, params: &Value) -> String {
    request(id, "initialize", params)
}

pub(crate) fn request(id: &str, method: &str, params: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

pub(crate) fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

pub(crate) fn cancel_because(id: &str, reason: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#)
}

pub(crate) const MODERN: &str = "2026-07-28";

/// A request of revision 2026-07-28: its `_meta` and its headers say the same. Its client can do nothing, unless the
/// params say otherwise.
pub(crate) fn modern(id: &str, method: &str, params: &Value) -> Post {
    let mut params = params.clone();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    let capabilities = &mut params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    if capabilities.is_null() {
        *capabilities = json!({});
    }
    let post = post(request(id, method, &params)).with("mcp-protocol-version", MODERN).and("mcp-method", method);
    match params["name"].as_str().or(params["uri"].as_str()) {
        Some(name) => post.and("mcp-name", name),
        None => post,
    }
}

/// A request as it goes over the wire, or into a service.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A POST to `/mcp` as the official SDKs send it.
pub(crate) fn post(body: impl Into<Vec<u8>>) -> Post {
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    Post {
        method: "POST",
        target: "/mcp".to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        body: body.into(),
    }
}

impl Post {
    pub(crate) fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn to(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    /// One header more.
    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// This header instead of all others of its name.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).and(name, value)
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn request(&self) -> Request<Body> {
        let request = self
            .headers
            .iter()
            .fold(Request::builder().method(self.method).uri(&self.target), |it, (name, value)| it.header(name, value));
        request.body(Body::from(self.body.clone())).expect("a request")
    }

    /// The head alone, with the length of the body that is to follow.
    pub(crate) fn head(&self) -> Vec<u8> {
        self.head_with(&format!("content-length: {}\r\n", self.body.len()))
    }

    /// The head as the test made it, for one that names a length of its own.
    pub(crate) fn head_alone(&self) -> Vec<u8> {
        self.head_with("")
    }

    pub(crate) fn chunked_head(&self) -> Vec<u8> {
        self.head_with("transfer-encoding: chunked\r\n")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head(), self.body.clone()].concat()
    }

    /// The body in chunks of this size.
    pub(crate) fn chunked(&self, size: usize) -> Vec<u8> {
        let mut bytes = self.chunked_head();
        for piece in self.body.chunks(size) {
            bytes.extend_from_slice(&chunk(piece));
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    fn head_with(&self, framing: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{head}{framing}\r\n").into_bytes()
    }
}

pub(crate) fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}
