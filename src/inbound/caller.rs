use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::header::HeaderValue;
use http::request::Parts;

use super::headers::Known;
use crate::exchange::{Caller, Callers, Owner};
use crate::rejection::Rejection;

type Principal = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// Tells whose request a request is.
#[derive(Default)]
pub(crate) struct Identify {
    callers: Callers,
    pub(crate) principal: Option<Arc<Principal>>,
}

impl Identify {
    /// The principal, where a function reads one, else the Authorization; and the session, where there can be one.
    pub(crate) fn caller(&self, parts: &Parts, known: &Known<'_>, has_session: bool) -> Result<Caller, Rejection> {
        let authorization = known.authorization.single("Authorization")?;
        let session = known.session_id.single("Mcp-Session-Id")?;
        let session = session.filter(|_| has_session).map(HeaderValue::as_bytes);
        Ok(match &self.principal {
            Some(principal) => {
                let principal = catch_unwind(AssertUnwindSafe(|| principal(parts))).map_err(|_| Rejection::Internal)?;
                let principal = principal.filter(|name| !name.is_empty());
                self.callers.caller(principal.as_ref().map(|name| Owner::Principal(name.as_bytes())), session)
            }
            None => {
                let authorization = authorization.map(|value| Owner::Authorization(value.as_bytes()));
                self.callers.caller(authorization, session)
            }
        })
    }
}

impl std::fmt::Debug for Identify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identify").field("principal", &self.principal.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let request = headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn judge(identify: &Identify, headers: &[(&str, &str)], has_session: bool) -> Result<Caller, Rejection> {
        let parts = parts(headers);
        identify.caller(&parts, &Known::of(&parts.headers), has_session)
    }

    fn of(identify: &Identify, headers: &[(&str, &str)]) -> Caller {
        judge(identify, headers, true).unwrap()
    }

    #[test]
    fn authorization_and_session_make_the_caller() {
        let identify = Identify::default();
        let (a, b) = (("authorization", "Bearer a"), ("authorization", "Bearer b"));
        assert_eq!(of(&identify, &[a]), of(&identify, &[a]));
        assert_ne!(of(&identify, &[a]), of(&identify, &[b]));
        assert_ne!(of(&identify, &[a]), of(&identify, &[a, ("mcp-session-id", "s")]));
        assert!(of(&identify, &[]).is_anonymous());
        let modern = judge(&identify, &[a, ("mcp-session-id", "s")], false).unwrap();
        assert_eq!(modern, of(&identify, &[a]));
        for twice in [[a, b], [("mcp-session-id", "s"), ("mcp-session-id", "s")]] {
            assert!(matches!(judge(&identify, &twice, true), Err(Rejection::RepeatedHeader(_))));
        }
    }

    #[test]
    fn a_principal_outlives_its_tokens_and_an_empty_one_is_none() {
        let user = |parts: &Parts| Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned());
        let identify = Identify { principal: Some(Arc::new(user)), ..Identify::default() };
        let ada = ("x-user", "ada");
        let (one, two) = (("authorization", "Bearer 1"), ("authorization", "Bearer 2"));
        assert_eq!(of(&identify, &[ada, one]), of(&identify, &[ada, two]));
        assert_ne!(of(&identify, &[ada]), of(&identify, &[ada, ("mcp-session-id", "s")]));
        assert!(of(&identify, &[one]).is_anonymous());
        let panics = Identify { principal: Some(Arc::new(|_: &Parts| panic!("no user"))), ..Identify::default() };
        assert_eq!(judge(&panics, &[], true), Err(Rejection::Internal));
        assert!(of(&identify, &[("x-user", ""), one]).is_anonymous());
    }
}
