use std::borrow::Cow;

use http::header::HeaderValue;
use mediatype::MediaType;

/// The value is exactly this media type, in any case and with any parameters.
pub(crate) fn is_media(value: &HeaderValue, ty: &str, subty: &str) -> bool {
    // A quoted string may have bytes that are not ASCII (RFC 9110, 5.6.4).
    let value = String::from_utf8_lossy(value.as_bytes());
    MediaType::parse(&without_empty_parameters(&value)).is_ok_and(|media| {
        media.ty.as_str().eq_ignore_ascii_case(ty)
            && media.subty.as_str().eq_ignore_ascii_case(subty)
            && media.suffix.is_none()
    })
}

/// A media type, or a list of them, without the empty parameters that RFC 9110, 5.6.6 allows and `mediatype` does not read.
pub(super) fn without_empty_parameters(value: &str) -> Cow<'_, str> {
    // Whether it is in quotes does not matter yet.
    if !value.match_indices(';').any(|(at, _)| is_empty_parameter(&value[at + 1..])) {
        return Cow::Borrowed(value);
    }
    let (mut kept, mut in_quotes, mut is_escaped) = (String::with_capacity(value.len()), false, false);
    for (at, char) in value.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if in_quotes => is_escaped = true,
            '"' => in_quotes = !in_quotes,
            ';' if !in_quotes && is_empty_parameter(&value[at + 1..]) => continue,
            _ => {}
        }
        kept.push(char);
    }
    Cow::Owned(kept)
}

/// Nothing but white space comes before the next parameter, the next media type or the end.
fn is_empty_parameter(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t']);
    rest.is_empty() || rest.starts_with([';', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_parameters_are_left_out() {
        for (value, kept) in [
            ("a/b", "a/b"),
            ("a/b;", "a/b"),
            ("a/b;;", "a/b"),
            ("a/b; ; \t;c=d", "a/b  \t;c=d"),
            ("a/b;c=d;;e=f;", "a/b;c=d;e=f"),
            ("a/b;;q=0.5,c/d; , e/f;", "a/b;q=0.5,c/d , e/f"),
            (r#"a/b;c=";;\";;";;"#, r#"a/b;c=";;\";;""#),
        ] {
            assert_eq!(without_empty_parameters(value), kept, "{value}");
        }
        let usual = "application/json; charset=utf-8, */*;q=0.5";
        assert!(matches!(without_empty_parameters(usual), Cow::Borrowed(_)));
    }
}
