//! The output of kernel and command, on its way to the supervisor.

use vivarium_protocol::message::{ExecutionNumber, Failure, FromAgent};

use super::Session;
use super::execution::{Runner, RunningExecution};
use crate::kernel::output::Output;

impl Session<'_> {
    /// Passes on available output. What the kernel prints while a command runs is kept
    /// for the kernel's next execution, as if nothing was running.
    pub(super) fn pass_output(&mut self) -> Result<(), Failure> {
        let Self { running, kernel, control, .. } = self;
        let (code, command) = match running {
            Some(RunningExecution { execution, runner: Runner::Kernel { .. }, .. }) => {
                (Some(*execution), None)
            }
            Some(RunningExecution { execution, runner: Runner::Command(command), .. })
                if command.is_up() =>
            {
                (None, Some((*execution, &mut command.outputs)))
            }
            _ => (None, None),
        };
        let mut messages = Vec::new();
        read_once(&mut kernel.outputs, code, &mut messages);
        if let Some((execution, outputs)) = command {
            read_once(outputs, Some(execution), &mut messages);
        }
        messages.iter().try_for_each(|message| control.send(message))
    }

    /// Passes on all that the running execution printed until now: before a display, and at the end.
    /// If none runs, drops the kernel's output.
    pub(super) fn drain_output(&mut self) -> Result<(), Failure> {
        let Self { running, kernel, control, .. } = self;
        let (execution, outputs) = match running {
            Some(RunningExecution { execution, runner: Runner::Command(command), .. }) => {
                (Some(*execution), &mut command.outputs)
            }
            Some(RunningExecution { execution, .. }) => (Some(*execution), &mut kernel.outputs),
            None => (None, &mut kernel.outputs),
        };
        let mut rest = Vec::new();
        for output in outputs.iter_mut() {
            let stream = output.stream();
            output.drain(|data| rest.push((stream, data)));
        }
        if let Some(execution) = execution {
            for (stream, data) in rest {
                control.send(&FromAgent::Output { execution, stream, data })?;
            }
        }
        Ok(())
    }

    /// Passes on the rest of the running execution's output. Returns how many bytes of each stream were
    /// dropped.
    pub(super) fn end_output(&mut self) -> Result<[u64; 2], Failure> {
        self.drain_output()?;
        let [stdout, stderr] = match &mut self.running {
            Some(RunningExecution { runner: Runner::Command(command), .. }) => &mut command.outputs,
            _ => &mut self.kernel.outputs,
        };
        Ok([stdout.end(), stderr.end()])
    }
}

/// Reads each of `outputs` once, into messages for `execution` if it is running.
fn read_once(
    outputs: &mut [Output; 2],
    execution: Option<ExecutionNumber>,
    messages: &mut Vec<FromAgent>,
) {
    for output in outputs {
        let stream = output.stream();
        let data = output.read(execution.is_some()).unwrap_or_default();
        if let (Some(execution), false) = (execution, data.is_empty()) {
            messages.push(FromAgent::Output { execution, stream, data });
        }
    }
}
