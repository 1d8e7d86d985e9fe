use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::rejection::Rejection;

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// What the session ids that this crate mints begin with: they are ours to interpret, all others the inner service's.
pub(crate) const MINTED: &str = "mcpl-";

/// The value of a header that must not stand twice: readers differ in which one they take.
pub(crate) fn singleton<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    shown_as: &'static str,
) -> Result<Option<&'a HeaderValue>, Rejection> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Rejection::RepeatedHeader(shown_as)),
    }
}

/// Takes a session id of ours out of the headers.
pub(crate) fn take_minted_session(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let is_minted = |value: &&HeaderValue| value.as_bytes().starts_with(MINTED.as_bytes());
    headers.get(SESSION_ID).filter(is_minted)?;
    headers.remove(SESSION_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_header_has_no_value() {
        let mut headers = HeaderMap::new();
        assert_eq!(singleton(&headers, &SESSION_ID, "Mcp-Session-Id"), Ok(None));
        headers.append(SESSION_ID, HeaderValue::from_static("a"));
        assert_eq!(singleton(&headers, &SESSION_ID, "Mcp-Session-Id").unwrap().unwrap(), "a");
        headers.append(SESSION_ID, HeaderValue::from_static("a"));
        let rejection = singleton(&headers, &SESSION_ID, "Mcp-Session-Id").unwrap_err();
        assert_eq!(rejection, Rejection::RepeatedHeader("Mcp-Session-Id"));
    }

    #[test]
    fn only_sessions_of_ours_are_taken_out() {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION_ID, HeaderValue::from_static("theirs"));
        assert_eq!(take_minted_session(&mut headers), None);
        assert_eq!(headers.len(), 1);
        headers.insert(SESSION_ID, HeaderValue::from_static("mcpl-1"));
        assert_eq!(take_minted_session(&mut headers).unwrap(), "mcpl-1");
        assert!(headers.is_empty());
    }
}
