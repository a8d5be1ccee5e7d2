//! One Python kernel, as the agent holds it: the agent's ends of its channels, and how far it
//! has come. Kernels are replaceable: the session goes on when one ends.
//!
//! Nothing a kernel says is believed beyond its own executions: frames are bounded before they
//! are read, and one out of turn ends the kernel.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe2};
use vivarium_protocol::frame::{Decoder as FrameDecoder, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::layer::Report;
use vivarium_protocol::message::{
    ExecutionNumber, Failure, Generation, KernelReport, Stream, ToLauncher,
};
use vivarium_protocol::outcome::KernelEnd;
use vivarium_protocol::policy::Policy;

use crate::kernel_wire::{self, FromKernel, Turn, WireError};
use crate::launch::failure;
use crate::output::Output;
use crate::stream::{self, StreamError};
use crate::usage::Meter;

/// How far a kernel has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Not yet Python: its layers are being applied, and will be told here.
    Confining(UnixStream, FrameDecoder),
    /// Python, not yet ready.
    Booting,
    /// Waits for code, or runs some.
    Up,
    /// It could not be started, and the next one has not been asked for.
    Gone,
}

/// The execution a kernel is running.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its number.
    pub(crate) execution: ExecutionNumber,
    /// Whether the kernel has begun with it.
    pub(crate) begun: bool,
    /// Whether it is to be interrupted as soon as it has.
    pub(crate) interrupt_held: bool,
    /// CPU time of the session when it began, in microseconds.
    pub(crate) cpu_before_us: u64,
    /// When CPU time is next looked at; `None` when it is not limited, or was told already.
    pub(crate) next_cpu_check: Option<Instant>,
}

/// One kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Its number.
    pub(crate) generation: Generation,
    /// How far it has come.
    pub(crate) stage: Stage,
    /// What its layers reported.
    pub(crate) protection: Vec<Report>,
    /// What it is running.
    pub(crate) running: Option<Running>,
    /// Its standard output and standard error.
    pub(crate) outputs: [Output; 2],
    /// Why it is being killed, where the signal alone would not tell.
    pub(crate) doom: Option<KernelEnd>,
    /// When it is killed if its end has not been told by then: it let go of its channel.
    pub(crate) patience: Option<Instant>,
    pid: Option<Pid>,
    meter: Option<Meter>,
    control: UnixStream,
    decoder: kernel_wire::Decoder,
    turn: Turn,
    outbox: Vec<u8>,
    control_open: bool,
}

/// What reading a kernel's channel gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Some bytes, perhaps whole messages.
    Something,
    /// Nothing now.
    Nothing,
    /// That it has let go of the channel.
    Closed,
}

/// What reading a kernel's report gave.
pub(crate) enum Confinement {
    /// More has to come.
    Pending,
    /// It is Python now.
    Executed,
    /// It is not going to be.
    Failed(Failure),
}

