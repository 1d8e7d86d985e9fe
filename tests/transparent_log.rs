//! What `McpLayer::transparent` logs. One test a file: what a test logs is caught for its thread only.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use axum::response::Response;
use http::StatusCode;

use support::foreign::{Foreign, a_call, answer, json_reply, reply};
use support::{Era, INTERNAL_ERROR};

fn with_status(status: u16, mut reply: Response) -> Response {
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    reply
}

#[tokio::test]
async fn what_was_wrong_with_a_reply_is_logged() {
    let foreign = Foreign::default();
    let site = foreign.site();
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
    let _logging = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    for (reply, parts) in [
        (json_reply("{"), &["WARN", "status=200 OK", "it is not JSON, or is cut short"][..]),
        (with_status(202, reply(&[], "")), &["status=202 Accepted", "it is empty"]),
        (json_reply(r#"{"jsonrpc":"2.0","error":{"code":-32700}}"#), &["it is an error without an id", "code=-32700"]),
        (json_reply(answer("2")), &["it has another id"]),
    ] {
        foreign.replies(reply);
        let id = r#""a\n""#;
        site.ask(&a_call(Era::Legacy, id)).await.error(200, INTERNAL_ERROR, id);
        let logged = std::mem::take(&mut *lines.0.lock().unwrap());
        let logged = String::from_utf8(logged).unwrap();
        assert_eq!(logged.lines().count(), 1, "{logged}");
        for part in parts.iter().chain(&[r#"id="a\n""#]) {
            assert!(logged.contains(part), "{part} in {logged}");
        }
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
