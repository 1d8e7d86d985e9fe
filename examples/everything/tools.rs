//! The tools that checks of this crate call.

use std::sync::Arc;
use std::time::Duration;

use mcp_layer::{Arguments, CallToolResult, Cancellation, McpRouter, Notifier, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use crate::counted::Counted;
use crate::debug::Debug;

/// Nothing sleeps longer.
pub(crate) const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    McpRouter::default()
        .tool(Tool::new("echo", "Returns its text", Counted(echo)))
        .tool(Tool::new("fail", "Fails", Counted(fail)))
        .tool(Tool::new("panic", "Panics", Counted(panic)))
        .tool(Tool::new("slow", "Sleeps, unless it is cancelled, and reports its progress", Counted(slow)))
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

async fn echo(Arguments(Echo { text }): Arguments<Echo>) -> CallToolResult {
    CallToolResult::text(text)
}

async fn fail() -> CallToolResult {
    CallToolResult::error("failed, as asked")
}

async fn panic() -> CallToolResult {
    panic!("as asked")
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// How long to sleep
    ms: u64,
    /// How often to report the progress
    #[serde(default)]
    steps: u32,
    /// Sleep on when the call is cancelled
    #[serde(default)]
    ignore_cancel: bool,
}

async fn slow(
    cancellation: Cancellation,
    notifier: Notifier,
    Arguments(Slow { ms, steps, ignore_cancel }): Arguments<Slow>,
) -> CallToolResult {
    tokio::select! {
        () = sleep_in_steps(Duration::from_millis(ms).min(A_DAY), steps, &notifier) => {}
        _ = cancellation.cancelled(), if !ignore_cancel => {}
    }
    CallToolResult::text(format!("slept {ms} ms"))
}

async fn sleep_in_steps(time: Duration, steps: u32, notifier: &Notifier) {
    let began = Instant::now();
    for step in 1..=steps {
        sleep_until(began + time.mul_f64(f64::from(step) / f64::from(steps))).await;
        notifier.progress(f64::from(step), Some(f64::from(steps)), None);
    }
    sleep_until(began + time).await;
}
