use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::key::{Caller, Key};
use super::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::jsonrpc::RequestId;

const KEPT_FOR: Duration = Duration::from_secs(60);
const MOST_A_CALLER: usize = 64;
const MOST_CALLERS: usize = 256;
/// The ids that are kept are short (`Key::may_be_remembered`), so a longer spelling is taken for another id, in bytes. Every
/// character of a string may be escaped by six.
const LONGEST_SPELLING: usize = 2 * 1024;

/// In the order in which they ended.
type Ids = VecDeque<Kept>;

#[derive(Debug)]
struct Kept {
    id: RequestId,
    since: Instant,
    /// A request with the same digits as its id, but of the other type (`"7"` beside `7`), has begun since.
    has_twin: bool,
}

impl Kept {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < KEPT_FOR
    }
}

/// The last requests of each session that have ended without the answer of their service, which may come still.
#[derive(Debug, Default)]
pub(super) struct EndedEarly {
    callers: Mutex<HashMap<Caller, Ids>>,
    /// How many there are, read without the lock: mostly there are none.
    kept: AtomicUsize,
}

impl EndedEarly {
    pub(super) fn keep(&self, key: &Key, now: Instant) {
        if !key.may_be_remembered() {
            return;
        }
        self.edit(now, |callers| {
            if callers.len() < MOST_CALLERS || callers.contains_key(&key.caller) {
                let ids = callers.entry(key.caller).or_default();
                if ids.len() >= MOST_A_CALLER {
                    ids.pop_front();
                }
                ids.push_back(Kept { id: key.id.clone(), since: now, has_twin: false });
            }
        });
    }

    /// A request of this key begins: what answers it now is not late. Not all clients choose new ids.
    pub(super) fn forget(&self, key: &Key, now: impl FnOnce() -> Instant) {
        if !self.is_empty() {
            self.edit(now(), |callers| {
                if let Some(ids) = callers.get_mut(&key.caller)
                    && let Ok(json) = serde_json::to_string(&key.id)
                {
                    ids.retain(|kept| kept.id != key.id);
                    for kept in ids {
                        kept.has_twin |= kept.id.is_spelled(&json);
                    }
                }
            });
        }
    }

