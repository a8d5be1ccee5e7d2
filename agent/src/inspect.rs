//! What a Python interpreter needs to be bound into a sandbox, and the kernel program compiled
//! by it.
//!
//! The interpreter is asked by running `agent/python/kernel/inspect_interpreter.py` in it.
//! That runs whatever its site directories hold, so the supervisor has it done by a program of
//! its own, unprivileged and with nothing inherited: `vivarium-agent inspect PATH`. What comes
//! back decides what every session can read, so directories that hold more than an installation
//! are refused here, with their reason.

mod special_files;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use vivarium_protocol::discard;
use vivarium_protocol::policy::{Interpreter, is_too_wide};

use crate::sandbox::READ_EXECUTE;

/// What Python runs as `-c`; the program is descriptor 4.
const BOOTSTRAP: &str = include_str!("../python/kernel/bootstrap.py");

const SCRIPT: &str = include_str!("../python/kernel/inspect_interpreter.py");

const PARTS: [(&str, &str); 65] = [
    ("abridge", include_str!("../python/display/abridge.py")),
    ("after_fork", include_str!("../python/zygote/after_fork.py")),
    ("animations", include_str!("../python/display/animations.py")),
    ("assistance", include_str!("../python/assist/assistance.py")),
    ("audit_events", include_str!("../python/policy/audit_events.py")),
    ("budget", include_str!("../python/display/budget.py")),
    ("capture", include_str!("../python/cell/capture.py")),
    ("cell_magics", include_str!("../python/cell/cell_magics.py")),
    ("classes", include_str!("../python/core/classes.py")),
    ("compiler", include_str!("../python/cell/compiler.py")),
    ("completeness", include_str!("../python/assist/completeness.py")),
    ("completion", include_str!("../python/assist/completion.py")),
    ("context", include_str!("../python/cell/context.py")),
    ("copy_on_write", include_str!("../python/zygote/copy_on_write.py")),
    ("descriptors", include_str!("../python/image/descriptors.py")),
    ("echo", include_str!("../python/policy/echo.py")),
    ("event_loop", include_str!("../python/cell/event_loop.py")),
    ("figures", include_str!("../python/display/figures.py")),
    ("guard", include_str!("../python/core/guard.py")),
    ("host_modules", include_str!("../python/policy/host_modules.py")),
    ("import_hooks", include_str!("../python/kernel/import_hooks.py")),
    ("import_policy", include_str!("../python/policy/import_policy.py")),
    ("inspection", include_str!("../python/assist/inspection.py")),
    ("interactive", include_str!("../python/display/interactive.py")),
    ("kept_names", include_str!("../python/policy/kept_names.py")),
    ("kernel", include_str!("../python/kernel/kernel.py")),
    ("kernel_image", include_str!("../python/image/kernel_image.py")),
    ("line_magics", include_str!("../python/cell/line_magics.py")),
    ("loader", include_str!("../python/kernel/loader.py")),
    ("lookup", include_str!("../python/assist/lookup.py")),
    ("matplotlib_hooks", include_str!("../python/display/matplotlib_hooks.py")),
    ("notebook", include_str!("../python/display/notebook.py")),
    ("notebook_media", include_str!("../python/display/notebook_media.py")),
    ("notebook_text", include_str!("../python/display/notebook_text.py")),
    ("on_resume", include_str!("../python/image/on_resume.py")),
    ("packages", include_str!("../python/core/packages.py")),
    ("policy", include_str!("../python/policy/policy.py")),
    ("policy_errors", include_str!("../python/policy/policy_errors.py")),
    ("pools", include_str!("../python/image/pools.py")),
    ("prints", include_str!("../python/policy/prints.py")),
    ("process_state", include_str!("../python/image/process_state.py")),
    ("programs", include_str!("../python/cell/programs.py")),
    ("publisher", include_str!("../python/display/publisher.py")),
    ("rehearsal", include_str!("../python/zygote/rehearsal.py")),
    ("render", include_str!("../python/display/render.py")),
    ("renderers", include_str!("../python/display/renderers.py")),
    ("report", include_str!("../python/core/report.py")),
    ("reseed", include_str!("../python/core/reseed.py")),
    ("script_name", include_str!("../python/kernel/script_name.py")),
    ("shell", include_str!("../python/cell/shell.py")),
    ("show", include_str!("../python/display/show.py")),
    ("show_hooks", include_str!("../python/display/show_hooks.py")),
    ("source_cache", include_str!("../python/core/source_cache.py")),
    ("streams", include_str!("../python/core/streams.py")),
    ("surroundings", include_str!("../python/kernel/surroundings.py")),
    ("syntax", include_str!("../python/cell/syntax.py")),
    ("template", include_str!("../python/zygote/template.py")),
    ("tenant_code", include_str!("../python/policy/tenant_code.py")),
    ("timing", include_str!("../python/cell/timing.py")),
    ("tool_channel", include_str!("../python/calls/tool_channel.py")),
    ("tool_module", include_str!("../python/calls/tool_module.py")),
    ("variables", include_str!("../python/image/variables.py")),
    ("wire", include_str!("../python/core/wire.py")),
    ("work", include_str!("../python/policy/work.py")),
    ("work_native", include_str!("../python/policy/work_native.py")),
];

