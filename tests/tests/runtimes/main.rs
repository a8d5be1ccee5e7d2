//! Runtime `wasm`: its program is started as the kernel and confined more than an interpreter, its engine is
//! an entry of `protection`, and what it lacks is refused by its name.
//!
//! In the place of `vivarium-wasm` stands a native program that does as it is told (`tests/probe/engine.c`): whoever
//! got out of the engine would be no better off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod analyst;
mod cpython;
mod escapes;
mod forked;
mod hostile;
mod inside;
mod package;
mod programs;
mod refusals;
mod reports;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;
use vivarium_tests::daemon::{Daemon, Setup};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::processes::Process;
use vivarium_tests::program;
use vivarium_tests::session::Session;
use vivarium_tests::wait;

/// The program that stands for the engine's.
struct Probe {
    dir: tempfile::TempDir,
    /// The `kernel_origin` of its sessions.
    origin: &'static str,
}

impl Probe {
    /// `None` where nothing compiles it.
    fn get() -> Option<&'static Self> {
        Self::of_each_birth().first()
    }

    /// One whose kernels are executed, and one that forks them as vivarium-wasm does. None where nothing
    /// compiles it.
    fn of_each_birth() -> &'static [Self] {
        static MADE: OnceLock<[Probe; 2]> = OnceLock::new();
        if !host::has(&[Requirement::Compiler]) {
            return &[];
        }
        MADE.get_or_init(|| ["executed", "forked"].map(Self::compile))
    }

    fn compile(origin: &'static str) -> Self {
        let probe = Self { dir: program::temp_dir(), origin };
        let source = program::workspace().join("tests/probe/engine.c");
        // A static program can load no library.
        let kind = if probe.is_forked() { "-DFORKS" } else { "-static" };
        let built = Command::new("cc")
            .args([kind, "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&probe.path(), &source])
            .status();
        assert!(built.unwrap().success());
        std::fs::set_permissions(probe.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        if probe.is_forked() {
            let library = "libvivarium_agent.so";
            std::fs::copy(program::path(library), probe.dir.path().join(library)).unwrap();
        }
        probe
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("engine")
    }

    fn is_forked(&self) -> bool {
        self.origin == "forked"
    }

    /// A daemon whose sessions in `environment` are of this birth.
    #[track_caller]
    fn start(&self, setup: Setup, environment: &str) -> Daemon {
        let daemon = setup.start();
        if self.is_forked() {
            daemon.until_template_of(environment);
        }
        let session = daemon.any_session(&json!({"environment": environment}));
        assert_eq!(session.info()["kernel_origin"], self.origin);
        daemon
    }

    fn section(&self) -> String {
        format!("runtime = \"wasm\"\ninterpreter = \"{}\"", self.path().display())
    }

    /// The same program, with itself for what runs commands.
    fn with_runner(&self) -> Self {
        let dir = program::temp_dir();
        std::fs::copy(self.path(), dir.path().join("engine-runner")).unwrap();
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        Self { dir, origin: self.origin }
    }

    /// A daemon with an environment `light` of it.
    fn setup(&self) -> Setup {
        Setup::default().config("environments.light", &self.section())
    }
}

/// A session in the environment `light`.
fn light(daemon: &Daemon) -> Session<'_> {
    daemon.any_session(&json!({"environment": "light"}))
}

/// What the program says of an attempt.
#[track_caller]
fn attempt(session: &Session<'_>, what: &str) -> String {
    session.value(what)
}

#[track_caller]
fn check(session: &Session<'_>, rows: &[(&str, &str)]) {
    for (what, right) in rows {
        let said = attempt(session, what);
        assert!(right.split('|').any(|word| word == said), "{what}: {said}, and not {right}");
    }
}

/// The file in the state directory that the program has made its component.
fn component(state: &Path) -> PathBuf {
    state.join("wasm/component")
}
