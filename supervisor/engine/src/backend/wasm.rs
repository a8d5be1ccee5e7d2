//! Asks the program of the WebAssembly engine what it is, and reads its compiled component.
//!
//! The component is machine code: whoever can change it runs code in every session's kernel. It is opened
//! here, outside of sessions, where files still have their owners, and sessions get a sealed copy in memory:
//! none can change it, and a package that replaces the file does not come between the daemon and its sessions.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use serde::Deserialize;
use tokio::process::Command;
use vivarium_protocol::policy::Interpreter;
use vivarium_protocol::runtime::WasmEngine;

use super::inspect::{InspectError, OutputError, output_of};
use super::program::ProgramFile;
use crate::settings::AgentBinary;

/// How long it may take: a component that does not fit this CPU is compiled anew. vivarium.service gives the daemon
/// longer to start.
const WITHIN: Duration = Duration::from_secs(180);

const NAME: &str = "vivarium-wasm";

/// Where its package installs it.
const INSTALLED: &str = "/usr/lib/vivarium/wasm/vivarium-wasm";

/// As `vivarium-wasm inspect` prints it.
#[derive(Debug, Deserialize)]
struct Answer {
    engine: String,
    engine_version: String,
    python: String,
    component: PathBuf,
    enforced: String,
    missing: String,
    /// What runs commands, if it is installed.
    #[serde(default)]
    runner: Option<PathBuf>,
    /// What else of the host its program has to see.
    #[serde(default)]
    reads: Vec<PathBuf>,
}

/// The program: as configured, beside the agent, or where its package installs it.
pub fn program(agent: &AgentBinary, configured: Option<PathBuf>) -> PathBuf {
    let beside = agent.path.with_file_name(NAME);
    configured.unwrap_or_else(|| if beside.exists() { beside } else { INSTALLED.into() })
}

/// Tries an instance of the engine, and returns what it is and its compiled component. `cache` is a
/// directory of the daemon's, for one that has to be compiled.
pub async fn inspect(
    path: &Path,
    cache: &Path,
) -> Result<(Interpreter, ProgramFile), InspectError> {
    inspect_within(path, cache, WITHIN).await
}

async fn inspect_within(
    path: &Path,
    cache: &Path,
    within: Duration,
) -> Result<(Interpreter, ProgramFile), InspectError> {
    let failed = |reason: String| InspectError::Wasm { path: path.to_owned(), reason };
    let mut command = Command::new(path);
    command.args(["inspect", "--cache"]).arg(cache);
    let (answer, complaint) = output_of(command, within).await.map_err(|error| match error {
        OutputError::Execute(error) if error.kind() == io::ErrorKind::NotFound => {
            failed(MISSING.to_owned())
        }
        OutputError::Execute(error) => failed(format!("execute it: {error}")),
        OutputError::Failed(reason) => failed(reason),
    })?;
    if !complaint.is_empty() {
        let said = String::from_utf8_lossy(&complaint);
        tracing::warn!(path = %path.display(), said = said.trim(), "the program of runtime wasm");
    }
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|error| failed(format!("an answer that cannot be read: {error}")))?;
    let component = open_component(&answer.component)
        .and_then(ProgramFile::copy_of)
        .map_err(|error| failed(format!("{}: {error}", answer.component.display())))?;
    let Answer { engine, engine_version, python, enforced, missing, runner, reads, .. } = answer;
    let interpreter = Interpreter {
        path: path.to_owned(),
        prefixes: [vec![path.to_owned()], runner.iter().cloned().collect(), reads].concat(),
        isolate: Vec::new(),
        program: Arc::default(), // it is a file
        version: python,
        wasm: Some(WasmEngine {
            name: format!("{engine} {engine_version}"),
            holds: enforced,
            missing,
            runner,
        }),
    };
    Ok((interpreter, component))
}

const MISSING: &str = "it is not there: install the package vivarium-wasm, or name the program in \
                       environments.<name>.interpreter";

