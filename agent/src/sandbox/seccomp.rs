//! The seccomp layer: which of the kernel's calls the tenant's code can make at all.
//!
//! An allow-list ([`calls`]), some of it by argument ([`arguments`]), made into one BPF program
//! ([`program`]). What is not allowed gets an error, never a signal: libraries try calls and
//! fall back. The one exception is a foreign architecture, whose numbers mean other calls.
//! The upper bound is Docker's default profile; each group says what it leaves out of that.

mod arguments;
mod assembly;
mod calls;
mod own;
mod program;
mod rules;

use std::io;
use std::os::fd::OwnedFd;

pub(super) use own::{agent_calls, confine_agent, confine_launcher};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::sys::inotify::{InitFlags, Inotify};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket, socketpair};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{execve, fsync, pipe2};
use seccompiler::BpfProgram;
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::policy::Network;

use self::program::ProgramError;
use super::{Context, LayerCode, LayerError};
use crate::sys;

/// A filter is in force: PR_GET_SECCOMP of prctl(2).
const MODE_FILTER: u32 = 2;

/// What of a session its filter depends on.
#[derive(Debug, Clone, Copy)]
struct Profile {
    /// The internet's sockets can be made.
    internet: bool,
    /// All that can be written to is the session's tmpfs.
    own_files: bool,
    /// No pid but of the session's can be named.
    own_pids: bool,
    /// The kernel is the engine's program, which executes, forks and connects nothing.
    wasm: bool,
}

impl Profile {
    fn of(context: &Context) -> Self {
        Self {
            internet: context.policy.network != Network::None,
            own_files: context.applies(Layer::Mounts),
            own_pids: context.applies(Layer::Namespaces),
            wasm: context.is_wasm(),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        const EITHER: [bool; 2] = [false, true];
        EITHER.into_iter().flat_map(|wasm| {
            EITHER.into_iter().flat_map(move |internet| {
                EITHER.into_iter().flat_map(move |own_files| {
                    EITHER.map(|own_pids| Self { internet, own_files, own_pids, wasm })
                })
            })
        })
    }

    /// Its place among all.
    fn index(self) -> usize {
        usize::from(self.wasm) * 8
            + usize::from(self.internet) * 4
            + usize::from(self.own_files) * 2
            + usize::from(self.own_pids)
    }
}

/// Builds the filters of whatever is forked from this process, which then does not have to.
pub(super) fn prepare() -> Result<(), LayerError> {
    program::prepare()?;
    own::prepare()?;
    Ok(())
}

pub(crate) struct Seccomp;

impl LayerCode for Seccomp {
    fn layer(&self) -> Layer {
        Layer::Seccomp
    }

    fn restrict(&self, context: &Context) -> Result<(), LayerError> {
        install(program::session(Profile::of(context))?)
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        let mode =
            sys::seccomp_mode().map_err(|error| LayerError::new("prctl(PR_GET_SECCOMP)", error))?;
        if mode != MODE_FILTER {
            return Err(LayerError::not_in_force("prctl(PR_GET_SECCOMP): 2", mode));
        }
        // Calls without effect, one for each kind of answer the filter gives.
        fails_with("unshare(0)", unshare(CloneFlags::empty()), Errno::EPERM)?;
        fails_with("clone3", Err::<(), _>(sys::probe_clone3()), Errno::ENOSYS)?;
        fails_with("inotify_init1", Inotify::init(InitFlags::empty()), Errno::ENOSYS)?;
        fails_with("socket(AF_NETLINK)", open_socket(AddressFamily::Netlink), Errno::EPERM)?;
        if context.policy.network == Network::None {
            fails_with("socket(AF_INET)", open_socket(AddressFamily::Inet), Errno::EPERM)?;
        }
        let profile = Profile::of(context);
        let allowed = |call: &'static str| {
            move |errno| LayerError::new(format!("{call}, which is allowed"), errno)
        };
        // Neither can be flushed: EINVAL.
        let file = if profile.wasm {
            verify_wasm()?;
            pipe2(OFlag::O_CLOEXEC).map_err(allowed("pipe2"))?.0
        } else {
            open_socket(AddressFamily::Unix).map_err(allowed("socket(AF_UNIX)"))?
        };
        fails_with("fchmod(S_ISUID)", fchmod(&file, Mode::S_ISUID), Errno::EPERM)?;
        if profile.own_files {
            fsync(&file).map_err(|errno| {
                LayerError::not_in_force("success without effect on fsync", errno)
            })?;
        }
        let detail = if profile.wasm {
            let count = calls::count_in_wasm();
            format!(
                "a filter of runtime wasm that allows {count} calls: none that executes a second \
                 program, forks or makes a socket"
            )
        } else {
            let by_argument = arguments::CHECKED.len();
            let count = calls::count();
            format!("a filter that allows {count} calls, {by_argument} of them by argument")
        };
        Ok(Report::enforced(Layer::Seccomp, detail))
    }
}

/// What only the filter of runtime `wasm` refuses. Without it none of these would start anything either.
fn verify_wasm() -> Result<(), LayerError> {
    let nothing = c"/nonexistent/program";
    fails_with("execve", execve(nothing, &[nothing], &[nothing]), Errno::EPERM)?;
    fails_with("clone", Err::<(), _>(sys::probe_clone()), Errno::EPERM)?;
    fails_with("socket(AF_UNIX)", open_socket(AddressFamily::Unix), Errno::EPERM)?;
    let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
    let pair = socketpair(AddressFamily::Unix, kind, None, flags);
    fails_with("socketpair", pair, Errno::EPERM)
}

/// Has the calling thread filtered from now on. Sets no_new_privs as well, without which an
/// unprivileged process may have no filter.
fn install(program: &BpfProgram) -> Result<(), LayerError> {
    seccompiler::apply_filter(program).map_err(|error| {
        LayerError::new("seccomp(SECCOMP_SET_MODE_FILTER)", error).with_fix(
            "use a kernel with CONFIG_SECCOMP_FILTER, and allow seccomp in the profile of a \
             container around vivarium",
        )
    })
}

impl From<ProgramError> for LayerError {
    fn from(error: ProgramError) -> Self {
        Self::new("build the seccomp filter", error)
    }
}

fn open_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
}

/// Checks that a call was refused, and by the filter: with exactly its error.
fn fails_with<T>(
    call: &str,
    result: Result<T, impl Into<io::Error>>,
    expected: Errno,
) -> Result<(), LayerError> {
    let found = match result {
        Ok(_) => "it succeeded".to_owned(),
        Err(error) => {
            let error = error.into();
            if error.raw_os_error() == Some(expected as i32) {
                return Ok(());
            }
            error.to_string()
        }
    };
    Err(LayerError::not_in_force(format!("{expected:?} on {call}"), found))
}

#[cfg(test)]
mod tests;
