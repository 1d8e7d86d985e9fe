use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is guarded is whole after each step, so a panic of another task does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
