use std::sync::Arc;

use dashmap::DashMap;
use smallvec::{SmallVec, smallvec};

use super::exchange::{End, Exchange};
use super::key::Key;

/// The parked exchanges. Several may share a key: clients do repeat ids, and each of their requests has its own answer.
#[derive(Debug)]
pub(super) struct Table<T>(DashMap<Key, Slots<T>>);

pub(super) type Slots<T> = SmallVec<[Arc<Exchange<T>>; 1]>;

impl<T> Table<T> {
    pub(super) fn new() -> Self {
        Self(DashMap::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|slots| slots.len()).sum()
    }

    /// All of them, one shard after the other.
    pub(super) fn all(&self) -> Vec<Arc<Exchange<T>>> {
        self.0.iter().flat_map(|slots| slots.to_vec()).collect()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Parks an exchange. Where duplicates are refused, one that finds its key taken is not parked.
    pub(super) fn insert(&self, exchange: &Arc<Exchange<T>>, refuse_duplicate: bool) -> bool {
        match self.0.entry(exchange.key().clone()) {
            dashmap::Entry::Vacant(vacant) => {
                vacant.insert(smallvec![Arc::clone(exchange)]);
            }
            dashmap::Entry::Occupied(_) if refuse_duplicate => return false,
            dashmap::Entry::Occupied(mut taken) => taken.get_mut().push(Arc::clone(exchange)),
        }
        true
    }

    /// Ends this exchange, unless somebody else has.
    pub(super) fn end(&self, exchange: &Arc<Exchange<T>>, end: &End) -> bool {
        let mut ended = false;
        self.0.remove_if_mut(exchange.key(), |_, slots| {
            if let Some(at) = slots.iter().position(|parked| Arc::ptr_eq(parked, exchange)) {
                slots.remove(at).set_end(end.clone());
                ended = true;
            }
            slots.is_empty()
        });
        ended
    }

    /// Ends those exchanges of a key that `choose` takes out of the list that it is given.
    pub(super) fn end_chosen(&self, key: &Key, end: &End, choose: impl FnOnce(&mut Slots<T>) -> Slots<T>) -> Slots<T> {
        let mut ended = Slots::new();
        self.0.remove_if_mut(key, |_, slots| {
            ended = choose(slots);
            for chosen in &ended {
                chosen.set_end(end.clone());
            }
            slots.is_empty()
        });
        ended
    }
}