/// What stands before the script's answer; site customisation may have printed before it.
const MARKER: &str = "\nvivarium-inspect:";

/// How long an interpreter may take to answer: cold disks included.
const TIMEOUT: Duration = Duration::from_secs(20);

const MAX_OUTPUT_BYTES: u64 = 8 << 20;

/// The search path where the environment has none: execvp(3). A version manager's shim needs one.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What an interpreter of this version is executed with, after its name. A template's own arguments
/// follow.
///
/// -s, as the packages of a "user" would be files of the tenant's. -P where it exists (3.11): it
/// keeps the workdir out of Python's path until the kernel puts it there. Without it, Python 3.13
/// runs a `linecache.py` of the workdir before our first line, and one that raises keeps the
/// session from ever starting a kernel again.
pub(crate) fn arguments(version: &str) -> Vec<&'static str> {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    let safe_path = minor.is_some_and(|minor| minor >= 11).then_some("-P");
    ["-s"].into_iter().chain(safe_path).chain(["-c", BOOTSTRAP]).collect()
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum InspectError {
    /// A relative path would depend on who asks.
    #[error("interpreter {}: not an absolute path", .0.display())]
    Relative(PathBuf),
    #[error("interpreter {}: it can not be executed: {source}", path.display())]
    Spawn { path: PathBuf, source: std::io::Error },
    #[error("interpreter {}: no answer within {} s", .0.display(), TIMEOUT.as_secs())]
    TimedOut(PathBuf),
    #[error("interpreter {}: it did not run our script ({reason}){}", path.display(), said(stderr))]
    NoAnswer {
        path: PathBuf,
        reason: String,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    #[error("interpreter {}: {reason}", path.display())]
    Unsuitable { path: PathBuf, reason: String },
    /// Binding what it reads would show sessions what is not Python's.
    #[error(
        "interpreter {}: it reads {}, which holds more than a Python installation and is never \
         bound into a sandbox (install it, or what its path files name, in a directory of its own)",
        path.display(),
        prefix.display()
    )]
    TooWide { path: PathBuf, prefix: PathBuf },
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; it said: {stderr}") }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Suitable(Found),
    Unsuitable { error: String },
}

/// What the script tells of an interpreter that can run the kernel.
#[derive(Deserialize)]
struct Found {
    executable: PathBuf,
    version: String,
    prefixes: Vec<PathBuf>,
    program: String,
    hidden: Vec<PathBuf>,
    missing: Vec<String>,
}

/// What an interpreter has of distributions that are to be hidden.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// The paths of their files: of packages and modules as a whole.
    paths: Vec<PathBuf>,
    /// Those that are not installed.
    missing: Vec<String>,
}

/// Inspects an interpreter, which also tells what it has of `distributions`.
pub(crate) fn inspect(
    interpreter: &Path,
    distributions: &[OsString],
) -> Result<(Interpreter, Hidden), InspectError> {
    let path = interpreter.to_owned();
    let no_answer = |reason: String| InspectError::NoAnswer {
        path: interpreter.to_owned(),
        reason,
        stderr: String::new(),
    };
    let system_trees =
        thread::spawn(|| special_files::trees_with_some(READ_EXECUTE.iter().map(PathBuf::from)));
    let Found { executable, version, prefixes, program, hidden, missing } =
        ask(interpreter, distributions, &PARTS)?;
    let program = STANDARD.decode(program).map_err(|error| no_answer(error.to_string()))?;
    let program = Arc::new(program.into());
    let prefixes =
        needed(prefixes).map_err(|prefix| InspectError::TooWide { path: path.clone(), prefix })?;
    // A version manager's shim is a shell script, with needs of its own: run what it chose.
    let path = if is_script(interpreter) { executable } else { path };
    let mut isolate = system_trees.join().map_err(|_| no_answer("a search failed".into()))?;
    isolate.extend(special_files::trees_with_some(prefixes.iter().cloned()));
    let hidden = Hidden { paths: hidden, missing };
    Ok((Interpreter { path, prefixes, isolate, program, version, wasm: None }, hidden))
}

/// Runs the script, which compiles these parts of the kernel.
fn ask(
    interpreter: &Path,
    distributions: &[OsString],
    parts: &[(&str, &str)],
) -> Result<Found, InspectError> {
    let path = interpreter.to_owned();
    if !path.is_absolute() {
        return Err(InspectError::Relative(path));
    }
    let no_answer = |reason: String, stderr: &[u8]| InspectError::NoAnswer {
        path: interpreter.to_owned(),
        reason,
        stderr: last_line(stderr),
    };
    let (stdout, stderr) = run_script(interpreter, distributions, parts)?;
    let stdout = String::from_utf8_lossy(&stdout);
    let (_, answer) =
        stdout.rsplit_once(MARKER).ok_or_else(|| no_answer("no answer".into(), &stderr))?;
    match serde_json::from_str(answer).map_err(|error| no_answer(error.to_string(), &stderr))? {
        Answer::Unsuitable { error: reason } => Err(InspectError::Unsuitable { path, reason }),
        Answer::Suitable(found) => Ok(found),
    }
}

