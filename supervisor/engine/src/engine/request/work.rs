//! What is to be run: code or a command, its files and its time.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_api_types::{
    ApprovalRule, ApprovalSpec, CheckpointMode, CodePolicySpec, CommandRequest, ExecuteRequest,
    ReprSpec, RunRequest, SessionSpec,
};
use vivarium_protocol::frame::MAX_FRAME_BYTES;
use vivarium_protocol::message::{CommandSpec, ReprLimits, Stdin, Work};
use vivarium_protocol::places::{ALIASES, Place, Root, TMP};

use super::tools::tools;
use super::{env, timeout};
use crate::budget::Reservation;
use crate::code_policy::AskedPolicy;
use crate::engine::processes::window_size;
use crate::engine::{EngineError, ExecutionOptions};
use crate::off_thread::by_size;
use crate::session::WorkSpec;
use crate::session::calls::tool::AskedTools;
use crate::settings::Settings;

mod files;

use files::{input_files, output_files};

/// The longest path of a file, in bytes (`PATH_MAX`, less the workdir's own).
const MAX_PATH_BYTES: usize = 3072;

/// The most a command's arguments may take together, in bytes: execve(2) has room for 2 MiB of
/// arguments and variables, and for 128 KiB in one.
const MAX_ARGV_BYTES: usize = 1 << 20;

/// What a terminal is taken for, where the request has no TERM: what most terminals understand.
const DEFAULT_TERM: &str = "xterm-256color";

/// Room in a frame for what is not code or files, in bytes.
const FRAME_MARGIN_BYTES: usize = 64 << 10;

/// Refuses what does not fit into a frame.
fn fitting(spec: WorkSpec, field: &str) -> Result<WorkSpec, EngineError> {
    if spec.bytes() > MAX_FRAME_BYTES - FRAME_MARGIN_BYTES {
        let reason = format!("{field} and files together are too large");
        return Err(EngineError::invalid(field, reason));
    }
    Ok(spec)
}

pub(in crate::engine) fn code(
    settings: &Settings,
    mut asked: ExecuteRequest,
) -> Result<WorkSpec, EngineError> {
    let asked_policy = AskedPolicy::of(&mut asked)?;
    let ExecuteRequest { code, context, filename, cwd, env, repr, timeout_ms, .. } = asked;
    let ExecuteRequest { files, outputs, .. } = asked;
    let filename = match filename {
        None => String::new(),
        Some(name) => in_workdir(settings, &name)
            .filter(|relative| !relative.is_empty())
            .ok_or_else(|| EngineError::invalid("filename", NOT_IN_WORKDIR))?,
    };
    if asked.wait_for_calls && asked.cancel_on_disconnect {
        let reason = "a client that answers in rounds goes away after each (wait_for_calls)";
        return Err(EngineError::invalid("cancel_on_disconnect", reason));
    }
    let cwd = cwd.map(|cwd| self::cwd(settings, &cwd)).transpose()?;
    let spec = WorkSpec {
        work: Work::Code {
            code,
            filename,
            cwd,
            env: variables(env)?,
            repr: repr_limits(repr)?,
            tools: false,
            policy: Box::default(),
        },
        files: input_files(settings, files)?,
        outputs: output_files(settings, outputs)?,
        timeout: timeout(settings, timeout_ms)?,
        cancel_on_disconnect: asked.cancel_on_disconnect,
        queued: true,
        descriptor: None,
        survives_reset: false,
        context,
        asked_tools: tools(settings, asked.tools, asked.tools_as_globals, asked.tool_servers)?,
        tools: None,
        asked_policy,
        approval: rule(asked.approval)?,
    };
    fitting(spec, "code")
}

/// Considers a request, which may be large, where it holds up nobody else's.
pub(in crate::engine) async fn considered<R: Send + 'static, T: Send + 'static>(
    settings: Arc<Settings>,
    request: R,
    options: &mut ExecutionOptions,
    consider: fn(&Settings, R) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let reservation = options.reservation.take();
    // Of the body, which counts twice.
    let bytes = reservation.as_ref().map_or(0, Reservation::bytes) / 2;
    let work = move || (consider(&settings, request), reservation);
    let (considered, reservation) = by_size(bytes, work).await;
    options.reservation = reservation;
    considered
}

