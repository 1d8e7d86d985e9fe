//! Tools that ask the client, of whichever era it is.

use std::sync::Arc;

use mcp_layer::{Arguments, CallToolResult, Client, ClientError, McpRouter, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::counted::Counted;
use crate::debug::Debug;

pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    McpRouter::default()
        .tool(Tool::new("test_sampling", "Asks the client's model", Counted(sampling)))
        .tool(Tool::new("test_elicitation", "Asks the user for a name and an address", Counted(elicitation)))
        .tool(Tool::new("test_elicitation_sep1034_defaults", "Asks the user with defaults", Counted(defaults)))
        .tool(Tool::new("test_elicitation_sep1330_enums", "Asks the user to choose", Counted(choices)))
        .tool(Tool::new("test_streaming_elicitation", "Asks the user for a name", Counted(name)))
        .tool(Tool::new("test_input_required_result_elicitation", "Asks the user for a name", Counted(name)))
        .tool(Tool::new("test_input_required_result_sampling", "Asks the client's model for a city", Counted(capital)))
        .tool(Tool::new("test_input_required_result_list_roots", "Asks the client for its roots", Counted(roots)))
}

/// What a client answers: an object.
pub(crate) type Answer = Map<String, Value>;

type Asked = Result<CallToolResult, ClientError>;

fn told(answer: Answer) -> Asked {
    Ok(CallToolResult::text(Value::Object(answer).to_string()))
}

#[derive(Deserialize, JsonSchema)]
struct Sampling {
    /// What to say to the model
    prompt: String,
}

async fn sampling(client: Client, Arguments(Sampling { prompt }): Arguments<Sampling>) -> Asked {
    told(client.ask("model", "sampling/createMessage", message(&prompt)).await?)
}

async fn capital(client: Client) -> Asked {
    told(client.ask("capital", "sampling/createMessage", message("What is the capital of Peru?")).await?)
}

async fn roots(client: Client) -> Asked {
    told(client.ask("roots", "roots/list", json!({})).await?)
}

async fn name(client: Client) -> Asked {
    told(client.ask("user_name", "elicitation/create", user_name()).await?)
}

#[derive(Deserialize, JsonSchema)]
struct Elicitation {
    /// What to say to the user
    message: String,
}

async fn elicitation(client: Client, Arguments(Elicitation { message }): Arguments<Elicitation>) -> Asked {
    let properties = json!({
        "username": { "type": "string", "description": "Your name" },
        "email": { "type": "string", "description": "Your address" },
    });
    told(client.ask("user", "elicitation/create", form(&message, &properties, &["username", "email"])).await?)
}

async fn defaults(client: Client) -> Asked {
    let properties = json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    });
    told(client.ask("user", "elicitation/create", form("Are these right?", &properties, &[])).await?)
}

async fn choices(client: Client) -> Asked {
    let titled = |value: &str, title: &str| json!({ "const": value, "title": title });
    let titles = [titled("value1", "First"), titled("value2", "Second"), titled("value3", "Third")];
    let names = ["option1", "option2", "option3"];
    let properties = json!({
        "untitledSingle": { "type": "string", "enum": names },
        "titledSingle": { "type": "string", "oneOf": titles },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["First", "Second", "Third"] },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": names } },
        "titledMulti": { "type": "array", "items": { "anyOf": titles } },
    });
    told(client.ask("choices", "elicitation/create", form("Choose", &properties, &[])).await?)
}

/// Params of `elicitation/create`.
pub(crate) fn user_name() -> Value {
    form("What is your name?", &json!({ "name": { "type": "string" } }), &["name"])
}

fn form(message: &str, properties: &Value, required: &[&str]) -> Value {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "message": message, "requestedSchema": schema })
}

/// Params of `sampling/createMessage`.
pub(crate) fn message(text: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }], "maxTokens": 100 })
}
