//! The session: one loop over the supervisor, the launcher, and the kernels in place.
//!
//! It decides nothing about time or policy: the supervisor says when to interrupt and when to
//! replace. It guarantees that a kernel's end is reported once, with its evidence, after all the
//! kernel printed; that nothing of a kernel outlives it; and that the next kernel starts.

mod commands;
mod context;
mod control;
mod cpu;
mod ending;
mod execution;
mod kernels;
mod ports;
mod results;
mod streams;
mod transfers;
mod wait;

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::statvfs::fstatvfs;
use nix::unistd::getpid;
use vivarium_protocol::discard;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT};
use vivarium_protocol::message::{
    Description, Execute, ExecutionNumber, Failure, FromAgent, FromLauncher, Stdin, ToAgent, Work,
};
use vivarium_protocol::places;

use self::commands::RunningCommand;
use self::context::KernelContext;
use self::control::Control;
use self::execution::Pending;
use self::transfers::Transfers;
use self::wait::Event;
use crate::children::Children;
use crate::failure::{OrFailure, failure};
use crate::files::{ChangeTracker, Roots, Workdir};
use crate::kernel::KernelStage;
use crate::kernel::command::CommandFiles;
use crate::kernel::launcher_client::LauncherClient;
use crate::leaf_control::LeafControl;
use crate::sandbox::{self, Context};
use crate::usage;

/// How long the end of a kernel that closed its channel may take to be reported.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A session's first kernel, which joins the session while this is being set up.
#[derive(Debug)]
pub(crate) struct FirstKernel {
    launcher: LauncherClient,
    context: KernelContext,
}

impl FirstKernel {
    /// Asks for it. It waits until there is a [`Session`].
    pub(crate) fn ask(
        sandbox: &Context,
        leaf: Option<LeafControl>,
        launcher: UnixStream,
    ) -> Result<Self, Failure> {
        let mut launcher = LauncherClient::new(launcher);
        let context = KernelContext::open(sandbox, FIRST_CONTEXT, leaf, &mut launcher)?;
        Ok(Self { launcher, context })
    }
}

