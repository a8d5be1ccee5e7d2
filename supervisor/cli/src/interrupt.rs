//! Ctrl-C while code runs.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use super::target::Target;

/// Time in which the outcome of an execution that has ended gets here.
const SETTLE: Duration = Duration::from_millis(500);

/// What becomes of the session of such code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnStubborn {
    /// It is ours alone: deleted.
    Delete,
    /// It is somebody's: left as it is.
    Leave,
}

/// Waits for an execution. The first SIGINT or SIGTERM interrupts it; if that does not help, or
/// with a second one, its session is given up.
pub(super) async fn watch<T>(
    target: &Target,
    session: &str,
    on_stubborn: OnStubborn,
    execution: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let listen = |kind| {
        signal(kind).map_err(|error| Failure::says(Exit::Error, format!("no signals: {error}")))
    };
    let mut interrupts = listen(SignalKind::interrupt())?;
    let mut terminations = listen(SignalKind::terminate())?;
    tokio::pin!(execution);
    tokio::select! {
        outcome = &mut execution => return outcome,
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
    // Beside the execution, which has to go on for the interrupt to reach it.
    tokio::select! {
        outcome = &mut execution => return outcome,
        // Returns when the execution has ended, or after the configured grace.
        asked = target.interrupt(session) => {
            asked?;
        }
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
    if let Ok(outcome) = tokio::time::timeout(SETTLE, &mut execution).await {
        return outcome;
    }
    if on_stubborn == OnStubborn::Leave {
        return Err(Failure::says(Exit::Interrupted, "interrupted; the session may still run it"));
    }
    let deleted = target.delete(session);
    tokio::pin!(deleted);
    tokio::select! {
        _ = &mut execution => {}
        deleted = &mut deleted => deleted?,
    }
    Err(Failure::says(Exit::Interrupted, "interrupted; the code did not give way and was killed"))
}
