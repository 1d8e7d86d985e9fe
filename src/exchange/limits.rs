use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use super::key::Caller;
use super::sync::{AtomicUsize, Ordering};

/// How many handlers of requests, or of notifications and responses, may be at work, in all and for one owner.
#[derive(Debug)]
pub(super) struct Limits {
    all: AtomicUsize,
    most: usize,
    owners: DashMap<u128, usize>,
    most_per_owner: usize,
}

/// Why an exchange was not parked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    /// This caller has a request of this id parked, and duplicates are refused.
    Duplicate,
    /// All places are taken.
    Full,
    /// All places of this principal or Authorization are taken.
    OwnerFull,
    /// Nothing new is let in any more.
    ShuttingDown,
}

impl Limits {
    pub(super) fn new(most: usize, most_per_owner: usize) -> Self {
        Self { all: AtomicUsize::new(0), most, owners: DashMap::new(), most_per_owner }
    }

    pub(super) fn taken(&self) -> usize {
        self.all.load(Ordering::SeqCst)
    }

    /// Takes a place, which this caller must leave.
    pub(super) fn enter(&self, caller: Caller) -> Result<(), Refused> {
        if self.all.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.all.fetch_sub(1, Ordering::SeqCst);
            return Err(Refused::Full);
        }
        if !caller.owner().is_none_or(|owner| self.owner_enters(owner)) {
            self.all.fetch_sub(1, Ordering::SeqCst);
            return Err(Refused::OwnerFull);
        }
        Ok(())
    }

    fn owner_enters(&self, owner: u128) -> bool {
        match self.owners.entry(owner) {
            Entry::Occupied(mut taken) if *taken.get() < self.most_per_owner => *taken.get_mut() += 1,
            Entry::Vacant(none) if self.most_per_owner > 0 => drop(none.insert(1)),
            Entry::Occupied(_) | Entry::Vacant(_) => return false,
        }
        true
    }

    pub(super) fn leave(&self, caller: Caller) {
        // Before the phase is looked at, as a shutdown looks at this after it has set the phase: one sees the other.
        self.all.fetch_sub(1, Ordering::SeqCst);
        if let Some(owner) = caller.owner() {
            self.owners.remove_if_mut(&owner, |_, taken| {
                *taken -= 1;
                *taken == 0
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::key::{Callers, Owner};

    #[test]
    fn places_are_counted_in_all_and_by_owner_and_given_back() {
        let (callers, limits) = (Callers::default(), Limits::new(3, 2));
        let [ada, bob] = [b"ada", b"bob"].map(|name| callers.caller(Some(Owner::Principal(name)), None));
        assert_eq!([limits.enter(ada), limits.enter(ada)], [Ok(()), Ok(())]);
        assert_eq!(limits.enter(ada), Err(Refused::OwnerFull));
        assert_eq!(limits.enter(bob), Ok(()));
        assert_eq!(limits.enter(callers.caller(None, None)), Err(Refused::Full));
        limits.leave(ada);
        assert_eq!(limits.enter(ada), Ok(()));
        for caller in [ada, ada, bob] {
            limits.leave(caller);
        }
        assert_eq!((limits.taken(), limits.owners.len()), (0, 0));
    }

    #[test]
    fn sessions_do_not_multiply_an_owners_places() {
        let (callers, limits) = (Callers::default(), Limits::new(9, 1));
        let caller = |session| callers.caller(Some(Owner::Authorization(b"a")), Some(session));
        assert_eq!(limits.enter(caller(b"1")), Ok(()));
        assert_eq!(limits.enter(caller(b"2")), Err(Refused::OwnerFull));
        let none = Limits::new(9, 0);
        assert_eq!(none.enter(caller(b"1")), Err(Refused::OwnerFull));
        assert_eq!((none.taken(), none.owners.len()), (0, 0));
    }
}
