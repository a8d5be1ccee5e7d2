//! Having a launcher forked, as the supervisor does.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Pid;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{ForkLauncher, Launch, LaunchOrder, LauncherForked};
use vivarium_protocol::policy::Policy;
use vivarium_protocol::stream::{receive, send, send_with};

use super::{Scope, Session};

pub(super) const AGENT: &str = env!("CARGO_BIN_EXE_vivarium-agent");

pub(super) struct Launcher {
    pub(super) pid: Pid,
    pub(super) socket: UnixStream,
    /// The session ends when this is closed.
    pub(super) lifeline: UnixStream,
}

impl Launcher {
    /// Its only child, once it has one.
    pub(super) fn until_child(&self) -> Pid {
        let path = format!("/proc/{0}/task/{0}/children", self.pid);
        until("a child of the launcher", || {
            let children = std::fs::read_to_string(&path).unwrap();
            Some(Pid::from_raw(children.split_whitespace().next()?.parse().unwrap()))
        })
    }
}

/// Polls until `event` gives something.
#[expect(clippy::disallowed_methods, reason = "nobody tells of others' processes")]
#[track_caller]
pub(crate) fn until<T>(what: &str, mut event: impl FnMut() -> Option<T>) -> T {
    for _ in 0..60_000 {
        if let Some(value) = event() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never happened: {what}");
}

impl Session {
    pub(crate) fn launch(policy: Policy) -> Result<Self, String> {
        Self::launch_in(policy, None)
    }

    /// With its first leaf in a cgroup of the test's, if there is one.
    pub(crate) fn launch_in(policy: Policy, scope: Option<&Scope>) -> Result<Self, String> {
        let cgroup = scope.map(|scope| scope.dir("launcher"));
        Self::launch_by(fork_launcher(cgroup.as_deref()), policy, scope)
    }

    /// After its launcher has prepared a session of another policy, by the process that this is told of.
    pub(crate) fn launch_prepared(
        mut prepared: Policy,
        policy: Policy,
        keeper: impl FnOnce(Pid),
    ) -> Result<Self, String> {
        prepared.interpreter.program = Arc::default();
        let launcher = fork_launcher(None);
        let order = Launch { protocol_version: PROTOCOL_VERSION, policy: prepared, is_ahead: true };
        send(&launcher.socket, &LaunchOrder::Prepare(order), MAX_FRAME_BYTES).unwrap();
        keeper(launcher.until_child());
        send(&launcher.socket, &LaunchOrder::Check, MAX_FRAME_BYTES).unwrap();
        Self::launch_by(launcher, policy, None)
    }
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
