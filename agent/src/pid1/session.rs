//! The session: one loop over the supervisor, the launcher, and the kernel in place.
//!
//! It decides nothing about time or policy: the supervisor says when to interrupt and when to
//! replace. What it guarantees is that a kernel's end is told once, with its evidence, after
//! all the kernel printed; that nothing of a kernel outlives it; and that the next one starts.

mod commands;
mod control;
mod cpu;
mod ending;
mod execution;
mod results;
mod streams;
mod transfers;
mod wait;

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::statvfs::fstatvfs;
use nix::unistd::getpid;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{
    Description, Failure, FromAgent, FromLauncher, Generation, ToAgent,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use crate::children::Children;
use crate::failure::failure;
use crate::files::{Tracker, Workdir};
use crate::kernel::launcher_client::LauncherClient;
use crate::kernel::wire::FromKernel;
use crate::kernel::{Heard, Kernel, Stage};
use crate::sandbox::{self, Context};
use crate::usage;

use self::control::Control;
use self::execution::{Request, Running};
use self::transfers::Transfers;
use self::wait::Event;

/// How long the end of a kernel that closed its channel may take to be reported.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A session, from its first kernel to its end.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    context: &'a Context,
    control: Control<'a>,
    launcher: LauncherClient,
    children: Children,
    kernel: Kernel,
    running: Option<Running>,
    pending: VecDeque<Request>,
    workdir: Workdir,
    transfers: Transfers,
    changes: Tracker,
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
        let children = Children::watch().map_err(|error| failure("signalfd", error))?;
        let mut launcher = LauncherClient::new(launcher);
        let kernel = Kernel::spawn(context, 1, &mut launcher)?;
        // After the kernel was asked for, which is what a session's start waits for.
        let workdir = open_workdir(context)?;
        let changes = Tracker::new(&workdir);
        // Before a byte of tenant code's is read.
        sandbox::confine_agent(context)?;
        Ok(Self {
            context,
            control: Control::new(control),
            launcher,
            children,
            kernel,
            running: None,
            pending: VecDeque::new(),
            workdir,
            transfers: Transfers::default(),
            changes,
            ever_ready: false,
        })
    }

    /// Runs until the supervisor lets go.
    ///
    /// # Errors
    /// If the session can not go on. All that was to be told before has been.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let ended = self.serve();
        if ended.is_err() {
            self.control.flush();
        }
        ended
    }

    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            // Also when there is always something else to do: a flood of output must not keep
            // the clock from being looked at.
            if self.is_late() {
                self.look_at_clock()?;
            }
            for event in self.wait()? {
                if self.take_up(event)? == Next::Over {
                    ending::kill_all(); // PID 1's end does the same; without a namespace this does
                    return Ok(());
                }
            }
        }
    }

    /// Does what an event asks for, as far as that can be done at once. An event may be of
    /// something that the one before has ended: there is then nothing to be read.
    fn take_up(&mut self, event: Event) -> Result<Next, Failure> {
        match event {
            Event::Supervisor { readable, writable } => {
                if writable {
                    self.control.write();
                }
                return if readable { self.hear_supervisor() } else { Ok(Next::Continue) };
            }
            Event::Launcher => self.hear_launcher()?,
            Event::Children => self.reap(),
            Event::Report => self.hear_report()?,
            Event::CommandReport => self.hear_command(false)?,
            Event::Kernel { readable, writable } => self.hear_kernel(readable, writable)?,
            Event::Output => self.pass_output()?,
            Event::Input => {
                if let Some(command) = self.running.as_mut().and_then(Running::command_mut) {
                    command.write_input();
                }
            }
            Event::Changes => self.changes.gather(),
            Event::Transfer(number) => self.step_transfer(number)?,
        }
        Ok(Next::Continue)
    }

    fn hear_supervisor(&mut self) -> Result<Next, Failure> {
        if !self.control.read() {
            return Ok(Next::Over);
        }
        let wrong = |error| failure("read from the supervisor", error);
        while let Some(message) = self.control.next_message().map_err(wrong)? {
            match message {
                ToAgent::Execute { execution, work, files, outputs } => {
                    self.pending.push_back(Request { execution, work, files, outputs });
                    self.start_pending()?;
                }
                ToAgent::File { transfer, operation } => {
                    self.begin_transfer(transfer, operation)?;
                }
                ToAgent::Interrupt { execution } => self.interrupt(execution),
                ToAgent::Kill { execution } => self.kill_command(execution),
                ToAgent::Replace => self.replace()?,
                ToAgent::Describe => {
                    let description = self.describe();
                    self.control.tell(&FromAgent::Described(description))?;
                }
                ToAgent::Ping => self.control.tell(&FromAgent::Pong)?,
                ToAgent::Close => return Ok(Next::Over),
            }
        }
        Ok(Next::Continue)
    }

    fn hear_launcher(&mut self) -> Result<(), Failure> {
        match self.launcher.recv() {
            Ok(FromLauncher::Exited { number, end, usage })
                if number == self.kernel.spawn_number() =>
            {
                self.kernel_ended(end, usage)
            }
            Ok(FromLauncher::Exited { number, end, usage }) => {
                self.command_ended(number, end, usage)
            }
            Ok(FromLauncher::Mapped) => Err(failure("hear the launcher", "it spoke out of turn")),
            // Without a launcher there are no more kernels.
            Err(error) => Err(failure("hear the launcher", error)),
        }
    }

    fn hear_report(&mut self) -> Result<(), Failure> {
        match self.kernel.read_report() {
            Ok(()) => Ok(()),
            Err(failed) if !self.ever_ready => Err(failed),
            Err(failed) => {
                self.kernel.stage = Stage::Booting; // its report is over
                self.kill_kernel(KernelEnd::NotStarted(failed.to_string()));
                Ok(())
            }
        }
    }

    fn hear_kernel(&mut self, readable: bool, writable: bool) -> Result<(), Failure> {
        if writable {
            self.kernel.write();
        }
        if readable && self.read_kernel()? == Heard::Closed {
            // Most often it is dying, and wait(2) tells how in a moment.
            self.kernel.exit_deadline = Some(Instant::now() + EXIT_TIMEOUT);
        }
        Ok(())
    }

    /// Reads from the kernel once, and acts on what it said.
    fn read_kernel(&mut self) -> Result<Heard, Failure> {
        let heard = self.kernel.read();
        while self.kernel.kill_reason.is_none() {
            match self.kernel.next_message() {
                Ok(Some(message)) => self.kernel_said(message)?,
                Ok(None) => break,
                Err(error) => self.kill_kernel(KernelEnd::Protocol(error.to_string())),
            }
        }
        Ok(heard)
    }

    fn kernel_said(&mut self, message: FromKernel) -> Result<(), Failure> {
        match message {
            FromKernel::Ready => {
                self.kernel.ready();
                self.ever_ready = true;
                self.control.tell(&FromAgent::KernelReady {
                    generation: self.kernel.generation,
                    origin: self.kernel.origin,
                    protection: self.kernel.protection.clone(),
                })?;
                self.start_pending()
            }
            FromKernel::Started { .. } => {
                self.begun();
                Ok(())
            }
            FromKernel::Value { value, .. } => self.pass_value(value),
            FromKernel::Display { display, .. } => self.pass_display(display),
            FromKernel::Exception { execution, exception } => {
                self.drain_output()?;
                self.control.tell(&FromAgent::Exception { execution, exception })
            }
            FromKernel::Done { completion, .. } => self.finish(completion, Usage::default()),
        }
    }

    /// Starts a fresh kernel, unless the one in place is fresh already.
    fn replace(&mut self) -> Result<(), Failure> {
        match self.kernel.stage {
            Stage::Up => {
                self.kill_kernel(KernelEnd::Signaled {
                    signal: Signal::SIGKILL as i32,
                    by_agent: true,
                });
                Ok(())
            }
            Stage::Gone => self.next_kernel(),
            Stage::Confining(_) | Stage::Booting => Ok(()),
        }
    }

    /// Collects orphans, so that their CPU time is counted and their pids are free.
    fn reap(&self) {
        drop(self.children.ended());
    }

    /// Something is due: reading of changes, a look at the CPU time, or the end of a kernel that
    /// let go of its channel.
    fn look_at_clock(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.changes.due()) {
            self.changes.read(&self.workdir);
        }
        if is_due(self.kernel.exit_deadline) {
            self.exit_overdue(now)?;
        }
        self.check_cpu(now)
    }

    fn next_generation(&self) -> Generation {
        self.kernel.generation.saturating_add(1)
    }

    fn describe(&self) -> Description {
        let disk = fstatvfs(&self.workdir).map_or(0, |disk| {
            disk.blocks().saturating_sub(disk.blocks_free()).saturating_mul(disk.fragment_size())
        });
        let is_up = matches!(self.kernel.stage, Stage::Up);
        Description {
            generation: is_up.then_some(self.kernel.generation),
            execution: self.running.as_ref().map(|running| running.execution),
            processes: u32::try_from(usage::processes().len()).unwrap_or(u32::MAX),
            agent_pss_bytes: usage::pss_bytes(getpid()),
            kernel_pss_bytes: self.kernel.pid().map_or(0, usage::pss_bytes),
            disk_bytes: disk,
        }
    }
}

/// The workdir, as the tenant's own processes would write to it.
fn open_workdir(context: &Context) -> Result<Workdir, Failure> {
    let policy = &context.policy;
    let owner = policy.ids.filter(|_| context.applies(Layer::Namespaces));
    let owner = owner.map(|_| Context::KERNEL_ID);
    let max_file_bytes = policy.limits.max_file_size_mb.times(1 << 20);
    let path = policy.inner_workdir();
    Workdir::open(path, owner, max_file_bytes.filter(|_| context.applies(Layer::Rlimits)))
        .map_err(|error| failure(&format!("open the workdir {}", path.display()), error))
}