/// Opens a file that nobody but root and the daemon's user can have written, and checks the one that it
/// opened.
fn open_component(path: &Path) -> io::Result<File> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let data = file.metadata()?;
    let refuse = |why: &str| Err(io::Error::other(why.to_owned()));
    if !data.is_file() {
        return refuse("it is no regular file");
    }
    if data.uid() != 0 && data.uid() != geteuid().as_raw() {
        return refuse(
            "it belongs to another user than root and the daemon's, who could change it",
        );
    }
    if data.mode() & WRITABLE_BY_OTHERS != 0 {
        return refuse("others than its owner can write to it");
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_component_that_others_could_change_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("python.cwasm");
        fs::write(&path, "code").unwrap();
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = |path: &Path| open_component(path).map(drop).map_err(|e| e.to_string());
        set(0o644);
        refused(&path).unwrap();
        for mode in [0o664, 0o646, 0o666] {
            set(mode);
            assert!(refused(&path).is_err_and(|why| why.contains("can write")), "{mode:o}");
        }
        set(0o644);
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(refused(&link).is_err(), "a link can be led elsewhere");
        assert!(refused(dir.path()).is_err_and(|why| why.contains("regular")));
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refused(&pipe).is_err_and(|why| why.contains("regular")), "and does not wait");
        if geteuid().is_root() {
            chown(&path, Some(12345), None).unwrap();
            assert!(refused(&path).is_err_and(|why| why.contains("another user")));
        }
    }

    #[test]
    fn the_program_is_the_configured_one_or_beside_the_agent_or_the_installed_one() {
        let dir = tempfile::tempdir().unwrap();
        let agent =
            AgentBinary { path: dir.path().join("vivarium-agent"), ..AgentBinary::default() };
        assert_eq!(program(&agent, Some("/x/y".into())), Path::new("/x/y"));
        assert_eq!(program(&agent, None), Path::new(INSTALLED));
        let beside = dir.path().join(NAME);
        fs::write(&beside, "").unwrap();
        assert_eq!(program(&agent, None), beside);
    }

    #[tokio::test]
    async fn what_takes_too_long_ends_with_all_that_it_has_started() {
        let dir = tempfile::tempdir().unwrap();
        let (program, started) = (dir.path().join("program"), dir.path().join("started"));
        let script = format!("#!/bin/sh\nsleep 1000 &\necho $! >{}\nwait\n", started.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let within = Duration::from_secs(2);
        let failed = inspect_within(&program, dir.path(), within).await.err().unwrap().to_string();
        assert!(failed.ends_with("no answer within 2 s"), "{failed}");
        let child = fs::read_to_string(&started).unwrap();
        let stat = Path::new("/proc").join(child.trim()).join("stat");
        // Gone, or a zombie until somebody waits for it.
        let is_alive = || fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while is_alive() && std::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!is_alive());
    }

    #[test]
    fn the_unit_gives_a_daemon_longer_than_the_compiler_has() {
        let unit = include_str!("../../../../systemd/vivarium.service");
        let line = unit.lines().find_map(|line| line.strip_prefix("TimeoutStartSec=")).unwrap();
        let minutes: u64 = line.strip_suffix("min").unwrap().parse().unwrap();
        assert!(Duration::from_secs(60 * minutes) > WITHIN + Duration::from_secs(60), "{line}");
    }

    #[tokio::test]
    async fn a_program_that_is_missing_fails_or_lies_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let of = |script: &str| {
            let path = dir.path().join("program");
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let said = async |path: &Path| inspect(path, dir.path()).await.err().map(|e| e.to_string());
        let missing = said(Path::new("/nonexistent/vivarium-wasm")).await.unwrap();
        assert!(missing.contains("install the package vivarium-wasm"), "{missing}");
        let failed = said(&of("echo no CPU >&2; exit 1")).await.unwrap();
        assert!(failed.ends_with("no CPU"), "{failed}");
        assert!(said(&of("echo '{}'")).await.unwrap().contains("cannot be read"));
        let component = dir.path().join("python.cwasm");
        fs::write(&component, "code").unwrap();
        fs::set_permissions(&component, fs::Permissions::from_mode(0o600)).unwrap();
        let answer = format!(
            r#"{{"engine": "wasmtime", "engine_version": "48.0.1", "python": "3.14.0",
            "component": "{}", "enforced": "all", "missing": "", "runner": "/x/run"}}"#,
            component.display()
        );
        let path = of(&format!("cat <<'END'\n{answer}\nEND"));
        let (interpreter, passed) = inspect(&path, dir.path()).await.unwrap();
        fs::write(&component, "evil").unwrap();
        let mut content = [0; 4];
        let passed = File::from(passed.descriptor().unwrap());
        passed.read_exact_at(&mut content, 0).unwrap();
        assert_eq!(&content, b"code", "as it was when it was asked about");
        assert_eq!(interpreter.prefixes, [path, "/x/run".into()]);
        let engine = interpreter.wasm.unwrap();
        assert_eq!((&*engine.name, engine.runner), ("wasmtime 48.0.1", Some("/x/run".into())));
    }
}
