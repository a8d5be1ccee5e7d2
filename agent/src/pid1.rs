//! PID 1 of a session: applies the layers of the inside, then runs the session.
//!
//! It is a raw clone of the launcher and never executes another program, so it keeps the
//! capabilities of its user namespace until the credentials layer takes those it does not need.
//! When it ends, by whatever cause, the kernel ends every process of its pid namespace.

mod egress;
mod session;

use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, FromAgent, FromLauncher, Transient};
use vivarium_protocol::stream;

use self::session::{FirstKernel, Session};
use crate::failure::{OrFailure, failure};
use crate::leaf_control::LeafControl;
use crate::sandbox::{self, Context};

/// `first_leaf` controls the leaf of the first kernel, where there is a cgroup.
pub(crate) fn main(
    context: &Context,
    control: &UnixStream,
    launcher: UnixStream,
    first_leaf: Option<LeafControl>,
) -> ExitCode {
    match start(context, control, launcher, first_leaf).and_then(Session::run) {
        Ok(()) => ExitCode::SUCCESS,
        // A launcher that failed sends its own reason. One that was killed could not, and there is no
        // more to say than what the supervisor sees: the end of the socket.
        Err(failure) if failure.transient == Some(Transient::Killed) => ExitCode::FAILURE,
        Err(failure) => {
            stream::send_if_open(control, &FromAgent::Failed(failure), MAX_FRAME_BYTES);
            ExitCode::FAILURE
        }
    }
}

fn start<'a>(
    context: &'a Context,
    control: &'a UnixStream,
    launcher: UnixStream,
    first_leaf: Option<LeafControl>,
) -> Result<Session<'a>, Failure> {
    prctl::set_name(c"viv-agent").or_failure("prctl(NAME)")?;
    // The launcher is single-threaded, so its thread is its process (prctl(2) is about the
    // former). A launcher that died before this call shows as the end of its socket.
    prctl::set_pdeathsig(Signal::SIGKILL).or_failure("prctl(PDEATHSIG)")?;
    // Where there is no pid namespace, orphans come here and nowhere else all the same.
    prctl::set_child_subreaper(true).or_failure("prctl(SUBREAPER)")?;
    let mapped: FromLauncher =
        stream::receive(&launcher, MAX_SMALL_FRAME_BYTES).or_failure("wait for the launcher")?;
    if mapped != FromLauncher::Mapped {
        return Err(failure("wait for the launcher", "it spoke out of turn"));
    }
    let first = sandbox::enter(context, || FirstKernel::ask(context, first_leaf, launcher))?;
    // Again: a change of ids has cleared it (prctl(2)).
    prctl::set_pdeathsig(Signal::SIGKILL).or_failure("prctl(PDEATHSIG)")?;
    // Before code could take the port.
    let egress = egress::listen(context)?;
    Session::new(context, control, first, egress)
}
