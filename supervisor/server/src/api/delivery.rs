//! Tells whether an answer was written to its client's socket.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vivarium_engine::Undelivered;

/// Holds what a connection's next write delivers; a connection that ends without one drops it.
#[derive(Debug, Clone, Default)]
pub(super) struct Delivery(Arc<Mutex<Option<Undelivered>>>);

impl Delivery {
    /// The answer to the request at hand delivers this. Nothing may be waited for between the call and
    /// the answer.
    pub(super) fn delivers(&self, undelivered: Undelivered) {
        *self.slot() = Some(undelivered);
    }

    pub(super) fn written(&self) {
        if let Some(undelivered) = self.slot().take() {
            undelivered.delivered();
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Undelivered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
