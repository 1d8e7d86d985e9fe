//! GET: the stream of what a session's servers say and ask outside of calls (MCP, *Transports*, Listening for Messages from
//! the Server).

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use mcp_layer::ProtocolVersion;

use crate::accept::accepts_events;
use crate::named::Named;
use crate::refusal::{Refusal, Whole};
use crate::sessions::Sessions;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A session that is listened to is in use. Another stream of it replaces this one.
pub(crate) async fn get(
    State(sessions): State<Arc<Sessions>>,
    headers: HeaderMap,
    named: Option<Extension<Named>>,
) -> Result<Response, Whole> {
    check_version(&headers)?;
    if !accepts_events(&headers) {
        return Err(Refusal::NotAcceptable.into());
    }
    let Extension(Named(id)) = named.ok_or(Refusal::NoSession)?;
    let usage = sessions.of(&id)?;
    let reader = usage.session().outlet().ok_or(Refusal::UnknownSession)?.read();
    let events = stream::unfold((reader, usage), async |(mut reader, usage)| {
        let message = reader.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(message)), (reader, usage)))
    });
    let headers = [
        (CACHE_CONTROL, "no-cache, no-transform"),
        // Some proxies would collect the events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Sse::new(events).keep_alive(KeepAlive::default())).into_response())
}

/// The layer looks at the version of a POST only. Modern versions have no sessions, so no stream of one.
fn check_version(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut versions = headers.get_all(PROTOCOL_VERSION).iter();
    let (Some(version), None) = (versions.next(), versions.next()) else {
        return if headers.contains_key(PROTOCOL_VERSION) { Err(Refusal::Version) } else { Ok(()) };
    };
    match ProtocolVersion::ALL.into_iter().find(|known| version == known.as_str()) {
        Some(version) if version.is_modern() => Err(Refusal::NoStream),
        Some(_) => Ok(()),
        // The layer reads it as its successor.
        None if version == "2024-11-05" => Ok(()),
        None => Err(Refusal::Version),
    }
}
