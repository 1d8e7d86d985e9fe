use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap,
    HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING,
};

use crate::rejection::Rejection;

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What the ids of sessions and events that this crate mints begin with: they are ours to interpret, all others the inner service's.
pub(crate) const MINTED: &str = "mcpl-";

/// The headers that every request is judged by, found in one pass: each look-up in the map would cost as much.
#[derive(Debug, Default)]
pub(crate) struct Known<'a> {
    pub(crate) accept: Field<'a>,
    pub(crate) accept_encoding: Field<'a>,
    pub(crate) authorization: Field<'a>,
    pub(crate) content_encoding: Field<'a>,
    pub(crate) content_length: Field<'a>,
    pub(crate) content_type: Field<'a>,
    pub(crate) host: Field<'a>,
    pub(crate) origin: Field<'a>,
    pub(crate) protocol_version: Field<'a>,
    pub(crate) session_id: Field<'a>,
    pub(crate) transfer_encoding: Field<'a>,
}

/// How a header stands in a request. Of most a second one must not: readers differ in which one they take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Field<'a> {
    #[default]
    Absent,
    Once(&'a HeaderValue),
    Repeated,
}

impl<'a> Known<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let mut known = Self::default();
        for (name, value) in headers {
            let field = match name {
                _ if name == HOST => &mut known.host,
                _ if name == CONTENT_TYPE => &mut known.content_type,
                _ if name == CONTENT_ENCODING => &mut known.content_encoding,
                _ if name == CONTENT_LENGTH => &mut known.content_length,
                _ if name == ACCEPT => &mut known.accept,
                _ if name == ACCEPT_ENCODING => &mut known.accept_encoding,
                _ if name == AUTHORIZATION => &mut known.authorization,
                _ if name == ORIGIN => &mut known.origin,
                _ if name == TRANSFER_ENCODING => &mut known.transfer_encoding,
                _ if name == PROTOCOL_VERSION => &mut known.protocol_version,
                _ if name == SESSION_ID => &mut known.session_id,
                _ => continue,
            };
            *field = if *field == Field::Absent { Field::Once(value) } else { Field::Repeated };
        }
        known
    }
}

impl<'a> Field<'a> {
    pub(crate) fn of(headers: &'a HeaderMap, name: &HeaderName) -> Self {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some(value), None) => Self::Once(value),
            (Some(_), Some(_)) => Self::Repeated,
        }
    }

    /// The value of a header that must not be repeated.
    pub(crate) fn single(self, shown_as: &'static str) -> Result<Option<&'a HeaderValue>, Rejection> {
        match self {
            Self::Absent => Ok(None),
            Self::Once(value) => Ok(Some(value)),
            Self::Repeated => Err(Rejection::RepeatedHeader(shown_as)),
        }
    }

    pub(crate) fn is_present(self) -> bool {
        self != Self::Absent
    }
}

/// The body is in none but these codings, which may be listed in one header or several (RFC 9110, 8.4).
pub(crate) fn has_only_codings(headers: &HeaderMap, codings: &[&str]) -> bool {
    let is_one = |coding: &str| coding.is_empty() || codings.iter().any(|one| one.eq_ignore_ascii_case(coding));
    let are_some = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.split(',').map(str::trim).all(is_one));
    headers.get_all(CONTENT_ENCODING).iter().all(are_some)
}

/// This id is one of ours.
fn is_minted(id: &HeaderValue) -> bool {
    id.as_bytes().starts_with(MINTED.as_bytes())
}

/// Takes a session id of ours, which the inner service is not to see. One that `wrap_session` has wrapped is not ours: it goes
/// on to its service as that one knows it.
pub(crate) fn unwrap_session(headers: &mut HeaderMap, is_foreign: bool) -> Option<HeaderValue> {
    let Field::Once(id) = Field::of(headers, &SESSION_ID) else { return None };
    let id = id.as_bytes().strip_prefix(MINTED.as_bytes())?;
    let theirs = HeaderValue::from_bytes(id).ok().filter(|id| is_foreign && is_minted(id));
    let own = headers.remove(SESSION_ID);
    let Some(theirs) = theirs else { return own };
    headers.insert(SESSION_ID, theirs);
    None
}

/// Tells a session of a foreign service from those that are minted for it here, where it looks like one: it comes from a layer
/// of this crate behind that service.
pub(crate) fn wrap_session(headers: &mut HeaderMap) {
    let Some(id) = headers.get(SESSION_ID).filter(|id| is_minted(id)) else { return };
    if let Ok(id) = HeaderValue::from_bytes(&[MINTED.as_bytes(), id.as_bytes()].concat()) {
        headers.insert(SESSION_ID, id);
    }
}

/// A client comes back for what follows the last event of a stream, and that one was ours: nothing does.
pub(crate) fn resumes_ended(headers: &HeaderMap) -> bool {
    matches!(Field::of(headers, &LAST_EVENT_ID), Field::Once(id) if is_minted(id))
}

/// A header's value as its client meant it (*Value Encoding*). `None` if it has characters that no header may have.
pub(crate) fn decoded(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let value = value.to_str().ok()?;
    match value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?=")) {
        Some(encoded) => Some(String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?.into()),
        None => Some(value.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_header_has_no_value() {
        let mut headers = HeaderMap::new();
        assert_eq!(Known::of(&headers).session_id.single("Mcp-Session-Id"), Ok(None));
        headers.append(SESSION_ID, HeaderValue::from_static("a"));
        assert_eq!(Known::of(&headers).session_id.single("Mcp-Session-Id").unwrap().unwrap(), "a");
        headers.append(SESSION_ID, HeaderValue::from_static("a"));
        let rejection = Known::of(&headers).session_id.single("Mcp-Session-Id").unwrap_err();
        assert_eq!(rejection, Rejection::RepeatedHeader("Mcp-Session-Id"));
        assert_eq!(Field::of(&headers, &SESSION_ID), Field::Repeated);
        assert_eq!(Field::of(&headers, &HOST), Field::Absent);
    }

    #[test]
    fn our_sessions_are_known_by_their_beginning() {
        for is_foreign in [false, true] {
            let is_ours = |id| unwrap_session(&mut session(id), is_foreign).is_some();
            assert_eq!(["mcpl-1", "mcpl-", "MCPL-1", "x-mcpl-1", ""].map(is_ours), [true, true, false, false, false]);
            let mut repeated = session("mcpl-1");
            repeated.append(SESSION_ID, HeaderValue::from_static("mcpl-1"));
            assert_eq!(unwrap_session(&mut repeated, is_foreign), None);
            assert_eq!(unwrap_session(&mut HeaderMap::new(), is_foreign), None);
        }
    }

    #[test]
    fn sessions_of_a_layer_behind_come_back_as_they_were() {
        for id in ["mcpl-1", "mcpl-", "mcpl-mcpl-1", "own", ""] {
            let mut headers = session(id);
            wrap_session(&mut headers);
            assert_eq!(headers[SESSION_ID] == id, !id.starts_with("mcpl-"));
            assert_eq!(unwrap_session(&mut headers, true), None);
            assert_eq!(headers, session(id));
        }
        assert!(unwrap_session(&mut session("mcpl-mcpl-1"), false).is_some(), "nothing is wrapped there");
    }

    fn session(id: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(SESSION_ID, HeaderValue::from_static(id))])
    }
}
