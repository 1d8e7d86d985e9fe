//! Answers by ticket.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post as on_post};
use mcp_layer::{
    CallToolResult, Deferred, DeferredReply, McpError, McpRouter, Outcome, Reply, ReplyTicket, ServerInfo, TooLate,
    Tool,
};
use serde_json::{Value, json};
use tokio::time::advance;

use support::{CANCELLED, Era, INTERNAL_ERROR, Site, call, cancel, post, until};

/// Where the tickets go.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<ReplyTicket>>>);

impl Desk {
    fn handler(&self) -> MethodRouter {
        on_post(hands_on).with_state(self.clone())
    }

    async fn ticket(&self) -> ReplyTicket {
        until(|| !self.0.lock().unwrap().is_empty()).await;
        self.0.lock().unwrap().remove(0)
    }
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn hands_on(State(desk): State<Desk>, deferred: Deferred) -> ([(&'static str, &'static str); 1], DeferredReply) {
    let (ticket, reply) = deferred.split();
    desk.0.lock().unwrap().push(ticket);
    ([("x-own", "1")], reply)
}

#[tokio::test(start_paused = true)]
async fn a_ticket_answers_its_request() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let (one, other) = (site.begin(&post(call("1", &json!({})))), site.begin(&post(call("2", &json!({})))));
    let (first, second) = (desk.ticket().await, desk.ticket().await);
    assert_eq!(site.server.parked(), 2);
    second.reply(json!({ "n": 2 })).unwrap();
    first.error(McpError::new(7, "no")).unwrap();
    let answer = other.answer().await;
    assert_eq!((answer.result("2"), answer.header("x-own")), (json!({ "n": 2 }), Some("1")));
    one.answer().await.error(200, 7, "1");
    assert_eq!(site.server.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_dropped_is_an_error() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let asked = site.begin(&post(call("1", &json!({}))));
    drop(desk.ticket().await);
    asked.answer().await.error(200, INTERNAL_ERROR, "1");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_dropped_after_the_end_is_none() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::ERROR).with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(subscriber.finish());

    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let asked = site.begin(&post(call("1", &json!({}))));
    let ticket = desk.ticket().await;
    site.ask(&post(cancel("1"))).await.accepted();
    assert_eq!(ticket.ended().await, Outcome::Cancelled);
    drop(ticket);
    asked.answer().await.error(200, CANCELLED, "1");
    site.server.shutdown(Duration::ZERO).await;
    assert_eq!(log.text(), "");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_comes_too_late_says_why() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let asked = site.begin(&post(call("1", &json!({}))));
    let ticket = desk.ticket().await;
    site.ask(&post(cancel("1"))).await.accepted();
    asked.answer().await.error(200, CANCELLED, "1");
    assert_eq!(ticket.ended().await, Outcome::Cancelled);
    let late = ticket.reply(()).unwrap_err();
    assert_eq!(
        (late.outcome(), late.to_string()),
        (Outcome::Cancelled, "the exchange has ended: Cancelled".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_deadline_and_a_shutdown_reach_the_ticket() {
    for era in [Era::Legacy, Era::Modern] {
        let desk = Desk::default();
        let site = Site::over(desk.handler());
        let asked = site.begin(&era.call("1", &json!({})).with("accept", "application/json"));
        let ticket = desk.ticket().await;
        advance(Duration::from_secs(600)).await;
        asked.answer().await.error(200, era.timed_out(), "1");
        assert_eq!(ticket.ended().await, Outcome::TimedOut);

        let asked = site.begin(&era.call("2", &json!({})).with("accept", "application/json"));
        let ticket = desk.ticket().await;
        site.server.shutdown(Duration::from_secs(1)).await;
        asked.answer().await.error(200, era.shut_down(), "2");
        assert_eq!(ticket.error(McpError::new(1, "late")).unwrap_err().outcome(), Outcome::ShutDown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_a_modern_exchange_and_no_legacy_one() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let asked = site.begin(&Era::Modern.call("1", &json!({})));
    let ticket = desk.ticket().await;
    asked.abort();
    assert_eq!(ticket.ended().await, Outcome::Disconnected);

    let asked = site.begin(&Era::Legacy.call("2", &json!({})));
    let ticket = desk.ticket().await;
    asked.abort();
    tokio::task::yield_now().await;
    assert_eq!(site.server.parked(), 1);
    ticket.reply(()).unwrap();
    until(|| site.server.parked() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn notes_come_before_the_answer_of_a_ticket() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let asked = site.begin(&post(call("1", &json!({ "_meta": { "progressToken": 7 } }))));
    let ticket = desk.ticket().await;
    ticket.notifier().progress(1.0, None, None);
    ticket.reply(json!({ "n": 1 })).unwrap();
    let answer = asked.answer().await;
    let messages: Vec<Value> =
        answer.text().lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    assert_eq!((messages.len(), &messages[0]["method"]), (2, &json!("notifications/progress")));
    assert_eq!(messages[1], json!({ "jsonrpc": "2.0", "id": 1, "result": { "n": 1 } }));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_exchange_keeps_nothing_but_its_ticket() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let asked = site.begin(&post(call("1", &json!({}))));
    let ticket = desk.ticket().await;
    site.ask(&post(cancel("1"))).await.accepted();
    asked.answer().await;
    // The handler waits for nothing but the ticket, so it has no use for its grace time: nothing is left to drain.
    let before = tokio::time::Instant::now();
    site.server.shutdown(Duration::from_secs(60)).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    drop(ticket);
}

#[tokio::test(start_paused = true)]
async fn a_notification_has_no_ticket() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/x" });
    site.ask(&post(notification.to_string())).await.accepted();
    assert!(desk.0.lock().unwrap().is_empty(), "the handler is not called");
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_all_messages_takes_a_ticket_where_there_is_one() {
    async fn all(deferred: Option<Deferred>) -> Response {
        match deferred {
            Some(deferred) => {
                let (ticket, reply) = deferred.split();
                ticket.reply(json!({ "n": 1 })).unwrap();
                reply.into_response()
            }
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }

    let site = Site::over(on_post(all));
    assert_eq!(site.ask(&post(call("1", &json!({})))).await.result("1"), json!({ "n": 1 }));
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/x" });
    assert_eq!(site.ask(&post(notification.to_string())).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_hears_of_an_answer_that_is_not_its_own() {
    async fn by_itself(State(desk): State<Desk>, deferred: Deferred) -> Reply<Value> {
        desk.0.lock().unwrap().push(deferred.split().0);
        Reply(json!({ "n": 1 }))
    }
    async fn panics(State(desk): State<Desk>, deferred: Deferred) -> DeferredReply {
        desk.0.lock().unwrap().push(deferred.split().0);
        panic!("after the ticket is handed on");
    }
    async fn by_another(State(desk): State<Desk>, one: Deferred, other: Deferred) -> DeferredReply {
        desk.0.lock().unwrap().push(other.split().0);
        let (ticket, reply) = one.split();
        tokio::spawn(async { ticket.reply(json!({ "n": 1 })) });
        reply
    }

    for handler in [on_post(by_itself), on_post(panics), on_post(by_another)] {
        let desk = Desk::default();
        let site = Site::over(handler.with_state(desk.clone()));
        let asked = site.begin(&post(call("1", &json!({}))));
        let ticket = desk.ticket().await;
        assert_eq!(ticket.ended().await, Outcome::Replied);
        assert_eq!(ticket.reply(json!({ "n": 2 })).unwrap_err().outcome(), Outcome::Replied);
        assert!(!asked.answer().await.text().contains("\"n\":2"));
        assert_eq!(site.server.parked(), 0);
    }
}

#[tokio::test]
async fn a_ticket_may_go_to_a_thread_that_panics() {
    let desk = Desk::default();
    let site = Site::over(desk.handler());
    let asked = site.begin(&post(call("1", &json!({}))));
    let ticket = desk.ticket().await;
    let worker = std::thread::spawn(move || {
        let _ticket = ticket;
        panic!("at work");
    });
    asked.answer().await.error(200, INTERNAL_ERROR, "1");
    worker.join().unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_ticket_answers_a_tool_call_with_what_its_handler_might_return() {
    let desk = Desk::default();
    let tool = Tool::with_schema("x", "Waits for its ticket", json!({ "type": "object" }), hands_on);
    let mcp = McpRouter::new(ServerInfo::new("test", "1")).tool(tool).with_state(desk.clone());
    let site = Site::serving(mcp);
    for era in [Era::Legacy, Era::Modern] {
        let answers: [fn(ReplyTicket) -> Result<(), TooLate>; 2] = [
            |ticket| ticket.answer(CallToolResult::structured([1])),
            |ticket| ticket.answer(Err::<CallToolResult, _>(McpError::new(7, "no"))),
        ];
        let mut answered = Vec::new();
        for answer in answers {
            let asked = site.begin(&era.call("1", &json!({ "name": "x" })));
            answer(desk.ticket().await).unwrap();
            answered.push(asked.answer().await);
        }
        let result = answered[0].result("1");
        assert_eq!(result["content"][0]["text"], "[1]");
        // Legacy clients know no structured content but objects.
        assert_eq!(result.get("structuredContent"), (era == Era::Modern).then_some(&json!([1])));
        assert_eq!(result.get("resultType"), (era == Era::Modern).then_some(&json!("complete")));
        answered[1].error(200, 7, "1");
    }
}
