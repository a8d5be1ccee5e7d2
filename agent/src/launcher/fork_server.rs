//! The fork server of launchers: executed once, it forks a launcher for each session, which takes a
//! tenth of the time of executing one.
//!
//! A forked launcher is the supervisor's child (`CLONE_PARENT`), as an executed one would be. The fork
//! server is single-threaded, and nothing of a session passes through it: it passes on sockets that it
//! neither reads nor keeps. All launchers and agents that it forks have one memory layout, so the
//! supervisor replaces it from time to time.
//!
//! It must never hold anything of a session.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, getpid, setpgid};
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, ForkLauncher, FromAgent, LauncherForked};
use vivarium_protocol::stream::{self, StreamError};

use super::launch;
use crate::failure::{OrFailure, failure, failure_to_fork};
use crate::startup::{SPARE, check_protocol, sanitise};
use crate::sys::{DescriptorTable, Forked, SingleThreaded};
use crate::{sandbox, sys};

pub(crate) fn main(table: DescriptorTable, orders: UnixStream) -> ExitCode {
    match serve(&table, orders) {
        Ok(Served::Closed) => ExitCode::SUCCESS,
        Ok(Served::AsLauncher { thread, control, lifeline }) => launch(thread, &control, lifeline),
        Err(failed) => {
            crate::log::print_line(&failed);
            ExitCode::FAILURE
        }
    }
}

enum Served {
    Closed,
    AsLauncher {
        thread: SingleThreaded,
        control: UnixStream,
        /// The session has to end when the supervisor closes this, whatever the agent does.
        lifeline: UnixStream,
    },
}

fn serve(table: &DescriptorTable, orders: UnixStream) -> Result<Served, Failure> {
    let thread = sanitise(table)?;
    // Launchers make files for their session's ids. A service's own mask (UMask=0077) would keep the
    // kernel out of directories that are the agent's.
    umask(Mode::from_bits_truncate(0o022));
    sandbox::prepare()?;
    prctl::set_name(c"viv-launchers").or_failure("prctl(NAME)")?;
    loop {
        let (order, fds) =
            match stream::receive_with::<ForkLauncher>(&orders, MAX_SMALL_FRAME_BYTES) {
                Err(StreamError::Closed) => return Ok(Served::Closed),
                received => received.or_failure("receive an order")?,
            };
        let [control, stderr, lifeline] = <[OwnedFd; 3]>::try_from(fds)
            .map_err(|fds| failure("receive a launcher's three sockets", fds.len()))?;
        let (control, lifeline) = (UnixStream::from(control), UnixStream::from(lifeline));
        let forked = check_protocol(order.protocol_version).and_then(|()| {
            sys::clone3_sibling(thread, CloneFlags::empty(), None)
                .map_err(|error| failure_to_fork("fork a launcher", error))
        });
        match forked {
            Ok(Forked::Child(table)) => {
                // `place` closes it by its number.
                std::mem::forget(orders);
                return become_launcher(table, thread, control, stderr, lifeline);
            }
            Ok(Forked::Parent { .. }) => {}
            Err(failed) => {
                let failed = FromAgent::Failed(failed);
                stream::send_if_open(&control, &failed, MAX_FRAME_BYTES);
            }
        }
    }
}

/// In the forked process: closes everything that is not the launcher's. `lifeline` stays open until it
/// ends.
fn become_launcher(
    table: DescriptorTable,
    thread: SingleThreaded,
    control: UnixStream,
    stderr: OwnedFd,
    lifeline: UnixStream,
) -> Result<Served, Failure> {
    match place(table, &control, &stderr, &lifeline) {
        Ok((placed_control, placed_lifeline)) => {
            // Closed by their numbers already.
            std::mem::forget((control, stderr, lifeline));
            let (control, lifeline) = (placed_control, placed_lifeline);
            Ok(Served::AsLauncher { thread, control, lifeline })
        }
        Err(failed) => {
            let said = FromAgent::Failed(failed.clone());
            stream::send_if_open(&control, &said, MAX_FRAME_BYTES);
            Err(failed)
        }
    }
}

/// Puts these at the launcher's descriptor numbers, and closes all others. Returns control socket and
/// lifeline.
fn place(
    table: DescriptorTable,
    control: &UnixStream,
    stderr: &OwnedFd,
    lifeline: &UnixStream,
) -> Result<(UnixStream, UnixStream), Failure> {
    // First, so that the supervisor knows of every launcher.
    let forked = LauncherForked { pid: getpid().as_raw() };
    stream::send(lifeline, &forked, MAX_SMALL_FRAME_BYTES)
        .or_failure("tell the supervisor of the fork")?;
    prctl::set_name(SPARE).or_failure("prctl(NAME)")?;
    // A Ctrl-C at the terminal of an embedded supervisor is for the supervisor alone.
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).or_failure("setpgid")?;
    let made = |error| failure("make a launcher's descriptors", error);
    let null = sys::open_null().map_err(made)?;
    let placed = [null.as_fd(), null.as_fd(), stderr.as_fd(), lifeline.as_fd()];
    let mut placed = table.place(&placed, control.as_fd(), None).map_err(made)?;
    std::mem::forget(null);
    Ok((placed.take(4).map_err(made)?.into(), placed.take(3).map_err(made)?.into()))
}
