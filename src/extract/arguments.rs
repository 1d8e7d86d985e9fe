use axum::extract::{FromRequest, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::context::Context;
use super::rejection::ExtractRejection;
use crate::jsonrpc::{McpError, as_object, read, read_object};

/// The arguments of a `tools/call`, as a type of yours. Absent ones, and the empty array that some languages write for an
/// empty object, are read as `{}`, and empty ones as `null` where that suits the type better.
///
/// Arguments that are not an `A` are answered as the specification asks: since 2025-11-25 by a result with `isError`, whose
/// text tells a model what to mend, and before by the error -32602. Arguments that are not an object get that error in every
/// version.
///
/// It is the last argument of its handler, so that [`Tool`](crate::Tool) finds the type there.
///
/// ```
/// use mcp_layer::{Arguments, CallToolResult};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Add {
///     a: f64,
///     b: f64,
/// }
///
/// async fn add(Arguments(Add { a, b }): Arguments<Add>) -> CallToolResult {
///     CallToolResult::text((a + b).to_string())
/// }
/// # let _: axum::routing::MethodRouter = axum::routing::post(add);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arguments<A>(pub A);

impl<A: DeserializeOwned, S: Send + Sync> FromRequest<S> for Arguments<A> {
    type Rejection = ExtractRejection;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Self::Rejection> {
        let context = Context::of(request.extensions())?;
        let params = context.subject.message().params().unwrap_or("{}");
        let arguments = arguments_of(params).map_err(ExtractRejection::Params)?;
        read_object(arguments).map(Self).map_err(|why| {
            let error = McpError::invalid_params(format!("Invalid arguments: {why}"));
            ExtractRejection::Arguments { error, version: context.version }
        })
    }
}

/// The object that they are.
fn arguments_of(params: &str) -> Result<&str, McpError> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }

    let call: Call<'_> = read(params).map_err(|why| McpError::invalid_params(format!("Invalid params: {why}")))?;
    let arguments = as_object(call.arguments.map_or("{}", RawValue::get));
    arguments.ok_or_else(|| McpError::invalid_params("arguments must be an object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Add {
        #[serde(default)]
        a: i32,
    }

    #[test]
    fn absent_arguments_are_empty_ones() {
        for params in ["{}", r#"{"name":"add"}"#, r#"{"arguments":null}"#, r#"{"arguments":{}}"#, r#"{"arguments":[]}"#]
        {
            assert_eq!(arguments_of(params), Ok("{}"), "{params}");
        }
        let arguments = arguments_of(r#"{"name":"add","arguments": { "a":7 } }"#).unwrap();
        assert_eq!(arguments, r#"{ "a":7 }"#);
        assert_eq!(read_object::<Add>(arguments).unwrap().a, 7);
        assert_eq!(read_object::<Add>("{}").unwrap().a, 0);
    }

    #[test]
    fn arguments_that_are_not_an_object_are_no_matter_of_the_tool() {
        for (params, text) in [
            (r#"{"arguments":7}"#, "arguments must be an object"),
            (r#"{"arguments":[1]}"#, "arguments must be an object"),
            (r#"{"arguments":[[]]}"#, "arguments must be an object"),
            (r#"{"arguments":"{}"}"#, "arguments must be an object"),
            (r#"{"arguments":{},"arguments":{}}"#, "Invalid params: `arguments` is repeated"),
        ] {
            assert_eq!(arguments_of(params).unwrap_err().message(), text, "{params}");
        }
    }
}