    /// Whether a response with this id, as it stands in its JSON, answers one of them. A number also answers a request whose
    /// id is a string of the same digits, and the other way around, unless a request in flight has exactly that id. The id is
    /// read only if any are kept.
    pub(super) fn has(
        &self,
        caller: Caller,
        id: impl FnOnce() -> Option<String>,
        is_parked: impl FnOnce(&Key) -> bool,
        now: Instant,
    ) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(json) = id().filter(|json| json.len() <= LONGEST_SPELLING) else { return false };
        let is_string = json.starts_with('"');
        let of_other_type = self.edit(now, |callers| {
            let fresh = callers.get(&caller).into_iter().flatten().filter(|kept| kept.is_fresh(now));
            let (same, other): (Vec<_>, Vec<_>) = fresh
                .filter(|kept| kept.id.is_spelled(&json))
                .partition(|kept| kept.id.as_str().is_some() == is_string);
            match same.is_empty() {
                false => Some(None),
                true => other.iter().find(|kept| !kept.has_twin).map(|kept| kept.id.twin()),
            }
        });
        match of_other_type {
            None => false,
            Some(twin) => !twin.is_some_and(|id| is_parked(&Key { caller, id })),
        }
    }

    fn is_empty(&self) -> bool {
        self.kept.load(Ordering::Acquire) == 0
    }

    fn edit<R>(&self, now: Instant, edit: impl FnOnce(&mut HashMap<Caller, Ids>) -> R) -> R {
        let mut callers = lock(&self.callers);
        callers.retain(|_, ids| ids.back().is_some_and(|kept| kept.is_fresh(now)));
        let edited = edit(&mut callers);
        self.kept.store(callers.len(), Ordering::Release);
        edited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::key::Callers;

    /// Nothing is parked.
    fn has(ended: &EndedEarly, caller: Caller, json: &str, now: Instant) -> bool {
        ended.has(caller, || Some(json.to_owned()), |_| false, now)
    }

    #[test]
    fn the_last_ids_of_a_session_are_kept_for_a_while() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        let caller = |session: &str| callers.caller(None, Some(session.as_bytes()));
        let has = |session: &str, id: u64, now| has(&ended, caller(session), &id.to_string(), now);
        for id in 0..100_u64 {
            ended.keep(&Key { caller: caller("s"), id: id.into() }, start);
        }
        assert!(has("s", 99, start) && has("s", 36, start) && !has("s", 35, start) && !has("t", 99, start));
        assert!(has("s", 99, start + Duration::from_secs(59)) && !has("s", 99, start + Duration::from_secs(60)));
    }

    #[test]
    fn an_id_that_is_used_again_is_forgotten() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        let key = |id: u64| Key { caller: callers.caller(None, Some(b"s")), id: id.into() };
        ended.keep(&key(1), start);
        ended.keep(&key(2), start);
        ended.forget(&key(1), || start);
        let has = |id: u64, now| has(&ended, key(id).caller, &id.to_string(), now);
        assert!(!has(1, start) && has(2, start));
        assert!(!has(2, start + KEPT_FOR) && ended.is_empty(), "what is old is gone");
    }

    #[test]
    fn an_id_is_known_by_its_other_spellings_unless_they_name_another_request() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        let key = |id: RequestId| Key { caller: callers.caller(None, Some(b"s")), id };
        let caller = key(7.into()).caller;
        ended.keep(&key(7.into()), start);
        for (json, is_late) in [("7", true), ("7.0", true), ("\"7\"", true), ("8", false), ("\"07\"", false)] {
            assert_eq!(has(&ended, caller, json, start), is_late, "{json}");
        }
        let has_beside =
            |parked: RequestId, json: &str| ended.has(caller, || Some(json.to_owned()), |key| key.id == parked, start);
        let twin = || "7".into();
        assert!(has_beside(twin(), "7") && has_beside(twin(), "7.0") && !has_beside(twin(), "\"7\""));
        // It may be answered here although it is no longer parked.
        ended.forget(&key("7".into()), || start);
        assert!(has(&ended, caller, "7.0", start) && !has(&ended, caller, "\"7\"", start));
        ended.keep(&key("7".into()), start);
        assert!(has(&ended, caller, "7", start) && has(&ended, caller, "\"7\"", start));
        ended.forget(&key(7.into()), || start);
        assert!(!has(&ended, caller, "7.0", start) && has(&ended, caller, "\"7\"", start));
        ended.keep(&key("8".into()), start);
        assert!(!has_beside(8.into(), "8.0") && has_beside(9.into(), "8.0"));
    }

    #[test]
    fn the_memory_is_bounded() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        let key = |session: &str| Key { caller: callers.caller(None, Some(session.as_bytes())), id: 1.into() };
        let has = |session: &str, now| has(&ended, key(session).caller, "1", now);
        for session in 0..1_000 {
            ended.keep(&key(&session.to_string()), start);
        }
        assert_eq!(lock(&ended.callers).len(), 256);
        assert!(has("0", start) && !has("999", start), "it keeps what it has");
        let later = start + KEPT_FOR;
        ended.keep(&key("later"), later);
        assert!(has("later", later));
        assert_eq!(lock(&ended.callers).len(), 1);
    }

    #[test]
    fn only_sessions_and_short_ids_are_kept() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        ended.keep(&Key { caller: callers.caller(None, None), id: 1.into() }, start);
        ended.keep(&Key { caller: callers.caller(None, Some(b"s")), id: "x".repeat(257).into() }, start);
        assert!(lock(&ended.callers).is_empty());
    }
}
