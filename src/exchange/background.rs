use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::lifecycle::Lifecycle;
use super::sync::{AtomicUsize, Ordering};

/// Work that nobody waits for any more: counted, never more than a bound, and dropped at shutdown.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    lifecycle: Arc<Lifecycle>,
    running: Arc<AtomicUsize>,
    most: usize,
}

impl Background {
    pub(crate) fn new(most: usize, lifecycle: &Arc<Lifecycle>) -> Self {
        Self { lifecycle: Arc::clone(lifecycle), running: Arc::default(), most }
    }

    /// Runs `work`, unless the bound is reached, there is no runtime, or the server is down: then it is dropped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let place = Place(self.clone());
        if self.running.fetch_add(1, Ordering::Relaxed) >= self.most {
            tracing::warn!(most = self.most, "too much is left running in the background: some is dropped");
            return;
        }
        if self.lifecycle.is_down() {
            return;
        }
        runtime.spawn(async move {
            place.0.lifecycle.unless_down(work).await;
        });
    }

    /// Waits until nothing runs. For work with a lifecycle of its own.
    pub(super) async fn idle(&self) {
        self.lifecycle.drain();
        self.lifecycle.until(|| self.running() == 0).await;
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

/// Given back in `Drop`, so that a runtime that ends gives it back too.
struct Place(Background);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.lifecycle.tell_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_beyond_the_bound_is_dropped() {
        let background = Background::new(2, &Arc::default());
        let work = Arc::new(());
        for _ in 0..5 {
            let work = Arc::clone(&work);
            background.spawn(async move {
                let _work = work;
                std::future::pending::<()>().await;
            });
        }
        assert_eq!((background.running(), Arc::strong_count(&work)), (2, 3));
    }

    #[tokio::test]
    async fn shutdown_drops_what_runs() {
        let lifecycle = Arc::<Lifecycle>::default();
        let background = Background::new(2, &lifecycle);
        background.spawn(std::future::pending());
        lifecycle.set_down();
        lifecycle.stop_background();
        lifecycle.until(|| background.running() == 0).await;
        background.spawn(std::future::pending());
        assert_eq!(background.running(), 0);
    }

    #[test]
    fn without_a_runtime_nothing_runs() {
        let background = Background::new(2, &Arc::default());
        background.spawn(async {});
        assert_eq!(background.running(), 0);
    }
}