/// `vivarium-agent distributions PATH [DISTRIBUTION…]`: prints a JSON object {hidden, missing} for the
/// supervisor. Compiles nothing, and searches no trees.
pub(crate) fn main_distributions(path: &Path, distributions: &[OsString]) -> ExitCode {
    print(
        ask(path, distributions, &[])
            .map(|found| serde_json::json!({"hidden": found.hidden, "missing": found.missing})),
    )
}

/// `vivarium-agent inspect PATH [DISTRIBUTION…]`: prints a JSON object {path, version, prefixes, isolate,
/// program, hidden, missing} for the supervisor, the program in base64.
pub(crate) fn main_inspect(path: &Path, distributions: &[OsString]) -> ExitCode {
    print(inspect(path, distributions).map(|(found, hidden)| {
        serde_json::json!({
            "path": found.path,
            "version": found.version,
            "prefixes": found.prefixes,
            "isolate": found.isolate,
            "program": STANDARD.encode(found.program.as_ref()),
            "hidden": hidden.paths,
            "missing": hidden.missing,
        })
    }))
}

fn print(answer: Result<serde_json::Value, InspectError>) -> ExitCode {
    let printed = answer.map_err(|error| error.to_string()).and_then(|answer| {
        writeln!(std::io::stdout(), "{answer}")
            .map_err(|error| format!("print the answer: {error}"))
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::log::print_line(&error);
            ExitCode::FAILURE
        }
    }
}

fn run_script(
    interpreter: &Path,
    distributions: &[OsString],
    parts: &[(&str, &str)],
) -> Result<(Vec<u8>, Vec<u8>), InspectError> {
    let spawn = |source| InspectError::Spawn { path: interpreter.to_owned(), source };
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut child = Command::new(interpreter)
        .args(["-s", "-c", SCRIPT])
        .args(distributions)
        .env_clear()
        .env("PATH", path)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(spawn)?;
    let parts: serde_json::Map<_, _> =
        parts.iter().map(|(name, source)| ((*name).to_owned(), (*source).into())).collect();
    let parts = serde_json::Value::from(parts).to_string();
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // Threads, so that an interpreter that neither reads nor writes can not hold us up. They are
    // not joined: a process it left behind may hold its pipes open.
    thread::spawn(move || {
        // If it does not read all, its answer says so.
        stdin.map(|mut stdin| stdin.write_all(parts.as_bytes()))
    });
    let (sender, receiver) = mpsc::channel();
    let error_sender = sender.clone();
    thread::spawn(move || sender.send((true, read_all(stdout))));
    thread::spawn(move || error_sender.send((false, read_all(stderr))));
    let collected = collect(&receiver);
    end(&mut child);
    collected.ok_or_else(|| InspectError::TimedOut(interpreter.to_owned()))
}

fn collect(receiver: &mpsc::Receiver<(bool, Vec<u8>)>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut stdout, mut stderr) = (None, None);
    while stdout.is_none() || stderr.is_none() {
        match receiver.recv_timeout(TIMEOUT).ok()? {
            (true, bytes) => stdout = Some(bytes),
            (false, bytes) => stderr = Some(bytes),
        }
    }
    stdout.zip(stderr)
}

fn end(child: &mut Child) {
    discard(child.kill().and_then(|()| child.wait()), "it fails only for a child that is gone");
}

fn read_all(stream: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let read = stream.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
        discard(read, "the answer is checked for what is missing");
    }
    bytes
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().lines().last().unwrap_or_default().to_owned()
}

/// Whether `path` is to be run by another program: execve(2), "Interpreter scripts".
fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *b"#!"
}

/// Of the directories an interpreter reads, those that have to be bound for it.
fn needed(mut prefixes: Vec<PathBuf>) -> Result<Vec<PathBuf>, PathBuf> {
    prefixes.retain(|prefix| !READ_EXECUTE.iter().any(|bound| prefix.starts_with(bound)));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_wide = |prefix: &PathBuf| {
        !prefix.is_absolute()
            || is_too_wide(prefix)
            || home.as_ref().is_some_and(|home| home.starts_with(prefix))
    };
    if let Some(wide) = prefixes.iter().find(|prefix| is_wide(prefix)) {
        return Err(wide.clone());
    }
    prefixes.sort();
    // A directory sorts before what is beneath it.
    let mut kept: Vec<PathBuf> = Vec::new();
    for prefix in prefixes {
        if !kept.iter().any(|outer| prefix.starts_with(outer)) {
            kept.push(prefix);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests;
