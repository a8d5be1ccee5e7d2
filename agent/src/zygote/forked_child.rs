//! The process that a template forks: it joins the session, goes on there as the kernel's, and is
//! confined.
//!
//! What belongs to the session is received here and not in the template, whose memory all kernels
//! of the environment share.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::prctl;
use nix::unistd::getpid;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, FromNewborn, Inheritance, Origin};

use crate::launch::failure;
use crate::sandbox::{Context, Inside, Outside};
use crate::spawn::{self, Confined};
use crate::sys::StartedWith;
use crate::{stream, sys};

/// A process that was forked for a birth and has done nothing yet.
#[derive(Debug)]
pub(crate) struct Entrant {
    /// To and from the launcher.
    pub(super) request: UnixStream,
    /// To the template.
    pub(super) told: UnixStream,
    /// What the template was executed with.
    pub(super) started_with: StartedWith,
}

/// A process in its session, with what is to be its own there.
struct Newborn {
    context: Context,
    descriptors: Vec<OwnedFd>,
    report: UnixStream,
}

impl Entrant {
    /// Joins the session, and becomes its kernel once the launcher has it go on: confined for good,
    /// every descriptor but the kernel's own closed, and the environment the kernel's. If that
    /// does not work it says so and ends.
    pub(crate) fn become_kernel(self) {
        let newborn = self.be_born().unwrap_or_else(|failed| {
            let failed = FromNewborn::Failed(failed);
            // A launcher that is gone needs no telling.
            let _gone = stream::send(&self.request, &failed, MAX_SMALL_FRAME_BYTES).is_err();
            sys::exit_now(1)
        });
        if (&self.request).read_exact(&mut [0]).is_err() {
            sys::exit_now(1); // It was given up.
        }
        if let Err(failed) = newborn.confine(&self.started_with) {
            sys::exit_now(spawn::report_failure(&newborn.report, failed));
        }
        // Their descriptors are closed already, and their numbers may be others' by now. The context
        // is freed, and so overwritten: it names the session's cgroup and tenant.
        let Newborn { context, descriptors, report } = newborn;
        drop(context);
        std::mem::forget((self, descriptors, report));
    }

    /// Joins the session, and tells launcher and template of the process that it is there.
    fn be_born(&self) -> Result<Newborn, Failure> {
        let Self { request, told, .. } = self;
        // Of the template's: other sessions' sockets, as many as there are sessions.
        sys::close_all_but(&[request.as_fd(), told.as_fd()])
            .map_err(|error| failure("close the template's descriptors", error))?;
        stream::send(request, &FromNewborn::Here, MAX_SMALL_FRAME_BYTES)
            .map_err(|error| failure("tell the launcher of the birth", error))?;
        let outside = Outside::capture().map_err(|error| failure("read /proc/self/ns", error))?;
        let (Inheritance { policy }, fds) = stream::receive_with(request, MAX_FRAME_BYTES)
            .map_err(|error| failure("receive what belongs to the session", error))?;
        policy.validate().map_err(|error| failure("validate the policy", error))?;
        let context = Context { policy, outside, program: None };
        let mut fds = fds.into_iter();
        let inside = Inside::received(&context, &mut fds)
            .map_err(|error| failure("receive the session's namespaces", error))?;
        let missing = |what: &'static str| failure("receive what belongs to the session", what);
        let leaf = match context.policy.cgroup {
            Some(_) => Some(fds.next().ok_or_else(|| missing("there is no cgroup"))?),
            None => None,
        };
        let report = fds.next_back().ok_or_else(|| missing("there is no report socket"))?;

        let process = spawn::join_session(&context, &inside, leaf.as_ref().map(AsFd::as_fd))?;

        stream::send(told, &process.as_raw(), MAX_SMALL_FRAME_BYTES)
            .map_err(|error| failure("tell the template of the birth", error))?;
        let pidfd = sys::pidfd_open(getpid()).map_err(|error| failure("pidfd_open", error))?;
        let born = FromNewborn::Born;
        stream::send_with(request, &born, &[pidfd.as_raw_fd()], MAX_SMALL_FRAME_BYTES)
            .map_err(|error| failure("tell the launcher of the birth", error))?;
        Ok(Newborn { context, descriptors: fds.collect(), report: report.into() })
    }
}

impl Newborn {
    fn confine(&self, started_with: &StartedWith) -> Result<(), Failure> {
        // The template's own is not the session's, and the layers check that nothing is inherited.
        sys::clear_environment().map_err(|error| failure("clear the environment", error))?;
        // With the directories of the daemon in it.
        started_with.overwrite();
        let Confined { environment, report } =
            spawn::confine(&self.context, Origin::Forked, &self.descriptors, &self.report)?;
        sys::set_environment(&environment)
            .map_err(|error| failure("set the environment", error))?;
        drop(report); // which says that it is a kernel now
        // As execve would have: without it the kernel's own files in /proc are not its
        // (proc_pid(5)). After the report socket, by which nobody but this process may speak.
        if prctl::set_dumpable(true).is_err() {
            sys::exit_now(1);
        }
        Ok(())
    }
}
