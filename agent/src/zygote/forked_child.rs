//! The process that a zygote forks: it joins the session, continues there in a clone, and is confined as
//! the kernel.
//!
//! It receives here what belongs to the session, and not in the zygote, whose memory all kernels of the
//! environment share.

use std::ffi::{CStr, CString};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::prctl;
use nix::unistd::getpid;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, FromForkedChild, Handoff, Origin};
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::sandbox::{Context, HostFacts, SessionNamespaces};
use crate::spawn::{self, Confined};
use crate::startup::SPARE;
use crate::sys;
use crate::sys::{DescriptorTable, SingleThreaded, StartedWith};

/// A forked process that has not joined a session.
#[derive(Debug)]
pub(crate) struct ForkedChild {
    table: DescriptorTable,
    source: Source,
    /// To the zygote, which waits for the kernel's pid.
    pid_sender: UnixStream,
    started_with: StartedWith,
    /// Of the process, when it was forked.
    name: CString,
}

/// Whom it has its session from.
#[derive(Debug)]
pub(super) enum Source {
    Launcher {
        launcher: UnixStream,
        is_ahead: bool,
    },
    /// It is a spare: the zygote sends it a launcher's socket some time.
    Zygote(UnixStream),
}

struct JoinedChild {
    thread: SingleThreaded,
    context: Context,
    descriptors: Vec<OwnedFd>,
    report: UnixStream,
}

impl ForkedChild {
    /// Closes the zygote's descriptors: other sessions' sockets, as many as there are sessions.
    pub(super) fn new(
        table: DescriptorTable,
        source: Source,
        pid_sender: UnixStream,
        started_with: StartedWith,
    ) -> io::Result<Self> {
        let (Source::Launcher { launcher: socket, .. } | Source::Zygote(socket)) = &source;
        table.close_all_but(&[socket.as_fd(), pid_sender.as_fd()])?;
        let name = prctl::get_name()?;
        let child = Self { table, source, pid_sender, started_with, name };
        if matches!(child.source, Source::Zygote(_)) {
            prctl::set_name(SPARE)?;
        }
        Ok(child)
    }

    /// Whether nobody waits for it, so that it may rehearse its first execution.
    pub(crate) const fn is_ahead(&self) -> bool {
        match self.source {
            Source::Launcher { is_ahead, .. } => is_ahead,
            Source::Zygote(_) => true,
        }
    }

    /// Joins the session, and becomes its kernel once the launcher says so: confined for good, every
    /// descriptor but the kernel's own closed, and with the kernel's environment. If that fails, the
    /// process says so and ends. Returns the arguments that the engine's program would have been executed
    /// with; none for Python, which has other ways to know.
    pub(crate) fn become_kernel(self) -> Vec<Vec<u8>> {
        let Self { table, source, pid_sender, started_with, name } = self;
        let launcher = match source {
            Source::Launcher { launcher, .. } => launcher,
            Source::Zygote(zygote) => {
                await_request(zygote, &name).unwrap_or_else(|_| sys::exit_now(0))
            }
        };
        let joined = join(&launcher, &pid_sender).unwrap_or_else(|failed| {
            let failed = FromForkedChild::Failed(failed);
            stream::send_if_open(&launcher, &failed, MAX_SMALL_FRAME_BYTES);
            sys::exit_now(1)
        });
        if (&launcher).read_exact(&mut [0]).is_err() {
            sys::exit_now(1); // The launcher gave this kernel up.
        }
        if let Err(failed) = joined.confine(table, &started_with) {
            sys::exit_now(spawn::report_failure(&joined.report, failed));
        }
        // Their descriptors are closed already, and the numbers may be in use again. The context is
        // freed, and so overwritten: it names the session's cgroup and tenant.
        let JoinedChild { context, descriptors, report, .. } = joined;
        let arguments =
            if context.is_wasm() { spawn::wasm_arguments(&context) } else { Vec::new() };
        drop(context);
        std::mem::forget((launcher, pid_sender, descriptors, report));
        arguments
    }
}

/// Waits for a launcher's socket. Fails when the zygote ends.
fn await_request(zygote: UnixStream, name: &CStr) -> io::Result<UnixStream> {
    let ((), fds) =
        stream::receive_with(&zygote, MAX_SMALL_FRAME_BYTES).map_err(io::Error::other)?;
    prctl::set_name(name)?;
    fds.into_iter().next().map(UnixStream::from).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn join(launcher: &UnixStream, pid_sender: &UnixStream) -> Result<JoinedChild, Failure> {
    stream::send(launcher, &FromForkedChild::Started, MAX_SMALL_FRAME_BYTES)
        .or_failure("tell the launcher of the fork")?;
    let host = HostFacts::capture().or_failure("read /proc/self/ns")?;
    let (Handoff { policy, leaf }, fds) = stream::receive_with(launcher, MAX_FRAME_BYTES)
        .or_failure("receive what belongs to the session")?;
    policy.validate().or_failure("validate the policy")?;
    let mut context = Context::new(policy, host);
    context.leaf = leaf;
    let mut fds = fds.into_iter();
    let namespaces = SessionNamespaces::receive(&context, &mut fds)
        .or_failure("receive the session's namespaces")?;
    let missing = |what: &'static str| failure("receive what belongs to the session", what);
    let leaf = match context.policy.cgroup {
        Some(_) => Some(fds.next().ok_or_else(|| missing("there is no cgroup"))?),
        None => None,
    };
    let report = fds.next_back().ok_or_else(|| missing("there is no report socket"))?;

    let (process, thread) =
        spawn::join_session(&context, &namespaces, leaf.as_ref().map(AsFd::as_fd))?;

    stream::send(pid_sender, &process.as_raw(), MAX_SMALL_FRAME_BYTES)
        .or_failure("tell the template of the kernel")?;
    let pidfd = sys::pidfd_open(getpid()).or_failure("pidfd_open")?;
    let joined = FromForkedChild::Joined;
    stream::send_with(launcher, &joined, &[pidfd], MAX_SMALL_FRAME_BYTES)
        .or_failure("tell the launcher of the kernel")?;
    Ok(JoinedChild { thread, context, descriptors: fds.collect(), report: report.into() })
}

impl JoinedChild {
    fn confine(&self, table: DescriptorTable, started_with: &StartedWith) -> Result<(), Failure> {
        // The zygote's environment is not the session's, and the layers check that nothing is inherited.
        sys::clear_environment(self.thread).or_failure("clear the environment")?;
        // Its arguments and environment name directories of the daemon.
        started_with.overwrite(self.thread);
        let Confined { environment, report } = spawn::confine(
            table,
            &self.context,
            Origin::Forked,
            &self.descriptors,
            &self.report,
            None,
        )?;
        sys::set_environment(self.thread, &environment).or_failure("set the environment")?;
        drop(report); // tells the agent that this is a kernel now
        // As execve would have: without it the kernel's own files in /proc are not its
        // (proc_pid(5)). After the report socket, by which nobody but this process may speak.
        if prctl::set_dumpable(true).is_err() {
            sys::exit_now(1);
        }
        Ok(())
    }
}
