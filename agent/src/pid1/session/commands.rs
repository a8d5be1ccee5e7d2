//! A command, from its request to its end.

use nix::sys::signal::Signal;
use vivarium_protocol::frame::FrameError;
use vivarium_protocol::message::{
    Completion, ExecutionNumber, Failure, FromAgent, Program, SpawnNumber, Stream, Work,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};
use vivarium_protocol::stream::StreamError;

use super::Session;
use super::execution::{Runner, RunningExecution};
use crate::failure::failure;
use crate::kernel::command::Command;
use crate::kernel::launcher_client::SpawnProgress;
use crate::spawn::NOT_EXECUTABLE;
use crate::usage;

impl Session<'_> {
    /// Asks the launcher for a command. Its start is reported once it has been executed.
    pub(super) fn start_command(
        &mut self,
        mut running: RunningExecution,
        work: Work,
    ) -> Result<(), Failure> {
        let Work::Command { argv, stdin, cwd } = work else {
            return Ok(());
        };
        let output_cap = self.context.policy.limits.max_output_bytes.get();
        let program = Program::Command { argv, cwd };
        match Command::spawn(program, stdin, output_cap, &mut self.launcher) {
            Ok(command) => {
                running.runner = Runner::Command(Box::new(command));
                self.running = Some(running);
                Ok(())
            }
            Err(StreamError::Frame(FrameError::TooLarge(_))) => {
                self.running = Some(running);
                self.report_start_failure("the arguments are too long")?;
                self.finish(Completion::Exited(NOT_EXECUTABLE), Usage::default())
            }
            Err(error) => Err(failure("ask for a command", error)),
        }
    }

    /// Reads the command's report: to its end, once the launcher has said that it is `gone`.
    pub(super) fn read_command_report(&mut self, gone: bool) -> Result<(), Failure> {
        let command = self.running.as_mut().and_then(RunningExecution::command_mut);
        match command.map(|command| command.read_report(gone)) {
            None | Some(SpawnProgress::Pending) => Ok(()),
            Some(SpawnProgress::Started(_)) => {
                let Some(mut running) = self.running.take() else {
                    return Ok(());
                };
                self.begin_counting(&mut running);
                let execution = running.execution;
                self.running = Some(running);
                self.control.send(&FromAgent::Started { execution })
            }
            Some(SpawnProgress::Failed(failed)) => self.report_start_failure(&failed.to_string()),
        }
    }

    /// The launcher reports the end of a process that is not the kernel: the running command, or one
    /// that ended with a kernel before.
    pub(super) fn command_ended(
        &mut self,
        number: SpawnNumber,
        end: KernelEnd,
        lifetime: Usage,
    ) -> Result<(), Failure> {
        let is_it = |command: &Command| command.spawn_number() == number;
        if !self.running.as_ref().and_then(RunningExecution::command).is_some_and(is_it) {
            return Ok(());
        }
        self.read_command_report(true)?;
        let Some(command) = self.running.as_mut().and_then(RunningExecution::command_mut) else {
            return Ok(());
        };
        let killed_by_another = matches!(end, KernelEnd::Signaled { signal, .. } if signal == Signal::SIGKILL as i32)
            && !command.is_killed();
        if killed_by_another && self.kernel.pid().is_some_and(usage::is_dying) {
            // Both ran out of memory together. The kernel's end, reported in a moment, covers this.
            return Ok(());
        }
        command.clear();
        let completion = match end {
            _ if !command.is_up() => Completion::Exited(NOT_EXECUTABLE),
            KernelEnd::Exited(code) => Completion::Exited(code),
            KernelEnd::Signaled { signal, .. } => Completion::Signaled(signal),
            _ => Completion::Exited(NOT_EXECUTABLE),
        };
        self.finish(completion, lifetime)
    }

    pub(super) fn kill_command(&mut self, execution: ExecutionNumber) {
        let running = self.running.as_mut().filter(|running| running.execution == execution);
        if let Some(command) = running.and_then(RunningExecution::command_mut) {
            command.kill();
        }
    }

    /// Prints on the command's behalf, as a shell would, why it is not executed.
    fn report_start_failure(&mut self, why: &str) -> Result<(), Failure> {
        let Some(execution) = self.running.as_ref().map(|running| running.execution) else {
            return Ok(());
        };
        self.control.send(&FromAgent::Started { execution })?;
        let data = format!("the command could not be started: {why}\n").into_bytes();
        self.control.send(&FromAgent::Output { execution, stream: Stream::Stderr, data })
    }
}
