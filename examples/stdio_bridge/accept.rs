use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use mediatype::{MediaTypeList, Name, ReadParams};

/// The `Accept` of a request allows an event stream (RFC 9110, 12.5.1): the most specific range decides.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let values: Vec<_> = values.map(|value| without_empty_parameters(value.to_str().unwrap_or("?"))).collect();
    let ranges = values.iter().flat_map(|value| MediaTypeList::new(value).flatten()).filter_map(|range| {
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

/// RFC 9110, section 5.6.6, allows semicolons that no parameter follows, which `mediatype` rejects.
fn without_empty_parameters(value: &str) -> String {
    let mut kept = String::with_capacity(value.len());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, char) in value.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted && has_no_parameter(&value[at + 1..]) => continue,
            _ => {}
        }
        kept.push(char);
    }
    kept
}

/// What follows a semicolon is another one, the next range or the end.
fn has_no_parameter(rest: &str) -> bool {
    matches!(rest.trim_start_matches([' ', '\t']).as_bytes(), [] | [b';' | b',', ..])
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
            (&["text/event-stream;"], true),
            (&["text/event-stream;;q=1"], true),
            (&["text/event-stream; ; q=1 ;"], true),
            (&["text/event-stream ; q=1"], true),
            (&["text/event-stream;q=1;,application/json;"], true),
            (&["text/event-stream;a=\";,\";;"], true),
            (&["text/event-stream;a=\"\\\";;q=0\";"], true),
            (&["*/*;, text/event-stream;;q=0"], false),
            (&["text/event-stream;q=0;"], false),
            (&["text/event-stream ;;\t; q=0.000"], false),
            (&["application/json;;"], false),
            (&[";"], false),
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
