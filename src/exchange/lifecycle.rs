use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::sync::{AtomicU8, Ordering};

/// Whether a server runs, drains, or is down; it only goes forward.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    phase: AtomicU8,
    draining: CancellationToken,
    down: CancellationToken,
    less_to_do: Notify,
}

const RUNNING: u8 = 0;
const DRAINING: u8 = 1;
const DOWN: u8 = 2;

impl Lifecycle {
    /// Nothing new is let in.
    pub(crate) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= DRAINING
    }

    /// Nothing goes on.
    pub(crate) fn is_down(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= DOWN
    }

    pub(crate) fn draining(&self) -> WaitForCancellationFutureOwned {
        self.draining.clone().cancelled_owned()
    }

    pub(crate) fn down(&self) -> WaitForCancellationFutureOwned {
        self.down.clone().cancelled_owned()
    }

    /// Does this work, or drops it at shutdown.
    pub(crate) async fn unless_down(&self, work: impl Future<Output = ()>) {
        self.down.run_until_cancelled(work).await;
    }

    pub(super) fn drain(&self) {
        self.phase.fetch_max(DRAINING, Ordering::SeqCst);
        self.draining.cancel();
    }

    /// From here on whatever is parked is ended by whoever parks it.
    pub(super) fn set_down(&self) {
        self.phase.fetch_max(DOWN, Ordering::AcqRel);
    }

    /// Drops what runs in the background.
    pub(super) fn stop_background(&self) {
        self.down.cancel();
    }

    /// Something has ended. Costs nothing as long as nobody can be waiting.
    pub(super) fn tell_ended(&self) {
        if self.phase.load(Ordering::SeqCst) != RUNNING {
            self.less_to_do.notify_waiters();
        }
    }

    /// Waits, while the server drains, until there is nothing left to do.
    pub(super) async fn until(&self, is_idle: impl Fn() -> bool) {
        loop {
            let less_to_do = self.less_to_do.notified();
            if is_idle() {
                return;
            }
            less_to_do.await;
        }
    }
}
