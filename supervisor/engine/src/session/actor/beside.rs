//! Commands, which run beside the kernel and one another. Each has its own clock, and ends alone: by
//! itself, by a signal, at its time, or with the kernel that it shares a leaf with.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep_until};
use vivarium_protocol::leaf::{FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{Completion, ExecutionNumber, FromAgent, ToAgent, Work};
use vivarium_protocol::outcome::{Cause, KernelEnd, State, Status, Usage};

use super::finish::{lost, with_kernel};
use super::leaves::{Starting, descriptors};
use super::verdict::{Verdict, join};
use super::{Accounting, Actor, End, RunningExecution, Step, Stop};
use crate::budget::Reservation;
use crate::cgroup::{CgroupEventCounts, LeafFiles, OomAttribution};
use crate::session::QueuedExecution;
use crate::session::cause;
use crate::session::deadlines::{Awaited, Deadline, Overdue};

/// The most commands that run in a session at a time.
pub const MAX_COMMANDS: usize = 32;

/// A command that the agent has been sent.
pub(super) struct RunningCommand {
    pub(super) execution: RunningExecution,
    /// Whether what waits for its turn waits for this.
    pub(super) has_turn: bool,
    is_background: bool,
    pub(super) has_terminal: bool,
    deadline: Deadline,
    /// Whether its output waits for who reads it.
    held: bool,
    /// Whether it goes on when the session is reset.
    survives_reset: bool,
    /// What is counted of its own leaf, if it has one.
    accounting: Option<Accounting>,
    /// What the leaf of the first context had counted when it began.
    counted: CgroupEventCounts,
    /// The same of memory that was used up.
    oom: OomAttribution,
    /// Why the kernel was, or is being, replaced with which it ends.
    kernel_end: Option<(Cause, String)>,
}

/// What becomes of commands without the agent's saying anything.
#[derive(Debug, Clone, Copy)]
pub(super) enum CommandEvent {
    /// Its time is up.
    Late(ExecutionNumber),
    /// Who reads it has caught up.
    Read(ExecutionNumber),
    /// Everybody went away for whom it runs.
    Abandoned(ExecutionNumber),
}

/// Waits for the next event; for ever if there are no commands.
pub(super) async fn next_event(
    commands: &BTreeMap<ExecutionNumber, RunningCommand>,
) -> CommandEvent {
    if commands.is_empty() {
        return std::future::pending().await;
    }
    let mut events: Vec<_> = commands
        .iter()
        .map(|(number, command)| Box::pin(next_event_of(*number, command)))
        .collect();
    poll_fn(|cx| {
        let happened = events.iter_mut().find_map(|event| match event.as_mut().poll(cx) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        });
        happened.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

async fn next_event_of(number: ExecutionNumber, command: &RunningCommand) -> CommandEvent {
    let log = command.execution.writer.log();
    let may_be_abandoned = command.execution.stop.is_none();
    tokio::select! {
        () = async {
            match command.deadline.at() {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        } => CommandEvent::Late(number),
        () = log.ready_for_events(), if command.held => CommandEvent::Read(number),
        () = log.abandoned(), if may_be_abandoned => CommandEvent::Abandoned(number),
    }
}

impl Actor {
    /// Starts a command, or first has a leaf made for it: one that nobody waits for outlives kernels.
    pub(super) fn take_up_command(&mut self, queued: QueuedExecution) -> Step {
        match self.resources.scope.clone().filter(|_| queued.spec.is_background()) {
            Some(scope) => {
                let leaf = Leaf::Command(queued.number);
                self.arriving.insert(queued.number, queued.spec.prints_on());
                self.make_leaf(scope, leaf, Starting::Command(Box::new(queued), self.resets));
                Step::Continue(())
            }
            None => self.start_command(queued, None),
        }
    }

    /// Starts a command, in a leaf of its own if it has one.
    pub(super) fn start_command(
        &mut self,
        mut queued: QueuedExecution,
        made: Option<(LeafFiles, Accounting)>,
    ) -> Step {
        let has_turn = queued.spec.waits_for_turn();
        let is_background = queued.spec.is_background();
        let has_terminal = queued.spec.prints_on();
        let survives_reset = queued.spec.survives_reset;
        let mut alongside: Vec<_> = queued.spec.descriptor.take().into_iter().collect();
        let (leaf, meter, accounting) = match made {
            Some((files, accounting)) => {
                alongside.extend(descriptors(files));
                if let Work::Command(command) = &mut queued.spec.work {
                    command.own_leaf = true;
                }
                let meter = Arc::clone(&accounting.meter);
                (Leaf::Command(queued.number), meter, Some(accounting))
            }
            None => {
                let first = self.contexts.first();
                (first.leaf, Arc::clone(&first.accounting.meter), None)
            }
        };
        let (execution, message) = self.take_up(queued, FIRST_CONTEXT, leaf, meter);
        let number = execution.number;
        if let Err(error) = self.channel.send_with(&message, alongside) {
            self.reject(execution, None, error.to_string());
            return Step::Continue(());
        }
        self.liveness.wanted();
        self.sequence.sent_command(number);
        let mut command = RunningCommand {
            execution,
            has_turn,
            is_background,
            has_terminal,
            deadline: Deadline::default(),
            held: false,
            survives_reset,
            accounting,
            counted: self.contexts.first().accounting.counter.counted(),
            oom: self.contexts.first().accounting.oom.clone(),
            kernel_end: None,
        };
        command.deadline.set(Awaited::Handover, &self.session.timing, command.execution.timeout);
        self.commands.insert(number, command);
        self.note_state();
        self.send_what_came_early(number)
    }

    pub(super) fn foreground_commands(&self) -> usize {
        self.commands.values().filter(|command| !command.is_background).count()
    }

    pub(super) fn last_foreground_command(&self) -> Option<ExecutionNumber> {
        let mut commands = self.commands.iter().rev();
        commands.find(|(_, command)| !command.is_background).map(|(number, _)| *number)
    }

    /// What the agent says of a command; [`vivarium_protocol::sequence`] knows that it may.
    pub(super) fn on_command_message(
        &mut self,
        number: ExecutionNumber,
        message: FromAgent,
        paid: Option<&Reservation>,
    ) -> Step {
        match message {
            FromAgent::Started { at_us, .. } => self.command_started(number, at_us),
            FromAgent::FilesRefused { name, reason, .. } => {
                if let Some(command) = self.take_command(number) {
                    let detail = cause::bounded(&format!("input file {name:?}: {reason}"));
                    self.reject(command.execution, None, detail);
                }
                self.dispatch(FIRST_CONTEXT)
            }
            FromAgent::CpuLimitReached { used_us, .. } => {
                let stop = self.commands.get(&number).map(|command| command.execution.stop);
                match stop {
                    Some(None | Some(Stop::User)) => {
                        self.stop_command(number, Stop::CpuTime(used_us))
                    }
                    _ => Step::Continue(()),
                }
            }
            FromAgent::Done { completion, usage, .. } => {
                self.fold_of_command(number, message, paid)?;
                if let Some(command) = self.take_command(number) {
                    self.finish_command(command, completion, usage);
                }
                self.dispatch(FIRST_CONTEXT)
            }
            _ => self.fold_of_command(number, message, paid),
        }
    }

    fn take_command(&mut self, number: ExecutionNumber) -> Option<RunningCommand> {
        let command = self.commands.remove(&number);
        // Before anybody has its answer, as for a session that is idle again.
        self.note_state();
        command
    }

    fn command_started(&mut self, number: ExecutionNumber, at_us: u64) -> Step {
        let kernels = &self.contexts.first().kernels;
        let kernel = (kernels.current(), kernels.unreported());
        let Some(command) = self.commands.get_mut(&number) else { return Step::Continue(()) };
        let running = &mut command.execution;
        let waited = running.start(&self.session.identity.id, at_us);
        running.kernel = Some(kernel);
        self.launch.observer.execution_started(waited);
        command.deadline.set(Awaited::Code, &self.session.timing, running.time_left());
        // An interrupt that came before it began.
        if running.stop == Some(Stop::User) {
            self.interrupt_command(number)
        } else {
            Step::Continue(())
        }
    }

    /// Takes in what came of a command. Where who reads it is behind, it is to wait.
    fn fold_of_command(
        &mut self,
        number: ExecutionNumber,
        message: FromAgent,
        paid: Option<&Reservation>,
    ) -> Step {
        let Some(command) = self.commands.get_mut(&number) else { return Step::Continue(()) };
        command.execution.fold(message, paid, &self.launch.account);
        let is_behind = !command.execution.writer.log().is_ready_for_events();
        if is_behind && !command.held && command.execution.stop.is_none() {
            command.held = true;
            self.send(&ToAgent::Hold { execution: number, held: true })?;
        }
        Step::Continue(())
    }

    pub(super) fn on_command_event(&mut self, event: CommandEvent) -> Step {
        match event {
            CommandEvent::Read(number) => self.let_print(number),
            CommandEvent::Abandoned(number) => self.hang_up(number),
            CommandEvent::Late(number) => self.command_late(number),
        }
    }

    fn command_late(&mut self, number: ExecutionNumber) -> Step {
        let deadline = self.commands.get(&number).map(|command| command.deadline);
        let Some(awaited) = deadline.and_then(|deadline| deadline.passed_by(Instant::now())) else {
            return Step::Continue(());
        };
        match awaited.overdue() {
            Overdue::Interrupt => self.stop_command(number, Stop::WallTime),
            Overdue::Kill => {
                if let Some(command) = self.commands.get_mut(&number) {
                    command.execution.killed = true;
                    command.deadline.set(Awaited::Dying, &self.session.timing, Default::default());
                }
                self.send(&ToAgent::Kill { execution: number })
            }
            Overdue::GiveUp(cause, why) => Step::Break(End::new(cause, why)),
        }
    }

    /// Sends SIGINT to a command, and waits for it to give way.
    fn stop_command(&mut self, number: ExecutionNumber, stop: Stop) -> Step {
        if let Some(command) = self.commands.get_mut(&number) {
            command.execution.stop = Some(stop);
            command.deadline.set(Awaited::GivingWay, &self.session.timing, Default::default());
        }
        self.let_print(number)?;
        self.send(&ToAgent::Interrupt { execution: number })
    }

    /// Sends SIGINT to a command. Its deadline stays: one that ignores it is not killed for it.
    pub(super) fn interrupt_command(&mut self, number: ExecutionNumber) -> Step {
        if let Some(command) = self.commands.get_mut(&number) {
            command.execution.stop.get_or_insert(Stop::User);
        }
        self.let_print(number)?;
        self.send(&ToAgent::Interrupt { execution: number })
    }

    /// Everybody went away for whom a command runs. Where it has a terminal, that is gone: SIGHUP of
    /// signal(7), which a shell does not ignore.
    fn hang_up(&mut self, number: ExecutionNumber) -> Step {
        let has_terminal = self.commands.get(&number).is_some_and(|command| command.has_terminal);
        self.interrupt_command(number)?;
        if has_terminal {
            let signal = Signal::SIGHUP as i32;
            self.send(&ToAgent::Signal { execution: number, signal })?;
        }
        Step::Continue(())
    }

    /// Lets a command that waits for its readers go on: it is to be seen to end.
    pub(super) fn let_print(&mut self, number: ExecutionNumber) -> Step {
        let held = self.commands.get_mut(&number).map(|command| &mut command.held);
        if held.is_some_and(std::mem::take) {
            self.send(&ToAgent::Hold { execution: number, held: false })?;
        }
        Step::Continue(())
    }

    /// The session is reset, and with it go the commands that are not to outlive that: those with a
    /// leaf of their own are killed one by one.
    pub(super) fn end_background(&mut self) -> Step {
        self.resets += 1;
        let numbers: Vec<_> = self.commands.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.end_with_reset(number))
    }

    pub(super) fn end_with_reset(&mut self, number: ExecutionNumber) -> Step {
        let command = self.commands.get_mut(&number);
        let Some(command) = command.filter(|it| it.accounting.is_some() && !it.survives_reset)
        else {
            return Step::Continue(());
        };
        let reset = || (Cause::Reset, "the session was reset".to_owned());
        command.kernel_end.get_or_insert_with(reset);
        self.let_print(number)?;
        self.send(&ToAgent::Kill { execution: number })
    }

    /// The kernel of the first context is gone, or is to go, and with it what is in its leaf.
    pub(super) fn commands_end_with_kernel(&mut self, cause: Cause, detail: &str) {
        for command in self.commands.values_mut().filter(|it| it.accounting.is_none()) {
            command.kernel_end.get_or_insert_with(|| (cause, detail.to_owned()));
        }
    }

    fn finish_command(&mut self, command: RunningCommand, completion: Completion, usage: Usage) {
        let RunningCommand { execution, counted, mut oom, kernel_end, accounting, .. } = command;
        let evidence = match accounting {
            Some(mut accounting) => {
                self.remove_leaf(execution.leaf);
                self.evidence_of_leaf(&mut accounting)
            }
            None => self.evidence_since(counted, &mut oom),
        };
        let was_killed = completion == Completion::Signaled(Signal::SIGKILL as i32);
        if was_killed && evidence.oom_kills > 0 && !execution.killed && kernel_end.is_none() {
            let end = KernelEnd::Signaled { signal: Signal::SIGKILL as i32, by_agent: false };
            let (cause, detail) = cause::explain(&end, &self.session.limits(), evidence);
            let (status, state) = (Status::Killed, State::Preserved);
            let verdict = Verdict { status, cause: Some(cause), detail, state, exit_code: None };
            return self.answer(execution, verdict, usage);
        }
        match kernel_end {
            Some((cause, detail)) if was_killed => {
                let verdict = lost(Status::Killed, cause, with_kernel(&detail));
                self.answer(execution, verdict, usage);
            }
            kernel_end => {
                let mut verdict = self.verdict(&execution, completion, evidence.forks_refused);
                if kernel_end.is_some() {
                    join(&mut verdict.detail, "the session's kernel was replaced meanwhile");
                    verdict.state = State::Lost;
                }
                self.answer(execution, verdict, usage);
            }
        }
    }

    /// The session is over, and all its commands.
    pub(super) fn take_commands(&mut self) -> Vec<RunningExecution> {
        let commands = std::mem::take(&mut self.commands);
        self.note_state();
        commands.into_values().map(|command| command.execution).collect()
    }
}
