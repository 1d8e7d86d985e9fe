use std::hash::{Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::jsonrpc::RequestId;

/// A longer id is not remembered: what a client sends must not fill the memory.
const LONGEST_REMEMBERED: usize = 256;

/// What an exchange is parked under. Clients choose ids and they collide all the time, so the id alone names nothing.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    pub(crate) caller: Caller,
    pub(crate) id: RequestId,
}

impl Key {
    /// It still names the same request when that is no longer, or not yet, parked.
    pub(super) fn may_be_remembered(&self) -> bool {
        let is_short = self.id.as_str().is_none_or(|id| id.len() <= LONGEST_REMEMBERED);
        is_short && self.caller.has_session()
    }
}

/// Whose request ids these are, as keyed hashes: the secrets that they come from are not kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Caller {
    scope: u128,
    owner: Option<u128>,
    has_session: bool,
}

impl Caller {
    /// Neither principal, nor Authorization, nor session: this caller is everybody who sends none of them.
    pub(crate) fn is_anonymous(self) -> bool {
        self.owner.is_none() && !self.has_session
    }

    /// The same without its session, if it has one.
    pub(crate) fn without_session(self) -> Option<Self> {
        self.has_session.then(|| Self { scope: self.owner.unwrap_or(0), owner: self.owner, has_session: false })
    }

    /// Within a session ids are never reused (MCP, *Requests*), so a cancel can be kept for a request that is late.
    pub(crate) fn has_session(self) -> bool {
        self.has_session
    }

    /// The principal or the Authorization, without the session: anyone can invent sessions.
    pub(super) fn owner(self) -> Option<u128> {
        self.owner
    }
}

/// The scope is made of the other parts.
impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scope.hash(state);
    }
}

/// Makes callers, with a random key of this process.
pub(crate) struct Callers {
    key: [u8; 16],
}

/// Tags keep a principal and an Authorization header of the same bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'a> {
    Authorization(&'a [u8]),
    Principal(&'a [u8]),
}

impl Default for Callers {
    fn default() -> Self {
        let mut key = [0; 16];
        // Without randomness the hashes would be guessable: there is no safe way to go on.
        #[expect(clippy::expect_used, reason = "a system without a source of randomness cannot keep callers apart")]
        getrandom::fill(&mut key).expect("the system has no source of randomness");
        Self { key }
    }
}

impl Callers {
    pub(crate) fn caller(&self, owner: Option<Owner<'_>>, session: Option<&[u8]>) -> Caller {
        let owner = owner.map(|owner| match owner {
            Owner::Authorization(value) => self.hash(b'a', &[value]),
            Owner::Principal(value) => self.hash(b'p', &[value]),
        });
        let scope = match (owner, session) {
            (owner, None) => owner.unwrap_or(0),
            (None, Some(session)) => self.hash(b's', &[session]),
            (Some(owner), Some(session)) => self.hash(b'o', &[&owner.to_ne_bytes(), session]),
        };
        Caller { scope, owner, has_session: session.is_some() }
    }

    fn hash(&self, tag: u8, parts: &[&[u8]]) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u8(tag);
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callers { .. }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_tells_callers_apart() {
        let callers = Callers::default();
        let all = [
            callers.caller(None, None),
            callers.caller(None, Some(b"")),
            callers.caller(None, Some(b"x")),
            callers.caller(Some(Owner::Principal(b"x")), None),
            callers.caller(Some(Owner::Authorization(b"x")), None),
            callers.caller(Some(Owner::Principal(b"x")), Some(b"x")),
            callers.caller(Some(Owner::Principal(b"x")), Some(b"")),
            callers.caller(Some(Owner::Authorization(b"x")), Some(b"x")),
            callers.caller(Some(Owner::Principal(b"y")), Some(b"x")),
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(one == other, at == other_at, "{at} and {other_at}");
            }
        }
    }

    #[test]
    fn the_same_parts_make_the_same_caller_within_a_process_only() {
        let (here, elsewhere) = (Callers::default(), Callers::default());
        let caller = |callers: &Callers| callers.caller(Some(Owner::Authorization(b"Bearer a")), Some(b"s"));
        assert_eq!(caller(&here), caller(&here));
        assert_ne!(caller(&here), caller(&elsewhere));
    }

    #[test]
    fn sessions_do_not_make_owners() {
        let callers = Callers::default();
        let (one, other) = (callers.caller(None, Some(b"1")), callers.caller(Some(Owner::Principal(b"p")), Some(b"1")));
        assert_eq!((one.owner(), one.has_session(), one.is_anonymous()), (None, true, false));
        assert_eq!(other.owner(), callers.caller(Some(Owner::Principal(b"p")), Some(b"2")).owner());
        assert!(callers.caller(None, None).is_anonymous());
    }
}
