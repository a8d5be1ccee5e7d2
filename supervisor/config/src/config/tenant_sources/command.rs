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
use vivarium_protocol::discard;

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
    let (bytes, status) = wait_for(command.spawn()?, within)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CommandError::TooMuch);
    }
    if !status.success() {
        return Err(CommandError::Failed(status));
    }
    String::from_utf8(bytes).map_err(|_| CommandError::NotText)
}

/// Waits for its end, or puts one to it; what it started and left behind goes too.
fn wait_for(mut child: Child, within: Duration) -> Result<(Vec<u8>, ExitStatus), CommandError> {
    let group = i32::try_from(child.id()).map(Pid::from_raw);
    let (sender, ended) = mpsc::channel();
    thread::Builder::new().name("tenants".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let stdout = child.stdout.take();
        let read = stdout.map_or(Ok(0), |it| it.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        let status = read.and_then(|_| child.wait());
        discard(sender.send(status.map(|status| (bytes, status))), "nobody waits any more");
    })?;
    let ended = ended.recv_timeout(within);
    if let Ok(group) = group {
        discard(killpg(group, Signal::SIGKILL), "it is over");
    }
    Ok(ended.map_err(|_| CommandError::TimedOut(within))??)
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
