//! A command, from being asked for to its end.

use nix::sys::signal::Signal;
use vivarium_protocol::frame::FrameError;
use vivarium_protocol::message::{
    Completion, ExecutionNumber, Failure, FromAgent, Program, SpawnNumber, Stream, Work,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use super::Session;
use super::execution::{By, Running};
use crate::failure::failure;
use crate::kernel::command::Command;
use crate::kernel::launcher_client::SpawnProgress;
use crate::stream::StreamError;
use crate::usage;

/// What a shell's exit code is for a command that it could not execute.
const NOT_EXECUTABLE: i32 = 126;

impl Session<'_> {
    /// Asks for a command. It is told as started once it has been executed.
    pub(super) fn start_command(
        &mut self,
        mut running: Running,
        work: Work,
    ) -> Result<(), Failure> {
        let Work::Command { argv, stdin, cwd } = work else {
            return Ok(());
        };
        let output_cap = self.context.policy.limits.max_output_bytes.get();
        let program = Program::Command { argv, cwd };
        match Command::spawn(program, stdin, output_cap, &mut self.launcher) {
            Ok(command) => {
                running.by = By::Command(Box::new(command));
                self.running = Some(running);
                Ok(())
            }
            Err(StreamError::Frame(FrameError::TooLarge { .. })) => {
                self.running = Some(running);
                self.say_refused("the arguments are too long")?;
                self.finish(Completion::Exited(NOT_EXECUTABLE), Usage::default())
            }
            Err(error) => Err(failure("ask for a command", error)),
        }
    }

    /// The command tells how far it has come, or has told all it will because it is `gone`.
    pub(super) fn hear_command(&mut self, gone: bool) -> Result<(), Failure> {
        let command = self.running.as_mut().and_then(Running::command_mut);
        match command.map(|command| command.read_report(gone)) {
            None | Some(SpawnProgress::Pending) => Ok(()),
            Some(SpawnProgress::Started(_)) => {
                let Some(mut running) = self.running.take() else {
                    return Ok(());
                };
                self.begin_counting(&mut running);
                let execution = running.execution;
                self.running = Some(running);
                self.control.tell(&FromAgent::Started { execution })
            }
            Some(SpawnProgress::Failed(failed)) => self.say_refused(&failed.to_string()),
        }
    }

    /// The launcher says how a process ended that is not the kernel: the command that is
    /// running, or one that went with a kernel before.
    pub(super) fn command_ended(
        &mut self,
        number: SpawnNumber,
        end: KernelEnd,
        lifetime: Usage,
    ) -> Result<(), Failure> {
        let is_it = |command: &Command| command.spawn_number() == number;
        if !self.running.as_ref().and_then(Running::command).is_some_and(is_it) {
            return Ok(());
        }
        self.hear_command(true)?;
        let Some(command) = self.running.as_mut().and_then(Running::command_mut) else {
            return Ok(());
        };
        let killed_by_another = matches!(end, KernelEnd::Signaled { signal, .. } if signal == Signal::SIGKILL as i32)
            && !command.is_killed();
        if killed_by_another && self.kernel.pid().is_some_and(usage::is_dying) {
            // Both ran out of memory together. The kernel's end is about to be told, with this.
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

    /// Kills the command that is this execution.
    pub(super) fn kill_command(&mut self, execution: ExecutionNumber) {
        let running = self.running.as_mut().filter(|running| running.execution == execution);
        if let Some(command) = running.and_then(Running::command_mut) {
            command.kill();
        }
    }

    /// Says on the command's behalf, as a shell would, why it is not executed.
    fn say_refused(&mut self, why: &str) -> Result<(), Failure> {
        let Some(execution) = self.running.as_ref().map(|running| running.execution) else {
            return Ok(());
        };
        self.control.tell(&FromAgent::Started { execution })?;
        let data = format!("the command could not be started: {why}\n").into_bytes();
        self.control.tell(&FromAgent::Output { execution, stream: Stream::Stderr, data })
    }
}
