//! The kernels of a context: which it has now, whether code has run in it, and why the one before
//! ended. Every answer tells, so that no client misses that its variables are lost.

use vivarium_api_types::{KernelInfo, PreviousEnd};
use vivarium_protocol::outcome::Cause;

use crate::session::cause;

#[derive(Debug, Default)]
pub(super) struct Kernels {
    context: String,
    generation: u64,
    has_run_code: bool,
    previous: Option<Ended>,
    /// Why this one ended, or was told to.
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Ended {
    end: PreviousEnd,
    /// Whether an answer, or whoever asked for it, knows.
    is_reported: bool,
}

impl Kernels {
    /// Of the context of this name.
    pub(super) fn of(context: &str) -> Self {
        Self { context: context.to_owned(), ..Self::default() }
    }

    pub(super) fn ready(&mut self) {
        self.generation += 1;
        self.has_run_code = false;
        self.previous = self.ended.take();
    }

    pub(super) const fn code_began(&mut self) {
        self.has_run_code = true;
    }

    /// The kernel ended, or was told to. What is known first is kept, unless memory was short: an
    /// order to end may cross that. Those that were never ready do not count.
    pub(super) fn ended(&mut self, cause: Cause, detail: &str, is_reported: bool) {
        if self.generation == 0 || (self.ended.is_some() && cause != Cause::MemoryLimit) {
            return;
        }
        let end = PreviousEnd { cause, detail: cause::bounded(detail) };
        self.ended = Some(Ended { end, is_reported });
    }

    /// The kernel there is, or was last; `None` before the first.
    pub(super) fn current(&self) -> Option<KernelInfo> {
        (self.generation > 0).then(|| KernelInfo {
            context: self.context.clone(),
            generation: self.generation,
            fresh: !self.has_run_code,
            previous_end: self.previous.as_ref().map(|ended| ended.end.clone()),
        })
    }

    /// What no answer has told yet of the end of the kernel before, until code has run since.
    pub(super) fn unreported(&self) -> Option<String> {
        let ended =
            self.previous.as_ref().filter(|ended| !ended.is_reported && !self.has_run_code)?;
        Some(format!("between executions {}: this one found a fresh kernel", ended.end.detail))
    }
}
