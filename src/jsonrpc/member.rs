use serde_json::value::RawValue;

use super::envelope::Envelope;

/// The member that makes a message a response (JSON-RPC 2.0, section 5).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Member<'a> {
    Error(&'a RawValue),
    Result(&'a RawValue),
}

impl<'a> Member<'a> {
    /// The member of an envelope that is a response, or why it is none. Some libraries write the members that a response lacks
    /// as `null`. The result itself may be `null`, too.
    pub(crate) fn of(envelope: &Envelope<'a>) -> Result<Self, &'static str> {
        if present(envelope.method).is_some() {
            return Err("it has a method");
        }
        match (envelope.result, present(envelope.error)) {
            (Some(result), None) => Ok(Self::Result(result)),
            (result, Some(error)) if present(result).is_none() => Ok(Self::Error(error)),
            _ => Err("it has not exactly one of `result` and `error`"),
        }
    }
}

/// The value of a member, unless it is `null`.
pub(crate) fn present(member: Option<&RawValue>) -> Option<&RawValue> {
    member.filter(|value| value.get() != "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_exactly_one_of_result_and_error() {
        for (text, kind) in [
            (r#"{"result":{}}"#, "result"),
            (r#"{"result":null}"#, "result"),
            (r#"{"result":{},"error":null,"method":null}"#, "result"),
            (r#"{"result":null,"error":null}"#, "result"),
            (r#"{"error":{}}"#, "error"),
            (r#"{"result":null,"error":{},"method":null}"#, "error"),
            (r#"{"result":{},"error":{}}"#, "neither"),
            (r#"{"result":false,"error":{}}"#, "neither"),
            (r#"{"error":null}"#, "neither"),
            (r#"{"method":"x","result":{}}"#, "neither"),
            (r#"{"method":"","error":{}}"#, "neither"),
            ("{}", "neither"),
        ] {
            let found = match Member::of(&Envelope::parse(text).unwrap()) {
                Ok(Member::Result(_)) => "result",
                Ok(Member::Error(_)) => "error",
                Err(_) => "neither",
            };
            assert_eq!(found, kind, "{text}");
        }
    }
}
