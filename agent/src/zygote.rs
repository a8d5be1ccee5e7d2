//! The zygote: the process of a template, a warmed Python, one per environment, that forks kernels.
//!
//! ```text
//! supervisor ── exec ──▶ zygote ── exec ──▶ Python, its imports, then [`server`]
//! server ── os.fork ──▶ forked child ── setns, continue in a clone ──▶ kernel
//! ```
//!
//! This module runs before Python: it takes nothing from its parent but one socket, gives up what it
//! does not need, and executes the interpreter with the agent's library at hand. [`server`] and
//! [`forked_child`] run inside Python, through that library.
//!
//! With runtime `wasm` the engine's program is in Python's place. It is linked with this library, and gets its
//! compiled component where Python gets that: the descriptors are those of a kernel of that runtime.
//!
//! It must never run tenant code, nor hold anything of a session.

pub(crate) mod forked_child;
pub(crate) mod pages;
mod read_only;
pub(crate) mod server;

use std::ffi::{CString, NulError};
use std::io::{Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::personality::{self, Persona};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{execve, execveat};
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, FromTemplate, StartTemplate};
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::startup::{check_protocol, sanitise};
use crate::sys::{DescriptorTable, SingleThreaded};
use crate::{id_namespace, inspect, sys};

/// Where the library is for Python. No session ever sees this descriptor.
const LIBRARY: &str = "/proc/self/fd/5";

pub(crate) fn main(table: DescriptorTable, control: &UnixStream) -> ExitCode {
    let Err(failure) = run(table, control);
    let unfit = FromTemplate::Unfit(failure.to_string());
    stream::send_if_open(control, &unfit, MAX_SMALL_FRAME_BYTES);
    ExitCode::FAILURE
}

fn run(table: DescriptorTable, control: &UnixStream) -> Result<std::convert::Infallible, Failure> {
    let thread = sanitise(&table)?;
    umask(Mode::from_bits_truncate(0o022));
    let (order, given, ids) = receive(control)?;
    let is_wasm = order.interpreter.wasm.is_some();
    let name = &order.interpreter.path;
    let path = name.canonicalize().unwrap_or_else(|_| name.clone());
    let read_only = order.read_only.then(|| open_read_only(thread, &path));
    if let Some(ids) = ids {
        id_namespace::enter(ids)?;
    }
    // What kernels inherit from here, and what a pre-import can not undo. The zygote can not have the
    // namespaces layer: setns(2) into a session asks for the rights of its parent. Nor Landlock's
    // rules: a session's own files could not be named in them.
    prctl::set_no_new_privs().or_failure("prctl(NO_NEW_PRIVS)")?;
    // It has a socket for each session.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).or_failure("getrlimit")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).or_failure("setrlimit(NOFILE)")?;
    sys::default_signals().or_failure("reset the signals")?;
    if order.images {
        let now = personality::get().or_failure("personality")?;
        personality::set(now | Persona::ADDR_NO_RANDOMIZE).or_failure("personality")?;
    }
    // Without it kernels could not continue in a clone with libc's state right.
    sys::thread_id_address().map_err(|error| Failure {
        fix: "use a kernel that was built with CONFIG_CHECKPOINT_RESTORE".to_owned(),
        ..failure("prctl(GET_TID_ADDRESS)", error)
    })?;

    end_with_supervisor(control).or_failure("have it end with the supervisor")?;
    let made = |error| failure("make the template's descriptors", error);
    let null = sys::open_null().map_err(made)?;
    let program = program_file(&order.interpreter.program).map_err(made)?;
    let stderr = std::io::stderr();
    let mut placed = vec![null.as_fd(), stderr.as_fd(), stderr.as_fd(), control.as_fd()];
    placed.extend((!is_wasm).then(|| program.as_fd()));
    placed.push(given.as_fd());
    // It has to stay: what ld.so(8) asks for the path of is found by it.
    placed.extend(read_only.iter().map(|program| program.mounts.as_fd()));
    let (path, arguments, environment) = image(&order, &path).or_failure("name the interpreter")?;
    let last = read_only.as_ref().map_or(control.as_fd(), |program| program.file.as_fd());
    let mut placed_fds = table.place(&placed, last, None).map_err(made)?;
    let last = placed_fds.take(placed.len()).map_err(made)?;
    let Err(errno) = match read_only {
        Some(_) => execveat(last, c"", &arguments, &environment, AtFlags::AT_EMPTY_PATH),
        None => execve(&path, &arguments, &environment),
    };
    let failed = failure(&format!("execute {}", path.to_string_lossy()), errno);
    let unfit = FromTemplate::Unfit(failed.to_string());
    if let Ok(control) = placed_fds.take(3) {
        stream::send_if_open(&control.into(), &unfit, MAX_SMALL_FRAME_BYTES);
    }
    sys::exit_now(1)
}

/// The interpreter at `path` on a read-only mount. If it can not be opened, the reason is transient
/// (`user.max_user_namespaces` was reached): the process ends, and unlike an unfit one is tried again.
#[allow(clippy::print_stderr)] // the supervisor logs it
fn open_read_only(thread: SingleThreaded, path: &Path) -> read_only::ReadOnlyProgram {
    read_only::open(thread, path).unwrap_or_else(|failed| {
        eprintln!("{failed}");
        sys::exit_now(1)
    })
}

/// Nobody reads the socket until the imports are done, and they may take for ever: the end of the
/// supervisor ends them. Nothing else comes on the socket until the zygote says that it is ready.
fn end_with_supervisor(control: &UnixStream) -> std::io::Result<()> {
    sys::kill_when_readable(control.as_fd())?;
    // An end that came before sends no signal.
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    match recv(control.as_raw_fd(), &mut [0], flags) {
        Err(Errno::EAGAIN) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(_) => Err(std::io::ErrorKind::BrokenPipe.into()),
    }
}

fn receive(control: &UnixStream) -> Result<(StartTemplate, OwnedFd, Option<OwnedFd>), Failure> {
    let (order, fds) = stream::receive_with::<StartTemplate>(control, MAX_FRAME_BYTES)
        .or_failure("receive the order")?;
    check_protocol(order.protocol_version)?;
    let mut fds = fds.into_iter();
    let none = || failure("receive the library, or the component", "there is none");
    let given = fds.next().ok_or_else(none)?;
    Ok((order, given, fds.next()))
}

fn image(
    order: &StartTemplate,
    path: &Path,
) -> Result<(CString, Vec<CString>, Vec<CString>), NulError> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let mut arguments = vec![text(&order.interpreter.path)?];
    if order.interpreter.wasm.is_some() {
        // It comes in a package of its own. It takes nothing else from outside, and its kernels get what they need
        // as they begin.
        arguments.push(c"template".to_owned());
        arguments.push(CString::new(order.protocol_version.to_string())?);
        return Ok((text(path)?, arguments, Vec::new()));
    }
    for argument in inspect::arguments(&order.interpreter.version) {
        arguments.push(CString::new(argument)?);
    }
    arguments.push(CString::new(LIBRARY)?);
    arguments.push(CString::new(if order.images { "images" } else { "" })?);
    arguments.push(CString::new(order.warmup.as_bytes())?);
    for module in &order.preimport {
        arguments.push(CString::new(module.as_bytes())?);
    }
    let environment: Result<Vec<_>, _> =
        order.env.iter().map(|(name, value)| CString::new(format!("{name}={value}"))).collect();
    Ok((text(path)?, arguments, environment?))
}

/// The kernel program, where Python can read it.
fn program_file(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let memory = memfd_create(c"vivarium-template", MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
