use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::child::Child;
use crate::line::beginning;
use crate::lines::{TooLong, lines};

/// What a process has written before it ended is read for this long at most: one that it started may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Of a line for the log, in bytes.
const LONGEST_LOGGED: usize = 64 << 10;

/// The process of a child, from its start to its end.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Arc<Child>,
    pub(crate) grace: Duration,
    /// What is written to it.
    pub(crate) lines: mpsc::Receiver<String>,
    pub(crate) max_line_bytes: usize,
    pub(crate) process: tokio::process::Child,
}

impl Process {
    /// Carries lines in both directions until the process ends, or has to.
    pub(crate) async fn run(mut self) {
        let pid = self.process.id();
        let log = self.process.stderr.take().map(|stderr| tokio::spawn(log(stderr, pid)));
        let (why, exited) = self.serve().await;
        tracing::info!(pid, why, "ended");
        self.child.close(why);
        // Who waits for room is told so.
        self.lines.close();
        if !exited {
            self.end(pid).await;
        }
        // What it has started does not outlive it.
        signal(pid, Signal::KILL);
        if let Some(mut log) = log
            && timeout(LAST_WORDS, &mut log).await.is_err()
        {
            log.abort();
        }
    }

    /// Why it ends, and whether the process has ended already. Its input is closed then.
    async fn serve(&mut self) -> (String, bool) {
        let Self { child, lines: to_write, max_line_bytes, process, .. } = self;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return ("the server has no standard input and output".to_owned(), false);
        };
        let mut reading = pin!(read(stdout, child, *max_line_bytes));
        let why = tokio::select! {
            read = &mut reading => match read {
                Ok(()) => "the server has closed its output".to_owned(),
                Err(why) => return (why, false),
            },
            why = write(stdin, to_write) => {
                timeout(LAST_WORDS, reading).await.ok();
                why
            }
            status = process.wait() => {
                timeout(LAST_WORDS, reading).await.ok();
                return (exited(status), true);
            }
            () = child.asked_to_end() => return ("the session has ended".to_owned(), false),
        };
        // Its pipes close with the process, mostly, whose status tells more.
        match timeout(LAST_WORDS, process.wait()).await {
            Ok(status) => (exited(status), true),
            Err(_) => (why, false),
        }
    }

    /// MCP, *Lifecycle*, Shutdown: its input is closed, and then it is told to end, and made to.
    async fn end(&mut self, pid: Option<u32>) {
        if timeout(self.grace, self.process.wait()).await.is_ok() {
            return;
        }
        signal(pid, Signal::TERM);
        if timeout(self.grace, self.process.wait()).await.is_ok() {
            return;
        }
        tracing::warn!(pid, "killed");
        signal(pid, Signal::KILL);
        if let Err(error) = self.process.wait().await {
            tracing::error!(pid, %error, "cannot be waited for");
        }
    }
}

/// To the process and to what it has started. The number is theirs as long as one of them lives, and is not given out
/// again right after.
fn signal(pid: Option<u32>, signal: Signal) {
    let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(Err(error)) = pid.map(|pid| kill_process_group(pid, signal)) {
        tracing::debug!(%error, ?signal, "not sent");
    }
}

fn exited(status: std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("the server has exited ({status})"),
        Err(error) => {
            tracing::error!(%error, "the server's status");
            "the server has exited (status unknown)".to_owned()
        }
    }
}

/// Reads to the end of the output, or says why not.
async fn read(stdout: ChildStdout, child: &Arc<Child>, longest: usize) -> Result<(), String> {
    let mut lines = lines(stdout, longest);
    loop {
        match lines.next().await {
            Some(Ok(Ok(line))) => child.heard(&line).await,
            // It may have been an answer, and nobody knows whose.
            Some(Ok(Err(TooLong))) => {
                return Err(format!("the server wrote a line of more than {longest} bytes"));
            }
            Some(Err(error)) => {
                tracing::error!(%error, "the server's output");
                return Err("the server cannot be read".to_owned());
            }
            None => return Ok(()),
        }
    }
}

/// Writes until it fails, and says why.
async fn write(mut stdin: ChildStdin, lines: &mut mpsc::Receiver<String>) -> String {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if let Err(error) = stdin.write_all(line.as_bytes()).await {
            tracing::warn!(%error, "the server's input");
            return "the server cannot be written to".to_owned();
        }
    }
    "the server is not used any more".to_owned()
}

async fn log(stderr: ChildStderr, pid: Option<u32>) {
    let mut lines = lines(stderr, LONGEST_LOGGED);
    while let Some(Ok(line)) = lines.next().await {
        match line {
            Ok(line) => tracing::info!(pid, line = beginning(line.trim_end()), "stderr"),
            Err(TooLong) => tracing::info!(pid, "a line of stderr is too long to be logged"),
        }
    }
}
