use std::time::Duration;

use http::Uri;
use http::header::HeaderMap;

use super::headers::{Field, Known, has_only_codings};
use super::media::is_media;
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
    pub(crate) fn check_content(&self, known: &Known<'_>, headers: &HeaderMap) -> Result<(), Rejection> {
        if !is_json(known.content_type) {
            return Err(Rejection::ContentType);
        }
        if known.content_encoding.is_present() && !has_only_codings(headers, &["identity"]) {
            return Err(Rejection::ContentEncoding);
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

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

    use super::*;

    #[test]
    fn json_in_any_case_and_with_parameters() {
        let is_json = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_TYPE, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            is_json(Known::of(&headers).content_type)
        };
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "APPLICATION/JSON;charset=\"UTF-8\"",
            "application/json ;",
            "application/json;",
            "application/json;;charset=utf-8",
            "application/json; ;\t; charset=utf-8;;",
            "application/json;\tcharset=utf-8",
            "application/json;charset=\";;\";",
            "application/json;a=\"\u{e4}\"",
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
            "application/json;, text/plain",
            "application/json;charset=utf-8, text/plain",
            "application/json;charset",
            "application/json;=;",
            ";application/json",
            "application;/json",
        ] {
            assert!(!is_json(&[bad]), "{bad}");
        }
        assert!(!is_json(&[]));
        assert!(!is_json(&["application/json", "application/json"]));
    }

    #[test]
    fn only_bodies_that_are_not_encoded_are_read() {
        let check = |values: &[&'static str]| {
            let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            Gate::default().check_content(&Known::of(&headers), &headers)
        };
        for good in [&[][..], &["identity"], &["IDENTITY"], &[""], &["identity, identity"], &["identity", "identity"]] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
        for bad in [
            &["gzip"][..],
            &["GZIP"],
            &["deflate"],
            &["br"],
            &["zstd"],
            &["aws-chunked"],
            &["none"],
            &["identity, gzip"],
            &["identity", "gzip"],
            &["gzip;q=0"],
        ] {
            assert_eq!(check(bad), Err(Rejection::ContentEncoding), "{bad:?}");
        }
    }
}
