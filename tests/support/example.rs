//! An example as a process. Cargo builds the examples for a whole `cargo test`; for a file alone, build them before.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::BOUND;

/// Starts one that listens, and waits until it does.
pub(crate) async fn start(name: &str, arguments: &[&str], stderr: Stdio) -> (SocketAddr, Child) {
    let mut process = Command::new(path(name))
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .kill_on_drop(true)
        .spawn()
        .expect("cargo build --all-features --examples");
    let mut line = String::new();
    let mut stdout = BufReader::new(process.stdout.take().expect("it is piped"));
    timeout(BOUND, stdout.read_line(&mut line)).await.expect("a line in time").expect("a line");
    let address = line.trim().strip_prefix("listening on http://").and_then(|line| line.strip_suffix("/mcp"));
    let address = address.and_then(|address| address.parse().ok());
    (address.unwrap_or_else(|| panic!("it says {line:?}")), process)
}

pub(crate) fn path(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent().and_then(Path::parent).expect("target/debug").join("examples").join(name)
}

pub(crate) fn signal(process: &Child, signal: Signal) {
    let id = process.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it runs");
    kill_process(id, signal).expect("it is ours");
}

pub(crate) async fn exits(process: &mut Child) {
    let status = timeout(BOUND, process.wait()).await.expect("an end in time").expect("a status");
    assert!(status.success(), "{status}");
}