impl Kernel {
    /// Asks the launcher for a kernel.
    ///
    /// # Errors
    /// If its channels can not be made, or the launcher is gone.
    pub(crate) fn spawn(
        policy: &Policy,
        generation: Generation,
        launcher: &UnixStream,
    ) -> Result<Self, Failure> {
        let made = |error| failure("make a kernel's channels", error);
        let channel = || pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from);
        let (stdout, stdout_end) = channel().map_err(made)?;
        let (stderr, stderr_end) = channel().map_err(made)?;
        let (control, control_end) = UnixStream::pair().map_err(made)?;
        let (report, report_end) = UnixStream::pair().map_err(made)?;
        let program = program(&policy.interpreter.program).map_err(made)?;
        let ends = [
            stdout_end.as_raw_fd(),
            stderr_end.as_raw_fd(),
            control_end.as_raw_fd(),
            program.as_raw_fd(),
            report_end.as_raw_fd(),
        ];
        stream::send_with(launcher, &ToLauncher::Spawn, &ends, MAX_SMALL_FRAME_BYTES)
            .map_err(|error| failure("ask for a kernel", error))?;
        control.set_nonblocking(true).map_err(made)?;
        report.set_nonblocking(true).map_err(made)?;
        let output_cap = policy.limits.max_output_bytes.get();
        let result_cap = policy.limits.max_result_bytes.get();
        Ok(Self {
            generation,
            stage: Stage::Confining(report, FrameDecoder::new(MAX_SMALL_FRAME_BYTES)),
            protection: Vec::new(),
            running: None,
            outputs: [
                Output::new(stdout, Stream::Stdout, output_cap).map_err(made)?,
                Output::new(stderr, Stream::Stderr, output_cap).map_err(made)?,
            ],
            doom: None,
            patience: None,
            pid: None,
            meter: None,
            control,
            decoder: kernel_wire::Decoder::new(kernel_wire::frame_limit(result_cap)),
            turn: Turn::default(),
            outbox: kernel_wire::encode_config(result_cap),
            control_open: true,
        })
    }

    /// Whether code can be given to it.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Up) && self.running.is_none() && self.doom.is_none()
    }

    /// Its pid inside the session, once it is confined.
    pub(crate) const fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Its meter, once it is ready.
    pub(crate) const fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// The channel to poll, and whether there is something to be written to it.
    pub(crate) fn control(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.control_open.then(|| (self.control.as_fd(), !self.outbox.is_empty()))
    }

    /// Reads its report on being confined.
    pub(crate) fn read_report(&mut self) -> Confinement {
        let Stage::Confining(report, decoder) = &mut self.stage else {
            return Confinement::Pending;
        };
        let mut buffer = [0; 4096];
        let ended = match (&*report).read(&mut buffer) {
            Ok(0) => true,
            Ok(count) => {
                decoder.push(buffer.get(..count).unwrap_or_default());
                false
            }
            Err(error) if is_retry(&error) => return Confinement::Pending,
            Err(error) => return Confinement::Failed(failure("read a kernel's report", error)),
        };
        match decoder.next_message::<KernelReport>() {
            Ok(Some(KernelReport::Confined { pid, protection })) => {
                let pid = Pid::from_raw(pid.try_into().unwrap_or_default());
                self.pid = Some(pid);
                self.protection = protection;
                Confinement::Pending
            }
            Ok(Some(KernelReport::Failed(failed))) => Confinement::Failed(failed),
            // execve closed the pipe: what stands at its end is Python.
            Ok(None) if ended && self.pid.is_some() => {
                self.stage = Stage::Booting;
                Confinement::Executed
            }
            Ok(None) if ended => Confinement::Failed(failure("start a kernel", "it said nothing")),
            Ok(None) => Confinement::Pending,
            Err(error) => Confinement::Failed(failure("read a kernel's report", error)),
        }
    }

    /// It says that it is ready. Only now can its files in /proc be opened: before execve(2), and
    /// for a moment after its pipes have closed, it is not dumpable (`begin_new_exec` in fs/exec.c).
    pub(crate) fn ready(&mut self) {
        self.stage = Stage::Up;
        self.meter = self.pid.map(Meter::new);
    }

    /// Hands it code. Its time runs from here.
    pub(crate) fn execute(&mut self, execution: ExecutionNumber, code: &str) {
        self.turn.sent(execution);
        self.outbox.extend(kernel_wire::encode_execute(execution, code));
        self.write();
    }

    /// Writes what waits to be written, as far as the kernel takes it.
    pub(crate) fn write(&mut self) {
        while !self.outbox.is_empty() {
            match self.control.write(&self.outbox) {
                Ok(0) => break,
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Its end of the channel is closed: reading tells what that means.
                Err(_) => self.outbox.clear(),
            }
        }
        self.outbox.shrink_to(64 << 10);
    }

    /// Reads from its channel once.
    pub(crate) fn read(&mut self) -> Heard {
        if !self.control_open {
            return Heard::Closed;
        }
        let mut buffer = vec![0; 64 << 10];
        match self.control.read(&mut buffer) {
            Ok(count) if count > 0 => {
                self.decoder.push(buffer.get(..count).unwrap_or_default());
                Heard::Something
            }
            Err(error) if is_retry(&error) => Heard::Nothing,
            _ => {
                self.control_open = false;
                Heard::Closed
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

    /// Sends SIGINT to its process group, if it runs `execution`. Before the kernel has begun
    /// with it, it could only ignore the signal, which is then held back.
    pub(crate) fn interrupt(&mut self, execution: ExecutionNumber) {
        match &mut self.running {
            Some(running) if running.execution == execution => {
                running.interrupt_held = !running.begun;
                if running.begun {
                    self.send_interrupt();
                }
            }
            _ => {}
        }
    }

    /// The kernel has begun with what it was given.
    pub(crate) fn begun(&mut self) {
        if let Some(running) = &mut self.running {
            running.begun = true;
            if std::mem::take(&mut running.interrupt_held) {
                self.send_interrupt();
            }
        }
    }

    /// SIGINT to its process group. Where that has already ended there is nobody to send it to,
    /// which is as good.
    fn send_interrupt(&self) {
        if let Some(pid) = self.pid {
            let _gone = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGINT).is_err();
        }
    }
}

/// The kernel program, where Python can read it.
fn program(bytes: &[u8]) -> io::Result<OwnedFd> {
    let memory = memfd_create(c"vivarium-kernel", MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether a stream error means that the peer is gone rather than wrong.
pub(crate) const fn is_gone(error: &StreamError) -> bool {
    matches!(error, StreamError::Closed | StreamError::Io(_))
}
