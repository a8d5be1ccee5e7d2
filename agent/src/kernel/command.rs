//! One command of a tenant's, as the agent holds it: a process beside the kernel, started and
//! confined exactly as that, with pipes for its three standard streams.
//!
//! It can not hold up the agent: its input is written as far as it takes it, its output is read as the
//! kernel's is.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe2};
use vivarium_protocol::discard;
use vivarium_protocol::message::{CommandSpec, Program, SpawnNumber, Stdin, Stream};
use vivarium_protocol::stream::StreamError;

use super::launcher_client::{LauncherClient, PendingProcess, SpawnProgress, is_retry};
use super::output::Output;
use crate::usage;

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) outputs: [Output; 2],
    spawn_number: SpawnNumber,
    stage: CommandStage,
    input: Option<Input>,
    /// The signal to send as soon as it has been executed.
    held_signal: Option<Signal>,
    killed: bool,
}

#[derive(Debug)]
enum CommandStage {
    Pending(PendingProcess),
    Up(Pid),
    Failed,
}

/// The part of its standard input that it has not read yet.
#[derive(Debug)]
struct Input {
    pipe: std::fs::File,
    bytes: Vec<u8>,
    written: usize,
}

impl Command {
    /// Asks the launcher for a command, which reads `pipe` if that is its standard input.
    /// `output_cap` bounds each output stream.
    ///
    /// # Errors
    /// [`StreamError::Frame`] if its arguments are too long, else its pipes could not be made
    /// or the launcher is gone.
    pub(crate) fn spawn(
        spec: CommandSpec,
        pipe: Option<OwnedFd>,
        output_cap: Option<u64>,
        launcher: &mut LauncherClient,
    ) -> Result<Self, StreamError> {
        let CommandSpec { argv, stdin, cwd, env, .. } = spec;
        let channel = || pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from);
        let (stdin_end, input) = match (stdin, pipe) {
            (Stdin::Pipe, Some(pipe)) => (pipe, None),
            (Stdin::Bytes(bytes), _) => {
                let (stdin_end, input) = channel()?;
                fcntl(&input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(io::Error::from)?;
                (stdin_end, (!bytes.is_empty()).then(|| Input::new(input, bytes)))
            }
            (Stdin::Pipe, None) => return Err(io::Error::other("no pipe came with it").into()),
        };
        let (stdout, stdout_end) = channel()?;
        let (stderr, stderr_end) = channel()?;
        let descriptors = [stdin_end.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()];
        let pending = launcher.spawn(Program::Command { argv, cwd, env }, &descriptors)?;
        Ok(Self {
            outputs: [
                Output::new(stdout, Stream::Stdout, output_cap)?,
                Output::new(stderr, Stream::Stderr, output_cap)?,
            ],
            spawn_number: pending.number(),
            stage: CommandStage::Pending(pending),
            input,
            held_signal: None,
            killed: false,
        })
    }

    pub(crate) const fn spawn_number(&self) -> SpawnNumber {
        self.spawn_number
    }

    /// The report socket to poll, until it runs its program.
    pub(crate) fn report(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            CommandStage::Pending(pending) => Some(pending.as_fd()),
            CommandStage::Up(_) | CommandStage::Failed => None,
        }
    }

    /// Its pid inside the session, while it runs.
    pub(crate) const fn pid(&self) -> Option<Pid> {
        match self.stage {
            CommandStage::Up(pid) => Some(pid),
            CommandStage::Pending(_) | CommandStage::Failed => None,
        }
    }

    pub(crate) const fn is_up(&self) -> bool {
        matches!(self.stage, CommandStage::Up(_))
    }

    /// Reads its report: to the end, once the launcher has said that it is `gone`.
    pub(crate) fn read_report(&mut self, gone: bool) -> SpawnProgress {
        let CommandStage::Pending(pending) = &mut self.stage else {
            return SpawnProgress::Pending;
        };
        let progress = if gone { pending.read_to_end() } else { pending.read() };
        match &progress {
            SpawnProgress::Pending => {}
            SpawnProgress::Started(process) => {
                self.stage = CommandStage::Up(process.pid);
                match self.held_signal.take() {
                    Some(Signal::SIGKILL) => self.kill(),
                    Some(signal) => self.signal(signal),
                    None => {}
                }
            }
            SpawnProgress::Failed(_) => self.stage = CommandStage::Failed,
        }
        progress
    }

    /// The pipe to poll for writing, while there is input left.
    pub(crate) fn input(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().map(|input| input.pipe.as_fd())
    }

    pub(crate) fn write_input(&mut self) {
        if self.input.as_mut().is_some_and(|input| input.write() == Written::All) {
            self.input = None;
        }
    }

    /// Kills its process group, and the processes that descend from it as far as they can be
    /// found: a grandchild in a session of its own has to be an orphan to get away.
    pub(crate) fn kill(&mut self) {
        self.killed = true;
        if let CommandStage::Up(pid) = self.stage {
            // Before its end makes orphans of them.
            for descendant in usage::descendants(pid) {
                discard(kill(descendant, Signal::SIGKILL), "it may have ended");
            }
        }
        self.signal(Signal::SIGKILL);
    }

    pub(crate) const fn is_killed(&self) -> bool {
        self.killed
    }

    /// Kills what is left of its process group, after it has ended itself. The number can not mean
    /// another group: no new process gets it while the group has a member.
    pub(crate) fn clear(&mut self) {
        self.signal(Signal::SIGKILL);
        self.input = None;
    }

    /// Sends a signal to its process group, now or as soon as it has been executed.
    pub(crate) fn signal(&mut self, signal: Signal) {
        match self.stage {
            CommandStage::Up(pid) => {
                discard(
                    kill(Pid::from_raw(-pid.as_raw()), signal),
                    "its process group may have ended",
                );
            }
            CommandStage::Pending(_) if self.held_signal != Some(Signal::SIGKILL) => {
                self.held_signal = Some(signal)
            }
            CommandStage::Pending(_) | CommandStage::Failed => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Written {
    Some,
    All,
}

impl Input {
    fn new(pipe: OwnedFd, bytes: Vec<u8>) -> Self {
        Self { pipe: pipe.into(), bytes, written: 0 }
    }

    fn write(&mut self) -> Written {
        loop {
            let rest = self.bytes.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                return Written::All;
            }
            match self.pipe.write(rest) {
                Ok(count) => self.written = self.written.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_retry(&error) => return Written::Some,
                // Nobody reads it any more.
                Err(_) => return Written::All,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn input(bytes: usize) -> (Input, std::fs::File) {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        (Input::new(writer, vec![7; bytes]), reader.into())
    }

    #[test]
    fn input_that_is_not_read_stays_queued() {
        let (mut input, mut reader) = input(1 << 20);
        assert_eq!(input.write(), Written::Some);
        let mut seen = 0;
        let mut buffer = vec![0; 64 << 10];
        loop {
            seen += reader.read(&mut buffer).unwrap();
            if input.write() == Written::All {
                break;
            }
        }
        drop(input);
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            seen += count;
        }
        assert_eq!(seen, 1 << 20);
    }

    #[test]
    fn input_for_a_closed_pipe_is_dropped() {
        let (mut input, reader) = input(1 << 20);
        drop(reader);
        assert_eq!(input.write(), Written::All);
    }
}
