//! What the kernel and a command print, on its way to the supervisor.

use vivarium_protocol::message::{ExecutionNumber, Failure, FromAgent};

use super::Session;
use super::execution::{By, Running};
use crate::kernel::output::Output;

impl Session<'_> {
    /// Passes on what is there to be read. What the kernel prints while a command runs is kept
    /// for the kernel's next execution, as if nothing was running.
    pub(super) fn pass_output(&mut self) -> Result<(), Failure> {
        let Self { running, kernel, control, .. } = self;
        let (code, command) = match running {
            Some(Running { execution, by: By::Kernel { .. }, .. }) => (Some(*execution), None),
            Some(Running { execution, by: By::Command(command), .. }) if command.is_up() => {
                (None, Some((*execution, &mut command.outputs)))
            }
            _ => (None, None),
        };
        let mut told = Vec::new();
        read_once(&mut kernel.outputs, code, &mut told);
        if let Some((execution, outputs)) = command {
            read_once(outputs, Some(execution), &mut told);
        }
        told.iter().try_for_each(|message| control.tell(message))
    }

    /// Passes on all that was printed until now by what is running: before a display, and at the
    /// end. Without anything running it is the kernel's output, and passed on to nobody.
    pub(super) fn drain_output(&mut self) -> Result<(), Failure> {
        let Self { running, kernel, control, .. } = self;
        let (execution, outputs) = match running {
            Some(Running { execution, by: By::Command(command), .. }) => {
                (Some(*execution), &mut command.outputs)
            }
            Some(Running { execution, .. }) => (Some(*execution), &mut kernel.outputs),
            None => (None, &mut kernel.outputs),
        };
        let mut rest = Vec::new();
        for output in outputs.iter_mut() {
            let stream = output.stream();
            output.drain(|data| rest.push((stream, data)));
        }
        if let Some(execution) = execution {
            for (stream, data) in rest {
                control.tell(&FromAgent::Output { execution, stream, data })?;
            }
        }
        Ok(())
    }

    /// Passes on what is left of the output of what is running, and gives how much of each stream
    /// was not passed on.
    pub(super) fn end_output(&mut self) -> Result<[u64; 2], Failure> {
        self.drain_output()?;
        let [stdout, stderr] = match &mut self.running {
            Some(Running { by: By::Command(command), .. }) => &mut command.outputs,
            _ => &mut self.kernel.outputs,
        };
        Ok([stdout.end(), stderr.end()])
    }
}

/// Reads each of `outputs` once, for `execution` if it is running.
fn read_once(
    outputs: &mut [Output; 2],
    execution: Option<ExecutionNumber>,
    told: &mut Vec<FromAgent>,
) {
    for output in outputs {
        let stream = output.stream();
        let data = output.read(execution.is_some()).unwrap_or_default();
        if let (Some(execution), false) = (execution, data.is_empty()) {
            told.push(FromAgent::Output { execution, stream, data });
        }
    }
}
