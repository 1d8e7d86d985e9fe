use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use mcp_layer::McpError;
use serde_json::value::RawValue;
use tokio::process::Command;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use crate::child::{Child, Clients};
use crate::options::Options;
use crate::process::Process;

/// Lines that wait for a child to read them.
const MOST_LINES: usize = 64;

/// Starts children.
#[derive(Debug)]
pub(crate) struct Launcher {
    command: Vec<OsString>,
    grace: Duration,
    max_line_bytes: usize,
    start_timeout: Duration,
    /// A process has its place until it has ended.
    places: Arc<Semaphore>,
    processes: TaskTracker,
}

impl Launcher {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            command: options.command.clone(),
            grace: options.grace,
            max_line_bytes: options.max_line_bytes,
            start_timeout: options.start_timeout,
            places: Arc::new(Semaphore::new(options.max_children)),
            processes: TaskTracker::new(),
        }
    }

    /// A child that is being initialized with these params.
    pub(crate) fn launch(&self, initialize: Arc<RawValue>, clients: Clients) -> Result<Arc<Child>, McpError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| McpError::internal_error("too many servers are running: try again later"))?;
        let [program, arguments @ ..] = &self.command[..] else {
            return Err(McpError::internal_error("no server is configured"));
        };
        let process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What it starts itself is ended with it, and Ctrl-C is for this process to handle.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                tracing::error!(%error, ?program, "the server cannot be started");
                McpError::internal_error("the server cannot be started")
            })?;
        tracing::info!(pid = process.id(), "started");
        let (lines, to_write) = mpsc::channel(MOST_LINES);
        let (child, initialized) = Child::new(lines, clients);
        let process = Process {
            child: Arc::clone(&child),
            grace: self.grace,
            lines: to_write,
            max_line_bytes: self.max_line_bytes,
            process,
        };
        self.processes.spawn(async move {
            process.run().await;
            drop(place);
        });
        tokio::spawn(Arc::clone(&child).initialize(initialize, self.start_timeout, initialized));
        Ok(child)
    }

    /// There is no place for another process now.
    pub(crate) fn is_full(&self) -> bool {
        self.places.available_permits() == 0
    }

    /// Waits until all processes have ended.
    pub(crate) async fn ended(&self) {
        self.processes.close();
        self.processes.wait().await;
    }
}
