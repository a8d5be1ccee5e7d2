//! The processes that a template forks: the entrant, which joins the session, and the kernel,
//! which is confined there.
//!
//! What belongs to the session is received here and not in the template, whose memory all kernels
//! of the environment share.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::prctl;
use nix::unistd::Pid;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, FromNewborn, Inheritance, Origin};

use crate::birth::{self, Confined};
use crate::launch::failure;
use crate::sandbox::{Context, Inside, Outside};
use crate::{stream, sys};

/// A process that was forked for a birth and has done nothing yet.
#[derive(Debug)]
pub(crate) struct Entrant {
    /// To and from the launcher.
    pub(super) request: UnixStream,
    /// To the template.
    pub(super) told: UnixStream,
}

/// What an entrant and the kernel that it forks know of their session.
pub(crate) struct Newborn {
    context: Context,
    descriptors: Vec<OwnedFd>,
    report: UnixStream,
    request: UnixStream,
    told: UnixStream,
}

impl Entrant {
    /// Joins the session. If that does not work it says so and ends.
    pub(crate) fn enter(self) -> Newborn {
        let Self { request, told } = self;
        // Of the template's: other sessions' sockets, as many as there are sessions.
        if let Err(error) = sys::close_all_but(&[request.as_fd(), told.as_fd()]) {
            give_up(&request, failure("close the template's descriptors", error));
        }
        match enter(&request) {
            Ok((context, descriptors, report)) => {
                Newborn { context, descriptors, report, request, told }
            }
            Err(failed) => give_up(&request, failed),
        }
    }
}

fn enter(request: &UnixStream) -> Result<(Context, Vec<OwnedFd>, UnixStream), Failure> {
    stream::send(request, &FromNewborn::Here, MAX_SMALL_FRAME_BYTES)
        .map_err(|error| failure("tell the launcher of the birth", error))?;
    let outside = Outside::capture().map_err(|error| failure("read /proc/self/ns", error))?;
    let (Inheritance { policy }, mut fds) = stream::receive_with(request, MAX_FRAME_BYTES)
        .map_err(|error| failure("receive what belongs to the session", error))?;
    policy.validate().map_err(|error| failure("validate the policy", error))?;
    let context = Context { policy, outside, program: None };
    let inside = Inside::received(&context, &mut fds)
        .map_err(|error| failure("receive the session's namespaces", error))?;
    let report = fds.pop().ok_or_else(|| failure("receive a report socket", "there is none"))?;
    birth::enter(&context, &inside)?;
    Ok((context, fds, report.into()))
}

/// Says to the launcher why there is no kernel, and ends.
fn give_up(request: &UnixStream, failed: Failure) -> ! {
    let failed = FromNewborn::Failed(failed);
    // A launcher that is gone needs no telling.
    let _gone = stream::send(request, &failed, MAX_SMALL_FRAME_BYTES).is_err();
    sys::exit_now(1)
}

impl Newborn {
    /// In the entrant: has forked the kernel, tells launcher and template, and ends.
    pub(crate) fn forked(&self, kernel: Pid) -> ! {
        let told = sys::pidfd_open(kernel).map_err(|error| failure("pidfd_open", error)).and_then(
            |pidfd| {
                let fds = [pidfd.as_raw_fd()];
                stream::send(&self.told, &kernel.as_raw(), MAX_SMALL_FRAME_BYTES)
                    .and_then(|()| {
                        let forked = FromNewborn::Forked;
                        stream::send_with(&self.request, &forked, &fds, MAX_SMALL_FRAME_BYTES)
                    })
                    .map_err(|error| failure("tell of the fork", error))
            },
        );
        match told {
            Ok(()) => sys::exit_now(0),
            // The kernel ends as well: it is not told to go on.
            Err(failed) => give_up(&self.request, failed),
        }
    }

    /// In the entrant: could not fork, says so, and ends.
    pub(crate) fn not_forked(&self, reason: &str) -> ! {
        give_up(&self.request, failure("fork in the session", reason))
    }

    /// In the kernel: waits to be told to go on, and is confined for good. Every descriptor but
    /// the kernel's own is closed then, and the environment is the kernel's. If that does not work
    /// it says so and ends.
    pub(crate) fn confine(self) {
        if (&self.request).read_exact(&mut [0]).is_err() {
            sys::exit_now(1); // It was given up.
        }
        let confined = self.become_kernel();
        if let Err(failed) = confined {
            sys::exit_now(birth::tell(&self.report, failed));
        }
        // Their descriptors are closed already, and their numbers may be others' by now.
        std::mem::forget((self.descriptors, self.report, self.request, self.told));
    }

    fn become_kernel(&self) -> Result<(), Failure> {
        // The template's own is not the session's, and the layers check that nothing is inherited.
        sys::clear_environment().map_err(|error| failure("clear the environment", error))?;
        let Confined { environment, report } =
            birth::confine(&self.context, Origin::Forked, &self.descriptors, &self.report)?;
        sys::set_environment(&environment)
            .map_err(|error| failure("set the environment", error))?;
        // A change of ids has taken it away, as execve would have given it back: without it the
        // kernel's own files in /proc are not its (proc_pid(5)).
        prctl::set_dumpable(true).map_err(|error| failure("prctl(DUMPABLE)", error))?;
        drop(report); // which says that it is a kernel now
        Ok(())
    }
}
