//! What the layer costs over HTTP: requests a second on a route behind `McpLayer`, against a plain axum handler that does
//! the same work; what `McpRouter` costs there, with the same work as its one tool; and what `McpLayer::transparent` costs in
//! front of the plain handler.
//!
//! The routes are of one server with one worker, and a load generator with a thread of its own calls them in turns over
//! the same connections. So the worker is what the rate depends on, and whatever else the machine does meets all.
//!
//! `cargo bench --bench http -- --rounds 15 --seconds 0.5`. Where `MCP_LAYER_BENCH_MIN_RATIO` is set, a lower ratio at
//! 32 or 256 connections is a failure.

#![expect(clippy::print_stdout, reason = "the measurements are what this is for")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{BoxError, Router};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName};
use mcp_layer::{Arguments, McpError, McpLayer, McpMessage, McpRouter, McpServer, Reply, ServerInfo, Tool};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

fn main() -> Result<(), BoxError> {
    let plan = Plan::from_environment();
    let server = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = Builder::new_current_thread().enable_all().build()?;
    let address = serve(&server)?;

    println!(
        "connections   bare/s  layered/s  routed/s  transparent/s   layered/bare (quartiles)   routed/layered (quartiles)   \
         transparent/bare (quartiles)"
    );
    let mut too_slow = false;
    for connections in [1, 32, 256] {
        let comparison = client.block_on(compare(address, connections, &plan))?;
        println!("{connections:>11} {comparison}");
        // A single connection measures how fast the machine changes between two threads, and little else.
        too_slow |= connections > 1
            && plan.min_ratio.is_some_and(|least| comparison.ratio(Route::Layered, Route::Bare) < least);
    }
    if too_slow { Err("the layer is slower than MCP_LAYER_BENCH_MIN_RATIO allows".into()) } else { Ok(()) }
}

struct Plan {
    rounds: usize,
    turn: Duration,
    min_ratio: Option<f64>,
}

impl Plan {
    fn from_environment() -> Self {
        let args: Vec<String> = std::env::args().collect();
        if !args.iter().any(|arg| arg == "--bench") {
            // `cargo test` only wants to know that it works.
            return Self { rounds: 1, turn: Duration::from_millis(50), min_ratio: None };
        }
        let option = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
        let rounds = option("--rounds").map_or(15, |rounds| rounds.parse().expect("--rounds takes a number"));
        let seconds = option("--seconds").map_or(0.5, |seconds| seconds.parse().expect("--seconds takes a number"));
        let min_ratio = std::env::var("MCP_LAYER_BENCH_MIN_RATIO").ok();
        let min_ratio = min_ratio.map(|ratio| ratio.parse().expect("MCP_LAYER_BENCH_MIN_RATIO is a number"));
        Self { rounds, turn: Duration::from_secs_f64(seconds), min_ratio }
    }
}

// The server.

#[derive(Clone, Copy)]
enum Route {
    Bare,
    Layered,
    Routed,
    Transparent,
}

impl Route {
    const ALL: [Self; 4] = [Self::Bare, Self::Layered, Self::Routed, Self::Transparent];

    fn path(self) -> &'static str {
        match self {
            Self::Bare => "/bare",
            Self::Layered => "/hand",
            Self::Routed => "/tool",
            Self::Transparent => "/thin",
        }
    }
}

fn serve(runtime: &Runtime) -> std::io::Result<SocketAddr> {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    let tool = Tool::with_schema("echo", "Returns its text", schema, routed);
    let mcp = Router::new()
        .route(Route::Layered.path(), post(layered))
        .route_service(Route::Routed.path(), McpRouter::new(ServerInfo::new("bench", "1.0.0")).tool(tool))
        .layer(McpLayer::new(McpServer::new()));
    let transparent =
        Router::new().route(Route::Transparent.path(), post(bare)).layer(McpLayer::transparent(McpServer::new()));
    let app = Router::new().route(Route::Bare.path(), post(bare)).merge(mcp).merge(transparent);
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("TCP_NODELAY can be set"));
    runtime.spawn(async { axum::serve(listener, app).await });
    Ok(address)
}

