//! The session: one loop over the supervisor, the launcher, and the kernel in place.
//!
//! It decides nothing about time or policy: the supervisor says when to interrupt and when to
//! replace. What it guarantees is that a kernel's end is told once, with its evidence, after
//! all the kernel printed; that nothing of a kernel outlives it; and that the next one starts.

mod ending;
mod execution;
mod wait;

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::statvfs::statvfs;
use nix::unistd::getpid;
use vivarium_protocol::frame::{Decoder, MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{
    Description, Failure, FromAgent, FromLauncher, Generation, ToAgent,
};
use vivarium_protocol::outcome::KernelEnd;

use crate::kernel::{Confinement, Heard, Kernel, Stage};
use crate::kernel_wire::FromKernel;
use crate::launch::failure;
use crate::sandbox::Context;
use crate::sys::{self, Wait};
use crate::{stream, usage};

use self::execution::Request;
use self::wait::Event;

/// How long the end of a kernel that let go of its channel may take to be told.
const PATIENCE: Duration = Duration::from_secs(1);

/// A session, from its first kernel to its end.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    context: &'a Context,
    control: &'a UnixStream,
    launcher: UnixStream,
    children: SignalFd,
    decoder: Decoder,
    kernel: Kernel,
    pending: VecDeque<Request>,
    ever_ready: bool,
}

/// Whether the loop goes on.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// It does.
    Continue,
    /// The supervisor is gone or said so: the session is over.
    Over,
}

