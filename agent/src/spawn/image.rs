//! What a confined process becomes: Python with the kernel program, that of a WebAssembly engine, or a
//! tenant's command.
//!
//! A kernel that can not be executed is our failure and is reported. A command that can not be
//! executed is a result: a line on its standard error and the exit code that shells give, as POSIX
//! has it (Shell Command Language, 2.8.2: 127 not found, 126 not executable).

use std::convert::Infallible;
use std::ffi::{CString, NulError, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{chdir, execve};
use rustix::process::ioctl_tiocsctty;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Failure, Program};

use crate::failure::{OrFailure, failure};
use crate::files;
use crate::inspect;
use crate::sandbox::Context;
use crate::sys::HeldProgram;

const NOT_FOUND: i32 = 127;
pub(crate) const NOT_EXECUTABLE: i32 = 126;

/// What to execute, resolved and turned into C strings while still outside.
pub(super) enum Image {
    Kernel {
        /// What the interpreter's path leads to, outside: on the way there may be links through
        /// directories that are not in the session.
        path: PathBuf,
        /// The path as configured, by which Python finds its virtual environment, as long as
        /// that is in the session.
        name: PathBuf,
        arguments: Vec<&'static str>,
    },
    /// The engine's program, which runs a compiled Python.
    Wasm { path: PathBuf, arguments: Vec<CString> },
    Command {
        /// What runs it, if that is the engine's.
        runner: Option<PathBuf>,
        /// Its name and arguments, after the runner's; never empty.
        arguments: Vec<CString>,
        /// Its working directory, relative to the workdir.
        cwd: String,
        /// Its own variables, as `NAME=value`.
        environment: Vec<CString>,
        /// Whether its standard streams are a terminal.
        pty: bool,
    },
}

impl Image {
    pub(super) fn of(context: &Context, program: &Program) -> Result<Self, Failure> {
        match program {
            Program::Kernel if context.is_wasm() => {
                let arguments = c_strings(wasm_arguments(context))?;
                Ok(Self::Wasm { path: context.policy.interpreter.path.clone(), arguments })
            }
            Program::Kernel | Program::KernelWithPackages => {
                let interpreter = &context.policy.interpreter;
                let name = interpreter.path.clone();
                Ok(Self::Kernel {
                    path: name.canonicalize().unwrap_or_else(|_| name.clone()),
                    name,
                    arguments: inspect::arguments(&interpreter.version),
                })
            }
            Program::Command { argv, cwd, env, pty } => {
                if argv.is_empty() {
                    return Err(failure("pass the arguments", "there are none"));
                }
                let runner = runner_of(context, argv)?;
                let mut arguments = Vec::new();
                if let Some(path) = &runner {
                    arguments = engine_arguments(context, path, "run");
                    arguments.push(b"--".to_vec());
                }
                arguments.extend(argv.iter().map(|argument| argument.as_bytes().to_vec()));
                let arguments = c_strings(arguments)?;
                let variables = env.iter().map(|(name, value)| format!("{name}={value}"));
                let environment: Result<_, NulError> = variables.map(CString::new).collect();
                let environment = environment.or_failure("pass the variables")?;
                Ok(Self::Command { runner, arguments, cwd: cwd.clone(), environment, pty: *pty })
            }
        }
    }

    /// Makes the terminal of a command, which leads a session, its controlling one.
    pub(super) fn take_terminal(&self) -> Result<(), Failure> {
        if matches!(self, Self::Command { pty: true, .. }) {
            ioctl_tiocsctty(std::io::stdin()).or_failure("ioctl(TIOCSCTTY)")?;
        }
        Ok(())
    }

    /// Opens the program that a filter lets be executed from its descriptor only.
    pub(super) fn hold_program(&self) -> Result<Option<HeldProgram>, Failure> {
        match self {
            Self::Wasm { path, .. } | Self::Command { runner: Some(path), .. } => {
                HeldProgram::open(path)
                    .map(Some)
                    .map_err(|error| failure(&format!("open {}", path.display()), error))
            }
            Self::Kernel { .. } | Self::Command { runner: None, .. } => Ok(None),
        }
    }

    /// Executes it, with descriptors and confinement as they are. Returns the exit code of a command
    /// that could not be executed, which has then said so on its standard error.
    pub(super) fn execute(
        &self,
        environment: &[CString],
        program: Option<&HeldProgram>,
    ) -> Result<i32, Failure> {
        match self {
            Self::Wasm { path, arguments } => {
                Err(become_held(path, program, arguments, environment))
            }
            Self::Kernel { path, name, arguments } => {
                let name = if name.exists() { name } else { path };
                Err(become_python(path, name, arguments, environment))
            }
            Self::Command { runner, arguments, cwd, environment: own, .. } => {
                let environment = with_own(environment, own);
                let refusal = match (change_directory(cwd), runner) {
                    (Err(refusal), _) => refusal,
                    (Ok(()), Some(path)) => {
                        return Err(become_held(path, program, arguments, &environment));
                    }
                    (Ok(()), None) => {
                        let Err(refusal) = execute_command(arguments, &environment);
                        refusal
                    }
                };
                crate::log::print_line(&format!("{}: {}", refusal.what, refusal.why));
                Ok(refusal.code)
            }
        }
    }
}

/// What runs a command. `None` is an interpreter's runtime, where it runs by itself.
fn runner_of(context: &Context, argv: &[String]) -> Result<Option<PathBuf>, Failure> {
    let Some(engine) = &context.policy.interpreter.wasm else { return Ok(None) };
    match engine.runner_of(argv) {
        Some(runner) => Ok(Some(runner.clone())),
        None => Err(failure("start a command", "runtime wasm runs only .wasm files")),
    }
}

