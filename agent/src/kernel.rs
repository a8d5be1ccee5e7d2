//! One Python kernel, as the agent holds it: the agent's ends of its channels, and its stage. Kernels
//! are replaceable: the session goes on when one ends.
//!
//! The agent trusts a kernel with nothing but its own executions: frames are bounded before they are
//! read, and one out of turn ends the kernel.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe2};
use rustix::buffer::spare_capacity;
use vivarium_protocol::discard;
use vivarium_protocol::layer::Report;
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{
    ExecutionNumber, Failure, Generation, Noted, Origin, Program, SpawnNumber, Stream,
};
use vivarium_protocol::one_python;
use vivarium_protocol::outcome::KernelEnd;
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::sandbox::{self, Context};
use crate::sys;
use crate::usage::{self, Meter};

pub(crate) mod command;
pub(crate) mod launcher_client;
pub(crate) mod output;
pub(crate) mod wire;

use self::launcher_client::{
    LauncherClient, PendingProcess, SpawnProgress, StartedProcess, is_retry,
};
use self::output::Output;
use self::wire::{FromKernel, Turn, WireError};

#[derive(Debug)]
pub(crate) enum KernelStage {
    /// Not yet Python: its layers are being applied.
    Confining(PendingProcess),
    /// Python, not yet ready.
    Booting,
    /// Waits for code, or runs it.
    Up,
    /// Its layers could not be applied: it ends by itself.
    Failed,
    /// It has ended, and the next one is asked for as soon as that is possible.
    Ended,
    /// It could not be started, and the next one has not been asked for.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) generation: Generation,
    pub(crate) stage: KernelStage,
    /// Valid once it is confined, as is `protection`.
    pub(crate) origin: Origin,
    pub(crate) protection: Vec<Report>,
    pub(crate) outputs: [Output; 2],
    /// Why the agent is killing it, where the signal alone would not tell.
    pub(crate) kill_reason: Option<KernelEnd>,
    /// Set when it closes its channel: if its end is not reported by then, it is killed.
    pub(crate) exit_deadline: Option<Instant>,
    spawn_number: SpawnNumber,
    pid: Option<Pid>,
    meter: Option<Meter>,
    control: UnixStream,
    decoder: wire::Decoder,
    turn: Turn,
    outbox: Vec<u8>,
    control_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Some bytes, perhaps whole messages.
    Something,
    Nothing,
    Closed,
}

