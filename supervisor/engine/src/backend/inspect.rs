//! Asks the agent about an interpreter: its prefixes, and the kernel program compiled by it.

use std::env;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;
use vivarium_protocol::policy::Interpreter;

use crate::settings::AgentBinary;

/// How long it may take: a cold page cache and a busy disk included.
const WITHIN: Duration = Duration::from_secs(30);

/// The most an inspection may answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error("inspect the interpreter {}: {reason}", path.display())]
    Failed { path: PathBuf, reason: String },
    #[error("the program of runtime wasm, {}: {reason}", path.display())]
    Wasm { path: PathBuf, reason: String },
    #[error(
        "no python3 on PATH can be used: {tried} (name one in environments.<name>.interpreter)"
    )]
    NoneOnPath { tried: String },
}

/// As `vivarium-agent inspect` prints it.
#[derive(Debug, Deserialize)]
struct Answer {
    path: PathBuf,
    version: String,
    prefixes: Vec<PathBuf>,
    isolate: Vec<PathBuf>,
    program: String,
    /// Where the distributions are that were asked about.
    hidden: Vec<PathBuf>,
    /// The names of those that it does not have.
    missing: Vec<String>,
}

/// What is known of an interpreter.
#[derive(Debug)]
pub struct Inspected {
    pub interpreter: Interpreter,
    /// Files and directories of the distributions that were to be found.
    pub hidden: Vec<PathBuf>,
    /// The names of those that there are none of.
    pub missing: Vec<String>,
}

/// Where an interpreter has distributions.
#[derive(Debug, Deserialize)]
pub struct Distributions {
    /// Their files and directories.
    pub hidden: Vec<PathBuf>,
    /// The names of those that there are none of.
    pub missing: Vec<String>,
}

/// Asks about an interpreter, and where it has these distributions.
pub async fn inspect(
    agent: &AgentBinary,
    path: &Path,
    distributions: &[String],
) -> Result<Inspected, InspectError> {
    let failed = |reason: String| InspectError::Failed { path: path.to_owned(), reason };
    let answer: Answer = ask(agent, "inspect", path, distributions).await?;
    let program = STANDARD
        .decode(answer.program)
        .map_err(|error| failed(format!("a program that can not be read: {error}")))?;
    let Answer { path, version, prefixes, isolate, hidden, missing, .. } = answer;
    let interpreter = Interpreter {
        path,
        prefixes,
        isolate,
        program: Arc::new(program.into()),
        version,
        wasm: None,
    };
    Ok(Inspected { interpreter, hidden, missing })
}

/// Asks where an interpreter has these distributions, and nothing else.
pub async fn distributions(
    agent: &AgentBinary,
    path: &Path,
    names: &[String],
) -> Result<Distributions, InspectError> {
    ask(agent, "distributions", path, names).await
}

async fn ask<T: serde::de::DeserializeOwned>(
    agent: &AgentBinary,
    what: &str,
    path: &Path,
    distributions: &[String],
) -> Result<T, InspectError> {
    let failed = |reason: String| InspectError::Failed { path: path.to_owned(), reason };
    let mut command = Command::new(agent.exec_path());
    command.arg(what).arg(path).args(distributions);
    let (answer, _) = output_of(command, WITHIN).await.map_err(|error| match error {
        OutputError::Execute(error) => failed(format!("execute {}: {error}", agent.path.display())),
        OutputError::Failed(reason) => failed(reason),
    })?;
    serde_json::from_slice(&answer)
        .map_err(|error| failed(format!("an answer that can not be read: {error}")))
}

#[derive(Debug)]
pub(super) enum OutputError {
    Execute(io::Error),
    Failed(String),
}

/// What a program prints to its standard output and error. If it takes too long, it ends with all that it has started.
pub(super) async fn output_of(
    mut command: Command,
    within: Duration,
) -> Result<(Vec<u8>, Vec<u8>), OutputError> {
    let mut child = command
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(OutputError::Execute)?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let all = async { tokio::join!(read_all(stdout), read_all(stderr), child.wait()) };
    let Ok((output, complaint, status)) = timeout(within, all).await else {
        if let Some(Err(errno)) = group.map(|group| killpg(group, Signal::SIGKILL)) {
            tracing::warn!(%errno, ?command, "what takes too long could not be killed");
        }
        return Err(OutputError::Failed(format!("no answer within {} s", within.as_secs())));
    };
    match status {
        Ok(status) if status.success() => Ok((output, complaint)),
        Ok(_) => Err(OutputError::Failed(String::from_utf8_lossy(&complaint).trim().to_owned())),
        Err(error) => Err(OutputError::Failed(error.to_string())),
    }
}

async fn read_all(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What could not be read is missing from the answer, which then does not parse.
        let read = stream.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes).await;
        read.map_or_else(|error| tracing::debug!(%error, "inspection cut short"), |_| ());
    }
    bytes
}

/// The paths of every executable `python3` on PATH, in order.
pub fn candidates() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut found = Vec::new();
    for candidate in env::split_paths(&path).map(|dir| dir.join("python3")) {
        let is_executable = candidate
            .metadata()
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
        if candidate.is_absolute() && is_executable && !found.contains(&candidate) {
            found.push(candidate);
        }
    }
    found
}
