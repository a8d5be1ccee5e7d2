//! Asking the launcher for processes, and what is heard of one until it is what it was to be.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::unistd::Pid;
use vivarium_protocol::frame::{Decoder, MAX_SMALL_FRAME_BYTES, MAX_SPAWN_FRAME_BYTES};
use vivarium_protocol::layer::Report;
use vivarium_protocol::message::{
    BirthNumber, BirthReport, Failure, FromLauncher, Origin, Program, ToLauncher,
};

use crate::launch::failure;
use crate::stream::{self, StreamError};

/// The agent's way to the launcher.
#[derive(Debug)]
pub(crate) struct Launcher {
    socket: UnixStream,
    births: BirthNumber,
}

impl Launcher {
    /// The launcher at the other end of `socket`.
    pub(crate) const fn new(socket: UnixStream) -> Self {
        Self { socket, births: 0 }
    }

    /// Asks for a process with these `descriptors`, from 0 on.
    ///
    /// # Errors
    /// [`StreamError::Frame`] if `program` is too long to be sent, else the launcher is gone.
    pub(crate) fn spawn(
        &mut self,
        program: Program,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Arrival, StreamError> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let birth = self.births.saturating_add(1);
        let theirs_at_the_end = [theirs.as_fd()];
        let fds: Vec<_> =
            descriptors.iter().chain(&theirs_at_the_end).map(AsRawFd::as_raw_fd).collect();
        let message = ToLauncher::Spawn { birth, program };
        stream::send_with(&self.socket, &message, &fds, MAX_SPAWN_FRAME_BYTES)?;
        self.births = birth;
        let decoder = Decoder::new(MAX_SMALL_FRAME_BYTES);
        Ok(Arrival { birth, report: ours, decoder, confined: None })
    }

    /// Hears what the launcher has to say.
    ///
    /// # Errors
    /// If it is gone: there are then no more processes.
    pub(crate) fn hear(&self) -> Result<FromLauncher, StreamError> {
        stream::receive(&self.socket, MAX_SMALL_FRAME_BYTES)
    }
}

impl AsFd for Launcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A process that was asked for and has not yet become its program.
#[derive(Debug)]
pub(crate) struct Arrival {
    birth: BirthNumber,
    report: UnixStream,
    decoder: Decoder,
    confined: Option<Confined>,
}

/// A process that has every layer applied and read back.
#[derive(Debug)]
pub(crate) struct Confined {
    /// Its pid inside the session.
    pub(crate) pid: Pid,
    /// How it came about.
    pub(crate) origin: Origin,
    /// What its layers reported.
    pub(crate) protection: Vec<Report>,
}

/// What reading a process's report gave.
#[derive(Debug)]
pub(crate) enum Progress {
    /// More has to come.
    Pending,
    /// It has become its program.
    Executed(Confined),
    /// It is not going to.
    Failed(Failure),
}

impl Arrival {
    /// Its number.
    pub(crate) const fn birth(&self) -> BirthNumber {
        self.birth
    }

    /// Reads its report once.
    pub(crate) fn read(&mut self) -> Progress {
        let mut buffer = [0; 4096];
        let ended = match self.report.read(&mut buffer) {
            Ok(0) => true,
            Ok(count) => {
                self.decoder.push(buffer.get(..count).unwrap_or_default());
                false
            }
            Err(error) if is_retry(&error) => return Progress::Pending,
            Err(error) => return Progress::Failed(failure("read a process's report", error)),
        };
        match self.decoder.next_message::<BirthReport>() {
            Ok(Some(BirthReport::Confined { pid, origin, protection })) => {
                let pid = Pid::from_raw(pid.try_into().unwrap_or_default());
                self.confined = Some(Confined { pid, origin, protection });
                Progress::Pending
            }
            Ok(Some(BirthReport::Failed(failed))) => Progress::Failed(failed),
            Ok(None) if ended => match self.confined.take() {
                // execve closed the socket: what stands at its end is the program.
                Some(confined) => Progress::Executed(confined),
                None => Progress::Failed(failure("start a process", "it said nothing")),
            },
            Ok(None) => Progress::Pending,
            Err(error) => Progress::Failed(failure("read a process's report", error)),
        }
    }

    /// Reads all of its report, once the launcher has said that the process is gone and nothing
    /// more will come.
    pub(crate) fn read_to_end(&mut self) -> Progress {
        loop {
            match self.read() {
                Progress::Pending => {}
                settled => return settled,
            }
        }
    }
}

impl AsFd for Arrival {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}

/// Whether a read or write is to be tried again when poll(2) says so.
pub(crate) fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn arrival() -> (Arrival, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let decoder = Decoder::new(MAX_SMALL_FRAME_BYTES);
        (Arrival { birth: 1, report: ours, decoder, confined: None }, theirs)
    }

    #[test]
    fn the_end_of_the_report_after_it_means_executed() {
        let (mut arrival, theirs) = arrival();
        assert!(matches!(arrival.read(), Progress::Pending));
        let report = BirthReport::Confined { pid: 7, origin: Origin::Executed, protection: vec![] };
        stream::send(&theirs, &report, MAX_SMALL_FRAME_BYTES).unwrap();
        assert!(matches!(arrival.read(), Progress::Pending));
        drop(theirs);
        let Progress::Executed(confined) = arrival.read_to_end() else { panic!("not executed") };
        assert_eq!(confined.pid, Pid::from_raw(7));
    }

    #[test]
    fn an_end_without_a_report_is_a_failure() {
        let (mut arrival, theirs) = arrival();
        drop(theirs);
        assert!(matches!(arrival.read(), Progress::Failed(_)));
    }
}
