use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Answer, BOUND, Post};

/// A connection over which a test sends what it likes, and reads what there is.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream: BufReader::new(stream) }
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

    async fn read(&mut self) -> Answer {
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
        let body = match headers.get("content-length") {
            _ if status == 100 => Bytes::new(),
            _ if headers.contains_key("transfer-encoding") => self.chunks().await,
            Some(length) => self.exactly(length.to_str().expect("a number").parse().expect("a number")).await,
            None => Bytes::new(),
        };
        Answer { status, headers, body }
    }

    async fn chunks(&mut self) -> Bytes {
        let mut body = Vec::new();
        loop {
            let line = self.line().await;
            let size = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("no chunk size: {line:?}"));
            body.extend_from_slice(&self.exactly(size).await);
            assert_eq!(self.line().await, "");
            if size == 0 {
                return body.into();
            }
        }
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
