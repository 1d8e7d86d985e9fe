//! The synchronisation that the heart is built on, in one place so that a model checker can stand in for it.

use std::sync::PoisonError;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Mutex, MutexGuard, TryLockError};

/// Locks. What a lock guards here stays whole when its holder panics, so poison is nothing to stop for.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks where nobody else holds the lock now.
pub(super) fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
