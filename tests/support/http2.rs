//! A client that speaks HTTP/2 without TLS, as a reverse proxy does.

use std::net::SocketAddr;

use axum::body::Body;
use axum::response::Response;
use http::{Request, Version};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Answer, BOUND, Live, Post};

pub(crate) async fn connect(live: &Live) -> SendRequest<Body> {
    connect_to(live.address).await
}

pub(crate) async fn connect_to(address: SocketAddr) -> SendRequest<Body> {
    let stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("TCP_NODELAY");
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
    tokio::spawn(connection);
    sender
}

pub(crate) fn to(authority: &str, path: &str, request: &Post) -> Request<Body> {
    let mut request = request.request();
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = format!("http://{authority}{path}").parse().expect("a URI");
    request
}

/// This request, to the path that it names.
pub(crate) fn local(request: &Post) -> Request<Body> {
    let path = request.request().uri().path().to_owned();
    to("localhost", &path, request)
}

pub(crate) async fn ask(sender: &SendRequest<Body>, request: Request<Body>) -> Answer {
    timeout(BOUND, Answer::of(open(sender, request).await)).await.expect("an answer in time")
}

/// The head of the response, with the body to be read.
pub(crate) async fn open(sender: &SendRequest<Body>, request: Request<Body>) -> Response {
    let response = timeout(BOUND, sender.clone().send_request(request)).await.expect("a head in time");
    response.expect("no reset").map(Body::new)
}
