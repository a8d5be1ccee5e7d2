//! Having a launcher forked, as the supervisor does.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::Pid;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::{ForkLauncher, LauncherForked};
use vivarium_protocol::stream::{receive, send_with};

pub(super) const AGENT: &str = env!("CARGO_BIN_EXE_vivarium-agent");

pub(super) struct Launcher {
    pub(super) pid: Pid,
    pub(super) socket: UnixStream,
    /// The session ends when this is closed.
    pub(super) lifeline: UnixStream,
}

/// In `cgroup`, if there is one.
pub(super) fn fork_launcher(cgroup: Option<&Path>) -> Launcher {
    let (socket, control) = UnixStream::pair().unwrap();
    let (lifeline, theirs_of_lifeline) = UnixStream::pair().unwrap();
    let (orders, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(AGENT);
    command.arg("launch").env_clear().stdin(Stdio::from(OwnedFd::from(theirs)));
    // As root the session's only id would be root's, which is never mapped.
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::process::CommandExt;
        command.uid(65534).gid(65534);
    }
    let mut fork_server = command.stdout(Stdio::null()).spawn().unwrap();
    if let Some(cgroup) = cgroup {
        let procs = cgroup.join("cgroup.procs");
        std::fs::write(procs, fork_server.id().to_string()).unwrap();
    }
    let order = ForkLauncher { protocol_version: PROTOCOL_VERSION };
    let stderr = std::io::stderr();
    let given = [control.as_fd(), stderr.as_fd(), theirs_of_lifeline.as_fd()];
    send_with(&orders, &order, &given, MAX_SMALL_FRAME_BYTES).unwrap();
    drop((orders, control, theirs_of_lifeline, command));
    let LauncherForked { pid } = receive(&lifeline, MAX_SMALL_FRAME_BYTES).unwrap();
    assert!(fork_server.wait().unwrap().success());
    Launcher { pid: Pid::from_raw(pid), socket, lifeline }
}
