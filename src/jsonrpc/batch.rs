use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Whether text that is JSON is a batch of messages (MCP 2025-03-26).
pub(crate) fn is_batch(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('[')
}

/// Shows the messages of a batch one after the other, without collecting them. An error, as of a batch that is cut short, may
/// come after some were shown.
pub(crate) fn read_batch<'a>(text: &'a str, see: impl FnMut(&'a RawValue)) -> serde_json::Result<()> {
    struct Batch<F>(F);

    impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Batch<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON-RPC batch")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut batch: A) -> Result<(), A::Error> {
            while let Some(message) = batch.next_element()? {
                (self.0)(message);
            }
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_seq(Batch(see))?;
    deserializer.end()
}

#[cfg(test)]
mod tests {
    use super::{is_batch, read_batch};

    #[test]
    fn a_batch_is_known_by_its_bracket() {
        for text in ["[]", " \t\r\n[1", "[["] {
            assert!(is_batch(text), "{text}");
        }
        for text in ["", "{}", "\u{a0}[]", "\"[\"", "null"] {
            assert!(!is_batch(text), "{text}");
        }
    }

    #[test]
    fn messages_are_shown_as_they_stand_and_a_broken_batch_is_told() {
        let seen = |text| {
            let mut seen = Vec::new();
            let read = read_batch(text, |message| seen.push(message.get()));
            (seen, read.is_ok())
        };
        assert_eq!(seen(" [ {\"id\": 1}, 7 ,[] ] "), (vec!["{\"id\": 1}", "7", "[]"], true));
        assert_eq!(seen("[]"), (vec![], true));
        assert_eq!(seen("[1,2"), (vec!["1", "2"], false));
        assert_eq!(seen("[1] 2"), (vec!["1"], false));
        assert_eq!(seen("{}"), (vec![], false));
    }
}
