//! One command of a tenant's, as the agent holds it: a process beside the kernel, started and
//! confined exactly as that, with pipes or a terminal for its three standard streams.
//!
//! It can not hold up the agent: its input is written as far as it takes it, its output is read as the
//! kernel's is.

mod streams;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::poll::PollFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vivarium_protocol::discard;
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{CommandSpec, Program, SpawnNumber, Stdin, WindowSize};
use vivarium_protocol::stream::StreamError;

pub(crate) use self::streams::Streams;
use self::streams::{Source, Terminal};
use super::launcher_client::{LauncherClient, PendingProcess, SpawnProgress};
use crate::leaf_control::LeafControl;
use crate::usage;

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) streams: Streams,
    spawn_number: SpawnNumber,
    stage: CommandStage,
    /// Control of its own leaf, if it has one.
    leaf: Option<LeafControl>,
    /// The signal to send as soon as it has been executed.
    held_signal: Option<Signal>,
    killed: bool,
}

/// What comes with the request for a command.
#[derive(Debug, Default)]
pub(crate) struct CommandFiles {
    /// Its standard input, if that is a pipe.
    pub(crate) pipe: Option<OwnedFd>,
    /// What the kernel is given that runs code or loads an image.
    pub(crate) for_kernel: Vec<OwnedFd>,
    /// Control of the leaf of its own, if it has one.
    pub(crate) leaf: Option<LeafControl>,
}

#[derive(Debug)]
enum CommandStage {
    Pending(PendingProcess),
    Up(Pid),
    Failed,
}

impl Command {
    /// Asks the launcher for a command, which starts in `leaf` if there is a cgroup. `output_cap` bounds
    /// each output stream.
    ///
    /// # Errors
    /// [`StreamError::Frame`] if its arguments are too long, else its pipes could not be made
    /// or the launcher is gone.
    pub(crate) fn spawn(
        spec: CommandSpec,
        leaf: Leaf,
        files: CommandFiles,
        output_cap: Option<u64>,
        launcher: &mut LauncherClient,
    ) -> Result<Self, StreamError> {
        let CommandSpec { argv, stdin, cwd, env, pty, .. } = spec;
        let source = match (stdin, files.pipe) {
            (Stdin::Pipe, Some(pipe)) => Source::Pipe(pipe),
            (Stdin::Bytes(bytes), _) => Source::Bytes(bytes),
            (Stdin::Pipe, None) => return Err(io::Error::other("no pipe came with it").into()),
        };
        let program = Program::Command { argv, cwd, env, pty: pty.is_some() };
        let (pending, streams) = match pty {
            Some(size) => {
                let terminal = Terminal::open(size)?;
                let end = terminal.peer.as_fd();
                (
                    launcher.spawn(program, leaf, &[end, end, end])?,
                    Streams::of_terminal(terminal, source)?,
                )
            }
            None => {
                let (ends, streams) = Streams::of_pipes(source, output_cap)?;
                let [stdin, stdout, stderr] = &ends;
                let ends = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
                (launcher.spawn(program, leaf, &ends)?, streams)
            }
        };
        Ok(Self {
            streams,
            spawn_number: pending.number(),
            stage: CommandStage::Pending(pending),
            leaf: files.leaf,
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

    /// What to poll for its input to go on, and how.
    pub(crate) fn input(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.streams.input()
    }

    pub(crate) fn move_input(&mut self) {
        self.streams.move_input();
    }

    /// Changes the size of its terminal, if it has one.
    pub(crate) fn resize(&self, size: WindowSize) {
        self.streams.resize(size);
    }

    /// Kills all that is in its own leaf. Without one, its process group, and the processes that descend
    /// from it as far as they can be found: a grandchild in a session of its own has to be an orphan
    /// to get away.
    pub(crate) fn kill(&mut self) {
        self.killed = true;
        if self.is_up() && self.leaf.as_ref().is_some_and(|leaf| leaf.kill().is_ok()) {
            return;
        }
        // Looked for before its end makes orphans of them, and killed after it: it could end by itself
        // where it waits for them.
        let descendants = match self.stage {
            CommandStage::Up(pid) => usage::descendants(pid),
            _ => Vec::new(),
        };
        self.signal(Signal::SIGKILL);
        for descendant in descendants {
            discard(kill(descendant, Signal::SIGKILL), "it may have ended");
        }
    }

    pub(crate) const fn is_killed(&self) -> bool {
        self.killed
    }

    /// Kills what it has left, after it has ended itself: all that is in its own leaf, and its process
    /// group. The group's number can not mean another: no new process gets it while the group has a
    /// member.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.signal(Signal::SIGKILL);
        self.streams.close_input();
        self.leaf.as_ref().map_or(Ok(()), LeafControl::clear)
    }

    /// Whether it outlives the kernels of the session.
    pub(crate) const fn has_own_leaf(&self) -> bool {
        self.leaf.is_some()
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
