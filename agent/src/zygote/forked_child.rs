//! The process that a zygote forks: it joins the session, continues there in a clone, and is confined as
//! the kernel.
//!
//! It receives here what belongs to the session, and not in the zygote, whose memory all kernels of the
//! environment share.

use std::io::Read;
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
use crate::sys;
use crate::sys::{DescriptorTable, SingleThreaded, StartedWith};

/// A forked process that has not joined a session.
#[derive(Debug)]
pub(crate) struct ForkedChild {
    pub(super) launcher: UnixStream,
    /// To the zygote, which waits for the kernel's pid.
    pub(super) pid_sender: UnixStream,
    pub(super) started_with: StartedWith,
}

struct JoinedChild {
    thread: SingleThreaded,
    context: Context,
    descriptors: Vec<OwnedFd>,
    report: UnixStream,
}

impl ForkedChild {
    /// Joins the session, and becomes its kernel once the launcher says so: confined for good, every
    /// descriptor but the kernel's own closed, and with the kernel's environment. If that fails, the
    /// process says so and ends. Returns the arguments that the engine's program would have been executed
    /// with; none for Python, which has other ways to know.
    pub(crate) fn become_kernel(self, table: DescriptorTable) -> Vec<Vec<u8>> {
        let joined = self.join(&table).unwrap_or_else(|failed| {
            let failed = FromForkedChild::Failed(failed);
            stream::send_if_open(&self.launcher, &failed, MAX_SMALL_FRAME_BYTES);
            sys::exit_now(1)
        });
        if (&self.launcher).read_exact(&mut [0]).is_err() {
            sys::exit_now(1); // The launcher gave this kernel up.
        }
        if let Err(failed) = joined.confine(table, &self.started_with) {
            sys::exit_now(spawn::report_failure(&joined.report, failed));
        }
        // Their descriptors are closed already, and the numbers may be in use again. The context is
        // freed, and so overwritten: it names the session's cgroup and tenant.
        let JoinedChild { context, descriptors, report, .. } = joined;
        let arguments =
            if context.is_wasm() { spawn::wasm_arguments(&context) } else { Vec::new() };
        drop(context);
        std::mem::forget((self, descriptors, report));
        arguments
    }

    fn join(&self, table: &DescriptorTable) -> Result<JoinedChild, Failure> {
        let Self { launcher, pid_sender, .. } = self;
        // The zygote's descriptors: other sessions' sockets, as many as there are sessions.
        table
            .close_all_but(&[launcher.as_fd(), pid_sender.as_fd()])
            .or_failure("close the template's descriptors")?;
        stream::send(launcher, &FromForkedChild::Started, MAX_SMALL_FRAME_BYTES)
            .or_failure("tell the launcher of the fork")?;
        let host = HostFacts::capture().or_failure("read /proc/self/ns")?;
        let (Handoff { policy, leaf }, fds) = stream::receive_with(launcher, MAX_FRAME_BYTES)
            .or_failure("receive what belongs to the session")?;
        policy.validate().or_failure("validate the policy")?;
        let context = Context { policy, host, program: None, leaf, stores: Vec::new() };
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
