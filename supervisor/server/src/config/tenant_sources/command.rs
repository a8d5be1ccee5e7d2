//! A program that prints the tenants.
//!
//! It runs as the daemon's user, also where root starts the daemon or checks the configuration, with
//! little of an environment, and no longer and no more than it may.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid};

use super::ownership::{Owners, Untrusted};

/// What it may print.
const MAX_BYTES: u64 = 8 << 20;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("give the absolute path of a program, and its arguments")]
    Relative,
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    #[error("the daemon's user, as which it runs, does not exist (server.user)")]
    NoUser,
    #[error("cannot be run")]
    Run(#[from] io::Error),
    #[error("was not done within {0:?}, and was killed")]
    TimedOut(Duration),
    #[error("{0}; what it said of it is in the log")]
    Failed(ExitStatus),
    #[error("printed more than {MAX_BYTES} bytes")]
    TooMuch,
    #[error("printed something that is not UTF-8")]
    NotText,
}

/// What a command prints.
pub(super) fn output(
    argv: &[String],
    within: Duration,
    owners: &Owners,
) -> Result<String, CommandError> {
    let [program, arguments @ ..] = argv else { return Err(CommandError::Relative) };
    if !Path::new(program).is_absolute() {
        return Err(CommandError::Relative);
    }
    owners.check_with_parents(Path::new(program))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .envs(std::env::var_os("CREDENTIALS_DIRECTORY").map(|at| ("CREDENTIALS_DIRECTORY", at)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0);
    if Uid::effective().is_root() {
        let user = owners.daemon.as_ref().ok_or(CommandError::NoUser)?;
        // This drops root's other groups too (setgroups(2)).
        command.gid(user.gid.as_raw()).uid(user.uid.as_raw());
    }
    let mut child = command.spawn()?;
    let printed = printed(&mut child, within);
    // Also what it started and left behind.
    let group = i32::try_from(child.id()).map(Pid::from_raw);
    if let Ok(group) = group {
        vivarium_protocol::discard(killpg(group, Signal::SIGKILL), "it is over");
    }
    let status = child.wait()?;
    let bytes = printed?;
    if !status.success() {
        return Err(CommandError::Failed(status));
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CommandError::TooMuch);
    }
    String::from_utf8(bytes).map_err(|_| CommandError::NotText)
}

/// Reads until it prints no more, and waits until it is over.
fn printed(child: &mut Child, within: Duration) -> Result<Vec<u8>, CommandError> {
    let Some(stdout) = child.stdout.take() else { return Ok(Vec::new()) };
    let (sender, read) = mpsc::channel();
    thread::Builder::new().name("tenants".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let result = stdout.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        vivarium_protocol::discard(sender.send(result.map(|_| bytes)), "nobody waits any more");
    })?;
    let begun = std::time::Instant::now();
    let bytes = read.recv_timeout(within).map_err(|_| CommandError::TimedOut(within))??;
    // It has closed its output; a moment later it should be gone.
    while bytes.len() as u64 <= MAX_BYTES && child.try_wait()?.is_none() {
        if begun.elapsed() > within {
            return Err(CommandError::TimedOut(within));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(bytes)
}

/// What was printed as TOML; it may be JSON, an object with a list `tenant`.
pub(super) fn as_toml(text: String) -> Result<String, String> {
    if !text.trim_start().starts_with('{') {
        return Ok(text);
    }
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("printed no JSON: {error}"))?;
    toml::to_string(&value).map_err(|error| format!("printed JSON that is none of TOML's: {error}"))
}
