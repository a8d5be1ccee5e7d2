//! The daemon's life as its service manager sees it: ready, reloading, alive, stopping.
//!
//! SIGTERM and SIGINT begin an orderly stop, a second one ends the process at once; SIGHUP asks
//! for a reload (`systemd.service(5)`, `Type=notify`).

use std::io;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How long the service manager waits for the next word of a daemon that stops.
const WORD_WITHIN: Duration = Duration::from_secs(15);

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Read the configuration again.
    Reload,
    /// Stop in an orderly way.
    Stop,
    /// Stop at once.
    Abort,
}

/// The signals of the daemon.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    stopping: bool,
}

impl Signals {
    /// Takes over the signals. Call it in a tokio runtime.
    ///
    /// # Errors
    /// As `sigaction(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            stopping: false,
        })
    }

    pub async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => return Request::Reload,
        }
        if std::mem::replace(&mut self.stopping, true) { Request::Abort } else { Request::Stop }
    }
}

/// Notifies the service manager, if there is one.
pub fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

/// Notifies the service manager that a reload begins, with the time that `Type=notify-reload` wants
/// (`systemd.service(5)`).
pub fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot read the monotonic clock"),
    }
}

/// Has the service manager wait for a daemon that stops, also beyond the unit's TimeoutStopSec=, for up to `most`
/// (EXTEND_TIMEOUT_USEC of `sd_notify(3)`).
pub async fn ask_for_time(most: Duration) {
    let mut ticks = tokio::time::interval(WORD_WITHIN / 3);
    let end = Instant::now() + most;
    while Instant::now() < end {
        ticks.tick().await;
        let micros = u32::try_from(WORD_WITHIN.as_micros()).unwrap_or(u32::MAX);
        notify(&[NotifyState::ExtendTimeoutUsec(micros)]);
    }
}

/// Notifies the service manager's watchdog, twice in the time it allows, that this runtime still
/// runs tasks. Returns at once if no watchdog is set.
pub async fn feed_watchdog() {
    let Some(allowed) = sd_notify::watchdog_enabled() else { return };
    let mut ticks = tokio::time::interval((allowed / 2).max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}
