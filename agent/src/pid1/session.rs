//! The session: one loop over the supervisor, the launcher, and the kernel in place.
//!
//! It decides nothing about time or policy: the supervisor says when to interrupt and when to
//! replace. It guarantees that a kernel's end is reported once, with its evidence, after all the
//! kernel printed; that nothing of a kernel outlives it; and that the next kernel starts.

mod commands;
mod control;
mod cpu;
mod ending;
mod execution;
mod ports;
mod results;
mod streams;
mod transfers;
mod wait;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::statvfs::fstatvfs;
use nix::unistd::getpid;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::leaf::{FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{
    Description, Execute, ExecutionNumber, Failure, FromAgent, FromLauncher, Generation, Stdin,
    ToAgent, Work,
};
use vivarium_protocol::outcome::KernelEnd;
use vivarium_protocol::places;

use self::commands::RunningCommand;
use self::control::Control;
use self::execution::{Pending, RunningExecution};
use self::transfers::Transfers;
use self::wait::Event;
use crate::children::Children;
use crate::failure::{OrFailure, failure};
use crate::files::{ChangeTracker, Roots, Workdir};
use crate::kernel::launcher_client::LauncherClient;
use crate::kernel::wire::FromKernel;
use crate::kernel::{Kernel, KernelStage, ReadOutcome};
use crate::sandbox::{self, Context};
use crate::usage;

/// How long the end of a kernel that closed its channel may take to be reported.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Session<'a> {
    context: &'a Context,
    control: Control<'a>,
    launcher: LauncherClient,
    children: Children,
    kernel: Kernel,
    /// What the kernel runs.
    running: Option<RunningExecution>,
    commands: BTreeMap<ExecutionNumber, RunningCommand>,
    pending: VecDeque<Pending>,
    files: Roots,
    transfers: Transfers,
    changes: ChangeTracker,
    ever_ready: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        context: &'a Context,
        control: &'a UnixStream,
        launcher: UnixStream,
    ) -> Result<Self, Failure> {
        let children = Children::watch().or_failure("signalfd")?;
        let mut launcher = LauncherClient::new(launcher);
        let kernel = Kernel::spawn(context, Leaf::FIRST, 1, &mut launcher)?;
        // After the kernel was asked for, which is what a session's start waits for.
        let files = open_roots(context)?;
        let changes = ChangeTracker::new(&files.workdir);
        // Before a byte of tenant code's is read.
        sandbox::confine_agent(context)?;
        Ok(Self {
            context,
            control: Control::new(control),
            launcher,
            children,
            kernel,
            running: None,
            commands: BTreeMap::new(),
            pending: VecDeque::new(),
            files,
            transfers: Transfers::default(),
            changes,
            ever_ready: false,
        })
    }

    /// Runs until the supervisor closes the session.
    ///
    /// # Errors
    /// If the session can not go on. Every message before that has been sent.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let ended = self.serve();
        if ended.is_err() {
            self.control.flush();
        }
        ended
    }

    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            // Checked also when there is always something else to do: a flood of output must not
            // postpone a deadline.
            if self.deadline_passed() {
                self.handle_deadlines()?;
            }
            for event in self.wait()? {
                if self.handle_event(event)?.is_break() {
                    ending::kill_all(); // PID 1's end does the same; without a namespace this does
                    return Ok(());
                }
            }
        }
    }

    /// Handles an event as far as that can be done at once. The event before may have ended what this
    /// one is about: there is then nothing to read.
    fn handle_event(&mut self, event: Event) -> Result<ControlFlow<()>, Failure> {
        match event {
            Event::Supervisor { readable, writable } => {
                if writable {
                    self.control.write();
                }
                if readable {
                    return self.recv_from_supervisor();
                }
            }
            Event::Launcher => self.recv_from_launcher()?,
            Event::Children => self.reap(),
            Event::KernelReport => self.read_kernel_report()?,
            Event::CommandReport(execution) => self.read_command_report(execution, false)?,
            Event::Kernel { readable, writable } => self.serve_kernel(readable, writable)?,
            Event::Output => self.pass_output()?,
            Event::CommandOutput(execution) => self.pass_command_output(execution)?,
            Event::CommandInput(execution) => self.move_command_input(execution),
            Event::Changes => self.changes.schedule_read(),
            Event::Transfer(number) => self.step_transfer(number)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Breaks when the supervisor closed the session or is gone.
    fn recv_from_supervisor(&mut self) -> Result<ControlFlow<()>, Failure> {
        if !self.control.read() {
            return Ok(ControlFlow::Break(()));
        }
        let wrong = |error| failure("read from the supervisor", error);
        while let Some(message) = self.control.next_message().map_err(wrong)? {
            match message {
                ToAgent::Execute(request) => self.accept(request)?,
                ToAgent::File { transfer, operation } => {
                    self.begin_transfer(transfer, operation)?;
                }
                ToAgent::Interrupt { execution } => self.interrupt(execution),
                ToAgent::Kill { execution } => self.kill_command(execution),
                ToAgent::Signal { execution, signal } => {
                    if let Ok(signal) = Signal::try_from(signal) {
                        self.signal_command(execution, signal);
                    }
                }
                ToAgent::Resize { execution, size } => self.resize_command(execution, size),
                ToAgent::Hold { execution, held } => self.hold_command(execution, held),
                ToAgent::Replace { .. } => self.replace()?,
                ToAgent::OpenContext { .. } | ToAgent::CloseContext { .. } => {
                    return Err(failure("read from the supervisor", "there is one context"));
                }
                ToAgent::Describe => {
                    let description = self.describe();
                    self.control.send(&FromAgent::Described(description))?;
                }
                ToAgent::Ping => self.control.send(&FromAgent::Pong)?,
                ToAgent::Connect(request) => self.connect(request),
                ToAgent::Close => return Ok(ControlFlow::Break(())),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn accept(&mut self, request: Execute) -> Result<(), Failure> {
        let pipe = match &request.work {
            Work::Command(spec) if spec.stdin == Stdin::Pipe => {
                Some(self.control.descriptor().or_failure("receive a command's pipe")?)
            }
            _ => None,
        };
        self.pending.push_back(Pending { request, pipe });
        self.start_pending()
    }

    fn recv_from_launcher(&mut self) -> Result<(), Failure> {
        match self.launcher.recv() {
            Ok(FromLauncher::Exited { number, end, usage })
                if number == self.kernel.spawn_number() =>
            {
                self.kernel_ended(end, usage)
            }
            Ok(FromLauncher::Exited { number, end, usage }) => {
                self.command_ended(number, end, usage)
            }
            Ok(FromLauncher::Mapped) => {
                Err(failure("receive from the launcher", "it spoke out of turn"))
            }
            // Without a launcher there are no more kernels.
            Err(error) => Err(failure("receive from the launcher", error)),
        }
    }

    fn read_kernel_report(&mut self) -> Result<(), Failure> {
        match self.kernel.read_report() {
            Ok(()) => Ok(()),
            Err(failed) if !self.ever_ready => Err(failed),
            Err(failed) => {
                self.kernel.stage = KernelStage::Booting; // no more report will come
                self.kill_kernel(KernelEnd::NotStarted(failed.to_string()));
                Ok(())
            }
        }
    }

    fn serve_kernel(&mut self, readable: bool, writable: bool) -> Result<(), Failure> {
        if writable {
            self.kernel.write();
        }
        if readable && self.read_kernel()? == ReadOutcome::Closed {
            // Most often it is dying, and its exit status comes in a moment.
            self.kernel.exit_deadline = Some(Instant::now() + EXIT_TIMEOUT);
        }
        Ok(())
    }

    fn read_kernel(&mut self) -> Result<ReadOutcome, Failure> {
        let outcome = self.kernel.read();
        while self.kernel.kill_reason.is_none() {
            match self.kernel.next_message() {
                Ok(Some(message)) => self.handle_kernel_message(message)?,
                Ok(None) => break,
                Err(error) => self.kill_kernel(KernelEnd::Protocol(error.to_string())),
            }
        }
        Ok(outcome)
    }

    fn handle_kernel_message(&mut self, message: FromKernel) -> Result<(), Failure> {
        match message {
            FromKernel::Ready => {
                self.kernel.ready();
                self.ever_ready = true;
                self.control.send(&FromAgent::KernelReady {
                    context: FIRST_CONTEXT,
                    generation: self.kernel.generation,
                    origin: self.kernel.origin,
                    protection: self.kernel.protection.clone(),
                })?;
                self.start_pending()
            }
            FromKernel::Started { .. } => {
                self.execution_started();
                Ok(())
            }
            FromKernel::Value { value, .. } => self.pass_value(value),
            FromKernel::Display { display, .. } => self.pass_display(display),
            FromKernel::Exception { execution, exception } => {
                self.drain_output()?;
                self.control.send(&FromAgent::Exception { execution, exception })
            }
            FromKernel::Done { completion, .. } => self.finish(completion),
        }
    }

    /// Starts a fresh kernel, unless the one in place is fresh already.
    fn replace(&mut self) -> Result<(), Failure> {
        match self.kernel.stage {
            KernelStage::Up => {
                self.kill_kernel(KernelEnd::Signaled {
                    signal: Signal::SIGKILL as i32,
                    by_agent: true,
                });
                Ok(())
            }
            KernelStage::Gone => self.next_kernel(),
            KernelStage::Confining(_) | KernelStage::Booting => Ok(()),
        }
    }

    fn reap(&self) {
        drop(self.children.ended());
    }

    /// Handles what is due: reading of changes, a check of the CPU time, or the overdue end of a
    /// kernel that closed its channel.
    fn handle_deadlines(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.changes.due()) {
            self.changes.read(&self.files.workdir);
        }
        for watcher in self.transfers.overdue(now) {
            self.step_transfer(watcher)?;
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
        let disk = fstatvfs(&self.files.workdir).map_or(0, |disk| {
            disk.blocks().saturating_sub(disk.blocks_free()).saturating_mul(disk.fragment_size())
        });
        let is_up = matches!(self.kernel.stage, KernelStage::Up);
        Description {
            generation: is_up.then_some(self.kernel.generation),
            execution: self.running.as_ref().map(|running| running.due.execution),
            processes: u32::try_from(usage::processes().len()).unwrap_or(u32::MAX),
            agent_pss_bytes: usage::pss_bytes(getpid()),
            kernel_pss_bytes: self.kernel.pid().map_or(0, usage::pss_bytes),
            disk_bytes: disk,
        }
    }
}

fn open_roots(context: &Context) -> Result<Roots, Failure> {
    let policy = &context.policy;
    let owner = policy.ids.filter(|_| context.applies(Layer::Namespaces));
    let owner = owner.map(|_| Context::KERNEL_ID);
    let max_file_bytes = policy.limits.max_file_size_mb.times(1 << 20);
    let max_file_bytes = max_file_bytes.filter(|_| context.applies(Layer::Rlimits));
    let open = |path: &Path| {
        Workdir::open(path, owner, max_file_bytes)
            .map_err(|error| failure(&format!("open {}", path.display()), error))
    };
    let roots = Roots::new(open(policy.inner_workdir())?, &policy.workdir);
    // Without the mounts layer it is the host's.
    if !context.applies(Layer::Mounts) {
        return Ok(roots);
    }
    Ok(roots.with_tmp(open(Path::new(places::TMP))?))
}
