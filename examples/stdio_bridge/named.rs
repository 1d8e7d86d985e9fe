use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The session that a request names. The layer takes ids from the headers that look like its own, and here are none of it.
#[derive(Clone, Debug)]
pub(crate) struct Named(pub(crate) HeaderValue);

/// Keeps the session that a request names.
pub(crate) async fn keep_name(mut request: Request) -> Request {
    let mut ids = request.headers().get_all(SESSION_ID).iter();
    if let (Some(id), None) = (ids.next().cloned(), ids.next()) {
        request.extensions_mut().insert(Named(id));
    }
    request
}
