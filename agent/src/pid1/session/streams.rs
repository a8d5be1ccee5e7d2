//! The output of the kernels, on its way to the supervisor. That of commands is in [`super::commands`].

use vivarium_protocol::leaf::ContextNumber;
use vivarium_protocol::message::{ExecutionNumber, Failure, FromAgent, Stream};

use super::Session;
use super::context::KernelContext;
use crate::kernel::output::Output;

impl Session<'_> {
    /// Passes on available output. What the kernel prints while it runs nothing is kept for its next
    /// execution.
    pub(super) fn pass_output(&mut self, context: ContextNumber) -> Result<(), Failure> {
        let Some(KernelContext { kernel, running, .. }) = self.contexts.get_mut(&context) else {
            return Ok(());
        };
        let execution = running.as_ref().map(|running| running.due.execution);
        let messages = read_once(&mut kernel.outputs, execution);
        messages.iter().try_for_each(|message| self.control.send(message))
    }

    /// Passes on all that the running code printed until now: before a display, and at the end.
    /// If none runs, drops the kernel's output.
    pub(super) fn drain_output(&mut self, context: ContextNumber) -> Result<(), Failure> {
        let Some(KernelContext { kernel, running, .. }) = self.contexts.get_mut(&context) else {
            return Ok(());
        };
        let rest = drain(&mut kernel.outputs);
        if let Some(execution) = running.as_ref().map(|running| running.due.execution) {
            for (stream, data) in rest {
                self.control.send(&FromAgent::Output { execution, stream, data })?;
            }
        }
        Ok(())
    }

    /// Passes on the rest of the running code's output. Returns how many bytes of each stream were
    /// dropped.
    pub(super) fn end_output(&mut self, context: ContextNumber) -> Result<[u64; 2], Failure> {
        self.drain_output(context)?;
        let Some(KernelContext { kernel, .. }) = self.contexts.get_mut(&context) else {
            return Ok([0, 0]);
        };
        let [stdout, stderr] = &mut kernel.outputs;
        Ok([stdout.end(), stderr.end()])
    }
}

/// All that was printed until now.
pub(super) fn drain(outputs: &mut [Output]) -> Vec<(Stream, Vec<u8>)> {
    let mut rest = Vec::new();
    for output in outputs {
        let stream = output.stream();
        output.drain(|data| rest.push((stream, data)));
    }
    rest
}

/// Reads each of `outputs` once, into messages for `execution` if it is running.
pub(super) fn read_once(
    outputs: &mut [Output],
    execution: Option<ExecutionNumber>,
) -> Vec<FromAgent> {
    let mut messages = Vec::new();
    for output in outputs {
        let stream = output.stream();
        let data = output.read(execution.is_some()).unwrap_or_default();
        if let (Some(execution), false) = (execution, data.is_empty()) {
            messages.push(FromAgent::Output { execution, stream, data });
        }
    }
    messages
}
