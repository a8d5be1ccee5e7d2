//! Having a launcher forked, as the supervisor does.

use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::Pid;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{self, Decoder, MAX_FRAME_BYTES};
use vivarium_protocol::message::{ForkLauncher, LauncherForked};

pub(super) const AGENT: &str = env!("CARGO_BIN_EXE_vivarium-agent");

/// A launcher, which is our child.
pub(super) struct Launcher {
    pub(super) pid: Pid,
    pub(super) socket: UnixStream,
    /// The session ends when this is closed.
    pub(super) lifeline: UnixStream,
}

pub(super) fn fork_launcher() -> Launcher {
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
    let order = ForkLauncher { protocol_version: PROTOCOL_VERSION };
    let stderr = std::io::stderr();
    send_with(
        &orders,
        &order,
        &[control.as_raw_fd(), stderr.as_raw_fd(), theirs_of_lifeline.as_raw_fd()],
    );
    drop((orders, control, theirs_of_lifeline, command));
    let LauncherForked { pid } = recv_forked(&lifeline).unwrap();
    assert!(fork_server.wait().unwrap().success());
    Launcher { pid: Pid::from_raw(pid), socket, lifeline }
}

/// Sends a message, with descriptors alongside if there are any.
pub(super) fn send_with<T: serde::Serialize>(mut socket: &UnixStream, message: &T, fds: &[RawFd]) {
    let bytes = frame::encode(message, MAX_FRAME_BYTES).unwrap();
    let rights = [ControlMessage::ScmRights(fds)];
    let parts = [IoSlice::new(&bytes)];
    let sent = sendmsg::<()>(socket.as_raw_fd(), &parts, &rights, MsgFlags::empty(), None).unwrap();
    socket.write_all(&bytes[sent..]).unwrap();
}

/// The fork server's answer.
fn recv_forked(mut lifeline: &UnixStream) -> Option<LauncherForked> {
    let mut decoder = Decoder::new(MAX_FRAME_BYTES);
    let mut buffer = [0; 64];
    while let Ok(count @ 1..) = lifeline.read(&mut buffer) {
        decoder.push(&buffer[..count]);
        if let Some(forked) = decoder.next_message().unwrap() {
            return Some(forked);
        }
    }
    None
}
