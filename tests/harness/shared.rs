//! One daemon for tests that run at the same time and ask nothing of it that another would notice.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::daemon::{Daemon, Setup};

/// What such tests share: started by the first that needs it, stopped and checked by the last.
#[derive(Debug)]
pub struct Shared {
    setup: fn() -> Setup,
    running: Mutex<Weak<Daemon>>,
}

/// A test's hold on it.
#[derive(Debug)]
pub struct Hold(Arc<Daemon>);

impl Shared {
    /// A daemon of this setup.
    #[must_use]
    pub const fn new(setup: fn() -> Setup) -> Self {
        Self { setup, running: Mutex::new(Weak::new()) }
    }

    /// The running daemon, or a new one.
    #[must_use]
    #[track_caller]
    pub fn hold(&self) -> Hold {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        Hold(running.upgrade().unwrap_or_else(|| {
            let daemon = Arc::new((self.setup)().start());
            *running = Arc::downgrade(&daemon);
            daemon
        }))
    }
}

impl Hold {
    /// Lets go of the daemon; if nobody else holds it, stops it and checks that nothing is left of it.
    #[track_caller]
    pub fn release(self) {
        if let Some(daemon) = Arc::into_inner(self.0) {
            daemon.stop_and_check();
        }
    }
}

impl Deref for Hold {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.0
    }
}
