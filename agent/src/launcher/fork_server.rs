//! The fork server of launchers: executed once, it forks a launcher for each session, which takes
//! a tenth of the time that to execute one takes.
//!
//! What it forks is the supervisor's child (`CLONE_PARENT`), as one that the supervisor executes
//! would be. It is single-threaded, and what is of a session goes past it: it is handed sockets that
//! it reads nothing from, and keeps none. All launchers and agents that it forks have one layout of
//! memory, so the supervisor takes another one from time to time.
//!
//! It must never hold anything of a session.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, getpid, setpgid};
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, ForkLauncher, FromAgent, LauncherForked};

use super::launch;
use crate::failure::{failure, failure_to_fork};
use crate::startup::{check_protocol, sanitise};
use crate::stream::{self, StreamError};
use crate::{sandbox, sys};

/// The `launch` subcommand.
pub(crate) fn main() -> ExitCode {
    let orders = UnixStream::from(sys::take_inherited(0));
    match serve(orders) {
        Ok(Served::Over) => ExitCode::SUCCESS,
        Ok(Served::AsLauncher { control, told }) => launch(&control, told),
        Err(failed) => {
            crate::log::print_line(&failed);
            ExitCode::FAILURE
        }
    }
}

/// Why the loop is left.
enum Served {
    /// The supervisor let go.
    Over,
    /// This is a launcher, with these sockets.
    AsLauncher {
        /// To the supervisor.
        control: UnixStream,
        /// The supervisor's, at whose end the session is to end, whatever the agent does.
        told: UnixStream,
    },
}

fn serve(orders: UnixStream) -> Result<Served, Failure> {
    sanitise()?;
    // What launchers make is for their session's ids. A service's own mask (UMask=0077) would keep
    // the kernel out of directories that are the agent's.
    umask(Mode::from_bits_truncate(0o022));
    sandbox::prepare()?;
    prctl::set_name(c"viv-launchers").map_err(|error| failure("prctl(NAME)", error))?;
    loop {
        let (order, fds) =
            match stream::receive_with::<ForkLauncher>(&orders, MAX_SMALL_FRAME_BYTES) {
                Err(StreamError::Closed) => return Ok(Served::Over),
                received => received.map_err(|error| failure("receive an order", error))?,
            };
        let [control, stderr, told] = <[OwnedFd; 3]>::try_from(fds)
            .map_err(|fds| failure("receive a launcher's three sockets", fds.len()))?;
        let (control, told) = (UnixStream::from(control), UnixStream::from(told));
        let forked = check_protocol(order.protocol_version).and_then(|()| {
            sys::fork_sibling().map_err(|error| failure_to_fork("fork a launcher", error))
        });
        match forked {
            Ok(None) => {
                // All others are closed by their numbers.
                std::mem::forget(orders);
                return become_launcher(control, stderr, told);
            }
            Ok(Some(_)) => {}
            Err(failed) => {
                let failed = FromAgent::Failed(failed);
                // If the supervisor is gone there is nobody left to tell.
                let _gone = stream::send(&control, &failed, MAX_FRAME_BYTES).is_err();
            }
        }
    }
}

/// The process that was forked: lets go of all that is not the launcher's. The end of `told` stays
/// open until it ends.
fn become_launcher(
    control: UnixStream,
    stderr: OwnedFd,
    told: UnixStream,
) -> Result<Served, Failure> {
    match place(&control, &stderr, &told) {
        Ok(served) => {
            // Closed by their numbers.
            std::mem::forget((control, stderr, told));
            Ok(served)
        }
        Err(failed) => {
            // If the supervisor is gone there is nobody left to tell.
            let said = FromAgent::Failed(failed.clone());
            let _gone = stream::send(&control, &said, MAX_FRAME_BYTES).is_err();
            Err(failed)
        }
    }
}

/// Puts these at the launcher's numbers, and closes all others.
fn place(control: &UnixStream, stderr: &OwnedFd, told: &UnixStream) -> Result<Served, Failure> {
    // First, so that none is there that the supervisor does not know of.
    let forked = LauncherForked { pid: getpid().as_raw() };
    stream::send(told, &forked, MAX_SMALL_FRAME_BYTES)
        .map_err(|error| failure("tell of the fork", error))?;
    prctl::set_name(c"viv-launcher").map_err(|error| failure("prctl(NAME)", error))?;
    // A Ctrl-C at the terminal of an embedded supervisor is for the supervisor alone.
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(|error| failure("setpgid", error))?;
    let made = |error| failure("make a launcher's descriptors", error);
    let null = sys::open_null().map_err(made)?;
    let placed = [null.as_fd(), null.as_fd(), stderr.as_fd(), told.as_fd()];
    let own = sys::place_descriptors(&placed, control.as_fd()).map_err(made)?;
    std::mem::forget(null);
    Ok(Served::AsLauncher { control: own.into(), told: sys::take_inherited(3).into() })
}
