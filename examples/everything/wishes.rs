use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mcp_layer::{McpError, McpMessage};
use serde::Deserialize;
use tokio::time::sleep;

use crate::debug::Debug;
use crate::tools::A_DAY;

/// What the params of any message may ask of this server, for checks.
#[derive(Default, Deserialize)]
struct Wishes {
    #[serde(default, rename = "_meta")]
    meta: Meta,
    #[serde(default, rename = "example/onNotification")]
    on_notification: Option<String>,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default, rename = "example/delayMs")]
    delay_ms: u64,
}

/// A middleware: notes every notification, and does what a message asks for.
pub(crate) async fn grant(
    State(debug): State<Arc<Debug>>,
    message: McpMessage,
    request: Request,
    next: Next,
) -> Response {
    let wishes: Wishes = message.params().unwrap_or_default();
    if message.is_notification() {
        debug.note(message.as_str());
        match wishes.on_notification.as_deref() {
            Some("fail") => return McpError::internal_error("as asked").into_response(),
            Some("panic") => panic!("as asked"),
            _ => {}
        }
    } else if wishes.meta.delay_ms > 0 {
        sleep(Duration::from_millis(wishes.meta.delay_ms).min(A_DAY)).await;
    }
    next.run(request).await
}
