use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use axum::BoxError;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::response::Parts;
use http::{Response as HttpResponse, StatusCode};
use serde::Deserialize;
use uuid::Uuid;

use super::answer::{Answer, JSON};
use super::call_tool_result::ForLegacy;
use super::completion::Completion;
use super::input_required::{Needs, Unfit};
use super::later::Later;
use super::reply::{Holds, Mark};
use super::settled::{Settled, merge};
use crate::exchange::Exchange;
use crate::inbound::headers::{MINTED, SESSION_ID};
use crate::inbound::{Collect, is_media};
use crate::jsonrpc::{Envelope, McpError, Member, RequestId, place, read};

/// The request that a response must fit.
#[derive(Debug)]
pub(crate) struct Settle {
    pub(crate) exchange: Arc<Exchange<Settled>>,
    /// A result opens a session.
    pub(crate) mints_session: bool,
}

impl Settle {
    /// Makes a handler's response the answer to its request.
    pub(crate) async fn response<B>(self, response: Response<B>) -> Settled
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, mut body) = response.map(Body::new).into_parts();
        let completion = parts.extensions.remove::<Completion>();
        if let Some(later) = parts.extensions.remove::<Later>() {
            let Some(response) = self.later(later, parts).await else { return self.failed() };
            (parts, body) = response.into_parts();
        }
        let mut mark = parts.extensions.remove::<Mark>();
        if let Some(ForLegacy(result)) = parts.extensions.remove()
            && !self.exchange.version().is_modern()
        {
            let mut response = result.into_response();
            mark = response.extensions_mut().remove();
            body = response.into_body();
        }
        if let Some(needs) = parts.extensions.remove::<Needs>()
            && let Err(unfit) = needs.check(self.exchange.request(), self.exchange.version())
        {
            let mut response = self.unfit(unfit).into_response();
            mark = response.extensions_mut().remove();
            body = response.into_body();
        }
        if self.exchange.version().is_modern() {
            parts.headers.remove(SESSION_ID);
        }
        if !parts.status.is_success() {
            return refused(Some(self.id()), parts, body, mark).await;
        }
        let (answer, holds) = match self.read(&parts.headers, body, mark, completion.as_ref()).await {
            Ok(read) => read,
            Err(why) => {
                tracing::error!(id = ?self.id(), why, "a handler's response does not answer its request");
                (self.internal_error(), Holds::Error(McpError::INTERNAL_ERROR))
            }
        };
        parts.status = self.status(holds);
        if self.mints_session && holds == Holds::Result && !parts.headers.contains_key(SESSION_ID) {
            parts.headers.insert(SESSION_ID, mint());
        }
        Settled::Answer(answer, parts)
    }

    /// The response that a ticket brings, with the headers of the one that stood for it. None if the exchange has ended before.
    async fn later(&self, later: Later, own: Parts) -> Option<Response> {
        // The end first: a ticket that is dropped because of it was not forgotten.
        match select(pin!(self.exchange.fired()), pin!(later.response())).await {
            Either::Left(_) => None,
            Either::Right((mut response, _)) => {
                let extensions = std::mem::take(response.extensions_mut());
                merge(&mut response, own);
                response.extensions_mut().extend(extensions);
                Some(response)
            }
        }
    }

    /// The answer of a handler that has none: it panicked, or its service failed.
    pub(crate) fn failed(&self) -> Settled {
        self.failed_with(HttpResponse::new(()).into_parts().0)
    }

    /// Like [`failed`](Self::failed), with the headers of a response that does not answer, except those that describe its body.
    pub(crate) fn failed_with(&self, mut own: Parts) -> Settled {
        own.status = StatusCode::OK;
        Settled::Answer(self.internal_error(), own)
    }

    /// What the client gets where its handler asks for input that it cannot ask for.
    fn unfit(&self, unfit: Unfit) -> McpError {
        match unfit {
            Unfit::Client(error) => error,
            Unfit::Handler(why) => {
                tracing::error!(id = ?self.id(), why, "a handler's response does not answer its request");
                McpError::internal_error("Internal error")
            }
        }
    }

    pub(crate) fn id(&self) -> &RequestId {
        &self.exchange.key().id
    }

    fn internal_error(&self) -> Answer {
        Answer::error(Some(self.id()), &McpError::internal_error("Internal error"))
    }

    /// Revision 2026-07-28, *Protocol Version Header* and *Server Validation*; before it, an error is a 200 like others.
    fn status(&self, holds: Holds) -> StatusCode {
        match holds {
            Holds::Error(McpError::METHOD_NOT_FOUND) if self.exchange.version().is_modern() => StatusCode::NOT_FOUND,
            Holds::Error(McpError::HEADER_MISMATCH | McpError::MISSING_CAPABILITY | McpError::UNSUPPORTED_VERSION)
                if self.exchange.version().is_modern() =>
            {
                StatusCode::BAD_REQUEST
            }
            Holds::Error(_) | Holds::Result => StatusCode::OK,
        }
    }

    async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        mark: Option<Mark>,
        completion: Option<&Completion>,
    ) -> Result<(Answer, Holds), &'static str> {
        if headers.get(CONTENT_TYPE).is_some_and(|value| value != JSON && is_media(value, "text", "event-stream")) {
            return Err("it is an event stream");
        }
        if headers.contains_key(CONTENT_ENCODING) {
            return Err("it is encoded");
        }
        let json = Collect::new(body, usize::MAX).await.map_err(|_| "its body broke off")?;
        match mark.filter(|mark| mark.is_of(&json)) {
            Some(mark) => Ok((self.member(&json, mark.result(), completion), mark.holds)),
            None => self.recognise(json, completion),
        }
    }

    /// A complete response to this request, or the one member that a `Reply` or an `McpError` writes, whose mark got lost.
    fn recognise(&self, json: Bytes, completion: Option<&Completion>) -> Result<(Answer, Holds), &'static str> {
        #[derive(Deserialize)]
        struct Error {
            code: i64,
        }

        let text = std::str::from_utf8(&json).map_err(|_| "it is not UTF-8")?;
        let envelope = Envelope::parse(text).map_err(|_| "it is not a JSON object")?;
        if envelope.repeated || envelope.crowded {
            return Err("it has a repeated key, or too many");
        }
        // It is sent as it stands, and strict clients refuse a response with `"error": null`, so here null is not absent.
        if [envelope.method, envelope.result, envelope.error].into_iter().flatten().count() > 1 {
            return Err("it has not exactly one of `result` and `error`");
        }
        let (holds, result) = match Member::of(&envelope)? {
            Member::Error(error) => {
                let error: Error = read(error.get()).map_err(|_| "its error has no code")?;
                (Holds::Error(error.code), None)
            }
            Member::Result(result) => (Holds::Result, Some(place(text, result))),
        };
        if envelope.jsonrpc.is_none() && envelope.id.is_none() {
            let spaces = text.len() - text.trim_ascii_start().len();
            let result = result.map(|result| result.start - spaces..result.end - spaces);
            return Ok((self.member(&json.slice(spaces..), result, completion), holds));
        }
        if !envelope.is_version_2() {
            return Err("its jsonrpc is not \"2.0\"");
        }
        match envelope.id.and_then(|id| RequestId::from_json(id.get())) {
            Some(id) if id == *self.id() => {}
            _ => return Err("it has another id"),
        }
        let answer = match (result, completion) {
            (Some(result), Some(completion)) => Answer::from_whole(&json, result, completion),
            _ => Answer::whole(json),
        };
        Ok((answer, holds))
    }

    /// The answer of an object that has only a result or an error, and where in it the result is.
    fn member(&self, object: &Bytes, result: Option<Range<usize>>, completion: Option<&Completion>) -> Answer {
        match (result, completion) {
            (Some(result), Some(completion)) => Answer::from_result(self.id(), object, result, completion),
            _ => Answer::from_member(Some(self.id()), object),
        }
    }
}

