//! Standard input on its way to a command, as it comes.

use tokio::io::AsyncReadExt;
use vivarium_client::Client;
use vivarium_engine::{DEFAULT_TENANT, Engine, EngineError};

use super::exit::{Exit, Failure};
use super::print;
use super::target::Target;

/// The most that is read and sent at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Who reads the standard input of `run` and `exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reader {
    Nobody,
    /// The command that is run.
    Itself,
    /// The command with this id, which passes it on to code.
    Command(String),
}

/// What becomes of a command's input at the end of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    Close,
    LeaveOpen,
}

/// Waits for an execution, and forwards its input meanwhile.
pub(super) async fn beside<T>(
    execution: impl Future<Output = Result<T, Failure>>,
    forwarding: impl Future<Output = Result<bool, Failure>>,
) -> Result<T, Failure> {
    tokio::pin!(execution);
    tokio::select! {
        outcome = &mut execution => return outcome,
        Err(failure) = forwarding => {
            print::failure(&failure);
        }
    }
    execution.await
}

/// Writes standard input to the command until either ends; returns whether the command took all of it.
pub(super) async fn forward(
    target: &Target,
    session: &str,
    id: &str,
    at_end: AtEnd,
) -> Result<bool, Failure> {
    let mut sink = match target {
        Target::Embedded(engine) => Sink::Embedded(engine),
        Target::Daemon(remote) => Sink::Daemon(Client::new(remote.clone())),
    };
    let (mut stdin, mut chunk) = (tokio::io::stdin(), vec![0; CHUNK_BYTES]);
    loop {
        let read = stdin.read(&mut chunk).await;
        let count = read.map_err(|error| {
            Failure::says(Exit::Error, format!("cannot read standard input: {error}"))
        })?;
        let bytes = chunk.get(..count).unwrap_or_default();
        if bytes.is_empty() && at_end == AtEnd::LeaveOpen {
            return Ok(true);
        }
        let is_taken = sink.write(session, id, bytes).await?;
        if !is_taken || bytes.is_empty() {
            return Ok(is_taken);
        }
    }
}

/// Where commands run.
#[derive(Debug)]
enum Sink<'a> {
    Embedded(&'a Engine),
    Daemon(Client),
}

impl Sink<'_> {
    /// Writes to the standard input of a command, or closes it if there is nothing to write. Waits
    /// while the command does not read. Returns whether it may read more.
    async fn write(&mut self, session: &str, id: &str, bytes: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::Embedded(engine) => match hand_over(engine, session, id, bytes).await {
                Ok(()) => Ok(true),
                Err(EngineError::NoStdin | EngineError::NotRunning(_)) => Ok(false),
                Err(error) => Err(error.into()),
            },
            Self::Daemon(client) => send(client, session, id, bytes).await,
        }
    }
}

async fn hand_over(
    engine: &Engine,
    session: &str,
    id: &str,
    mut bytes: &[u8],
) -> Result<(), EngineError> {
    let stdin = engine.stdin(DEFAULT_TENANT, session, id)?;
    if bytes.is_empty() {
        stdin.close().await;
    }
    while !bytes.is_empty() {
        let written = stdin.write(bytes).await?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

async fn send(
    client: &mut Client,
    session: &str,
    id: &str,
    mut bytes: &[u8],
) -> Result<bool, Failure> {
    let is_end = bytes.is_empty();
    loop {
        match client.write_stdin(session, id, bytes.to_vec(), is_end).await {
            Ok(_) => return Ok(true),
            Err(error) => match (error.written_bytes(), error.code()) {
                // It has not read for a while: the rest again.
                (Some(written), _) => bytes = bytes.get(written..).unwrap_or_default(),
                (None, Some("no_stdin" | "not_running")) => return Ok(false),
                _ => return Err(error.into()),
            },
        }
    }
}
