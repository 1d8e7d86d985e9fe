use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use mediatype::{MediaTypeList, Name, ReadParams};

/// The `Accept` of a request allows an event stream (RFC 9110, 12.5.1): the most specific range decides.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let values = values.map(|value| value.to_str().unwrap_or("?"));
    let ranges = values.flat_map(|value| MediaTypeList::new(value).flatten()).filter_map(|range| {
        let is = |name: Name<'_>, other: &str| name.as_str().eq_ignore_ascii_case(other);
        let specificity = match () {
            () if range.suffix.is_some() => return None,
            () if is(range.ty, "text") && is(range.subty, "event-stream") => 3,
            () if is(range.ty, "text") && is(range.subty, "*") => 2,
            () if is(range.ty, "*") && is(range.subty, "*") => 1,
            () => return None,
        };
        let weight = range.get_param(Name::new_unchecked("q")).map_or(Ok(1.0), |q| q.unquoted_str().parse::<f32>());
        Some((specificity, weight.unwrap_or(1.0) > 0.0))
    });
    ranges.max().is_some_and(|(_, is_accepted)| is_accepted)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_most_specific_range_decides() {
        for (accept, expected) in [
            (&["text/event-stream"][..], true),
            (&["application/json, TEXT/Event-Stream;q=0.1"], true),
            (&["application/json", "text/event-stream"], true),
            (&["*/*"], true),
            (&["text/*"], true),
            (&["*/*;q=0, text/event-stream"], true),
            (&[], true),
            (&["application/json"], false),
            (&["text/html, text/plain"], false),
            (&["*/*, text/event-stream;q=0"], false),
            (&["text/*;q=0, */*"], false),
            (&["text/event-streams"], false),
            (&["garbage"], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(ACCEPT, HeaderValue::from_static(value));
            }
            assert_eq!(accepts_events(&headers), expected, "{accept:?}");
        }
    }
}
