use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::events::{COMMENT, take_event};
use super::{Answer, BOUND, Post};

/// A connection over which a test sends what it likes, and reads what there is.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    /// What has been read of the next event.
    begun: String,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream: BufReader::new(stream), begun: String::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = timeout(BOUND, self.stream.get_mut().write_all(bytes.as_ref())).await;
        sent.expect("the server reads").expect("the connection is open");
    }

    pub(crate) async fn post(&mut self, post: &Post) -> Answer {
        self.send(post.bytes()).await;
        self.answer().await
    }

    /// The next response, `100 Continue` too.
    pub(crate) async fn answer(&mut self) -> Answer {
        timeout(BOUND, self.read()).await.expect("an answer in time")
    }

    /// The server has closed the connection, and sent nothing more before.
    pub(crate) async fn closed(&mut self) {
        let rest = timeout(BOUND, self.stream.fill_buf()).await.expect("an end in time");
        assert!(rest.is_ok_and(<[u8]>::is_empty), "more was sent");
    }

    /// The head of a response whose body is read event by event.
    pub(crate) async fn head(&mut self) -> Answer {
        timeout(BOUND, self.read_head()).await.expect("a head in time")
    }

    /// The next event of a stream, without the empty line that ends it. Comments of a silent stream are left out: over a
    /// socket nobody knows how long a test takes.
    pub(crate) async fn event(&mut self) -> String {
        timeout(BOUND, self.read_event()).await.expect("an event in time").expect("an event, not the end")
    }

    /// The stream ends as a chunked body does, and nothing comes before.
    pub(crate) async fn end_of_stream(&mut self) {
        assert_eq!(timeout(BOUND, self.read_event()).await.expect("an end in time"), None);
    }

    /// The events of a stream, up to its end.
    pub(crate) async fn rest_of_stream(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = timeout(BOUND, self.read_event()).await.expect("an end in time") {
            events.push(event);
        }
        events
    }

    async fn read_event(&mut self) -> Option<String> {
        loop {
            if let Some(event) = take_event(&mut self.begun) {
                if event == COMMENT {
                    continue;
                }
                return Some(event);
            }
            let chunk = self.chunk().await;
            if chunk.is_empty() {
                assert_eq!(self.begun, "", "half an event");
                return None;
            }
            self.begun.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    async fn read(&mut self) -> Answer {
        let mut answer = self.read_head().await;
        let headers = &answer.headers;
        answer.body = match headers.get("content-length") {
            _ if answer.status == 100 => Bytes::new(),
            _ if headers.contains_key("transfer-encoding") => self.chunks().await,
            Some(length) => self.exactly(length.to_str().expect("a number").parse().expect("a number")).await,
            None => Bytes::new(),
        };
        answer
    }

    async fn read_head(&mut self) -> Answer {
        let status_line = self.line().await;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {status_line:?}"));
        let mut headers = HeaderMap::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        Answer { status, headers, body: Bytes::new() }
    }

    async fn chunks(&mut self) -> Bytes {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk().await;
            body.extend_from_slice(&chunk);
            if chunk.is_empty() {
                return body.into();
            }
        }
    }

    /// The next chunk; the last one is empty.
    async fn chunk(&mut self) -> Bytes {
        let line = self.line().await;
        let size = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("no chunk size: {line:?}"));
        let chunk = self.exactly(size).await;
        assert_eq!(self.line().await, "");
        chunk
    }

    async fn exactly(&mut self, length: usize) -> Bytes {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.expect("a whole body");
        body.into()
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.expect("a line, not a reset");
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("the connection ended: {line:?}")).to_owned()
    }
}