/// For `map_err`, where a service gives no response at all.
pub(crate) fn log_failure(error: impl Into<BoxError>) {
    let error: BoxError = error.into();
    tracing::error!(error, "the inner service failed");
}

/// A handler has made this response with a type of this crate.
pub(crate) fn is_ours(response: &Response) -> bool {
    let extensions = response.extensions();
    extensions.get::<Mark>().is_some() || extensions.get::<Later>().is_some()
}

/// What is no success is HTTP's business, and passes as it is. Only the body of an [`McpError`] lacks what makes it a
/// JSON-RPC response, and gets it.
async fn refused(id: Option<&RequestId>, parts: Parts, body: Body, mark: Option<Mark>) -> Settled {
    let Some(mark) = mark else { return Settled::Passed(Response::from_parts(parts, body)) };
    match Collect::new(body, usize::MAX).await {
        Ok(json) if mark.is_of(&json) => Settled::Answer(Answer::from_member(id, &json), parts),
        Ok(other) => Settled::Passed(Response::from_parts(parts, Body::from(other))),
        Err(_) => Settled::Passed(Response::from_parts(parts, Body::empty())),
    }
}

/// The response to a notification or to a client's response, as its handler has it: 202 without a body for any success
/// and for an [`McpError`], which has nobody to go to. Other refusals pass.
pub(crate) async fn unanswered<B>(response: Response<B>) -> Settled
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut parts, body) = response.into_parts();
    let mark = parts.extensions.remove::<Mark>();
    if !parts.status.is_success() {
        return refused(None, parts, Body::new(body), mark).await;
    }
    if let Some(Mark { holds: Holds::Error(code), .. }) = mark {
        tracing::debug!(code, "the handler of a notification returned an error");
    }
    let mut accepted = accepted();
    merge(&mut accepted, parts);
    Settled::Passed(accepted)
}

/// The response to a notification or to a client's response whose handler has none: it runs on, or failed.
pub(crate) fn accepted() -> Response {
    StatusCode::ACCEPTED.into_response()
}

/// A session id of our own.
pub(crate) fn mint() -> HeaderValue {
    HeaderValue::try_from(minted()).unwrap_or_else(|_| HeaderValue::from_static(MINTED))
}

/// An id of our own, of a session or an event.
pub(crate) fn minted() -> String {
    format!("{MINTED}{}", Uuid::new_v4().simple())
}