async fn layered(message: McpMessage) -> Result<Reply<CallResult>, McpError> {
    match message.method() {
        "tools/call" => called(message.params()?).map(Reply).ok_or_else(|| McpError::invalid_params("Unknown tool")),
        other => Err(McpError::method_not_found(other)),
    }
}

async fn routed(Arguments(Echo { text }): Arguments<Echo>) -> Reply<CallResult> {
    Reply(echo(text))
}

async fn bare(body: Bytes) -> Result<([(HeaderName, &'static str); 1], Vec<u8>), StatusCode> {
    #[derive(Deserialize)]
    struct Request<'a> {
        jsonrpc: &'a str,
        id: u64,
        method: &'a str,
        params: Call,
    }

    #[derive(Serialize)]
    struct Response {
        jsonrpc: &'static str,
        id: u64,
        result: CallResult,
    }

    let request: Request<'_> = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    if request.jsonrpc != "2.0" || request.method != "tools/call" {
        return Err(StatusCode::BAD_REQUEST);
    }
    let result = called(request.params).ok_or(StatusCode::BAD_REQUEST)?;
    let response = Response { jsonrpc: "2.0", id: request.id, result };
    let json = serde_json::to_vec(&response).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(CONTENT_TYPE, "application/json")], json))
}

#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Echo,
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Serialize)]
struct CallResult {
    content: [Content; 1],
}

#[derive(Serialize)]
struct Content {
    r#type: &'static str,
    text: String,
}

fn called(call: Call) -> Option<CallResult> {
    (call.name == "echo").then(|| echo(call.arguments.text))
}

