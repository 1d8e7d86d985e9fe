//! The example `gateway`, and a server behind it that does what a test says, byte for byte.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::time::timeout;

use super::{Answer, Asked, BOUND, Connection, Post, example};

/// The example.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    process: Child,
}

impl Gateway {
    pub(crate) async fn before(upstream: SocketAddr) -> Self {
        Self::with(&[], &format!("http://{upstream}/mcp")).await
    }

    pub(crate) async fn with(options: &[&str], upstream: &str) -> Self {
        let arguments = [&["--upstream", upstream], options].concat();
        let (address, process) = example::start("gateway", &arguments, Stdio::null()).await;
        Self { address, process }
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Over a connection of its own.
    pub(crate) async fn post(&self, post: &Post) -> Answer {
        self.connect().await.post(post).await
    }

    /// The same on a task of its own.
    pub(crate) fn park(&self, post: &Post) -> Asked {
        let (address, post) = (self.address, post.clone());
        Asked::new(async move { Connection::open(address).await.post(&post).await })
    }

    /// Sends a request, whose answer is still to be read.
    pub(crate) async fn begin(&self, post: &Post) -> Connection {
        let mut connection = self.connect().await;
        connection.send(post.bytes()).await;
        connection
    }

    pub(crate) fn signal(&self, signal: Signal) {
        example::signal(&self.process, signal);
    }

    pub(crate) async fn exits(mut self) {
        example::exits(&mut self.process).await;
    }
}

/// The server behind it.
#[derive(Debug)]
pub(crate) struct Upstream(TcpListener);

impl Upstream {
    pub(crate) async fn new() -> Self {
        Self::on("127.0.0.1:0").await.expect("a port")
    }

    pub(crate) async fn on(address: &str) -> std::io::Result<Self> {
        TcpListener::bind(address).await.map(Self)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = timeout(BOUND, self.0.accept()).await.expect("a connection in time").expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Peer(BufReader::new(stream))
    }

    /// A connection, and the first request on it.
    pub(crate) async fn hears(&self) -> (Peer, Heard) {
        let mut peer = self.accept().await;
        let heard = peer.hears().await;
        (peer, heard)
    }

    /// Hears a notification on a connection of its own, and accepts it.
    pub(crate) async fn accepts(&self) -> Heard {
        let (mut peer, heard) = self.hears().await;
        peer.send("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        heard
    }

    /// No connection waits to be accepted.
    pub(crate) async fn hears_no_more(&self) {
        // Far more than the gateway would take.
        assert!(timeout(Duration::from_millis(300), self.0.accept()).await.is_err(), "one connection more");
    }
}

/// A connection from the gateway.
#[derive(Debug)]
pub(crate) struct Peer(BufReader<TcpStream>);

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) line: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Peer {
    pub(crate) async fn hears(&mut self) -> Heard {
        timeout(BOUND, self.read()).await.expect("a request in time")
    }

    async fn read(&mut self) -> Heard {
        let (line, mut headers) = (self.line().await, HeaderMap::new());
        loop {
            let header = self.line().await;
            let Some((name, value)) = header.split_once(": ") else { break };
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let length = headers.get("content-length").map_or("0", |length| length.to_str().expect("a number"));
        let mut body = vec![0; length.parse().expect("a number")];
        self.0.read_exact(&mut body).await.expect("a whole body");
        Heard { line, headers, body: String::from_utf8(body).expect("UTF-8") }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("a line");
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("the connection ended: {line:?}")).to_owned()
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        timeout(BOUND, self.0.get_mut().write_all(bytes.as_ref())).await.expect("it is read").expect("it is open");
    }

    /// Sends what may come too late for its connection.
    pub(crate) async fn sends_late(&mut self, bytes: impl AsRef<[u8]>) {
        drop(timeout(BOUND, self.0.get_mut().write_all(bytes.as_ref())).await.expect("it does not block"));
    }

    pub(crate) async fn replies(&mut self, json: impl AsRef<str>) {
        let (json, length) = (json.as_ref(), json.as_ref().len());
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        self.send([head.as_bytes(), json.as_bytes()].concat()).await;
    }

    /// The same, and the connection is not to be used again.
    pub(crate) async fn replies_at_last(&mut self, json: impl AsRef<str>) {
        let (json, length) = (json.as_ref(), json.as_ref().len());
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        self.send(format!("{head}content-length: {length}\r\n\r\n{json}")).await;
    }

    /// Begins a stream of events, whose chunks follow. The connection is not to be used again.
    pub(crate) async fn streams(&mut self) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
        self.send(format!("{head}transfer-encoding: chunked\r\n\r\n")).await;
    }

    /// Closes the connection, and waits until the gateway has seen it.
    pub(crate) async fn closes(&mut self) {
        self.0.get_mut().shutdown().await.expect("it is open");
        self.ends().await;
    }

    /// The gateway has dropped the connection, and sent nothing more before.
    pub(crate) async fn ends(&mut self) {
        let rest = timeout(BOUND, self.0.fill_buf()).await.expect("an end in time");
        assert!(rest.is_ok_and(<[u8]>::is_empty), "more was sent");
    }

    /// It has not, for as long as it would take.
    pub(crate) async fn stays(&mut self) {
        let end = timeout(Duration::from_millis(300), self.0.fill_buf()).await;
        assert!(end.is_err(), "it ended: {end:?}");
    }
}
