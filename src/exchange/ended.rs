use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::key::{Caller, Key};
use super::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::jsonrpc::RequestId;

const KEPT_FOR: Duration = Duration::from_secs(60);
const MOST_A_CALLER: usize = 64;
const MOST_CALLERS: usize = 256;

/// In the order in which they ended.
type Ids = VecDeque<(Instant, RequestId)>;

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
                ids.push_back((now, key.id.clone()));
            }
        });
    }

    /// A request of this key begins: what answers it now is not late. Not all clients choose new ids.
    pub(super) fn forget(&self, key: &Key, now: impl FnOnce() -> Instant) {
        if !self.is_empty() {
            self.edit(now(), |callers| {
                if let Some(ids) = callers.get_mut(&key.caller) {
                    ids.retain(|(_, kept)| *kept != key.id);
                }
            });
        }
    }

    /// Whether this request is one of them. Its id is read only if there are any.
    pub(super) fn has(&self, caller: Caller, id: impl FnOnce() -> Option<RequestId>, now: Instant) -> bool {
        !self.is_empty()
            && id().is_some_and(|id| {
                self.edit(now, |callers| {
                    let mut ids = callers.get(&caller).into_iter().flatten();
                    ids.any(|(since, kept)| *kept == id && is_fresh(*since, now))
                })
            })
    }

    fn is_empty(&self) -> bool {
        self.kept.load(Ordering::Acquire) == 0
    }

    fn edit<R>(&self, now: Instant, edit: impl FnOnce(&mut HashMap<Caller, Ids>) -> R) -> R {
        let mut callers = lock(&self.callers);
        callers.retain(|_, ids| ids.back().is_some_and(|(since, _)| is_fresh(*since, now)));
        let edited = edit(&mut callers);
        self.kept.store(callers.len(), Ordering::Release);
        edited
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < KEPT_FOR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::key::Callers;

    #[test]
    fn the_last_ids_of_a_session_are_kept_for_a_while() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        let caller = |session: &str| callers.caller(None, Some(session.as_bytes()));
        let has = |session: &str, id: u64, now| ended.has(caller(session), || Some(id.into()), now);
        for id in 0..100_u64 {
            ended.keep(&Key { caller: caller("s"), id: id.into() }, start);
        }
        assert!(has("s", 99, start) && has("s", 36, start) && !has("s", 35, start) && !has("t", 99, start));
        assert!(has("s", 99, start + Duration::from_secs(59)) && !has("s", 99, start + Duration::from_secs(60)));
        assert!(!ended.has(caller("s"), || Some("99".into()), start), "an id of another type");
    }

    #[test]
    fn an_id_that_is_used_again_is_forgotten() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        let key = |id: u64| Key { caller: callers.caller(None, Some(b"s")), id: id.into() };
        ended.keep(&key(1), start);
        ended.keep(&key(2), start);
        ended.forget(&key(1), || start);
        let has = |id: u64, now| ended.has(key(id).caller, || Some(id.into()), now);
        assert!(!has(1, start) && has(2, start));
        assert!(!has(2, start + KEPT_FOR) && ended.is_empty(), "what is old is gone");
    }

    #[test]
    fn the_memory_is_bounded() {
        let (callers, ended, start) = (Callers::default(), EndedEarly::default(), Instant::now());
        let key = |session: &str| Key { caller: callers.caller(None, Some(session.as_bytes())), id: 1.into() };
        let has = |session: &str, now| ended.has(key(session).caller, || Some(1.into()), now);
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
