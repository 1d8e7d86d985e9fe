use axum::extract::{FromRequest, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::context::Context;
use super::rejection::ExtractRejection;
use crate::jsonrpc::{McpError, shortened};

/// What is told of arguments that are wrong, in bytes, at most: it may quote them.
const LONGEST_REASON: usize = 256;

/// The arguments of a `tools/call`, as a type of yours. Absent ones are read as `{}`.
///
/// What is no `A` is answered as the specification asks: since 2025-11-25 by a result with `isError`, whose text tells a
/// model what to mend, and before by the error -32602. Where `arguments` is no object at all, it is that error always.
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
        read(params).map_err(|error| match may_be_arguments(params) {
            true => ExtractRejection::Arguments {
                error: McpError::invalid_params(format!(
                    "Invalid arguments: {}",
                    shortened(&error.to_string(), LONGEST_REASON)
                )),
                version: context.version,
            },
            false => {
                ExtractRejection::Params(McpError::invalid_params("Invalid params: `arguments` is not one object"))
            }
        })
    }
}

fn read<A: DeserializeOwned>(params: &str) -> serde_json::Result<Arguments<A>> {
    #[derive(Deserialize)]
    struct Call<A> {
        arguments: Option<A>,
    }

    let call: Call<A> = serde_json::from_str(params)?;
    call.arguments.map_or_else(|| serde_json::from_str("{}"), Ok).map(Arguments)
}

/// They are an object, or absent: what is wrong with them is a matter of the tool.
fn may_be_arguments(params: &str) -> bool {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }

    let call = serde_json::from_str::<Call<'_>>(params);
    call.is_ok_and(|call| call.arguments.is_none_or(|arguments| arguments.get().starts_with('{')))
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
        for params in ["{}", r#"{"name":"add"}"#, r#"{"arguments":null}"#, r#"{"arguments":{}}"#] {
            assert_eq!(read::<Add>(params).unwrap().0.a, 0, "{params}");
        }
        assert_eq!(read::<Add>(r#"{"name":"add","arguments":{"a":7}}"#).unwrap().0.a, 7);
    }

    #[test]
    fn what_is_no_object_is_no_matter_of_the_tool() {
        assert!(may_be_arguments(r#"{"arguments":{"a":"x"}}"#) && may_be_arguments("{}"));
        for params in [r#"{"arguments":7}"#, r#"{"arguments":[1]}"#, "[]", r#"{"arguments":{},"arguments":{}}"#] {
            assert!(!may_be_arguments(params), "{params}");
        }
    }
}