pub(in crate::engine) fn command(
    settings: &Settings,
    asked: CommandRequest,
) -> Result<WorkSpec, EngineError> {
    let CommandRequest { argv, shell, stdin, stdin_base64, stdin_open, cwd, env, .. } = asked;
    let CommandRequest { timeout_ms, files, outputs, background, survives_reset, queued, .. } =
        asked;
    let (argv, field) = match (argv, shell) {
        (Some(argv), None) => (argv, "argv"),
        (None, Some(line)) => (vec!["/bin/sh".to_owned(), "-c".to_owned(), line], "shell"),
        (None, None) => return Err(missing("argv", "give argv or shell")),
        _ => return Err(EngineError::invalid("argv", "give either argv or shell")),
    };
    let invalid = |reason: &str| Err(EngineError::invalid(field, reason));
    if argv.first().is_none_or(String::is_empty) {
        return invalid("it has to begin with a program");
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return invalid("the system can not carry NUL in an argument");
    }
    if argv.iter().map(|argument| argument.len() + 1).sum::<usize>() > MAX_ARGV_BYTES {
        return invalid(&format!("it is over the maximum of {MAX_ARGV_BYTES} bytes"));
    }
    let stdin = match (stdin, stdin_base64, stdin_open) {
        (text, None, false) => Stdin::Bytes(text.unwrap_or_default().into_bytes()),
        (None, Some(data), false) => {
            let decoded = STANDARD.decode(data);
            Stdin::Bytes(decoded.map_err(|error| EngineError::invalid("stdin_base64", error))?)
        }
        (None, None, true) => Stdin::Pipe,
        _ => {
            let reason = "give one of stdin, stdin_base64 and stdin_open";
            return Err(EngineError::invalid("stdin", reason));
        }
    };
    if background && asked.cancel_on_disconnect {
        let reason = "a background command has no client that could go away";
        return Err(EngineError::invalid("cancel_on_disconnect", reason));
    }
    if background && queued {
        let reason = "a background command has no turn that others would wait for";
        return Err(EngineError::invalid("queued", reason));
    }
    if survives_reset && !background {
        let reason = "only a command in the background can";
        return Err(EngineError::invalid("survives_reset", reason));
    }
    let cwd = self::cwd(settings, &cwd.unwrap_or_default())?;
    let mut env = variables(env)?;
    let pty = asked.pty.map(window_size).transpose()?;
    if pty.is_some() && env.iter().all(|(name, _)| name != "TERM") {
        env.push(("TERM".to_owned(), DEFAULT_TERM.to_owned()));
    }
    let timeout = match timeout_ms {
        // It ends with its session.
        None if background || pty.is_some() => Duration::MAX,
        asked => timeout(settings, asked)?,
    };
    let spec = WorkSpec {
        work: Work::Command(CommandSpec {
            argv,
            stdin,
            cwd,
            env,
            background,
            own_leaf: false,
            pty,
        }),
        files: input_files(settings, files)?,
        outputs: output_files(settings, outputs)?,
        timeout,
        cancel_on_disconnect: asked.cancel_on_disconnect,
        queued,
        descriptor: None,
        survives_reset,
        context: None,
        asked_tools: AskedTools::default(),
        tools: None,
        asked_policy: AskedPolicy::default(),
        approval: rule(asked.approval)?,
    };
    fitting(spec, field)
}

/// The rule for an execution.
fn rule(asked: Option<ApprovalSpec>) -> Result<Option<ApprovalRule>, EngineError> {
    let asked = asked.unwrap_or_default();
    if asked.egress.is_some() {
        let reason =
            "it goes with a new session, whose destinations are the same for all that it runs";
        return Err(EngineError::invalid("approval.egress", reason));
    }
    Ok(asked.executions)
}

