use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use mediatype::MediaType;

use super::headers::{Field, Known};
use super::origin::{Hosts, Origins};
use crate::rejection::Rejection;

/// What a request must be before its body is read.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) body_timeout: Duration,
    pub(crate) hosts: Hosts,
    pub(crate) max_body_bytes: usize,
    pub(crate) origins: Origins,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            body_timeout: Duration::from_secs(30),
            hosts: Hosts::default(),
            max_body_bytes: 4 * 1024 * 1024,
            origins: Origins::default(),
        }
    }
}

impl Gate {
    /// Of every request, whatever its method.
    pub(crate) fn check_sender(&self, known: &Known<'_>, uri: &Uri) -> Result<(), Rejection> {
        self.hosts.check(known.host, uri)?;
        self.origins.check(known.origin)
    }

    /// Of a POST.
    pub(crate) fn check_content(&self, known: &Known<'_>) -> Result<(), Rejection> {
        if !is_json(known.content_type) {
            return Err(Rejection::ContentType);
        }
        // hyper has checked the number. One that is too large for this machine is too large.
        let Field::Once(length) = known.content_length else { return Ok(()) };
        let length = length.to_str().ok().and_then(|length| length.parse::<usize>().ok());
        if length.is_none_or(|length| length > self.max_body_bytes) {
            return Err(Rejection::BodyTooLarge { limit: Some(self.max_body_bytes) });
        }
        Ok(())
    }
}

/// Exactly `application/json`, in any case and with any parameters. Anything else could be sent by a web page without a
/// preflight, or is another format.
fn is_json(content_type: Field<'_>) -> bool {
    let Field::Once(value) = content_type else { return false };
    value.as_bytes() == b"application/json" || is_media(value, "application", "json")
}

/// The value is exactly this media type, whatever its case and its parameters.
pub(crate) fn is_media(value: &HeaderValue, ty: &str, subty: &str) -> bool {
    value.to_str().ok().and_then(|value| MediaType::parse(value).ok()).is_some_and(|media| {
        media.ty.as_str().eq_ignore_ascii_case(ty)
            && media.subty.as_str().eq_ignore_ascii_case(subty)
            && media.suffix.is_none()
    })
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_TYPE, HeaderMap};

    use super::*;

    #[test]
    fn json_in_any_case_and_with_parameters() {
        let is_json = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
            }
            is_json(Known::of(&headers).content_type)
        };
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "APPLICATION/JSON;charset=\"UTF-8\"",
            "application/json ;",
        ] {
            assert!(is_json(&[good]), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "text/json",
            "application/jsonp",
            "application/json-patch+json",
            "application/vnd.api+json",
            "application/json+x",
            "application/*",
            "*/*",
            "application/json, text/plain",
        ] {
            assert!(!is_json(&[bad]), "{bad}");
        }
        assert!(!is_json(&[]));
        assert!(!is_json(&["application/json", "application/json"]));
    }
}