#[derive(Debug)]
pub(crate) struct Session<'a> {
    sandbox: &'a Context,
    control: Control<'a>,
    launcher: LauncherClient,
    children: Children,
    contexts: BTreeMap<ContextNumber, KernelContext>,
    commands: BTreeMap<ExecutionNumber, RunningCommand>,
    pending: VecDeque<Pending>,
    files: Roots,
    transfers: Transfers,
    changes: ChangeTracker,
    /// The socket on which the egress gate accepts, where the network is `trusted`.
    egress: Option<TcpListener>,
    /// Whether the first context ever had a kernel: without one there is no session.
    ever_ready: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        sandbox: &'a Context,
        control: &'a UnixStream,
        first: FirstKernel,
        egress: Option<TcpListener>,
    ) -> Result<Self, Failure> {
        let FirstKernel { mut launcher, context: first } = first;
        let children = Children::watch().or_failure("signalfd")?;
        launcher.session_is_set_up(first.kernel.pending());
        // After the kernel goes on, which is what a session's start waits for.
        let files = open_roots(sandbox)?;
        let changes = ChangeTracker::new(&files.workdir);
        // Before a byte of tenant code's is read.
        sandbox::confine_agent(sandbox)?;
        Ok(Self {
            sandbox,
            control: Control::new(control),
            launcher,
            children,
            contexts: BTreeMap::from([(FIRST_CONTEXT, first)]),
            commands: BTreeMap::new(),
            pending: VecDeque::new(),
            files,
            transfers: Transfers::default(),
            changes,
            egress,
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
            discard(self.control.send_started(), "why the session ended matters more");
            self.control.flush();
        }
        ended
    }

    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            if self.turn()?.is_break() {
                self.control.write();
                ending::kill_all(); // PID 1's end does the same; without a namespace this does
                return Ok(());
            }
        }
    }

    /// Waits for what happens next, and handles it.
    fn turn(&mut self) -> Result<ControlFlow<()>, Failure> {
        // Checked also when there is always something else to do: a flood of output must not
        // postpone a deadline.
        if self.deadline_passed() {
            self.handle_deadlines()?;
            self.control.write();
        }
        for event in self.wait()? {
            if self.handle_event(event)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.control.write();
        Ok(ControlFlow::Continue(()))
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
            Event::KernelReport(context) => self.read_kernel_report(context)?,
            Event::CommandReport(execution) => self.read_command_report(execution, false)?,
            Event::Kernel { context, readable, writable } => {
                self.serve_kernel(context, readable, writable)?;
            }
            Event::Output(context) => self.pass_output(context)?,
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
                ToAgent::Kill { execution } => self.kill_command(execution)?,
                ToAgent::Signal { execution, signal } => {
                    if let Ok(signal) = Signal::try_from(signal) {
                        self.signal_command(execution, signal);
                    }
                }
                ToAgent::Resize { execution, size } => self.resize_command(execution, size),
                ToAgent::Hold { execution, held } => self.hold(execution, held),
                ToAgent::Replace { context } => self.replace(context)?,
                ToAgent::StartKernel { context, leaf } => self.start_kernel(context, leaf)?,
                ToAgent::OpenContext { context } => self.open_context(context)?,
                ToAgent::CloseContext { context } => self.close_context(context)?,
                ToAgent::Describe => {
                    let description = self.describe();
                    self.control.send(&FromAgent::Described(description))?;
                }
                ToAgent::CountProcesses => {
                    let count = u32::try_from(usage::running_processes()).unwrap_or(u32::MAX);
                    self.control.send(&FromAgent::Processes(count))?;
                }
                ToAgent::Ping => self.control.send(&FromAgent::Pong)?,
                ToAgent::Connect(request) => self.connect(request),
                ToAgent::Egress => self.hand_out_egress(),
                ToAgent::Close => return Ok(ControlFlow::Break(())),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn accept(&mut self, request: Execute) -> Result<(), Failure> {
        let mut files = CommandFiles::default();
        match &request.work {
            Work::Command(spec) => {
                if spec.stdin == Stdin::Pipe {
                    let pipe = self.control.descriptor().or_failure("receive a command's pipe")?;
                    files.pipe = Some(pipe);
                }
                if spec.own_leaf {
                    files.leaf = self.receive_leaf()?;
                }
            }
            Work::Code { .. } | Work::Assist { .. } | Work::Image(_) => {
                for _ in 0..request.work.descriptors() {
                    let given = self.control.descriptor();
                    files.for_kernel.push(given.or_failure("receive a kernel's descriptor")?);
                }
                let context = self.contexts.get(&request.context);
                if context.is_none_or(|context| context.closing) {
                    return Err(failure("accept code", "it is for a context that is not open"));
                }
            }
        }
        self.pending.push_back(Pending { request, files });
        self.start_pending()
    }

    fn recv_from_launcher(&mut self) -> Result<(), Failure> {
        match self.launcher.recv() {
            Ok(FromLauncher::Exited { number, end, usage }) => {
                let mut contexts = self.contexts.iter().filter(|(_, it)| !it.kernel.has_ended());
                match contexts.find(|(_, context)| context.kernel.spawn_number() == number) {
                    Some((context, _)) => self.kernel_ended(*context, end, usage),
                    None => self.command_ended(number, end, usage),
                }
            }
            Ok(FromLauncher::Mapped) => {
                Err(failure("receive from the launcher", "it spoke out of turn"))
            }
            // Without a launcher there are no more kernels.
            Err(error) => Err(failure("receive from the launcher", error)),
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
        if is_due(self.control.started_due()) {
            self.control.send_started()?;
        }
        if is_due(self.changes.due()) {
            self.changes.read(&self.files.workdir);
        }
        for watcher in self.transfers.overdue(now) {
            self.step_transfer(watcher)?;
        }
        let overdue = self.contexts.iter().filter(|(_, it)| is_due(it.kernel.exit_deadline));
        for context in overdue.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.exit_overdue(context, now)?;
        }
        self.check_cpu(now)
    }

    fn describe(&self) -> Description {
        let disk = fstatvfs(&self.files.workdir).map_or(0, |disk| {
            disk.blocks().saturating_sub(disk.blocks_free()).saturating_mul(disk.fragment_size())
        });
        let first = self.contexts.get(&FIRST_CONTEXT);
        let up = first.filter(|first| matches!(first.kernel.stage, KernelStage::Up));
        let running = first.and_then(|first| first.running.as_ref());
        let kernels = self.contexts.values().filter(|context| !context.kernel.has_ended());
        let kernels = kernels.filter_map(|context| context.kernel.pid());
        Description {
            generation: up.map(|first| first.kernel.generation),
            execution: running.map(|running| running.due.execution),
            processes: u32::try_from(usage::processes().len()).unwrap_or(u32::MAX),
            agent_pss_bytes: usage::pss_bytes(getpid()),
            kernel_pss_bytes: kernels.map(usage::pss_bytes).fold(0, u64::saturating_add),
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

#[cfg(test)]
mod tests;