fn c_strings(texts: Vec<Vec<u8>>) -> Result<Vec<CString>, Failure> {
    let all: Result<Vec<_>, NulError> = texts.into_iter().map(CString::new).collect();
    all.or_failure("pass the arguments")
}

/// What a kernel of the engine's is executed with, or would be where it is forked.
pub(crate) fn wasm_arguments(context: &Context) -> Vec<Vec<u8>> {
    engine_arguments(context, &context.policy.interpreter.path, "kernel")
}

/// What a program of the engine's is executed with: its name, what it is to be, the memory that tenant code may
/// have, and the directories that it sees, each at its own path.
fn engine_arguments(context: &Context, program: &Path, role: &str) -> Vec<Vec<u8>> {
    let policy = &context.policy;
    let text = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let mut arguments = vec![text(program), role.as_bytes().to_vec()];
    if let Some(bytes) = policy.limits.max_memory_mb.times(1 << 20) {
        arguments.extend([b"--max-memory-bytes".to_vec(), bytes.to_string().into_bytes()]);
    }
    arguments.push(text(policy.inner_workdir()));
    // Without a root of the session's own it is the host's.
    if context.applies(Layer::Mounts) {
        arguments.push(b"/tmp".to_vec());
    }
    arguments
}

/// Executes a program by its descriptor, the only way that the filter of runtime `wasm` leaves.
fn become_held(
    path: &Path,
    program: Option<&HeldProgram>,
    arguments: &[CString],
    environment: &[CString],
) -> Failure {
    let errno = program.map_or(Errno::EBADF, |held| held.execute(arguments, environment));
    failure(&format!("execveat {}", path.display()), errno)
}

/// The session's variables, but for those that the command has of its own.
fn with_own(environment: &[CString], own: &[CString]) -> Vec<CString> {
    let name = |variable: &CString| {
        variable.as_bytes().split(|byte| *byte == b'=').next().map(<[u8]>::to_vec)
    };
    let is_other = |variable: &&CString| own.iter().all(|mine| name(mine) != name(variable));
    environment.iter().filter(is_other).chain(own).cloned().collect()
}

fn become_python(
    path: &Path,
    name: &Path,
    arguments: &[&'static str],
    environment: &[CString],
) -> Failure {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let all: Result<Vec<_>, NulError> = std::iter::once(text(name))
        .chain(arguments.iter().map(|&text| CString::new(text)))
        .collect();
    let (path, all) = match text(path).and_then(|path| Ok((path, all?))) {
        Ok(both) => both,
        Err(error) => return failure("name the interpreter", error),
    };
    let Err(errno) = execve(&path, &all, environment);
    failure(&format!("execve {}", path.to_string_lossy()), errno)
}

struct Refusal {
    code: i32,
    what: String,
    why: String,
}

impl Refusal {
    fn new(code: i32, what: &OsStr, why: impl std::fmt::Display) -> Self {
        Self { code, what: what.to_string_lossy().into_owned(), why: why.to_string() }
    }
}

/// Confined, as all that is left of a command's start, so it does nothing that the tenant's own code could not do.
fn change_directory(cwd: &str) -> Result<(), Refusal> {
    if cwd.is_empty() {
        return Ok(());
    }
    files::checked(cwd)
        .and_then(|path| Ok(chdir(&path)?))
        .map_err(|error| Refusal::new(NOT_EXECUTABLE, OsStr::new(cwd), error))
}

/// Finds the program on PATH and executes it.
fn execute_command(arguments: &[CString], environment: &[CString]) -> Result<Infallible, Refusal> {
    let name = arguments.first().map(|name| name.as_bytes()).unwrap_or_default();
    let refuse = |code, why: &str| Err(Refusal::new(code, OsStr::from_bytes(name), why));
    if name.contains(&b'/') {
        let path = CString::new(name).unwrap_or_default();
        let Err(errno) = execve(&path, arguments, environment);
        let code = if errno == Errno::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
        return refuse(code, errno.desc());
    }
    let mut denied = false;
    for directory in search_path(environment) {
        let path = [directory, b"/", name].concat();
        let Ok(path) = CString::new(path) else { continue };
        let Err(errno) = execve(&path, arguments, environment);
        match errno {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG => {}
            // There may be another further on: execvp(3).
            Errno::EACCES => denied = true,
            errno => return refuse(NOT_EXECUTABLE, errno.desc()),
        }
    }
    if denied {
        refuse(NOT_EXECUTABLE, Errno::EACCES.desc())
    } else {
        refuse(NOT_FOUND, "command not found")
    }
}

/// The directories of PATH. An empty one would mean the working directory, where no command is to be
/// found by accident.
fn search_path(environment: &[CString]) -> impl Iterator<Item = &[u8]> {
    let path = environment
        .iter()
        .find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="))
        .unwrap_or(inspect::DEFAULT_PATH.as_bytes());
    path.split(|byte| *byte == b':').filter(|directory| !directory.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_exits_127_and_a_file_that_is_no_program_126() {
        let code = |path: &std::ffi::CStr| {
            execute_command(&[path.to_owned()], &[]).map_err(|refusal| refusal.code).err()
        };
        assert_eq!(code(c"/nonexistent/program"), Some(NOT_FOUND));
        assert_eq!(code(c"/proc/self/status"), Some(NOT_EXECUTABLE));
        assert_eq!(code(c"/"), Some(NOT_EXECUTABLE));
    }

    #[test]
    fn empty_directories_of_path_are_skipped() {
        let environment = [c"HOME=/".to_owned(), c"PATH=:/a::/b:".to_owned()];
        let found: Vec<_> = search_path(&environment).collect();
        assert_eq!(found, [b"/a", b"/b"]);
        assert_eq!(search_path(&[]).count(), 3);
    }
}
