//! The session's contexts: each a kernel, with what that runs and, where there are cgroups, its leaf.
//!
//! With leaves a context's kernel ends alone. Without, nobody can tell for certain what belongs to
//! which kernel, so that the end of one is the end of all: see [`super::ending`].

use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{ExecutionNumber, Failure, FromAgent, Generation};

use super::Session;
use super::ending::REPLACED;
use super::execution::RunningExecution;
use crate::failure::{OrFailure, failure};
use crate::kernel::launcher_client::LauncherClient;
use crate::kernel::{Kernel, KernelStage};
use crate::leaf_control::LeafControl;
use crate::sandbox::Context;

#[derive(Debug)]
pub(super) struct KernelContext {
    pub(super) kernel: Kernel,
    /// What the kernel runs.
    pub(super) running: Option<RunningExecution>,
    /// Control of its kernel's leaf, where there are cgroups.
    pub(super) leaf: Option<LeafControl>,
    /// Which that is.
    pub(super) starts_in: Leaf,
    /// Whether no kernel follows on this one.
    pub(super) closing: bool,
}

impl KernelContext {
    /// Asks the launcher for its first kernel.
    pub(super) fn open(
        sandbox: &Context,
        number: ContextNumber,
        leaf: Option<LeafControl>,
        launcher: &mut LauncherClient,
    ) -> Result<Self, Failure> {
        // Its kernel would be killed with all that is in another leaf, or not at all.
        if leaf.is_some() != sandbox.policy.cgroup.is_some() {
            return Err(failure("open a context", "its leaf's files are not what the policy says"));
        }
        let starts_in = Leaf::first_of(number);
        let kernel = Kernel::spawn(sandbox, starts_in, 1, launcher)?;
        Ok(Self { kernel, running: None, leaf, starts_in, closing: false })
    }

    pub(super) fn runs(&self, execution: ExecutionNumber) -> bool {
        self.running.as_ref().is_some_and(|running| running.due.execution == execution)
    }

    fn next_generation(&self) -> Generation {
        self.kernel.generation.saturating_add(1)
    }
}

impl Session<'_> {
    pub(super) fn open_context(&mut self, number: ContextNumber) -> Result<(), Failure> {
        let leaf = self.receive_leaf()?;
        if self.contexts.contains_key(&number) {
            return Err(failure("open a context", "it is open already"));
        }
        let context = KernelContext::open(self.sandbox, number, leaf, &mut self.launcher)?;
        self.contexts.insert(number, context);
        Ok(())
    }

    /// Control of the leaf that a message is about, where there are cgroups.
    pub(super) fn receive_leaf(&mut self) -> Result<Option<LeafControl>, Failure> {
        if self.sandbox.policy.cgroup.is_none() {
            return Ok(None);
        }
        let mut receive = || self.control.descriptor();
        let leaf = receive().and_then(|kill| LeafControl::new(kill, receive()?));
        leaf.map(Some).or_failure("receive a leaf's files")
    }

    /// Ends a context with its kernel. One that is being started ends as soon as it has arrived: after
    /// the last message about a context none of its processes arrives any more.
    pub(super) fn close_context(&mut self, number: ContextNumber) -> Result<(), Failure> {
        let context = self.contexts.get_mut(&number).filter(|_| number != FIRST_CONTEXT);
        let Some(context) = context else {
            return Err(failure("close a context", "it is the first, or not open"));
        };
        context.closing = true;
        let is_over = context.kernel.has_ended();
        self.pending.retain(|pending| {
            pending.request.work.is_command() || pending.request.context != number
        });
        if is_over { self.context_closed(number) } else { self.kill_kernel(number, REPLACED) }
    }

    pub(super) fn context_closed(&mut self, context: ContextNumber) -> Result<(), Failure> {
        self.contexts.remove(&context);
        self.control.send(&FromAgent::ContextClosed { context })?;
        self.start_next_kernels()
    }

    /// Starts the next kernel of a context, in a leaf that was made for it.
    pub(super) fn start_kernel(
        &mut self,
        number: ContextNumber,
        starts_in: Leaf,
    ) -> Result<(), Failure> {
        let leaf = self.receive_leaf()?;
        // It may have been closed meanwhile.
        let Some(context) = self.contexts.get_mut(&number).filter(|context| !context.closing)
        else {
            return Ok(());
        };
        if leaf.is_none() || !context.kernel.has_ended() {
            return Err(failure(
                "start a kernel",
                "there are no cgroups, or the last has not ended",
            ));
        }
        let generation = context.next_generation();
        (context.leaf, context.starts_in) = (leaf, starts_in);
        context.kernel = Kernel::spawn(self.sandbox, starts_in, generation, &mut self.launcher)?;
        Ok(())
    }

    /// Kills a context's kernel, unless it is fresh already. Without leaves the next one starts.
    pub(super) fn replace(&mut self, number: ContextNumber) -> Result<(), Failure> {
        // It may have been closed meanwhile.
        let Some(context) = self.contexts.get_mut(&number).filter(|context| !context.closing)
        else {
            return Ok(());
        };
        match context.kernel.stage {
            KernelStage::Up => self.kill_kernel(number, REPLACED),
            KernelStage::Gone if context.leaf.is_none() => {
                context.kernel.stage = KernelStage::Ended;
                self.start_next_kernels()
            }
            KernelStage::Gone
            | KernelStage::Confining(_)
            | KernelStage::Booting
            | KernelStage::Failed
            | KernelStage::Ended => Ok(()),
        }
    }

    /// Without leaves, asks for the kernels that follow on those that have ended: once all that are killed
    /// have, as with the last of them everything is killed once more.
    pub(super) fn start_next_kernels(&mut self) -> Result<(), Failure> {
        let is_ending = |kernel: &Kernel| !kernel.has_ended() && kernel.kill_reason.is_some();
        let is_quiet = !self.contexts.values().any(|context| is_ending(&context.kernel));
        for context in self.contexts.values_mut() {
            let is_due = matches!(context.kernel.stage, KernelStage::Ended);
            if is_due && is_quiet && context.leaf.is_none() {
                let (leaf, generation) = (context.starts_in, context.next_generation());
                context.kernel = Kernel::spawn(self.sandbox, leaf, generation, &mut self.launcher)?;
            }
        }
        Ok(())
    }
}
