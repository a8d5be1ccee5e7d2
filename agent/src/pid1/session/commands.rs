//! Commands, each from its request to its end. They run beside the kernel and one another.

use std::time::Instant;

use nix::sys::signal::Signal;
use vivarium_protocol::frame::FrameError;
use vivarium_protocol::leaf::{FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{
    Changes, Completion, ExecutionNumber, Failure, FromAgent, SpawnNumber, Stream, WindowSize, Work,
};
use vivarium_protocol::outcome::{Account, KernelEnd, Usage};
use vivarium_protocol::stream::StreamError;

use super::Session;
use super::results::Due;
use super::streams::{drain, read_once};
use crate::failure::{OrFailure, failure};
use crate::kernel::command::{Command, CommandFiles};
use crate::kernel::launcher_client::SpawnProgress;
use crate::kernel::output::Output;
use crate::spawn::NOT_EXECUTABLE;

#[derive(Debug)]
pub(super) struct RunningCommand {
    pub(super) due: Due,
    pub(super) command: Command,
    /// When CPU time is next checked; `None` when it is not limited, its end was reported already, or
    /// it has not begun.
    pub(super) next_cpu_check: Option<Instant>,
    /// Whether its output waits.
    pub(super) held: bool,
}

impl Session<'_> {
    /// Asks the launcher for a command. Its start is reported once it has been executed.
    pub(super) fn start_command(
        &mut self,
        due: Due,
        work: Work,
        files: CommandFiles,
    ) -> Result<(), Failure> {
        let Work::Command(spec) = work else {
            return Ok(());
        };
        let (execution, is_pty) = (due.execution, spec.pty.is_some());
        let first = self.contexts.get(&FIRST_CONTEXT).map(|context| context.starts_in);
        let leaf = first.filter(|_| !spec.own_leaf).unwrap_or(Leaf::Command(execution));
        let output_cap = self.sandbox.policy.limits.max_output_bytes.get();
        match Command::spawn(spec, leaf, files, output_cap, &mut self.launcher) {
            Ok(command) => {
                let running = RunningCommand { due, command, next_cpu_check: None, held: false };
                self.commands.insert(execution, running);
                Ok(())
            }
            Err(StreamError::Frame(FrameError::TooLarge(_))) => {
                self.report_start_failure(execution, "the arguments are too long")?;
                self.send_done(due, Completion::Exited(NOT_EXECUTABLE), [0, 0], Usage::default())
            }
            Err(StreamError::Io(error)) if is_pty => {
                let why = format!("it was given no terminal: {error}");
                self.report_start_failure(execution, &why)?;
                self.send_done(due, Completion::Exited(NOT_EXECUTABLE), [0, 0], Usage::default())
            }
            Err(error) => Err(failure("ask for a command", error)),
        }
    }

    /// Reads a command's report: to its end, once the launcher has said that it is `gone`.
    pub(super) fn read_command_report(
        &mut self,
        execution: ExecutionNumber,
        gone: bool,
    ) -> Result<(), Failure> {
        let limit = self.cpu_limit().map(|limit| self.next_check(limit));
        let Some(running) = self.commands.get_mut(&execution) else {
            return Ok(());
        };
        match running.command.read_report(gone) {
            SpawnProgress::Pending => Ok(()),
            SpawnProgress::Started(_) => {
                running.next_cpu_check = limit;
                self.control.note_started(execution)?;
                self.control.send_started()
            }
            SpawnProgress::Failed(_) if running.command.is_killed() => {
                self.control.note_started(execution)?;
                self.control.send_started()
            }
            SpawnProgress::Failed(failed) => {
                self.report_start_failure(execution, &failed.to_string())
            }
        }
    }

    /// The launcher reports the end of a process that is no kernel: a command, or a kernel that was
    /// given up.
    pub(super) fn command_ended(
        &mut self,
        number: SpawnNumber,
        end: KernelEnd,
        lifetime: Usage,
    ) -> Result<(), Failure> {
        let mut commands = self.commands.iter();
        let found = commands.find(|(_, running)| running.command.spawn_number() == number);
        let Some(execution) = found.map(|(execution, _)| *execution) else {
            return Ok(());
        };
        self.read_command_report(execution, true)?;
        let Some(mut running) = self.commands.remove(&execution) else {
            return Ok(());
        };
        self.control.write(); // what ends may take its time
        running.command.clear().or_failure("clear the command's leaf")?;
        if running.command.has_own_leaf() {
            self.reap();
        }
        let completion = match end {
            _ if !running.command.is_up() && running.command.is_killed() => {
                Completion::Signaled(Signal::SIGKILL as i32)
            }
            _ if !running.command.is_up() => Completion::Exited(NOT_EXECUTABLE),
            KernelEnd::Exited(code) => Completion::Exited(code),
            KernelEnd::Signaled { signal, .. } => Completion::Signaled(signal),
            _ => Completion::Exited(NOT_EXECUTABLE),
        };
        for (stream, data) in drain(&mut running.command.streams.outputs) {
            self.control.send(&FromAgent::Output { execution, stream, data })?;
        }
        let mut dropped = running.command.streams.outputs.iter_mut().map(Output::end);
        let dropped = [dropped.next().unwrap_or(0), dropped.next().unwrap_or(0)];
        self.send_done(running.due, completion, dropped, lifetime)
    }

    fn send_done(
        &mut self,
        mut due: Due,
        completion: Completion,
        [stdout_dropped, stderr_dropped]: [u64; 2],
        usage: Usage,
    ) -> Result<(), Failure> {
        self.send_outputs(&due)?;
        let changes = self.changes_of(&mut due);
        self.control.send(&FromAgent::Done {
            execution: due.execution,
            completion,
            stdout_dropped,
            stderr_dropped,
            usage,
            changes,
            account: Account::default(),
        })
    }

    pub(super) fn pass_command_output(
        &mut self,
        execution: ExecutionNumber,
    ) -> Result<(), Failure> {
        let Some(running) = self.commands.get_mut(&execution) else {
            return Ok(());
        };
        let messages = read_once(&mut running.command.streams.outputs, Some(execution));
        messages.iter().try_for_each(|message| self.control.send(message))
    }

    pub(super) fn move_command_input(&mut self, execution: ExecutionNumber) {
        if let Some(running) = self.commands.get_mut(&execution) {
            running.command.move_input();
        }
    }

    pub(super) fn resize_command(&mut self, execution: ExecutionNumber, size: WindowSize) {
        if let Some(running) = self.commands.get(&execution) {
            running.command.resize(size);
        }
    }

    pub(super) fn signal_command(&mut self, execution: ExecutionNumber, signal: Signal) {
        if let Some(running) = self.commands.get_mut(&execution) {
            running.command.signal(signal);
        }
    }

    pub(super) fn kill_command(&mut self, execution: ExecutionNumber) -> Result<(), Failure> {
        if let Some(running) = self.commands.get_mut(&execution) {
            running.command.kill();
            return Ok(());
        }
        let mut pending = self.pending.iter().map(|pending| &pending.request);
        let waits = pending.position(|it| it.execution == execution && it.work.is_command());
        if waits.and_then(|at| self.pending.remove(at)).is_none() {
            return Ok(());
        }
        // It waits for a kernel, and has nothing to end with.
        self.control.note_started(execution)?;
        self.control.send(&FromAgent::Done {
            execution,
            completion: Completion::Signaled(Signal::SIGKILL as i32),
            stdout_dropped: 0,
            stderr_dropped: 0,
            usage: Usage::default(),
            changes: Changes::default(),
            account: Account::default(),
        })
    }

    /// All processes are killed, but not those in leaves of their own: so are to be the commands that are
    /// not in the session yet.
    pub(super) fn kill_arriving_commands(&mut self) {
        let commands = self.commands.values_mut().map(|running| &mut running.command);
        for command in commands.filter(|command| !command.is_up() && !command.has_own_leaf()) {
            command.kill();
        }
    }

    /// Prints on the command's behalf, as a shell would, why it is not executed.
    fn report_start_failure(
        &mut self,
        execution: ExecutionNumber,
        why: &str,
    ) -> Result<(), Failure> {
        self.control.note_started(execution)?;
        let data = format!("the command could not be started: {why}\n").into_bytes();
        self.control.send(&FromAgent::Output { execution, stream: Stream::Stderr, data })
    }
}
