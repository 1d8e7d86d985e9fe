use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::jsonrpc::{Message, Object, read};

/// The capabilities that a modern client has declared with this request (2026-07-28, *Request Metadata*). Anything but an object
/// declares nothing, and neither does null. What cannot be read within a capability does not undo the others.
pub(crate) fn declared_capabilities(request: &Message) -> Map<String, Value> {
    #[derive(Default, Deserialize)]
    struct Params<'a> {
        #[serde(rename = "_meta", borrow)]
        meta: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    struct Meta<'a> {
        #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow)]
        capabilities: Option<&'a RawValue>,
    }

    let Params { meta } = request.params_as().unwrap_or_default();
    let Meta { capabilities } = meta.and_then(|meta| read(meta.get()).ok()).unwrap_or_default();
    let Some(declared) = capabilities.and_then(Object::read) else { return Map::new() };
    let present = declared.members().filter(|(_, value)| value.get() != "null");
    present
        .map(|(name, value)| (name.into_owned(), serde_json::from_str(value.get()).unwrap_or_else(|_| json!({}))))
        .collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_cannot_be_read_undoes_no_capability() {
        for (capabilities, declared) in [
            ("{}", json!({})),
            ("[]", json!({})),
            ("[1]", json!({})),
            ("null", json!({})),
            (r#"{"roots":{"listChanged":true},"sampling":null}"#, json!({ "roots": { "listChanged": true } })),
            (r#"{"\ud800":1,"elicitation":{}}"#, json!({ "elicitation": {} })),
            (r#"{"elicitation":{"x":"\ud800"},"roots":{}}"#, json!({ "elicitation": {}, "roots": {} })),
        ] {
            let meta = format!(r#"{{"\udfff":1,"io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#);
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{meta}}}}}"#);
            let request = Message::decode(&Bytes::from(text)).unwrap();
            assert_eq!(Value::Object(declared_capabilities(&request)), declared, "{capabilities}");
        }
    }
}
