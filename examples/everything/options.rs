use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use mcp_layer::{AmbiguousCancel, ConfigError, DuplicateId, McpServer};

use crate::debug::{CountOutcomes, Debug};

/// One flag for each option of the crate, with its defaults.
#[derive(Parser)]
pub(crate) struct Options {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub(crate) listen: SocketAddr,
    #[arg(long)]
    max_body_bytes: Option<usize>,
    #[arg(long)]
    max_buffered_body_bytes: Option<usize>,
    #[arg(long)]
    body_timeout_ms: Option<u64>,
    #[arg(long)]
    request_timeout_ms: Option<u64>,
    #[arg(long, default_value_t = 10_000)]
    pub(crate) drain_ms: u64,
    #[arg(long)]
    stream_after_ms: Option<u64>,
    #[arg(long)]
    keep_alive_ms: Option<u64>,
    #[arg(long)]
    max_parked: Option<usize>,
    #[arg(long)]
    max_parked_per_caller: Option<usize>,
    /// Instead of loopback; may be repeated
    #[arg(long, num_args = 1..)]
    allowed_host: Vec<String>,
    /// Instead of loopback; may be repeated
    #[arg(long, num_args = 1..)]
    allowed_origin: Vec<String>,
    #[arg(long, default_value = "ignore")]
    ambiguous: Ambiguous,
    #[arg(long, default_value = "allow")]
    duplicate_ids: Duplicates,
    #[arg(long)]
    early_cancel_ms: Option<u64>,
    #[arg(long)]
    grace_ms: Option<u64>,
    #[arg(long)]
    no_sessions: bool,
    #[arg(long)]
    strict_callers: bool,
    /// Trusts this header to name the principal: for checks only, since anyone can send it
    #[arg(long)]
    principal_header: Option<String>,
    #[arg(long)]
    honour_modern_cancel: bool,
    #[arg(long, allow_negative_numbers = true)]
    cancel_code: Option<i64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ambiguous {
    All,
    Ignore,
    Newest,
}

#[derive(Clone, Copy, ValueEnum)]
enum Duplicates {
    Allow,
    Reject,
}

impl Options {
    pub(crate) fn server(&self, debug: Arc<Debug>) -> Result<McpServer, ConfigError> {
        let mut server = McpServer::builder()
            .ambiguous_cancel(match self.ambiguous {
                Ambiguous::All => AmbiguousCancel::All,
                Ambiguous::Ignore => AmbiguousCancel::Ignore,
                Ambiguous::Newest => AmbiguousCancel::Newest,
            })
            .duplicate_id(match self.duplicate_ids {
                Duplicates::Allow => DuplicateId::Allow,
                Duplicates::Reject => DuplicateId::Reject,
            })
            .honour_modern_cancel(self.honour_modern_cancel)
            .observer(CountOutcomes(debug))
            .sessions(!self.no_sessions)
            .strict_callers(self.strict_callers);
        if !self.allowed_host.is_empty() {
            server = server.allowed_hosts(&self.allowed_host)?;
        }
        if !self.allowed_origin.is_empty() {
            server = server.allowed_origins(&self.allowed_origin)?;
        }
        if let Some(bytes) = self.max_body_bytes {
            server = server.max_body_bytes(bytes);
        }
        if let Some(bytes) = self.max_buffered_body_bytes {
            server = server.max_buffered_body_bytes(bytes);
        }
        if let Some(millis) = self.body_timeout_ms {
            server = server.body_timeout(Duration::from_millis(millis));
        }
        if let Some(millis) = self.request_timeout_ms {
            server = server.request_timeout(Some(Duration::from_millis(millis)));
        }
        if let Some(millis) = self.stream_after_ms {
            server = server.stream_after(Some(Duration::from_millis(millis)));
        }
        if let Some(millis) = self.keep_alive_ms {
            server = server.keep_alive(Some(Duration::from_millis(millis)));
        }
        if let Some(most) = self.max_parked {
            server = server.max_parked(most);
        }
        if let Some(most) = self.max_parked_per_caller {
            server = server.max_parked_per_caller(most);
        }
        if let Some(millis) = self.early_cancel_ms {
            server = server.early_cancels(Duration::from_millis(millis));
        }
        if let Some(millis) = self.grace_ms {
            server = server.cancel_grace(Duration::from_millis(millis));
        }
        if let Some(code) = self.cancel_code {
            server = server.cancel_code(code);
        }
        if let Some(name) = self.principal_header.clone() {
            server = server.principal(move |request| Some(request.headers.get(&name)?.to_str().ok()?.to_owned()));
        }
        Ok(server.build())
    }
}
