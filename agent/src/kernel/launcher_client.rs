//! The agent's connection to the launcher: asks for processes, and follows each until it runs its
//! program.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::unistd::Pid;
use vivarium_protocol::discard;
use vivarium_protocol::frame::{Decoder, MAX_SMALL_FRAME_BYTES, MAX_SPAWN_FRAME_BYTES};
use vivarium_protocol::layer::Report;
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{
    Failure, FromLauncher, GO_ON, Origin, Program, SpawnNumber, SpawnReport, ToLauncher,
};
use vivarium_protocol::stream::{self, StreamError};

use crate::failure::failure;

#[derive(Debug)]
pub(crate) struct LauncherClient {
    socket: UnixStream,
    last: SpawnNumber,
    /// Whether processes that are asked for may be confined. Else they join the session, and wait.
    session_is_set_up: bool,
}

impl LauncherClient {
    pub(crate) const fn new(socket: UnixStream) -> Self {
        Self { socket, last: 0, session_is_set_up: false }
    }

    /// The session is as its processes are to find it: this one, which was asked for before, and all later ones go on.
    pub(crate) fn session_is_set_up(&mut self, waiting: Option<&PendingProcess>) {
        self.session_is_set_up = true;
        waiting.into_iter().for_each(PendingProcess::go_on);
    }

    /// Asks for a process with these `descriptors`, numbered from 0, that starts in this `leaf`.
    ///
    /// # Errors
    /// [`StreamError::Frame`] if `program` is too long to send, else the launcher is gone.
    pub(crate) fn spawn(
        &mut self,
        program: Program,
        leaf: Leaf,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<PendingProcess, StreamError> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let number = self.last.saturating_add(1);
        let decoder = Decoder::new(MAX_SMALL_FRAME_BYTES);
        let process = PendingProcess { number, report: ours, decoder, started: None };
        if self.session_is_set_up {
            // Before it is there: it waits for nobody.
            process.go_on();
        }
        let fds = [descriptors, &[theirs.as_fd()]].concat();
        let message = ToLauncher::Spawn { number, program, leaf };
        stream::send_with(&self.socket, &message, &fds, MAX_SPAWN_FRAME_BYTES)?;
        self.last = number;
        Ok(process)
    }

    pub(crate) fn recv(&self) -> Result<FromLauncher, StreamError> {
        stream::receive(&self.socket, MAX_SMALL_FRAME_BYTES)
    }
}

impl AsFd for LauncherClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[derive(Debug)]
pub(crate) struct PendingProcess {
    number: SpawnNumber,
    report: UnixStream,
    decoder: Decoder,
    started: Option<StartedProcess>,
}

#[derive(Debug)]
pub(crate) struct StartedProcess {
    /// Its pid inside the session.
    pub(crate) pid: Pid,
    pub(crate) origin: Origin,
    pub(crate) protection: Vec<Report>,
}

#[derive(Debug)]
pub(crate) enum SpawnProgress {
    Pending,
    Started(StartedProcess),
    Failed(Failure),
}

impl PendingProcess {
    pub(crate) const fn number(&self) -> SpawnNumber {
        self.number
    }

    /// Has it be confined, and become its program.
    fn go_on(&self) {
        discard((&self.report).write_all(&GO_ON), "its end shows when its report is read");
    }

