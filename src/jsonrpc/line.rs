/// JSON as one line, as event streams need it. JSON has line ends between its tokens only, so they can go.
pub(crate) fn one_line(mut json: Vec<u8>) -> String {
    for byte in &mut json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    // It was read or written as JSON, which is UTF-8.
    String::from_utf8(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_go_and_escaped_ones_stay() {
        let json = "{\n \"id\": 1,\r\n \"result\": \"a\\nb\" }";
        assert_eq!(one_line(json.into()), r#"{  "id": 1,   "result": "a\nb" }"#);
    }
}