impl Kernel {
    pub(crate) fn spawn(
        context: &Context,
        leaf: Leaf,
        generation: Generation,
        launcher: &mut LauncherClient,
    ) -> Result<Self, Failure> {
        let made = |error| failure("make a kernel's channels", error);
        let channel = || pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from);
        let stdin = sys::open_null().map_err(made)?;
        let (stdout, stdout_end) = channel().map_err(made)?;
        let (stderr, stderr_end) = channel().map_err(made)?;
        let (control, control_end) = UnixStream::pair().map_err(made)?;
        let missing = || failure("make a kernel's channels", "there is no kernel program");
        let program = context.program.as_ref().ok_or_else(missing)?;
        let descriptors = [
            stdin.as_fd(),
            stdout_end.as_fd(),
            stderr_end.as_fd(),
            control_end.as_fd(),
            program.as_fd(),
        ];
        // A link: not followed.
        let packages = one_python::packages(context.policy.inner_workdir()).join("bin/python");
        let has_packages = !context.is_wasm() && packages.symlink_metadata().is_ok();
        let program = if has_packages { Program::KernelWithPackages } else { Program::Kernel };
        let pending = launcher.spawn(program, leaf, &descriptors).or_failure("ask for a kernel")?;
        control.set_nonblocking(true).map_err(made)?;
        let output_cap = context.policy.limits.max_output_bytes.get();
        let result_cap = context.policy.limits.max_result_bytes.get();
        Ok(Self {
            generation,
            spawn_number: pending.number(),
            stage: KernelStage::Confining(pending),
            origin: if has_packages { Origin::ExecutedForPackages } else { Origin::Executed },
            protection: Vec::new(),
            outputs: [
                Output::new(stdout, Stream::Stdout, output_cap).map_err(made)?,
                Output::new(stderr, Stream::Stderr, output_cap).map_err(made)?,
            ],
            kill_reason: None,
            exit_deadline: None,
            pid: None,
            meter: None,
            control,
            decoder: wire::Decoder::new(wire::frame_limit(result_cap)),
            turn: Turn::default(),
            outbox: wire::encode_config(result_cap),
            control_open: true,
        })
    }

    pub(crate) const fn is_up(&self) -> bool {
        matches!(self.stage, KernelStage::Up) && self.kill_reason.is_none()
    }

    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.stage, KernelStage::Ended | KernelStage::Gone)
    }

    /// Whether it is, or was until it ended, a program.
    const fn is_program(&self) -> bool {
        matches!(self.stage, KernelStage::Booting | KernelStage::Up)
    }

    pub(crate) const fn spawn_number(&self) -> SpawnNumber {
        self.spawn_number
    }

    pub(crate) const fn pending(&self) -> Option<&PendingProcess> {
        match &self.stage {
            KernelStage::Confining(pending) => Some(pending),
            _ => None,
        }
    }

    /// Its pid inside the session, once it is confined.
    pub(crate) const fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// `None` before it is ready.
    pub(crate) const fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// The channel to poll, and whether there is something to write.
    pub(crate) fn control(&self) -> Option<(BorrowedFd<'_>, bool)> {
        let is_read = self.control_open && self.is_program();
        is_read.then(|| (self.control.as_fd(), !self.outbox.is_empty()))
    }

    pub(crate) fn read_report(&mut self, context: &Context) -> Result<(), Failure> {
        let KernelStage::Confining(pending) = &mut self.stage else {
            return Ok(());
        };
        match pending.read() {
            SpawnProgress::Pending => Ok(()),
            SpawnProgress::Started(StartedProcess { pid, origin, mut protection }) => {
                sandbox::add_agents_part(context, &mut protection);
                self.pid = Some(pid);
                if self.origin != Origin::ExecutedForPackages {
                    self.origin = origin;
                }
                self.protection = protection;
                self.stage = KernelStage::Booting;
                Ok(())
            }
            SpawnProgress::Failed(failed) => Err(failed),
        }
    }

    /// Why it could not be started, of one that has ended and was not heard to the end.
    pub(crate) fn read_refusal(&mut self) -> Option<Failure> {
        match &mut self.stage {
            KernelStage::Confining(pending) => pending.read_refusal(),
            _ => None,
        }
    }

    /// The kernel is ready. Only now can its files in /proc be opened: before execve(2), and for a
    /// moment after its pipes have closed, it is not dumpable (`begin_new_exec` in fs/exec.c).
    pub(crate) fn ready(&mut self) {
        self.stage = KernelStage::Up;
        self.meter = self.pid.map(Meter::new);
    }

    /// Sends it the frame of [`wire::encode_work`]. Its time runs from here.
    pub(crate) fn submit(&mut self, execution: ExecutionNumber, noted: Noted, frame: &[u8]) {
        self.turn.sent(execution, noted);
        self.outbox.extend(frame);
        self.write();
    }

    /// Gives it the descriptors that it waits for.
    pub(crate) fn give(&self, descriptors: &[OwnedFd]) {
        // Its socket is empty, as it waits. If it is not, the kernel does not get them, and is no kernel of
        // ours any more.
        discard(
            stream::send_some(&self.control, &[0], descriptors),
            "its end shows when it is read",
        );
    }

    /// Says once more what it is to know: it may have what another kernel had in memory.
    pub(crate) fn configure(&mut self, max_result_bytes: Option<u64>) {
        self.outbox.extend(wire::encode_config(max_result_bytes));
        self.write();
    }

    pub(crate) fn acknowledge_display(&mut self, execution: ExecutionNumber) {
        self.outbox.extend(wire::encode_shown(execution));
        self.write();
    }

    /// Writes queued frames, as far as the kernel takes them.
    pub(crate) fn write(&mut self) {
        while !self.outbox.is_empty() {
            match self.control.write(&self.outbox) {
                Ok(0) => break,
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Its end of the channel is closed, which reading handles.
                Err(_) => self.outbox.clear(),
            }
        }
        self.outbox.shrink_to(64 << 10);
    }

    pub(crate) fn read(&mut self) -> ReadOutcome {
        if !self.is_program() {
            return ReadOutcome::Nothing;
        }
        if !self.control_open {
            return ReadOutcome::Closed;
        }
        let mut read = Vec::with_capacity(64 << 10);
        match rustix::io::read(&self.control, spare_capacity(&mut read)) {
            Ok(count) if count > 0 => {
                self.decoder.push(&read);
                ReadOutcome::Something
            }
            Err(error) if is_retry(&error.into()) => ReadOutcome::Nothing,
            _ => {
                self.control_open = false;
                ReadOutcome::Closed
            }
        }
    }

    /// The next message, if it is complete and in turn.
    ///
    /// # Errors
    /// [`WireError`]: the kernel is then to be killed.
    pub(crate) fn next_message(&mut self) -> Result<Option<FromKernel>, WireError> {
        let Some(message) = self.decoder.next()? else {
            return Ok(None);
        };
        self.turn.accept(&message)?;
        Ok(Some(message))
    }

    /// Kills it and its process group, and the processes that descend from it as far as they can be
    /// found. What has lost its parent before, as a daemon does, can not.
    pub(crate) fn kill_tree(&self) {
        let Some(pid) = self.pid else { return };
        // Stopped, it starts no more of them. Each is killed when it is found; what it had started
        // meanwhile is found by the second search.
        discard(kill(pid, Signal::SIGSTOP), "it may have ended");
        for _ in 0..2 {
            usage::kill_descendants(pid);
        }
        for target in [pid, Pid::from_raw(-pid.as_raw())] {
            discard(kill(target, Signal::SIGKILL), "it may have ended");
        }
    }

    /// SIGINT to its process group. Before the kernel has begun with its code it could only ignore it.
    pub(crate) fn interrupt(&self) {
        if let Some(pid) = self.pid {
            discard(
                kill(Pid::from_raw(-pid.as_raw()), Signal::SIGINT),
                "its process group may have ended",
            );
        }
    }
}
