//! Kernels, from the reports of their layers to their messages. Their ends are in [`super::ending`].

use std::time::Instant;

use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT};
use vivarium_protocol::message::{Failure, FromAgent};
use vivarium_protocol::outcome::KernelEnd;

use super::context::KernelContext;
use super::{EXIT_TIMEOUT, Session};
use crate::failure::OrFailure;
use crate::kernel::wire::FromKernel;
use crate::kernel::{KernelStage, ReadOutcome};

impl Session<'_> {
    pub(super) fn read_kernel_report(&mut self, number: ContextNumber) -> Result<(), Failure> {
        let Some(KernelContext { kernel, leaf, .. }) = self.contexts.get_mut(&number) else {
            return Ok(());
        };
        match kernel.read_report(self.sandbox) {
            Ok(()) if kernel.kill_reason.is_none() => return Ok(()),
            // It was not there yet when it was killed.
            Ok(()) if leaf.is_none() => kernel.kill_tree(),
            Ok(()) => {}
            Err(failed) if !self.ever_ready && number == FIRST_CONTEXT => return Err(failed),
            Err(failed) => {
                kernel.stage = KernelStage::Failed; // no more report will come
                kernel.kill_reason.get_or_insert(KernelEnd::NotStarted(failed.to_string()));
                kernel.exit_deadline = Some(Instant::now() + EXIT_TIMEOUT);
            }
        }
        leaf.as_ref().map_or(Ok(()), |leaf| leaf.kill()).or_failure("kill a kernel")
    }

    pub(super) fn serve_kernel(
        &mut self,
        number: ContextNumber,
        readable: bool,
        writable: bool,
    ) -> Result<(), Failure> {
        if writable && let Some(context) = self.contexts.get_mut(&number) {
            context.kernel.write();
        }
        if readable
            && self.read_kernel(number)? == ReadOutcome::Closed
            && let Some(context) = self.contexts.get_mut(&number)
        {
            // Most often it is dying, and its exit status comes in a moment.
            context.kernel.exit_deadline = Some(Instant::now() + EXIT_TIMEOUT);
        }
        Ok(())
    }

    pub(super) fn read_kernel(&mut self, number: ContextNumber) -> Result<ReadOutcome, Failure> {
        let Some(context) = self.contexts.get_mut(&number) else {
            return Ok(ReadOutcome::Nothing);
        };
        let outcome = context.kernel.read();
        while let Some(context) = self.contexts.get_mut(&number)
            && context.kernel.kill_reason.is_none()
        {
            match context.kernel.next_message() {
                Ok(Some(message)) => self.handle_kernel_message(number, message)?,
                Ok(None) => break,
                Err(error) => self.kill_kernel(number, KernelEnd::Protocol(error.to_string()))?,
            }
        }
        Ok(outcome)
    }

    fn handle_kernel_message(
        &mut self,
        context: ContextNumber,
        message: FromKernel,
    ) -> Result<(), Failure> {
        match message {
            FromKernel::Ready => self.kernel_ready(context),
            FromKernel::Started { .. } => self.execution_started(context),
            FromKernel::Value { value, .. } => self.pass_value(context, value),
            FromKernel::Display { display, .. } => self.pass_display(context, display),
            FromKernel::Exception { execution, exception } => {
                self.drain_output(context)?;
                self.control.send(&FromAgent::Exception { execution, exception })
            }
            FromKernel::Account { account, .. } => {
                self.note_account(context, account);
                Ok(())
            }
            FromKernel::Done { completion, .. } => self.finish(context, completion),
        }
    }

    fn kernel_ready(&mut self, context: ContextNumber) -> Result<(), Failure> {
        let Some(KernelContext { kernel, .. }) = self.contexts.get_mut(&context) else {
            return Ok(());
        };
        kernel.ready();
        self.ever_ready |= context == FIRST_CONTEXT;
        self.control.send(&FromAgent::KernelReady {
            context,
            generation: kernel.generation,
            origin: kernel.origin,
            protection: kernel.protection.clone(),
        })?;
        self.start_pending()
    }
}
