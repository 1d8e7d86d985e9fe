use http::header::{ACCEPT, HeaderMap};
use mediatype::{MediaType, MediaTypeList, Name, ReadParams};

use super::headers::Field;
use super::media::without_empty_parameters;
use crate::rejection::Rejection;

/// The forms of an answer that a client accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Accepts {
    pub(crate) event_stream: bool,
    pub(crate) json: bool,
}

/// What a request's `Accept` allows (RFC 9110, 12.5.1), whatever the weights: an answer is JSON unless it has something to
/// stream, or unless it must be a stream.
pub(crate) fn accepts(accept: Field<'_>, headers: &HeaderMap) -> Result<Accepts, Rejection> {
    const BOTH: Accepts = Accepts { event_stream: true, json: true };

    match accept {
        Field::Absent => return Ok(BOTH),
        // What the clients built on the official SDKs send.
        Field::Once(value) if value == "application/json, text/event-stream" => return Ok(BOTH),
        Field::Once(_) | Field::Repeated => {}
    }
    let (mut json, mut event_stream, mut empty) = (Best::default(), Best::default(), true);
    for value in headers.get_all(ACCEPT) {
        // A quoted string may have bytes that are not ASCII (RFC 9110, 5.6.4), and a list empty elements (5.6.1).
        let text = String::from_utf8_lossy(value.as_bytes());
        empty &= text.split(',').all(|element| element.trim().is_empty());
        for range in MediaTypeList::new(&without_empty_parameters(&text)).flatten() {
            json.consider(&range, "application", "json");
            event_stream.consider(&range, "text", "event-stream");
        }
    }
    match (json.is_accepted(), event_stream.is_accepted()) {
        (false, false) if empty => Ok(BOTH),
        (false, false) => Err(Rejection::NotAcceptable),
        (json, event_stream) => Ok(Accepts { event_stream, json }),
    }
}

/// The most specific range that matches a type decides, and of equal ones the kindest.
#[derive(Default)]
struct Best {
    specificity: u8,
    accepted: bool,
}

impl Best {
    fn consider(&mut self, range: &MediaType<'_>, ty: &str, subty: &str) {
        let specificity = match (range.ty.as_str(), range.subty.as_str()) {
            _ if range.suffix.is_some() => return,
            ("*", "*") => 1,
            (range_ty, "*") if range_ty.eq_ignore_ascii_case(ty) => 2,
            (range_ty, range_subty) if range_ty.eq_ignore_ascii_case(ty) && range_subty.eq_ignore_ascii_case(subty) => {
                3
            }
            _ => return,
        };
        let weight = range.get_param(Name::new_unchecked("q")).map_or(Ok(1.0), |q| q.unquoted_str().parse::<f32>());
        let accepted = weight.unwrap_or(1.0) > 0.0;
        if specificity > self.specificity {
            *self = Self { specificity, accepted };
        } else if specificity == self.specificity {
            self.accepted |= accepted;
        }
    }

    fn is_accepted(&self) -> bool {
        self.specificity > 0 && self.accepted
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;
    use crate::inbound::headers::Known;

    fn of(values: &[&'static str]) -> Result<(bool, bool), Rejection> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        accepts(Known::of(&headers).accept, &headers).map(|accepts| (accepts.json, accepts.event_stream))
    }

    #[test]
    fn both_forms_however_they_are_named() {
        for accept in [
            "application/json, text/event-stream",
            "text/event-stream, application/json",
            "text/event-stream,application/json;q=0.1",
            "*/*",
            "application/*, text/*",
            "Application/JSON , TEXT/event-stream;Q=0.5",
            "application/json;;q=0.5,text/event-stream;",
            "application/json;, text/event-stream; ;q=0.5",
            ", ,",
            ",application/json,, text/event-stream,",
            "",
        ] {
            assert_eq!(of(&[accept]), Ok((true, true)), "{accept}");
        }
        assert_eq!(of(&[]), Ok((true, true)));
        assert_eq!(of(&["text/event-stream", "application/json"]), Ok((true, true)));
    }

    #[test]
    fn json_only() {
        for accept in [
            "application/json",
            "application/json; charset=utf-8",
            "text/html, application/json;q=0.001",
            "garbage, application/json",
            "text/plain;p=\"a,b\", application/json",
            "text/*;q=0, */*",
            "text/event-stream;q=0, */*",
            "text/event-stream;;q=0, */*;",
            "text/html;a=\"\u{e4}\", application/json",
        ] {
            assert_eq!(of(&[accept]), Ok((true, false)), "{accept}");
        }
    }

    #[test]
    fn event_stream_only() {
        for accept in [
            "application/json;q=0, text/event-stream",
            "TEXT/*",
            "application/json;q=0.0, */*",
            "application/*;q=0, */*;q=0.1",
            "application/json;q=0, application/*;q=1, text/event-stream",
        ] {
            assert_eq!(of(&[accept]), Ok((false, true)), "{accept}");
        }
    }

    #[test]
    fn nothing_where_neither_is() {
        for accept in [
            "text/html",
            "application/jsonp",
            "application/json+x",
            "application/vnd.api+json",
            "application/json;q=0, text/event-stream;q=0",
            "application/json;q=0, text/event-stream;q=0, */*",
            "*/*;q=0",
            "garbage",
            "application/json;q=\"0\"",
        ] {
            assert_eq!(of(&[accept]), Err(Rejection::NotAcceptable), "{accept}");
        }
    }
}
