use std::collections::HashMap;
use std::sync::Arc;

use mcp_layer::{Client, McpError, McpRouter, Params, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::asking::{Answer, user_name};
use crate::content;
use crate::debug::Debug;

pub(crate) fn router() -> McpRouter<Arc<Debug>> {
    McpRouter::default()
        .request("completion/complete", complete)
        .request("prompts/get", get)
        .request("prompts/list", list)
}

async fn list() -> Reply<Value> {
    let argument =
        |name: &str, description: &str| json!({ "name": name, "description": description, "required": true });
    Reply(json!({ "prompts": [
        { "name": "test_simple_prompt", "description": "A text" },
        {
            "name": "test_prompt_with_arguments",
            "description": "A text with two words of yours",
            "arguments": [argument("arg1", "The first word, a tree"), argument("arg2", "The second word")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A resource, and a text about it",
            "arguments": [argument("resourceUri", "The URI of the resource")],
        },
        { "name": "test_input_required_result_prompt", "description": "A text for a user that is asked first" },
        { "name": "test_prompt_with_image", "description": "An image, and a text about it" },
    ] }))
}

#[derive(Deserialize)]
struct Get {
    name: String,
    arguments: Option<HashMap<String, String>>,
}

async fn get(client: Client, Params(Get { name, arguments }): Params<Get>) -> axum::response::Result<Reply<Value>> {
    let argument = |name: &str| {
        let value = arguments.as_ref().and_then(|arguments| arguments.get(name)).map(String::as_str);
        value.ok_or_else(|| McpError::invalid_params(format!("argument {name:?} is required")))
    };
    let said = match name.as_str() {
        "test_simple_prompt" => vec![content::text("Say something simple.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1")?, argument("arg2")?);
            vec![content::text(&format!("Make a sentence with {first} and {second}."))]
        }
        "test_prompt_with_embedded_resource" => vec![
            content::resource(argument("resourceUri")?, "text/plain", "the text of a resource"),
            content::text("What does the resource say?"),
        ],
        "test_input_required_result_prompt" => {
            let answer: Answer = client.ask("user_name", "elicitation/create", user_name()).await?;
            vec![content::text(&format!("Greet {}.", Value::Object(answer)))]
        }
        "test_prompt_with_image" => vec![content::image(), content::text("Which colour is the image?")],
        _ => return Err(McpError::invalid_params("Unknown prompt").into()),
    };
    let messages: Vec<_> = said.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Ok(Reply(json!({ "messages": messages })))
}

#[derive(Deserialize)]
struct Complete {
    argument: Argument,
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

/// Trees that begin so, for the one argument that is a tree.
async fn complete(Params(Complete { argument }): Params<Complete>) -> Reply<Value> {
    let trees = ["alder", "ash", "beech", "birch", "elm", "larch", "lime", "oak"];
    let is_fit = |tree: &&str| argument.name == "arg1" && tree.starts_with(&argument.value);
    let values: Vec<_> = trees.into_iter().filter(is_fit).collect();
    Reply(json!({ "completion": { "values": values, "total": values.len(), "hasMore": false } }))
}
