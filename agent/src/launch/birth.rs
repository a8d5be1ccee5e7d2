//! How a kernel is born: in its cgroup, then into the session, then confined, then Python.
//!
//! ```text
//! launcher ── clone3(CLONE_INTO_CGROUP) ──▶ entrant ── setns, fork ──▶ kernel
//! ```
//!
//! The entrant is needed because setns(2) with a pid namespace takes effect for children only.
//! It ends at once, and the kernel becomes the launcher's child (`PR_SET_CHILD_SUBREAPER`). A
//! template, later, takes the launcher's place in this picture and nothing else changes.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::unistd::{Pid, chdir, execve, getpid, setsid};
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Failure, KernelReport};

use super::{failure, open_null};
use crate::sandbox::{self, Context, Inside};
use crate::sys::{self, Wait};
use crate::{inspect, stream};

/// The descriptors that come with `Spawn`, and what has to be found out outside.
struct Channels<'a> {
    stdout: BorrowedFd<'a>,
    stderr: BorrowedFd<'a>,
    control: BorrowedFd<'a>,
    program: BorrowedFd<'a>,
    report: UnixStream,
    /// What the interpreter's path leads to, outside.
    interpreter: PathBuf,
}

/// Starts a kernel in the session whose agent is `inside`; its pid as seen from here, or
/// `None` if it was not born. Why not is told on the report pipe, as is that it could not be
/// confined or executed.
///
/// # Errors
/// If the agent sent something else than a kernel's descriptors.
pub(super) fn give_birth(
    context: &Context,
    inside: &Inside,
    fds: &[OwnedFd],
) -> Result<Option<Pid>, Failure> {
    let [stdout, stderr, control, program, report] = fds else {
        return Err(failure("start a kernel", "the agent sent the wrong descriptors"));
    };
    let report = report.try_clone().map_err(|error| failure("dup", error))?;
    let interpreter = &context.policy.interpreter.path;
    let channels = Channels {
        stdout: stdout.as_fd(),
        stderr: stderr.as_fd(),
        control: control.as_fd(),
        program: program.as_fd(),
        report: UnixStream::from(report),
        interpreter: interpreter.canonicalize().unwrap_or_else(|_| interpreter.clone()),
    };
    match start_entrant(context, inside, &channels) {
        Ok(kernel) => Ok(Some(kernel)),
        Err(failure) => {
            tell(&channels, failure);
            Ok(None)
        }
    }
}

/// Starts the entrant and waits for its word on which process became the kernel.
fn start_entrant(
    context: &Context,
    inside: &Inside,
    channels: &Channels<'_>,
) -> Result<Pid, Failure> {
    let leaf = open_leaf(context.policy.cgroup.as_ref().map(|scope| &*scope.kernel))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| failure("socketpair", error))?;
    let entrant = sys::clone3(0, leaf.as_ref().map(AsFd::as_fd))
        .map_err(|error| failure("clone3 into the kernel's cgroup", error))?;
    let Some(entrant) = entrant else {
        drop(ours);
        let told = enter_and_fork(context, inside, channels)
            .map(|kernel| kernel.as_raw())
            .and_then(|kernel| {
                stream::send(&theirs, &kernel, MAX_SMALL_FRAME_BYTES)
                    .map_err(|error| failure("tell the launcher of the kernel", error))
            });
        sys::exit_now(told.map_or_else(|failure| tell(channels, failure), |()| 0));
    };
    drop(theirs);
    let kernel: Result<i32, _> = stream::receive(&ours, MAX_SMALL_FRAME_BYTES);
    sys::wait(Wait::For(entrant)).map_err(|error| failure("wait for the entrant", error))?;
    kernel.map(Pid::from_raw).map_err(|error| failure("hear of the kernel", error))
}

/// The entrant: joins the session and forks the kernel.
fn enter_and_fork(
    context: &Context,
    inside: &Inside,
    channels: &Channels<'_>,
) -> Result<Pid, Failure> {
    yield_to_others(context)?;
    inside.enter().map_err(|error| failure("setns into the session", error))?;
    match sys::fork().map_err(|error| failure("fork the kernel", error))? {
        Some(kernel) => Ok(kernel),
        None => {
            let code = match become_python(context, channels) {
                Ok(never) => match never {},
                Err(failure) => tell(channels, failure),
            };
            sys::exit_now(code)
        }
    }
}

