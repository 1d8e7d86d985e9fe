use std::borrow::Cow;

/// What a JSON string spells: borrowed where nothing in it is escaped.
pub(crate) fn string(raw: &str) -> Option<Cow<'_, str>> {
    match raw.strip_prefix('"')?.strip_suffix('"')? {
        plain if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str::<String>(raw).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_borrowed_where_they_can_be() {
        assert!(matches!(string(r#""tools/call""#), Some(Cow::Borrowed("tools/call"))));
        assert!(matches!(string(r#""tools\/call""#), Some(Cow::Owned(text)) if text == "tools/call"));
        for no_string in ["7", "null", "", "\"", r#""\ud800""#] {
            assert_eq!(string(no_string), None, "{no_string}");
        }
    }
}