    pub(crate) fn read(&mut self) -> SpawnProgress {
        let mut buffer = [0; 4096];
        let ended = match self.report.read(&mut buffer) {
            Ok(0) => true,
            Ok(count) => {
                self.decoder.push(buffer.get(..count).unwrap_or_default());
                false
            }
            Err(error) if is_retry(&error) => return SpawnProgress::Pending,
            // It ended without having been told to go on.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => true,
            Err(error) => return SpawnProgress::Failed(failure("read a process's report", error)),
        };
        match self.decoder.next_message::<SpawnReport>() {
            Ok(Some(SpawnReport::Confined { pid, origin, protection })) => {
                let pid = Pid::from_raw(pid.try_into().unwrap_or_default());
                self.started = Some(StartedProcess { pid, origin, protection });
                SpawnProgress::Pending
            }
            Ok(Some(SpawnReport::Failed(failed))) => SpawnProgress::Failed(failed),
            Ok(None) if ended => match self.started.take() {
                // execve closed the socket, so the process is now its program.
                Some(process) => SpawnProgress::Started(process),
                None => SpawnProgress::Failed(failure("start a process", "it said nothing")),
            },
            Ok(None) => SpawnProgress::Pending,
            Err(error) => SpawnProgress::Failed(failure("read a process's report", error)),
        }
    }

    /// Reads as much of its report as there is, for a failure in it.
    pub(crate) fn read_refusal(&mut self) -> Option<Failure> {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = self.report.read(&mut buffer) {
            self.decoder.push(buffer.get(..count).unwrap_or_default());
        }
        while let Ok(Some(report)) = self.decoder.next_message::<SpawnReport>() {
            if let SpawnReport::Failed(failed) = report {
                return Some(failed);
            }
        }
        None
    }

    /// Reads the rest of its report, once the launcher has said that the process has ended.
    pub(crate) fn read_to_end(&mut self) -> SpawnProgress {
        loop {
            match self.read() {
                SpawnProgress::Pending => {}
                settled => return settled,
            }
        }
    }
}

impl AsFd for PendingProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}

/// Whether to try a read or write again when poll(2) says so.
pub(crate) fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> (PendingProcess, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let decoder = Decoder::new(MAX_SMALL_FRAME_BYTES);
        (PendingProcess { number: 1, report: ours, decoder, started: None }, theirs)
    }

    #[test]
    fn end_of_file_after_the_confined_report_means_the_program_runs() {
        let (mut pending, theirs) = pending();
        assert!(matches!(pending.read(), SpawnProgress::Pending));
        let report = SpawnReport::Confined { pid: 7, origin: Origin::Executed, protection: vec![] };
        stream::send(&theirs, &report, MAX_SMALL_FRAME_BYTES).unwrap();
        assert!(matches!(pending.read(), SpawnProgress::Pending));
        drop(theirs);
        let SpawnProgress::Started(process) = pending.read_to_end() else { panic!("not started") };
        assert_eq!(process.pid, Pid::from_raw(7));
    }

    #[test]
    fn a_process_goes_on_once_the_session_is_set_up() {
        let (launcher, theirs) = UnixStream::pair().unwrap();
        let mut client = LauncherClient::new(launcher);
        let ask = |client: &mut LauncherClient| {
            let process = client.spawn(Program::Kernel, Leaf::FIRST, &[]).unwrap();
            let (_, fds) =
                stream::receive_with::<ToLauncher>(&theirs, MAX_SPAWN_FRAME_BYTES).unwrap();
            let report = UnixStream::from(fds.into_iter().next_back().unwrap());
            report.set_nonblocking(true).unwrap();
            (process, report)
        };
        let may_go_on = |mut report: &UnixStream| report.read(&mut [0; GO_ON.len()]);
        let (waiting, report) = ask(&mut client);
        assert!(may_go_on(&report).is_err_and(|error| is_retry(&error)));
        client.session_is_set_up(Some(&waiting));
        assert_eq!(may_go_on(&report).unwrap(), GO_ON.len());
        let (_later, report) = ask(&mut client);
        assert_eq!(may_go_on(&report).unwrap(), GO_ON.len());
        assert!(may_go_on(&report).is_err_and(|error| is_retry(&error)), "once");
    }

    #[test]
    fn end_of_file_without_a_report_is_a_failure() {
        let (mut pending, theirs) = pending();
        drop(theirs);
        assert!(matches!(pending.read(), SpawnProgress::Failed(_)));
    }
}
