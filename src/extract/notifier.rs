use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::coop::consume_budget;

use super::context::{Call, Context};
use super::rejection::ExtractRejection;
use crate::jsonrpc::{McpError, Object, one_line};

/// Sends notifications to the client while its request is at work, ahead of the answer.
///
/// The first one turns the reply into an event stream, if the client accepts one; what the handler returns is its last
/// event. To a client that accepts only JSON nothing is sent, and neither is after the exchange has ended or its client
/// has left: a handler need not care.
///
/// ```
/// use mcp_layer::{McpError, Notifier, Reply};
/// use serde_json::{Value, json};
///
/// async fn index(notifier: Notifier) -> Result<Reply<Value>, McpError> {
///     for file in 1..=3 {
///         // … the work …
///         notifier.progress(f64::from(file), Some(3.0), None);
///     }
///     notifier.notify("notifications/message", json!({ "level": "info", "data": "indexed" })).await?;
///     Ok(Reply(json!({ "content": [] })))
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(index);
/// ```
#[derive(Clone, Debug)]
pub struct Notifier {
    /// Absent where nothing can be sent.
    exchange: Option<Arc<Call>>,
    progress_token: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Notification<'a, P> {
    jsonrpc: &'static str,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Progress<'a> {
    progress_token: &'a RawValue,
    progress: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl Notifier {
    /// Sends `notifications/progress` with the token that the request has in its `_meta`; without one, nothing.
    ///
    /// MCP wants `progress` to grow with every call. It never waits: a client that reads slowly gets the newest.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let (Some(exchange), Some(progress_token)) = (&self.exchange, &self.progress_token) else { return };
        let params = Progress { progress_token, progress: number(progress), total: total.map(number), message };
        match written("notifications/progress", params) {
            Ok(note) => exchange.note_newest(note),
            Err(error) => tracing::error!(%error, "a progress that cannot be written"),
        }
    }

    /// Sends `notifications/progress` with params from elsewhere, such as a server behind this one. They are sent as they were
    /// written, with the `progressToken` of the request in place of their own. If the request has none in its `_meta`, nothing
    /// is sent.
    ///
    /// Like [`progress`](Self::progress), it never waits, and a client that reads slowly gets the newest. Params that are not an
    /// object are dropped, and an error is logged.
    ///
    /// ```
    /// # use mcp_layer::Notifier;
    /// use serde_json::value::RawValue;
    ///
    /// # fn pass_on(notifier: &Notifier) -> serde_json::Result<()> {
    /// let params = r#"{"progressToken":7,"progress":9007199254740993,"stage":"link"}"#;
    /// notifier.progress_raw(&RawValue::from_string(params.to_owned())?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress_raw(&self, params: &RawValue) {
        let (Some(exchange), Some(token)) = (&self.exchange, &self.progress_token) else { return };
        let Some(params) = Object::read(params) else {
            return tracing::error!("the params of a progress notification must be an object");
        };
        let params = params.with("progressToken", token.get());
        let note = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
        exchange.note_newest(one_line(note.into_bytes()));
    }

    /// Returns whether a notification that is sent now can still reach the client: `false` if the client accepts only JSON or has
    /// disconnected, or if the exchange has ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| !exchange.is_left() && exchange.end().is_none())
    }

    /// Sends a notification, with `()` without params. It waits while 64 of them wait for the client to read. Params
    /// that are a [`RawValue`] are sent as they are.
    ///
    /// # Errors
    ///
    /// -32603, if the params cannot be written as JSON.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), McpError> {
        let note = written(method, params)?;
        // Where nobody has to wait, a handler that does nothing else would never let its exchange be ended.
        consume_budget().await;
        match &self.exchange {
            Some(exchange) => exchange.note(note).await,
            None => tracing::debug!(method, "a notification has nowhere to go"),
        }
        Ok(())
    }
}

fn written(method: &str, params: impl Serialize) -> Result<String, McpError> {
    const WITHOUT_PARAMS: &[u8] = br#","params":null}"#;

    let mut json = serde_json::to_vec(&Notification { jsonrpc: "2.0", method, params }).map_err(|error| {
        tracing::error!(%error, method, "the params of a notification cannot be written as JSON");
        McpError::internal_error("the params of a notification cannot be written as JSON")
    })?;
    // JSON-RPC has no params that are null.
    if json.ends_with(WITHOUT_PARAMS) {
        json.truncate(json.len() - WITHOUT_PARAMS.len());
        json.push(b'}');
    }
    Ok(one_line(json))
}

/// Whole numbers without the fraction that some clients stumble over.
fn number(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "only whole numbers below 2^53 are cast")]
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 { json!(number as i64) } else { json!(number) }
}

impl<S: Send + Sync> FromRequestParts<S> for Notifier {
    type Rejection = ExtractRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        #[derive(Default, Deserialize)]
        struct Params {
            #[serde(rename = "_meta", default)]
            meta: Meta,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            progress_token: Option<Box<RawValue>>,
        }

        let context = Context::of(&parts.extensions)?;
        let params: Params = context.subject.message().params_as().unwrap_or_default();
        Ok(Self {
            exchange: context.subject.exchange().filter(|_| context.streams).cloned(),
            // MCP: a string or an integer.
            progress_token: params.meta.progress_token.filter(|token| !token.get().starts_with(['{', '[', 't', 'f'])),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_written_where_there_are_some() {
        assert_eq!(written("a", ()).unwrap(), r#"{"jsonrpc":"2.0","method":"a"}"#);
        let params = json!({ "params": null });
        assert_eq!(written("a", params).unwrap(), r#"{"jsonrpc":"2.0","method":"a","params":{"params":null}}"#);
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        assert_eq!(
            [number(3.0), number(-0.0), number(0.5), number(1e300)].map(|n| n.to_string()),
            ["3", "0", "0.5", "1e+300"]
        );
        assert_eq!(number(f64::NAN), Value::Null);
    }
}
