//! `process.Process`: commands in the background of a session.
//!
//! The number of a process is that of its execution. Inside the sandbox it has another.

use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vivarium_client::path;
use vivarium_protocol::message::FileKind;

use super::super::connect::{self, Failure};
use super::super::events::Events;
use super::super::sandboxes::Sandbox;
use super::super::{Client, control, paths};
use super::filesystem;
use super::processes::{Config, Kept, MAX_TAG_BYTES, Selector};
use super::running::{Running, streamed};
use crate::dialects::native::{self, Call, Native};

/// How often a client hears that a process still runs, unless it asks for more.
const ALIVE_SECS: u64 = 50;

/// Executions that are asked for at a time.
const PAGE: u32 = 1000;

/// Enters a directory that the API does not, and becomes the program.
const ENTER: &str = "cd -- \"$1\" && shift && exec \"$@\"";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Start {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pty {
    size: Size,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Size {
    cols: u32,
    rows: u32,
}

impl Size {
    fn told(&self) -> Value {
        json!({"columns": self.cols, "rows": self.rows})
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Of {
    pub(super) process: Selector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Signal {
    process: Selector,
    signal: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Update {
    process: Selector,
    pty: Option<Pty>,
}

impl Start {
    fn command(&self, timeout_ms: Option<u64>) -> Value {
        let Config { cmd, args, envs, cwd } = &self.process;
        let mut argv: Vec<&str> =
            [cmd.as_str()].into_iter().chain(args.iter().map(String::as_str)).collect();
        let cwd = paths::absolute(cwd.as_deref().unwrap_or_default());
        let mut env = control::home_env();
        drop(env.insert("PWD".to_owned(), json!(cwd)));
        env.extend(envs.iter().map(|(name, value)| (name.clone(), json!(value))));
        let mut command = Map::new();
        let is_home = cwd
            .strip_prefix(paths::HOME)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_home {
            drop(command.insert("cwd".to_owned(), json!(cwd)));
        } else {
            argv.splice(0..0, ["/bin/sh", "-c", ENTER, "sh", &cwd]);
        }
        drop(command.insert("argv".to_owned(), json!(argv)));
        drop(command.insert("env".to_owned(), Value::Object(env)));
        drop(command.insert("background".to_owned(), json!(true)));
        // Clients that do not say are older than the field: their input was always open.
        let is_open = self.pty.is_some() || self.stdin.unwrap_or(true);
        drop(command.insert("stdin_open".to_owned(), json!(is_open)));
        if let Some(pty) = &self.pty {
            drop(command.insert("pty".to_owned(), pty.size.told()));
        }
        if let Some(timeout_ms) = timeout_ms {
            drop(command.insert("timeout_ms".to_owned(), json!(timeout_ms)));
        }
        Value::Object(command)
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

pub(super) fn alive(headers: &HeaderMap) -> Duration {
    let secs = number(headers, "keepalive-ping-interval").unwrap_or(ALIVE_SECS);
    Duration::from_secs(secs.clamp(1, ALIVE_SECS))
}

pub(super) async fn start<N: Native>(
    client: Client<N>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    match started(client, headers, body).await {
        Ok(stream) => streamed(stream, alive(headers)),
        Err(failure) => connect::failed(&failure),
    }
}

async fn started<N: Native>(
    client: Client<N>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Running<N>, Failure> {
    let start: Start = super::read_one(body).await?;
    if start.tag.as_ref().is_some_and(|tag| tag.len() > MAX_TAG_BYTES) {
        return Err(Failure::new("invalid_argument", "the tag is too long"));
    }
    check_directory(&client, start.process.cwd.as_deref()).await?;
    if client.sandbox.processes.is_full() {
        let running = running(&client).await?;
        client.sandbox.processes.retain(&running);
    }
    // The process ends with this time, as it does in E2B; closing the stream does not end it.
    let timeout_ms = number(headers, "connect-timeout-ms");
    let timeout_ms =
        timeout_ms.filter(|ms| client.sandbox.max_exec_ms.is_none_or(|max| *ms <= max));
    let at = format!("{}/commands", path::session(&client.sandbox.id));
    let call = Call::new(Method::POST, at).json(&start.command(timeout_ms));
    let Client { native, sandbox, .. } = client;
    let events = Events::start(native, &sandbox.id, call).await?;
    let has_terminal = start.pty.is_some();
    let kept = Kept { config: start.process.kept(), tag: start.tag, has_terminal };
    Ok(Running { events, sandbox, pid: None, has_terminal, kept: Some(kept) })
}

/// SDKs expect another error for a directory that is missing than for a program that fails.
async fn check_directory<N: Native>(client: &Client<N>, cwd: Option<&str>) -> Result<(), Failure> {
    let Some(cwd) = cwd.filter(|cwd| !cwd.is_empty()) else { return Ok(()) };
    let at = paths::absolute(cwd);
    match filesystem::entry(client, &at).await {
        Ok(info) if info.kind == FileKind::File => {
            Err(Failure::new("invalid_argument", format!("cwd '{at}' is not a directory")))
        }
        Err(refusal) if refusal.code == "unknown_file" => {
            Err(Failure::new("invalid_argument", format!("cwd '{at}' does not exist")))
        }
        // Where the API cannot look, the program says what is wrong.
        Ok(_) => Ok(()),
        Err(refusal) if refusal.code == "bad_path" => Ok(()),
        Err(refusal) => Err(refusal.into()),
    }
}

pub(super) async fn connect<N: Native>(
    client: Client<N>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    match connected(client, body).await {
        Ok(stream) => streamed(stream, alive(headers)),
        Err(failure) => connect::failed(&failure),
    }
}

async fn connected<N: Native>(client: Client<N>, body: &Bytes) -> Result<Running<N>, Failure> {
    let of: Of = super::read_one(body).await?;
    let pid = known(&client.sandbox, &of.process)?;
    if !running(&client).await?.contains(&pid) {
        return Err(unknown(pid));
    }
    let kept = client.sandbox.processes.find(pid);
    let has_terminal = kept.is_some_and(|kept| kept.has_terminal);
    let Client { native, sandbox, .. } = client;
    let events = Events::follow(native, &sandbox.id, &pid.to_string()).await?;
    // Told at once: the first event that is kept may be a later one.
    Ok(Running { events, sandbox, pid: Some(pid), has_terminal, kept: None })
}

/// The number of a process that a client names.
pub(super) fn known(sandbox: &Sandbox, selector: &Selector) -> Result<u32, Failure> {
    let pid = sandbox.processes.pid(selector);
    pid.ok_or_else(|| Failure::new("not_found", "there is no such process"))
}

fn unknown(pid: u32) -> Failure {
    Failure::new("not_found", format!("there is no process {pid}"))
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    kind: String,
    state: String,
}

#[derive(Deserialize)]
struct Page {
    executions: Vec<Listed>,
    next: Option<String>,
}

/// The numbers of the processes that run.
async fn running<N: Native>(client: &Client<N>) -> Result<Vec<u32>, Failure> {
    let (mut pids, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut at = format!("{}/executions", path::session(&client.sandbox.id));
        path::add(&mut at, "limit", PAGE);
        if let Some(after) = &after {
            path::add(&mut at, "after", after);
        }
        let call = Call::new(Method::GET, at);
        let (page, _) = native::json::<N, Page>(&client.native, call).await?;
        let commands = page.executions.iter();
        let commands = commands.filter(|listed| listed.kind == "command" && listed.state != "done");
        pids.extend(commands.filter_map(|listed| listed.id.parse::<u32>().ok()));
        after = page.next;
        if after.is_none() {
            pids.sort_unstable();
            return Ok(pids);
        }
    }
}

pub(super) async fn list<N: Native>(client: &Client<N>) -> Result<Value, Failure> {
    let running = running(client).await?;
    let told = running.into_iter().map(|pid| {
        let kept = client.sandbox.processes.find(pid).unwrap_or_default();
        let mut told = json!({"pid": pid, "config": kept.config});
        if let (Some(tag), Some(members)) = (kept.tag, told.as_object_mut()) {
            drop(members.insert("tag".to_owned(), json!(tag)));
        }
        told
    });
    Ok(json!({"processes": told.collect::<Vec<_>>()}))
}

pub(super) async fn signal<N: Native>(client: &Client<N>, asked: Signal) -> Result<Value, Failure> {
    let name = match (asked.signal.as_str(), asked.signal.as_u64()) {
        (Some("SIGNAL_SIGKILL"), _) | (_, Some(9)) => "SIGKILL",
        (Some("SIGNAL_SIGTERM"), _) | (_, Some(15)) => "SIGTERM",
        _ => return Err(Failure::new("unimplemented", "this signal is not offered")),
    };
    let pid = known(&client.sandbox, &asked.process)?;
    let at = format!("{}/signal", path::execution(&client.sandbox.id, &pid.to_string()));
    let call = Call::new(Method::POST, at).json(&json!({"signal": name}));
    native::whole(&client.native, call).await?;
    Ok(json!({}))
}

pub(super) async fn update<N: Native>(client: &Client<N>, asked: Update) -> Result<Value, Failure> {
    let pid = known(&client.sandbox, &asked.process)?;
    let Some(pty) = asked.pty else { return Ok(json!({})) };
    let at = format!("{}/resize", path::execution(&client.sandbox.id, &pid.to_string()));
    let call = Call::new(Method::POST, at).json(&pty.size.told());
    native::whole(&client.native, call).await?;
    Ok(json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(value: Value) -> Value {
        serde_json::from_value::<Start>(value).unwrap().command(Some(5))
    }

    #[test]
    fn a_process_is_a_command_at_home() {
        let sent = json!({
            "process": {"cmd": "/bin/bash", "args": ["-l", "-c", "ls"], "envs": {"A": "b"}, "cwd": "sub"},
            "stdin": false,
        });
        let expected = json!({
            "argv": ["/bin/bash", "-l", "-c", "ls"], "cwd": "/home/user/sub", "background": true,
            "env": {"HOME": "/home/user", "PWD": "/home/user/sub", "A": "b"}, "stdin_open": false,
            "timeout_ms": 5,
        });
        assert_eq!(start(sent), expected);
    }

    #[test]
    fn other_directories_are_entered_by_the_process_and_terminals_have_input() {
        let sent = json!({
            "process": {"cmd": "ls", "cwd": "/tmp"}, "pty": {"size": {"cols": 80, "rows": 24}},
        });
        let command = start(sent);
        assert_eq!(command["argv"], json!(["/bin/sh", "-c", ENTER, "sh", "/tmp", "ls"]));
        assert_eq!(command["pty"], json!({"columns": 80, "rows": 24}));
        assert_eq!(command["stdin_open"], true);
        assert!(command.get("cwd").is_none());
    }
}
