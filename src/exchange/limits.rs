use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use super::key::Caller;
use super::lifecycle::Lifecycle;
use super::sync::{AtomicUsize, Ordering};

/// How many handlers of requests, notifications and responses may be at work, in all and for one owner.
#[derive(Clone, Debug)]
pub(crate) struct Limits(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    all: AtomicUsize,
    most: usize,
    owners: DashMap<u128, usize>,
    most_per_owner: usize,
    lifecycle: Arc<Lifecycle>,
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

/// A place among the limits, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limits: Limits,
    owner: Option<u128>,
}

impl Limits {
    pub(super) fn new(most: usize, most_per_owner: usize, lifecycle: &Arc<Lifecycle>) -> Self {
        let (all, lifecycle) = (AtomicUsize::new(0), Arc::clone(lifecycle));
        Self(Arc::new(Inner { all, most, owners: DashMap::new(), most_per_owner, lifecycle }))
    }

    pub(super) fn taken(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }

    pub(crate) fn admit(&self, caller: Caller) -> Result<Permit, Refused> {
        // The permit comes first: its drop takes back whatever was counted.
        let mut permit = Permit { limits: self.clone(), owner: None };
        if self.0.all.fetch_add(1, Ordering::Relaxed) >= self.0.most {
            return Err(Refused::Full);
        }
        if let Some(owner) = caller.owner() {
            let mut parked = self.0.owners.entry(owner).or_insert(0);
            if *parked >= self.0.most_per_owner {
                let unused = *parked == 0;
                drop(parked);
                if unused {
                    self.0.owners.remove_if(&owner, |_, parked| *parked == 0);
                }
                return Err(Refused::OwnerFull);
            }
            *parked += 1;
            permit.owner = Some(owner);
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let limits = &self.limits.0;
        limits.all.fetch_sub(1, Ordering::Relaxed);
        if let Some(owner) = self.owner
            && let Entry::Occupied(mut parked) = limits.owners.entry(owner)
        {
            *parked.get_mut() -= 1;
            if *parked.get() == 0 {
                parked.remove();
            }
        }
        limits.lifecycle.tell_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::key::{Callers, Owner};

    #[test]
    fn places_are_counted_in_all_and_by_owner_and_given_back() {
        let (callers, limits) = (Callers::default(), Limits::new(3, 2, &Arc::default()));
        let [ada, bob] = [b"ada", b"bob"].map(|name| callers.caller(Some(Owner::Principal(name)), None));
        let held = [limits.admit(ada).unwrap(), limits.admit(ada).unwrap()];
        assert_eq!(limits.admit(ada).unwrap_err(), Refused::OwnerFull);
        let other = limits.admit(bob).unwrap();
        assert_eq!(limits.admit(callers.caller(None, None)).unwrap_err(), Refused::Full);
        drop(held);
        limits.admit(ada).unwrap();
        drop(other);
        assert_eq!(limits.taken(), 0);
        assert!(limits.0.owners.is_empty());
    }

    #[test]
    fn sessions_do_not_multiply_an_owners_places() {
        let (callers, limits) = (Callers::default(), Limits::new(9, 1, &Arc::default()));
        let caller = |session| callers.caller(Some(Owner::Authorization(b"a")), Some(session));
        let _held = limits.admit(caller(b"1")).unwrap();
        assert_eq!(limits.admit(caller(b"2")).unwrap_err(), Refused::OwnerFull);
        let none = Limits::new(9, 0, &Arc::default());
        assert_eq!(none.admit(caller(b"1")).unwrap_err(), Refused::OwnerFull);
        assert!(none.0.owners.is_empty());
    }
}
