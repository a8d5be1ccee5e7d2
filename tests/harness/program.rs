//! The programs under test, as processes.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::unistd::User;

use crate::host;

/// Names another directory of built programs than the one the tests are built into.
const VARIABLE: &str = "VIVARIUM_TEST_BIN_DIR";

/// Where programs are looked for by the programs under test. No shims of a developer's home.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// A built program.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    let dir = std::env::var_os(VARIABLE).map_or_else(beside_this_test, PathBuf::from);
    let path = dir.join(name);
    assert!(
        path.is_file(),
        "{} is missing: build the programs first, with `cargo build --workspace` and the same \
         profile as the tests",
        path.display()
    );
    path
}

/// `target/PROFILE`: test programs are in `deps` below it.
fn beside_this_test() -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a path");
    let deps = own.parent().expect("a file has a parent");
    deps.parent().expect("deps has a parent").to_owned()
}

/// The workspace's directory.
#[must_use]
pub fn workspace() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the package is in the workspace").to_owned()
}

/// The same command with another limit of descriptors: prlimit(1).
#[must_use]
pub fn with_open_files(command: &Command, max: u32) -> Command {
    let mut limited = Command::new("/usr/bin/prlimit");
    limited
        .arg(format!("--nofile={max}:{max}"))
        .arg(command.get_program())
        .args(command.get_args());
    limited.env_clear();
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

/// A directory of a test's own, removed at its end, that other users can search.
#[must_use]
pub fn temp_dir() -> tempfile::TempDir {
    // A short name: a socket's path has at most 107 bytes.
    let dir = tempfile::Builder::new().prefix("vt").rand_bytes(8).tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Who runs a program.
#[derive(Debug, Clone, Default)]
pub enum Runner {
    /// Whoever runs the tests.
    #[default]
    Self_,
    /// This user, with no group but its own. Needs root.
    User(User),
    /// The same, in a user namespace in which there can be one inotify instance, and no other.
    OneInotify(User),
    /// Whoever runs the tests, where a part of /proc is covered, as containers cover some: the
    /// system then lets nobody mount a whole one, and there is no mounts layer.
    InContainer,
    /// An ordinary user, in a user namespace with a bound on its processes: without it a fork bomb
    /// takes all of the host's where no layer bounds them.
    FewProcesses(User),
}

/// A user that has no subordinate ids, where programs can be run as another.
#[must_use]
pub fn nobody() -> Runner {
    if host::is_root() { Runner::User(host::nobody()) } else { Runner::Self_ }
}

/// A shell's: lets there be one inotify instance in its user namespace, and becomes the program.
const ONE_INOTIFY: &str = "echo 1 >/proc/sys/user/max_inotify_instances && exec \"$0\" \"$@\"";

/// That bound, for prlimit(1).
const FEW_PROCESSES: &str = "--nproc=1000";

/// Covers a part of /proc, and becomes the program that is given.
const IN_CONTAINER: &str = "mount -t tmpfs none /proc/fs && exec \"$0\" \"$@\"";

/// The same for a user who may do so in a user namespace alone, and has no capability there after.
const IN_A_USERS_CONTAINER: &str = "mount -t tmpfs none /proc/fs && \
    exec setpriv --inh-caps=-all --ambient-caps=-all -- \"$0\" \"$@\"";

/// `vivarium`, with an empty environment but for PATH and HOME.
///
/// For another user, the programs are first copied to `dir`, where it can execute them.
#[must_use]
pub fn vivarium(runner: &Runner, dir: &Path) -> Command {
    program("vivarium", runner, dir)
}

/// The same of another program that has an engine in it.
#[must_use]
pub fn program(name: &str, runner: &Runner, dir: &Path) -> Command {
    let mut command = match runner {
        Runner::Self_ => Command::new(path(name)),
        Runner::User(user) | Runner::OneInotify(user) | Runner::FewProcesses(user) => {
            // Each of these executes the next in its place: the pid stays the same.
            let mut command = Command::new("/usr/bin/env");
            if host::is_root() {
                let (uid, gid) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
                command.args(["setpriv", &uid, &gid, "--clear-groups", "--"]);
            }
            let namespace = ["unshare", "--user", "--map-current-user"];
            match runner {
                Runner::OneInotify(_) => {
                    command.args(namespace).args(["--keep-caps", "sh", "-c", ONE_INOTIFY]);
                }
                Runner::FewProcesses(_) => {
                    command.args(namespace).args(["prlimit", FEW_PROCESSES, "--"]);
                }
                _ => {}
            }
            command.arg(copy(name, dir));
            copy("vivarium-agent", dir);
            copy("libvivarium_agent.so", dir);
            command
        }
        Runner::InContainer => {
            let mut command = Command::new("/usr/bin/unshare");
            let mut script = IN_CONTAINER;
            if !host::is_root() {
                command.args(["--user", "--map-current-user", "--keep-caps"]);
                script = IN_A_USERS_CONTAINER;
            }
            command.args(["--mount", "--propagation=private", "/bin/sh", "-c", script]);
            command.arg(path(name));
            command
        }
    };
    command.env_clear().env("PATH", PATH).env("HOME", dir);
    command
}

/// A copy of a program in `dir`, made once.
fn copy(name: &str, dir: &Path) -> PathBuf {
    let to = dir.join(Path::new(name).file_name().expect("a program has a name"));
    if !to.exists() {
        // A link where possible: the programs of a debug build are large.
        let from = path(name);
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).unwrap();
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    to
}

/// A configuration with directories of its own in `dir`, for a program that is no daemon.
///
/// # Panics
/// If it can not be written.
#[must_use]
pub fn config(dir: &Path, more: &str) -> String {
    let path = dir.join("cli.toml");
    let own = dir.display();
    let text = format!(
        "[server]\nstate_dir = \"{own}/cli-state\"\nruntime_dir = \"{own}/cli-run\"\n\
         [environments.default]\ninterpreter = \"/usr/bin/python3\"\n{more}"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    path.display().to_string()
}

/// Runs `vivarium` to its end.
#[must_use]
pub fn run(arguments: &[&str]) -> Finished {
    let dir = temp_dir();
    run_as(&Runner::Self_, dir.path(), arguments, "")
}

/// Runs `vivarium run` with an embedded supervisor, whose directories are in `dir`.
#[must_use]
pub fn embedded(runner: &Runner, dir: &Path, arguments: &[&str], input: &str) -> Finished {
    embedded_with(runner, dir, "", arguments, input)
}

/// The same with more of a configuration.
#[must_use]
pub fn embedded_with(
    runner: &Runner,
    dir: &Path,
    more: &str,
    arguments: &[&str],
    input: &str,
) -> Finished {
    let config = config(dir, more);
    let all = [&["run", "--config", &config, "--quiet"], arguments].concat();
    run_as(runner, dir, &all, input)
}

/// Runs `vivarium` to its end, as somebody, in a directory, with this input.
#[must_use]
pub fn run_as(
    runner: &Runner,
    dir: &Path,
    arguments: &[impl AsRef<OsStr>],
    input: &str,
) -> Finished {
    let mut command = vivarium(runner, dir);
    command.args(arguments);
    finish(&mut command, input)
}

/// Runs a command to its end, with this input.
#[must_use]
pub fn finish(command: &mut Command, input: &str) -> Finished {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    // A program that does not read its input closes it.
    let _closed = stdin.write_all(input.as_bytes()).is_err();
    drop(stdin);
    Finished(child.wait_with_output().unwrap())
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished(pub Output);

impl Finished {
    /// The exit code; -1 if a signal ended it.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    /// What it printed.
    #[must_use]
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// What it printed as errors.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// Passes on one that has to have ended with this code.
    #[must_use]
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "stdout: {}\nstderr: {}", self.stdout(), self.stderr());
        self
    }
}
