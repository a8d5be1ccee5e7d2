//! Programs outside of any session, which a session is compared with.

use std::process::Stdio;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{Context, requests};
use crate::samples::Samples;
use crate::series;
use crate::{BenchError, Summary};

/// Runs the interpreter with nothing to do, and nothing around it.
pub(super) async fn bare(interpreter: &str) -> Result<(), BenchError> {
    Command::new(interpreter)
        .args(["-c", "pass"])
        .stdin(Stdio::null())
        .status()
        .await
        .map(drop)
        .map_err(|source| BenchError::Interpreter { interpreter: interpreter.to_owned(), source })
}

/// What [`bare`] takes, for a scenario that does not take turns with it.
pub(super) async fn bare_beside(context: &Context, what: &str) -> Result<Summary, BenchError> {
    let mut samples = Samples::default();
    for turn in 0..=context.plan.starts / 2 {
        let start = Instant::now();
        bare(&context.machine.interpreter).await?;
        samples.add_if(turn > 0, start.elapsed());
    }
    Ok(samples.summary(format!("{}, beside {what}", series::BARE)))
}

/// A server that prints its port, killed when dropped, and that port.
pub(super) async fn server(interpreter: &str, code: &str) -> Result<(Child, u16), BenchError> {
    let failed = |source| BenchError::Interpreter { interpreter: interpreter.to_owned(), source };
    let mut child = Command::new(interpreter)
        .args(["-c", code])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(printed) = child.stdout.take() {
        BufReader::new(printed).read_line(&mut line).await.map_err(failed)?;
    }
    Ok((child, port(&line)?))
}

/// The port that a server has printed.
pub(super) fn port(printed: &str) -> Result<u16, BenchError> {
    printed.trim().parse().map_err(|_| requests::unexpected("the server's port", &printed))
}

/// What code prints.
pub(super) async fn printed(interpreter: &str, code: &str) -> Result<String, BenchError> {
    let failed = |source| BenchError::Interpreter { interpreter: interpreter.to_owned(), source };
    let ran = Command::new(interpreter).args(["-c", code]).output().await.map_err(failed)?;
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}
