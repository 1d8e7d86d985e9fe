use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limits the bytes of incomplete request bodies, of all requests together.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    most: usize,
}

/// The part of a budget that one body takes. Gives it back when dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

/// The budget is exhausted.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct OverBudget;

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self { used: AtomicUsize::new(0), most }
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Charge {
    /// A charge of nothing.
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Raises the charge to this many bytes, or leaves it as it is.
    pub(super) fn raise(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let Budget { used, most } = &*self.budget;
        let raised = |used: usize| used.checked_add(more).filter(|used| used <= most);
        // The number protects no other memory, so it needs no ordering.
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised).map_err(|_| OverBudget)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_take_all_of_a_budget_and_no_more() {
        let budget = Arc::new(Budget::new(10));
        let (mut one, mut other) = (Charge::new(&budget), Charge::new(&budget));
        assert_eq!(one.raise(4), Ok(()));
        assert_eq!(other.raise(7), Err(OverBudget));
        assert_eq!(budget.used(), 4);
        assert_eq!(other.raise(6), Ok(()));
        // What is charged is not charged again, and nothing costs nothing.
        assert_eq!([one.raise(4), one.raise(3), Charge::new(&budget).raise(0)], [Ok(()), Ok(()), Ok(())]);
        assert_eq!([one.raise(5), other.raise(usize::MAX)], [Err(OverBudget), Err(OverBudget)]);
        assert_eq!(budget.used(), 10);
        drop(one);
        assert_eq!((budget.used(), other.raise(10)), (6, Ok(())));
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn many_charges_at_once_are_never_more_than_the_budget() {
        let budget = Arc::new(Budget::new(1_000));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for bytes in 0..2_000 {
                        let mut charge = Charge::new(&budget);
                        charge.raise(bytes % 700).ok();
                        assert!(budget.used() <= 1_000);
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
