use serde_json::{Value, json};

use super::message::{Post, call, modern, post, request};

/// The two kinds of protocol versions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];

    /// A tool call.
    pub(crate) fn call(self, id: &str, params: &Value) -> Post {
        match self {
            Self::Legacy => post(call(id, params)),
            Self::Modern => modern(id, "tools/call", params),
        }
    }

    /// Any request.
    pub(crate) fn request(self, id: &str, method: &str, params: &Value) -> Post {
        match self {
            Self::Legacy => post(request(id, method, params)),
            Self::Modern => modern(id, method, params),
        }
    }

    /// The HTTP status of the error -32601.
    pub(crate) fn not_found(self) -> u16 {
        match self {
            Self::Legacy => 200,
            Self::Modern => 404,
        }
    }

    /// A tool call whose handler waits for the gate `gate`.
    pub(crate) fn held(self, id: &str) -> Post {
        self.call(id, &json!({ "gate": "gate" }))
    }

    /// The code that completes a cancelled request.
    pub(crate) fn cancelled(self) -> i64 {
        match self {
            Self::Legacy => -32002,
            Self::Modern => -32800,
        }
    }

    /// The code that completes a request whose time is up.
    pub(crate) fn timed_out(self) -> i64 {
        match self {
            Self::Legacy => -32001,
            Self::Modern => -32802,
        }
    }

    /// The code that completes a request at shutdown.
    pub(crate) fn shut_down(self) -> i64 {
        match self {
            Self::Legacy => -32000,
            Self::Modern => -32802,
        }
    }
}
