use axum::extract::{FromRequest, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::context::Context;
use super::rejection::ExtractRejection;
use crate::jsonrpc::{McpError, shortened};

/// What is told of arguments that are wrong, in bytes, at most: it may quote them.
const LONGEST_REASON: usize = 256;

/// The arguments of a `tools/call`, as a type of yours. Absent ones are read as `{}`, and empty ones as `null` where that
/// suits the type better.
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
        let arguments = arguments_of(params).ok_or_else(|| {
            ExtractRejection::Params(McpError::invalid_params("Invalid params: `arguments` is not one object"))
        })?;
        read(arguments).map(Self).map_err(|error| {
            let reason = error.to_string();
            // Where in the text it is tells a model nothing.
            let reason = reason.rsplit_once(" at line ").map_or(&*reason, |(reason, _)| reason);
            let reason = shortened(reason, LONGEST_REASON);
            let error = McpError::invalid_params(format!("Invalid arguments: {reason}"));
            ExtractRejection::Arguments { error, version: context.version }
        })
    }
}

/// The one object that they are. Many types can be read from an array too, but then nobody has checked their headers.
fn arguments_of(params: &str) -> Option<&str> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }

    let is_object = |json: &&str| json.starts_with('{');
    let call: Call<'_> = serde_json::from_str(Some(params).filter(is_object)?).ok()?;
    Some(call.arguments.map_or("{}", RawValue::get)).filter(is_object)
}

/// Empty ones suit a type that takes none.
fn read<A: DeserializeOwned>(arguments: &str) -> serde_json::Result<A> {
    let is_empty = || arguments[1..].trim_start().starts_with('}');
    match serde_json::from_str(arguments) {
        Err(error) if is_empty() => serde_json::from_str("null").map_err(|_| error),
        read => read,
    }
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
            assert_eq!(arguments_of(params), Some("{}"), "{params}");
        }
        let arguments = arguments_of(r#"{"name":"add","arguments": { "a":7 } }"#);
        assert_eq!(arguments, Some(r#"{ "a":7 }"#));
        assert_eq!(read::<Add>(arguments.unwrap()).unwrap().a, 7);
    }

    #[test]
    fn empty_arguments_suit_a_type_that_takes_none() {
        read::<()>("{}").unwrap();
        read::<()>("{ \n }").unwrap();
        assert_eq!(read::<Add>("{}").unwrap().a, 0);
        assert!(read::<()>(r#"{"a":1}"#).is_err());
        let error = read::<std::net::IpAddr>("{}").unwrap_err();
        assert!(!error.to_string().contains("null"), "{error}");
    }

    #[test]
    fn what_is_no_object_is_no_matter_of_the_tool() {
        for params in [
            r#"{"arguments":7}"#,
            r#"{"arguments":[1]}"#,
            r#"{"arguments":"{}"}"#,
            "[]",
            "[{}]",
            r#"{"arguments":{},"arguments":{}}"#,
        ] {
            assert_eq!(arguments_of(params), None, "{params}");
        }
    }
}
