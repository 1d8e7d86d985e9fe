use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::sync::{AtomicUsize, Ordering};

/// Work that nobody waits for any more: counted, and never more than a bound.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    running: Arc<AtomicUsize>,
    most: usize,
}

impl Background {
    pub(crate) fn new(most: usize) -> Self {
        Self { running: Arc::new(AtomicUsize::new(0)), most }
    }

    /// Runs `work`, unless the bound is reached or there is no runtime: then it is dropped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let place = Place(Arc::clone(&self.running));
        if place.0.fetch_add(1, Ordering::Relaxed) >= self.most {
            tracing::warn!(most = self.most, "too much is left running in the background: some is dropped");
            return;
        }
        runtime.spawn(async move {
            let _place = place;
            work.await;
        });
    }

    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

/// Given back in `Drop`, so that a runtime that ends gives it back too.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_beyond_the_bound_is_dropped() {
        let background = Background::new(2);
        let (works, mut done) = tokio::sync::mpsc::channel::<()>(1);
        for _ in 0..5 {
            let works = works.clone();
            background.spawn(async move {
                let _works = works;
                std::future::pending::<()>().await;
            });
        }
        assert_eq!(background.running(), 2);
        assert_eq!(works.strong_count(), 3);
        drop(works);
        assert!(done.try_recv().is_err());
    }

    #[test]
    fn without_a_runtime_nothing_runs() {
        let background = Background::new(2);
        background.spawn(async {});
        assert_eq!(background.running(), 0);
    }
}
