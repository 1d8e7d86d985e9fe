use axum::Extension;
use axum::extract::State;
use http::HeaderMap;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{RecursiveTransform, ReplaceBoolSchemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::extract::{Arguments, Cancellation, Client, ExchangeInfo, InputResponses, McpMessage, Notifier};

/// The argument types of a handler, as axum has them, of which the last tells the arguments of the tool.
pub trait ToolInput {
    /// The input schema of the tool.
    fn schema() -> Map<String, Value>;
}

/// The last argument of a tool's handler.
#[diagnostic::on_unimplemented(
    message = "`{Self}`, as the last argument of its handler, does not tell the arguments of a tool",
    note = "make `Arguments<A>` the last one, with an `A` that implements `JsonSchema`; or use `Tool::with_schema`"
)]
pub trait LastArgument {
    /// The input schema of the tool. Most tell that it has no arguments: only [`Arguments`] reads them, and it stands last
    /// where it stands.
    fn schema() -> Map<String, Value> {
        no_arguments()
    }
}

impl<A: JsonSchema> LastArgument for Arguments<A> {
    fn schema() -> Map<String, Value> {
        let mut schema = schema_of::<A>(Contract::Deserialize);
        // The name of the type, and what it says of itself, are the tool's to tell.
        schema.remove("title");
        schema.remove("description");
        if schema.get("type").is_some_and(|kind| kind == "null") {
            return no_arguments();
        }
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.values_mut().for_each(make_annotated_plain);
        }
        schema
    }
}

impl LastArgument for Cancellation {}
impl LastArgument for Client {}
impl LastArgument for ExchangeInfo {}
impl LastArgument for HeaderMap {}
impl LastArgument for InputResponses {}
impl LastArgument for McpMessage {}
impl LastArgument for Notifier {}
impl<T> LastArgument for Extension<T> {}
impl<S> LastArgument for State<S> {}

/// A handler without arguments.
impl ToolInput for ((),) {
    fn schema() -> Map<String, Value> {
        no_arguments()
    }
}

macro_rules! tool_input {
    ($($before:ident)*) => {
        impl<M, $($before,)* Last: LastArgument> ToolInput for (M, $($before,)* Last,) {
            fn schema() -> Map<String, Value> {
                Last::schema()
            }
        }
    };
}

tool_input!();
tool_input!(A);
tool_input!(A B);
tool_input!(A B C);
tool_input!(A B C D);
tool_input!(A B C D E);
tool_input!(A B C D E F);
tool_input!(A B C D E F G);
tool_input!(A B C D E F G H);
tool_input!(A B C D E F G H I);
tool_input!(A B C D E F G H I J);
tool_input!(A B C D E F G H I J K);
tool_input!(A B C D E F G H I J K L);
tool_input!(A B C D E F G H I J K L N);
tool_input!(A B C D E F G H I J K L N O);
tool_input!(A B C D E F G H I J K L N O P);

/// The schema of a type, in 2020-12, which is MCP's default, so that it need not say so. Subschemas stand where they are
/// used, because that is what models read best, and where a header of theirs counts.
fn schema_of<T: JsonSchema>(contract: Contract) -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract;
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        // Legacy versions have no others, and nor have many clients.
        let mut objects = ReplaceBoolSchemas::default();
        objects.skip_additional_properties = true;
        settings.transforms.push(Box::new(objects));
        settings.transforms.push(Box::new(RecursiveTransform(remove_format_of_numbers)));
    });
    let mut schema = match settings.into_generator().into_root_schema_for::<T>().to_value() {
        Value::Object(schema) => schema,
        // `true`: anything.
        _ => Map::new(),
    };
    if schema.get("title").is_some_and(|title| *title == *T::schema_name()) {
        // A name of the program's, which tells a model nothing.
        schema.remove("title");
    }
    schema
}

/// `uint32` and its like are formats of Rust's, not of JSON Schema, and strict clients stumble over them.
fn remove_format_of_numbers(schema: &mut Schema) {
    let is_number = |kind: &Value| kind == "integer" || kind == "number";
    let is_numeric = schema.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(is_number),
        kind => is_number(kind),
    });
    if is_numeric {
        schema.remove("format");
    }
}

/// The schema of what a tool writes.
pub(super) fn output_schema<T: JsonSchema>() -> Map<String, Value> {
    schema_of::<T>(Contract::Serialize)
}

fn no_arguments() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), json!({}))])
}

/// An optional parameter that goes into a header: its `null` is the same as none, and its type one that a header can have.
fn make_annotated_plain(property: &mut Value) {
    let Value::Object(property) = property else { return };
    if property.contains_key("x-mcp-header") {
        if let Some(kind) = property.get_mut("type")
            && let Some([one, Value::String(null)]) = kind.as_array().map(Vec::as_slice)
            && null == "null"
        {
            *kind = one.clone();
        }
        if let Some(Value::Array(values)) = property.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if property.get("default").is_some_and(Value::is_null) {
            property.remove("default");
        }
    }
    if let Some(Value::Object(properties)) = property.get_mut("properties") {
        properties.values_mut().for_each(make_annotated_plain);
    }
}