/// Where memory runs out, of the session, of all sessions or of the host, tenant code is to be
/// killed for it and not agent, daemon or others: proc_pid_oom_score_adj(5). Inherited, and not
/// for tenant code to lower: Landlock lets it write nothing in /proc.
fn yield_to_others(context: &Context) -> Result<(), Failure> {
    if !context.applies(Layer::Cgroup) {
        return Ok(());
    }
    let path = "/proc/self/oom_score_adj";
    std::fs::write(path, "1000").map_err(|error| failure(&format!("write {path}"), error))
}

/// The kernel: confines itself, says so, and becomes Python.
fn become_python(
    context: &Context,
    channels: &Channels<'_>,
) -> Result<std::convert::Infallible, Failure> {
    // A group of its own: SIGINT goes to the kernel and the children it has not parted from.
    setsid().map_err(|error| failure("setsid", error))?;
    unblock_signals()?;
    let null = open_null().map_err(|error| failure("open /dev/null", error))?;
    let workdir = context.policy.inner_workdir();
    let (program, arguments) = command(context, &channels.interpreter)?;
    let environment = sandbox::kernel_environment(context)
        .map_err(|error| failure("make the environment", error))?;
    let protection = sandbox::restrict(context)?;
    chdir(workdir).map_err(|error| failure("chdir to the workdir", error))?;
    let pid = u32::try_from(getpid().as_raw()).unwrap_or_default();
    stream::send(
        &channels.report,
        &KernelReport::Confined { pid, protection },
        MAX_SMALL_FRAME_BYTES,
    )
    .map_err(|error| failure("report", error))?;
    // The report pipe goes last and closes by itself: execve that worked is its end of file.
    let placed = [
        null.as_fd(),
        channels.stdout,
        channels.stderr,
        channels.control,
        channels.program,
        channels.report.as_fd(),
    ];
    sys::place_descriptors(&placed, 1).map_err(|error| failure("place descriptors", error))?;
    execve(&program, &arguments, &environment)
        .map_err(|error| failure(&format!("execve {}", program.to_string_lossy()), error))
}

/// The program and its arguments. The program is what the interpreter's path leads to, taken
/// outside: on the way there may be links through directories that are not in the session. Its
/// name is the path as configured, by which Python finds its virtual environment, as long as
/// that is in the session.
fn command(context: &Context, program: &Path) -> Result<(CString, Vec<CString>), Failure> {
    let bad = |error| failure("name the interpreter", error);
    let interpreter = &context.policy.interpreter;
    let name = if interpreter.path.exists() { &interpreter.path } else { program };
    let mut arguments = vec![CString::new(name.as_os_str().as_bytes()).map_err(bad)?];
    for argument in inspect::arguments(&interpreter.version) {
        arguments.push(CString::new(argument).map_err(bad)?);
    }
    Ok((CString::new(program.as_os_str().as_bytes()).map_err(bad)?, arguments))
}

/// Gives the kernel the signals the launcher blocks for its signalfd.
fn unblock_signals() -> Result<(), Failure> {
    nix::sys::signal::SigSet::all()
        .thread_unblock()
        .map_err(|error| failure("unblock signals", error))
}

/// Says on the report pipe why there is no kernel; the exit code to end with.
fn tell(channels: &Channels<'_>, failure: Failure) -> i32 {
    let told =
        stream::send(&channels.report, &KernelReport::Failed(failure), MAX_SMALL_FRAME_BYTES);
    if told.is_ok() { 1 } else { 2 }
}

/// Opens a cgroup to be born in; `None` if there is no cgroup layer.
pub(super) fn open_leaf(path: Option<&Path>) -> Result<Option<OwnedFd>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(path);
    opened.map(|file| Some(file.into())).map_err(|error| Failure {
        layer: Some(Layer::Cgroup),
        ..failure(&format!("open {}", path.display()), error)
    })
}