impl<'a> Session<'a> {
    /// Starts the first kernel.
    ///
    /// # Errors
    /// If it can not be asked for.
    pub(crate) fn new(
        context: &'a Context,
        control: &'a UnixStream,
        launcher: UnixStream,
    ) -> Result<Self, Failure> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block().map_err(|error| failure("block SIGCHLD", error))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let children =
            SignalFd::with_flags(&mask, flags).map_err(|error| failure("signalfd", error))?;
        let kernel = Kernel::spawn(&context.policy, 1, &launcher)?;
        Ok(Self {
            context,
            control,
            launcher,
            children,
            decoder: Decoder::new(MAX_FRAME_BYTES),
            kernel,
            pending: VecDeque::new(),
            ever_ready: false,
        })
    }

    /// Runs until the supervisor lets go.
    ///
    /// # Errors
    /// If the session can not go on.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        loop {
            // Also when there is always something else to do: a flood of output must not keep
            // the clock from being looked at.
            if self.is_late() {
                self.look_at_clock()?;
            }
            let next = match self.wait()? {
                Event::Supervisor => self.hear_supervisor()?,
                Event::Launcher => self.hear_launcher()?,
                Event::Report => self.hear_report()?,
                Event::Kernel { readable, writable } => self.hear_kernel(readable, writable)?,
                Event::Output => self.pass_output()?,
                Event::Children => self.reap(),
                Event::Deadline => self.look_at_clock()?,
            };
            if next == Next::Over {
                ending::kill_all(); // PID 1's end does the same; without a namespace this does
                return Ok(());
            }
        }
    }

    /// Sends a message to the supervisor. Its being gone shows at the next read.
    fn tell(&self, message: &FromAgent) -> Result<(), Failure> {
        match stream::send(self.control, message, MAX_FRAME_BYTES) {
            Err(error) if !crate::kernel::is_gone(&error) => {
                Err(failure("tell the supervisor", error))
            }
            _ => Ok(()),
        }
    }

    fn hear_supervisor(&mut self) -> Result<Next, Failure> {
        let mut buffer = vec![0; 64 << 10];
        let count = std::io::Read::read(&mut &*self.control, &mut buffer).unwrap_or(0);
        if count == 0 {
            return Ok(Next::Over);
        }
        self.decoder.push(buffer.get(..count).unwrap_or_default());
        let wrong = |error| failure("read from the supervisor", error);
        while let Some(message) = self.decoder.next_message::<ToAgent>().map_err(wrong)? {
            match message {
                ToAgent::Execute { execution, code, files } => {
                    self.pending.push_back(Request { execution, code, files });
                    self.start_pending()?;
                }
                ToAgent::Interrupt { execution } => self.kernel.interrupt(execution),
                ToAgent::Replace => self.replace()?,
                ToAgent::Describe => self.tell(&FromAgent::Described(self.describe()))?,
                ToAgent::Close => return Ok(Next::Over),
            }
        }
        Ok(Next::Continue)
    }

    fn hear_launcher(&mut self) -> Result<Next, Failure> {
        match stream::receive(&self.launcher, MAX_SMALL_FRAME_BYTES) {
            Ok(FromLauncher::Exited { end, usage }) => self.kernel_ended(end, usage),
            Ok(FromLauncher::Mapped) => Err(failure("hear the launcher", "it spoke out of turn")),
            // Without a launcher there are no more kernels.
            Err(error) => Err(failure("hear the launcher", error)),
        }
    }

    fn hear_report(&mut self) -> Result<Next, Failure> {
        match self.kernel.read_report() {
            Confinement::Pending | Confinement::Executed => Ok(Next::Continue),
            Confinement::Failed(failed) if !self.ever_ready => Err(failed),
            Confinement::Failed(failed) => {
                self.kernel.stage = Stage::Booting; // its report is over
                self.doom(KernelEnd::NotStarted(failed.to_string()));
                Ok(Next::Continue)
            }
        }
    }

    fn hear_kernel(&mut self, readable: bool, writable: bool) -> Result<Next, Failure> {
        if writable {
            self.kernel.write();
        }
        if !readable {
            return Ok(Next::Continue);
        }
        if self.read_kernel()? == Heard::Closed {
            // Most often it is dying, and wait(2) tells how in a moment.
            self.kernel.patience = Some(Instant::now() + PATIENCE);
        }
        Ok(Next::Continue)
    }

    /// Reads from the kernel once, and acts on what it said.
    fn read_kernel(&mut self) -> Result<Heard, Failure> {
        let heard = self.kernel.read();
        while self.kernel.doom.is_none() {
            match self.kernel.next_message() {
                Ok(Some(message)) => self.kernel_said(message)?,
                Ok(None) => break,
                Err(error) => self.doom(KernelEnd::Protocol(error.to_string())),
            }
        }
        Ok(heard)
    }

    fn kernel_said(&mut self, message: FromKernel) -> Result<(), Failure> {
        match message {
            FromKernel::Ready => {
                self.kernel.ready();
                self.ever_ready = true;
                self.tell(&FromAgent::KernelReady {
                    generation: self.kernel.generation,
                    protection: self.kernel.protection.clone(),
                })?;
                self.start_pending()
            }
            FromKernel::Started { .. } => {
                self.kernel.begun();
                Ok(())
            }
            FromKernel::Value { execution, value } => {
                self.tell(&FromAgent::Value { execution, value })
            }
            FromKernel::Exception { execution, exception } => {
                self.tell(&FromAgent::Exception { execution, exception })
            }
            FromKernel::Done { execution, completion } => self.finish(execution, completion),
        }
    }

    /// Starts a fresh kernel, unless the one in place is fresh already.
    fn replace(&mut self) -> Result<(), Failure> {
        match self.kernel.stage {
            Stage::Up => {
                self.doom(KernelEnd::Signaled { signal: Signal::SIGKILL as i32, by_agent: true });
                Ok(())
            }
            Stage::Gone => self.next_kernel().map(drop),
            Stage::Confining(..) | Stage::Booting => Ok(()),
        }
    }

    /// Collects orphans, so that their CPU time is counted and their pids are free.
    fn reap(&mut self) -> Next {
        while let Ok(Some(_)) = self.children.read_signal() {}
        while let Ok(Some(_)) = sys::wait(Wait::IfAny) {}
        Next::Continue
    }

    fn next_generation(&self) -> Generation {
        self.kernel.generation.saturating_add(1)
    }

    fn describe(&self) -> Description {
        let workdir = self.context.policy.inner_workdir();
        let disk = statvfs(workdir).map_or(0, |disk| {
            disk.blocks().saturating_sub(disk.blocks_free()).saturating_mul(disk.fragment_size())
        });
        let is_up = matches!(self.kernel.stage, Stage::Up);
        Description {
            generation: is_up.then_some(self.kernel.generation),
            execution: self.kernel.running.as_ref().map(|running| running.execution),
            processes: u32::try_from(usage::processes().len()).unwrap_or(u32::MAX),
            agent_pss_bytes: usage::pss_bytes(getpid()),
            kernel_pss_bytes: self.kernel.pid().map_or(0, usage::pss_bytes),
            disk_bytes: disk,
        }
    }
}