/// Code or a command, and the session for it.
pub(in crate::engine) fn run(
    settings: &Settings,
    mut asked: RunRequest,
) -> Result<(WorkSpec, SessionSpec), EngineError> {
    let CodePolicySpec { policy, max_work, imports, audit_events, echo, prints } =
        asked.take_code_policy();
    let RunRequest { code, argv, shell, stdin, stdin_base64, cwd, files, outputs, .. } = asked;
    let RunRequest { filename, timeout_ms, cancel_on_disconnect, .. } = asked;
    let given = [code.is_some(), argv.is_some(), shell.is_some()];
    match given.into_iter().filter(|given| *given).count() {
        0 => return Err(missing("code", "give code, argv or shell")),
        1 => {}
        _ => return Err(EngineError::invalid("code", "give one of code, argv and shell")),
    }
    let of_code = [
        ("policy", policy.is_some()),
        ("max_work", max_work.is_some()),
        ("imports", imports.is_some()),
        ("audit_events", audit_events.is_some()),
        ("echo", echo.is_some()),
        ("prints", prints.is_some()),
        ("modules", !asked.modules.is_empty()),
        ("repr", asked.repr.is_some()),
        ("filename", filename.is_some()),
        ("tools", !asked.tools.is_empty()),
        ("tool_servers", !asked.tool_servers.is_empty()),
    ];
    if code.is_none()
        && let Some((field, _)) = of_code.into_iter().find(|(_, given)| *given)
    {
        return Err(EngineError::invalid(field, "it is for code"));
    }
    let spec = match code {
        Some(code) => {
            let of_commands =
                [("stdin", stdin.is_some()), ("stdin_base64", stdin_base64.is_some())];
            if let Some((field, _)) = of_commands.into_iter().find(|(_, given)| *given) {
                return Err(EngineError::invalid(field, "it is for commands: argv or shell"));
            }
            let request = ExecuteRequest {
                code,
                filename,
                cwd,
                repr: asked.repr,
                timeout_ms,
                files,
                outputs,
                cancel_on_disconnect,
                tools: asked.tools,
                tools_as_globals: asked.tools_as_globals,
                tool_servers: asked.tool_servers,
                policy,
                max_work,
                imports,
                audit_events,
                echo,
                prints,
                modules: asked.modules,
                ..ExecuteRequest::default()
            };
            self::code(settings, request)?
        }
        None => {
            let request = CommandRequest {
                argv,
                shell,
                stdin,
                stdin_base64,
                cwd,
                timeout_ms,
                files,
                outputs,
                cancel_on_disconnect,
                ..CommandRequest::default()
            };
            command(settings, request)?
        }
    };
    let RunRequest { environment, limits, network, approval, env, .. } = asked;
    // Nobody can go back in it.
    let checkpoint = Some(CheckpointMode::Off);
    let session = SessionSpec {
        environment,
        limits,
        network,
        approval,
        env,
        checkpoint,
        ..SessionSpec::default()
    };
    Ok((spec, session))
}

fn cwd(settings: &Settings, path: &str) -> Result<String, EngineError> {
    in_workdir(settings, path).ok_or_else(|| EngineError::invalid("cwd", NOT_IN_WORKDIR))
}

fn variables(asked: BTreeMap<String, String>) -> Result<Vec<(String, String)>, EngineError> {
    Ok(env(asked)?.into_iter().collect())
}

/// What is not said is as IPython has it.
fn repr_limits(asked: Option<ReprSpec>) -> Result<ReprLimits, EngineError> {
    let limit = |field: &str, asked: Option<u64>, least: u32, usual: u32| {
        let given = asked.map_or(usual, |asked| u32::try_from(asked).unwrap_or(u32::MAX));
        let reason = || EngineError::invalid(field, format!("{given}: the least is {least}"));
        if given < least { Err(reason()) } else { Ok(given) }
    };
    let (asked, usual) = (asked.unwrap_or_default(), ReprLimits::IPYTHON);
    Ok(ReprLimits {
        max_items: limit("repr.max_items", asked.max_items, 1, usual.max_items)?,
        // The note that characters are missing has room in fewer.
        max_chars: limit("repr.max_chars", asked.max_chars, 100, usual.max_chars)?,
        max_depth: limit("repr.max_depth", asked.max_depth, 1, usual.max_depth)?,
    })
}

const fn missing(field: &'static str, reason: &'static str) -> EngineError {
    EngineError::Missing { field, reason }
}

/// Whether this names something in the workdir. Whether it is there, and through no link, the
/// agent sees when it opens it.
fn is_beneath(path: &str) -> bool {
    !path.is_empty()
        && path.len() <= MAX_PATH_BYTES
        && !path.contains('\0')
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// The path relative to the workdir of what is named relative to it or absolutely; empty for the
/// workdir itself. `None` for a path that leads elsewhere, through whatever links.
fn in_workdir(settings: &Settings, path: &str) -> Option<String> {
    let place = Place::of(path, &settings.sandbox.workdir)?;
    if place.root != Root::Workdir {
        return None;
    }
    let mut names = Vec::new();
    for part in Path::new(place.path).components() {
        match part {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    let relative = names.join("/");
    (relative.is_empty() || is_beneath(&relative)).then_some(relative)
}

/// What is wrong with a path that leads out of it.
const NOT_IN_WORKDIR: &str = "give a path in the workdir, relative or absolute, without '..'";

/// What paths may begin with, for a path that is elsewhere.
pub(in crate::engine) fn roots(workdir: &Path) -> String {
    let [data, home] = ALIASES;
    let workdir = workdir.display();
    format!(
        "a path is relative to the working directory, or lies in it ({workdir}, also called {data} \
         and {home}) or in {TMP}"
    )
}

#[cfg(test)]
mod tests;
