use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::exchange::End;
use super::key::{Caller, Key};
use super::sync::{AtomicUsize, Mutex, Ordering, lock};

const MOST: usize = 4_096;
const MOST_A_CALLER: usize = 64;

/// Cancels that overtook their requests, each kept for a short time and used once.
#[derive(Debug)]
pub(super) struct EarlyCancels {
    kept_for: Duration,
    memory: Mutex<Memory>,
    /// Read without the lock by every request that is parked: mostly nothing is remembered.
    kept: AtomicUsize,
}

#[derive(Debug, Default)]
struct Memory {
    cancels: HashMap<Key, (Instant, End)>,
    callers: HashMap<Caller, usize>,
    /// In the order in which they were kept, those that have been used since among them.
    order: VecDeque<(Instant, Key)>,
}

impl EarlyCancels {
    pub(super) fn new(kept_for: Duration) -> Self {
        Self { kept_for, memory: Mutex::default(), kept: AtomicUsize::new(0) }
    }

    /// Keeps a cancel, if there is room: a full memory keeps what it has.
    pub(super) fn keep(&self, key: &Key, end: &End, now: Instant) -> bool {
        if self.kept_for.is_zero() || !key.may_be_remembered() {
            return false;
        }
        let mut memory = lock(&self.memory);
        memory.expire(now, self.kept_for);
        let kept = memory.keep(key, end, now);
        self.kept.store(memory.cancels.len(), Ordering::Release);
        kept
    }

    /// Takes the cancel of this request, if one is kept.
    pub(super) fn take(&self, key: &Key, now: impl FnOnce() -> Instant) -> Option<End> {
        if self.kept.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut memory = lock(&self.memory);
        memory.expire(now(), self.kept_for);
        let taken = memory.forget(key);
        self.kept.store(memory.cancels.len(), Ordering::Release);
        taken
    }
}

impl Memory {
    fn keep(&mut self, key: &Key, end: &End, now: Instant) -> bool {
        if self.cancels.contains_key(key) {
            return true;
        }
        let callers = self.callers.get(&key.caller).copied().unwrap_or(0);
        if self.cancels.len() >= MOST || callers >= MOST_A_CALLER {
            return false;
        }
        if self.order.len() >= 2 * MOST {
            // Most of these have been used.
            let Self { cancels, order, .. } = self;
            order.retain(|(since, key)| cancels.get(key).is_some_and(|(kept, _)| kept == since));
        }
        self.cancels.insert(key.clone(), (now, end.clone()));
        self.order.push_back((now, key.clone()));
        self.callers.insert(key.caller, callers + 1);
        true
    }

    fn forget(&mut self, key: &Key) -> Option<End> {
        let (_, end) = self.cancels.remove(key)?;
        if let Some(callers) = self.callers.get_mut(&key.caller) {
            *callers -= 1;
            if *callers == 0 {
                self.callers.remove(&key.caller);
            }
        }
        Some(end)
    }

    fn expire(&mut self, now: Instant, kept_for: Duration) {
        while let Some((since, _)) = self.order.front()
            && now.saturating_duration_since(*since) >= kept_for
            && let Some((since, key)) = self.order.pop_front()
        {
            if self.cancels.get(&key).is_some_and(|(kept, _)| *kept == since) {
                self.forget(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::key::Callers;
    use crate::exchange::outcome::Outcome;

    fn end(reason: &str) -> End {
        End { outcome: Outcome::Cancelled, reason: Some(reason.into()) }
    }

    fn keys() -> impl Fn(&str, u64) -> Key {
        let callers = Callers::default();
        move |session, id| Key { caller: callers.caller(None, Some(session.as_bytes())), id: id.into() }
    }

    #[test]
    fn a_cancel_is_used_once_and_in_time() {
        let (key, start) = (keys(), Instant::now());
        let early = EarlyCancels::new(Duration::from_secs(1));
        let after = |millis| start + Duration::from_millis(millis);
        assert!(early.keep(&key("s", 1), &end("why"), start));
        assert_eq!(early.take(&key("s", 2), || start), None);
        assert_eq!(early.take(&key("t", 1), || start), None);
        assert_eq!(early.take(&key("s", 1), || after(999)), Some(end("why")));
        assert_eq!(early.take(&key("s", 1), || after(999)), None);

        assert!(early.keep(&key("s", 1), &end(""), after(1_000)));
        assert!(early.keep(&key("s", 1), &end(""), after(1_500)));
        assert_eq!(early.take(&key("s", 1), || after(2_000)), None);
        assert_eq!(early.kept.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_that_was_used_does_not_take_a_newer_one_with_it() {
        let (key, start) = (keys(), Instant::now());
        let early = EarlyCancels::new(Duration::from_secs(1));
        let after = |millis| start + Duration::from_millis(millis);
        early.keep(&key("s", 1), &end(""), start);
        early.take(&key("s", 1), || start);
        early.keep(&key("s", 1), &end(""), after(900));
        assert_eq!(early.take(&key("s", 1), || after(1_100)), Some(end("")));
    }

    #[test]
    fn the_memory_is_bounded_and_keeps_what_it_has() {
        let (key, start) = (keys(), Instant::now());
        let early = EarlyCancels::new(Duration::from_secs(1));
        for id in 0..1_000 {
            assert_eq!(early.keep(&key("one", id), &end(""), start), id < 64);
        }
        for session in 0..100_u32 {
            for id in 0..64 {
                early.keep(&key(&session.to_string(), id), &end(""), start);
            }
        }
        let memory = lock(&early.memory);
        assert_eq!((memory.cancels.len(), memory.order.len(), memory.callers.len()), (4_096, 4_096, 64));
        drop(memory);
        assert!(early.keep(&key("one", 5_000), &end(""), start + Duration::from_secs(1)));
        assert_eq!(lock(&early.memory).cancels.len(), 1);
    }

    #[test]
    fn using_cancels_up_does_not_let_the_memory_grow() {
        let (key, start) = (keys(), Instant::now());
        let early = EarlyCancels::new(Duration::from_secs(1));
        for id in 0..10_000 {
            early.keep(&key("s", id), &end(""), start);
            early.take(&key("s", id), || start);
        }
        assert!(lock(&early.memory).order.len() <= 8_192);
        assert!(early.keep(&key("t", 1), &end(""), start), "what was used takes no room");
    }

    #[test]
    fn only_sessions_and_short_ids_are_remembered() {
        let (callers, start) = (Callers::default(), Instant::now());
        let early = EarlyCancels::new(Duration::from_secs(1));
        let session = callers.caller(None, Some(b"s"));
        assert!(!early.keep(&Key { caller: callers.caller(None, None), id: 1.into() }, &end(""), start));
        assert!(!early.keep(&Key { caller: session, id: "x".repeat(257).into() }, &end(""), start));
        assert!(early.keep(&Key { caller: session, id: "x".repeat(256).into() }, &end(""), start));
        assert!(!EarlyCancels::new(Duration::ZERO).keep(&Key { caller: session, id: 1.into() }, &end(""), start));
    }
}
