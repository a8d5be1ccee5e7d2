//! Commands while they run: signals and standard input.

use std::str::FromStr;
use std::sync::Arc;

use nix::sys::signal::Signal;
use vivarium_api_types::{MAX_PTY_SIZE, PtySize};
use vivarium_protocol::message::WindowSize;

use super::{Engine, EngineError};
use crate::session::Command;
use crate::session::execution_log::{ExecutionLog, Stage};

/// The standard input of a command that was started with it open.
#[derive(Debug)]
pub struct Stdin {
    log: Arc<ExecutionLog>,
}

impl Stdin {
    /// Writes some of it, and tells how much. Waits while the command does not read.
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, EngineError> {
        let pipe = self.log.stdin().ok_or(EngineError::NoStdin)?;
        tokio::select! {
            written = pipe.write(bytes) => written.map_err(|_| EngineError::NoStdin),
            _ = self.log.finished() => Err(EngineError::NoStdin),
        }
    }

    /// Ends it.
    pub async fn close(&self) {
        if let Some(pipe) = self.log.stdin() {
            pipe.close().await;
        }
    }
}

impl Engine {
    /// Sends a signal, by its name as in signal(7), to the process group of a running command. Code
    /// can only be interrupted.
    pub async fn signal(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
        name: &str,
    ) -> Result<(), EngineError> {
        let signal = signal(name)?;
        let number = self.running(tenant, session_id, execution_id)?.0;
        let session = self.find(tenant, session_id)?;
        session.touch();
        let command = |reply| Command::Signal(number, signal, reply);
        match session.ask(command).await {
            Some(true) => Ok(()),
            Some(false) if signal == Signal::SIGINT => {
                let interrupt =
                    |reply| Command::Interrupt { execution: Some(number), context: None, reply };
                let interrupted = session.ask(interrupt).await.flatten();
                interrupted.map(drop).ok_or_else(|| not_running(execution_id))
            }
            Some(false) => Err(not_running(execution_id)),
            None => Err(EngineError::UnknownSession(session_id.to_owned())),
        }
    }

    /// Changes the size of a running command's terminal.
    pub async fn resize(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
        size: PtySize,
    ) -> Result<(), EngineError> {
        let size = window_size(size)?;
        let (number, _) = self.running(tenant, session_id, execution_id)?;
        let session = self.find(tenant, session_id)?;
        match session.ask(|reply| Command::Resize(number, size, reply)).await {
            Some(Some(true)) => Ok(()),
            Some(Some(false)) => Err(EngineError::NoTerminal(execution_id.to_owned())),
            Some(None) => Err(not_running(execution_id)),
            None => Err(EngineError::UnknownSession(session_id.to_owned())),
        }
    }

    /// The standard input of a command that runs, or will.
    pub fn stdin(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
    ) -> Result<Stdin, EngineError> {
        let (_, log) = self.running(tenant, session_id, execution_id)?;
        if log.stdin().is_none() {
            return Err(EngineError::NoStdin);
        }
        self.find(tenant, session_id)?.touch();
        Ok(Stdin { log })
    }

    fn running(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
    ) -> Result<(u64, Arc<ExecutionLog>), EngineError> {
        let log = self.record(tenant, session_id, execution_id)?;
        match log.stage() {
            Stage::Queued(number) | Stage::AwaitingApproval(number) | Stage::Running(number) => {
                Ok((number, log))
            }
            _ => Err(not_running(execution_id)),
        }
    }
}

/// A terminal's size, checked.
pub(super) fn window_size(PtySize { columns, rows }: PtySize) -> Result<WindowSize, EngineError> {
    for (field, characters) in [("columns", columns), ("rows", rows)] {
        if !(1..=MAX_PTY_SIZE).contains(&characters) {
            let reason = format!("a terminal has 1 to {MAX_PTY_SIZE} of them");
            return Err(EngineError::invalid(field, reason));
        }
    }
    Ok(WindowSize { columns, rows })
}

fn not_running(execution_id: &str) -> EngineError {
    EngineError::NotRunning(execution_id.to_owned())
}

/// A signal by its name, with or without `SIG`.
fn signal(name: &str) -> Result<Signal, EngineError> {
    let full = if name.starts_with("SIG") { name.to_owned() } else { format!("SIG{name}") };
    Signal::from_str(&full).map_err(|_| {
        EngineError::invalid("signal", "give the name of a signal, as \"SIGTERM\" (signal(7))")
    })
}
