use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use mcp_layer::{ConfigError, McpServer, ProtocolVersion};

/// Serves an MCP server that speaks over stdio over Streamable HTTP.
#[derive(Parser)]
pub(crate) struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub(crate) listen: SocketAddr,
    /// Host to answer to, instead of loopback; may be repeated
    #[arg(long)]
    allowed_host: Vec<String>,
    /// Web origin to answer to, instead of loopback; may be repeated
    #[arg(long)]
    allowed_origin: Vec<String>,
    /// Refuse requests of MCP 2026-07-28, so that clients that can open a session do
    #[arg(long)]
    no_modern: bool,
    /// Processes at once, one a session
    #[arg(long, default_value_t = 32)]
    pub(crate) max_children: usize,
    /// Bytes of a line that the server writes
    #[arg(long, default_value_t = 4 << 20)]
    pub(crate) max_line_bytes: usize,
    /// Seconds without a request or a GET stream after which a session ends, and its process with it
    #[arg(long, default_value = "600", value_parser = seconds)]
    pub(crate) idle_timeout: Duration,
    /// Seconds in which the server must have answered `initialize`, and then the client gone on with its session
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub(crate) start_timeout: Duration,
    /// Seconds in which it must have answered a request
    #[arg(long, default_value = "600", value_parser = seconds)]
    request_timeout: Duration,
    /// Seconds that a process has to end once its input is closed, and again once it is told to terminate
    #[arg(long, default_value = "2", value_parser = seconds)]
    pub(crate) grace: Duration,
    /// Seconds that requests have to finish on SIGTERM, SIGINT or SIGHUP
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub(crate) drain: Duration,
    /// The server, after `--`
    #[arg(last = true, required = true, num_args = 1..)]
    pub(crate) command: Vec<OsString>,
}

impl Options {
    pub(crate) fn server(&self) -> Result<McpServer, ConfigError> {
        // `initialize` has the time to start.
        let mut server =
            McpServer::builder().request_timeout(Some(self.request_timeout)).request_timeout_of("initialize", None);
        if !self.allowed_host.is_empty() {
            server = server.allowed_hosts(&self.allowed_host)?;
        }
        if !self.allowed_origin.is_empty() {
            server = server.allowed_origins(&self.allowed_origin)?;
        }
        if self.no_modern {
            server = server.versions(ProtocolVersion::ALL.into_iter().filter(|version| !version.is_modern()));
        }
        Ok(server.build())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
