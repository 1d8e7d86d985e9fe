//! What the tests share: a handler that does what a test asks, a server on a real socket, and a client that hides nothing.
#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]
#![allow(unused_imports, reason = "as above")]

mod answer;
pub(crate) mod asker;
pub(crate) mod bridge;
mod client;
mod era;
mod events;
mod example;
pub(crate) mod foreign;
pub(crate) mod gateway;
pub(crate) mod http2;
mod mcp;
mod message;
mod probe;
pub(crate) mod replies;
mod site;

pub(crate) use self::answer::{Answer, error_of, result_of};
pub(crate) use self::client::Connection;
pub(crate) use self::era::Era;
pub(crate) use self::events::{COMMENT, Events};
pub(crate) use self::example::path as example_path;
pub(crate) use self::mcp::{LEGACY, cacheable, calls, completed, mcp, panics, texts};
pub(crate) use self::message::{
    MODERN, Post, call, cancel, cancel_because, chunk, held, initialize, modern, post, request,
};
pub(crate) use self::probe::{Outcomes, Probe, note, plain, polite};
pub(crate) use self::site::{Asked, Live, Site, until};

use std::time::Duration;

/// No test waits longer than this for anything: far more than a slow machine needs.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const CANCELLED: i64 = -32002;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