fn echo(text: String) -> CallResult {
    CallResult { content: [Content { r#type: "text", text }] }
}

// The load generator.

/// Requests a second in each round, of each route.
struct Comparison([Vec<f64>; Route::ALL.len()]);

async fn compare(server: SocketAddr, connections: u64, plan: &Plan) -> Result<Comparison, BoxError> {
    let mut clients = Vec::new();
    for number in 0..connections {
        clients.push(Client::connect(server, number).await?);
    }
    let mut comparison = Comparison(Default::default());
    for route in Route::ALL {
        take_turn(&mut clients, route.path(), plan.turn).await?;
    }
    for round in 0..plan.rounds {
        // Whoever goes second has other luck with the rest of the machine: each goes first in its turn.
        let mut routes = Route::ALL;
        routes.rotate_left(round % Route::ALL.len());
        for route in routes {
            let rate = take_turn(&mut clients, route.path(), plan.turn).await?;
            comparison.0[route as usize].push(rate);
        }
    }
    Ok(comparison)
}

/// All clients call one route for a while. Returns how many requests were answered in a second.
async fn take_turn(clients: &mut Vec<Client>, path: &'static str, turn: Duration) -> Result<f64, BoxError> {
    let start = Instant::now();
    let mut calling = JoinSet::new();
    for client in clients.drain(..) {
        calling.spawn(client.call_until(path, start + turn));
    }
    let mut answered = 0;
    while let Some(called) = calling.join_next().await {
        let (client, answers) = called??;
        clients.push(client);
        answered += answers;
    }
    Ok(f64::from(answered) / start.elapsed().as_secs_f64())
}

struct Client {
    connection: TcpStream,
    host: SocketAddr,
    session: u64,
    last_id: u64,
}

impl Client {
    async fn connect(host: SocketAddr, session: u64) -> std::io::Result<Self> {
        let connection = TcpStream::connect(host).await?;
        connection.set_nodelay(true)?;
        // All ids have nine digits, and no two clients the same.
        Ok(Self { connection, host, session, last_id: 100_000_000 + session * 1_000_000 })
    }

    async fn call_until(mut self, path: &'static str, end: Instant) -> Result<(Self, u32), BoxError> {
        let (mut request, mut expected) = (self.request(path), Numbered::new(RESPONSE_BODY));
        let mut response = Vec::with_capacity(4_096);
        let mut answered = 0;
        while Instant::now() < end {
            self.last_id += 1;
            self.connection.write_all(request.with(self.last_id)).await?;
            response.clear();
            let body = loop {
                if self.connection.read_buf(&mut response).await? == 0 {
                    return Err("the server closed a connection".into());
                }
                if let Some(body) = body_of(&response)? {
                    break body;
                }
            };
            let expected = expected.with(self.last_id);
            if body != expected {
                let [body, expected] = [body, expected].map(String::from_utf8_lossy);
                return Err(format!("{path} answered {body} and not {expected}").into());
            }
            answered += 1;
        }
        Ok((self, answered))
    }

    fn request(&self, path: &str) -> Numbered {
        Numbered::new(&format!(
            "POST {path} HTTP/1.1\r\n\
             Host: {}\r\n\
             Content-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2025-11-25\r\n\
             Mcp-Session-Id: 5e0f7a3c-93a4-4c39-a7c5-{:012}\r\n\
             Content-Length: {}\r\n\r\n\
             {REQUEST_BODY}",
            self.host,
            self.session,
            REQUEST_BODY.len(),
        ))
    }
}

const REQUEST_BODY: &str = r#"{"jsonrpc":"2.0","id":#########,"method":"tools/call","params":{"name":"echo","arguments":{"text":"This is text ######### of many, and as long as short ones are."}}}"#;
const RESPONSE_BODY: &str = r#"{"jsonrpc":"2.0","id":#########,"result":{"content":[{"type":"text","text":"This is text ######### of many, and as long as short ones are."}]}}"#;
const NUMBER: &str = "#########";

/// A text with places for a number of nine digits, so that a message that differs from the last costs next to nothing.
struct Numbered {
    text: Vec<u8>,
    places: Vec<usize>,
}

impl Numbered {
    fn new(text: &str) -> Self {
        let places = text.match_indices(NUMBER).map(|(at, _)| at).collect();
        Self { text: text.as_bytes().to_vec(), places }
    }

    fn with(&mut self, mut number: u64) -> &[u8] {
        let mut digits = [b'0'; NUMBER.len()];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        for &at in &self.places {
            self.text[at..at + digits.len()].copy_from_slice(&digits);
        }
        &self.text
    }
}

/// The body of a response, once it is whole.
fn body_of(response: &[u8]) -> Result<Option<&[u8]>, BoxError> {
    let Some(head_len) = response.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let (head, body) = (std::str::from_utf8(&response[..head_len])?, &response[head_len + 4..]);
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("refused: {head}").into());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.ok_or("a response without a length")?.parse()?;
    Ok((body.len() >= length).then_some(body))
}

// The numbers.

impl Comparison {
    fn rate(&self, route: Route) -> f64 {
        median(self.0[route as usize].clone())
    }

    fn ratio(&self, one: Route, other: Route) -> f64 {
        self.rate(one) / self.rate(other)
    }

    /// Of pairs of rounds.
    fn quartiles(&self, one: Route, other: Route) -> [f64; 3] {
        let pairs = self.0[one as usize].iter().zip(&self.0[other as usize]).map(|(one, other)| one / other);
        let pairs: Vec<f64> = pairs.collect();
        [0.25, 0.5, 0.75].map(|share| quantile(pairs.clone(), share))
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [bare, layered, routed, transparent] = Route::ALL.map(|route| self.rate(route));
        write!(f, "{bare:>8.0} {layered:>10.0} {routed:>9.0} {transparent:>14.0}")?;
        for (one, other) in
            [(Route::Layered, Route::Bare), (Route::Routed, Route::Layered), (Route::Transparent, Route::Bare)]
        {
            let [low, middle, high] = self.quartiles(one, other);
            write!(f, "   {:.3} ({low:.3} {middle:.3} {high:.3})", self.ratio(one, other))?;
        }
        Ok(())
    }
}

fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}
