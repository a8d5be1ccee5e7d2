//! Answering an execution.

use vivarium_api_types::{ExecutionUsage, MAIN_CONTEXT, SessionState};
use vivarium_protocol::leaf::ContextNumber;
use vivarium_protocol::message::Completion;
use vivarium_protocol::outcome::{Cause, State, Status, Usage};

use super::publish::Answer;
use super::running::Overlap;
use super::verdict::{self, Known, Verdict, join, limit_reached};
use super::{Actor, Context, RunningExecution, Stop};
use crate::cgroup::Used;
use crate::session::QueuedExecution;
use crate::session::audited::Audited;
use crate::session::cause;
use crate::session::execution::Kind;
use crate::session::millis;
use crate::session::output::Collector;

/// How far `cpu.stat` may be behind, in microseconds: what a process uses is added to it when it
/// leaves its CPU or the clock ticks, with CONFIG_HZ=100 every 10 ms. So the first execution after
/// Python's start would be charged with some of that.
const TICK_US: u64 = 10_000;

/// What an outcome says that lacks something for want of room.
const STARVED: &str = "the daemon had no room for all that it printed or showed, and dropped the \
                       rest (server.max_buffered_mb, server.max_tenant_buffered_mb)";

impl Actor {
    /// The kernel said that it is over.
    ///
    /// `forks_refused` is what the scope has counted meanwhile.
    pub(super) fn finish_done(
        &mut self,
        number: ContextNumber,
        completion: Completion,
        usage: Usage,
        forks_refused: u64,
    ) {
        let Some(running) = self.take_running(number) else { return };
        let mut verdict = self.verdict(&running, completion, forks_refused);
        // An order to replace the kernel may be on its way to the agent.
        let is_ending = |context: &Context| {
            context.state == SessionState::Replacing || context.closing.is_some()
        };
        if self.contexts.get(number).is_some_and(is_ending) {
            join(&mut verdict.detail, "its kernel was replaced as it ended");
            verdict.state = State::Lost;
        }
        self.answer(running, verdict, usage);
    }

    pub(super) fn verdict(
        &self,
        running: &RunningExecution,
        completion: Completion,
        forks_refused: u64,
    ) -> Verdict {
        let known = Known {
            completion,
            stop: running.stop,
            killed: running.killed,
            timeout: running.timeout,
            grace: self.session.timing.interrupt_grace,
            exception: running.collector.exception(),
            forks_refused,
            limits: &self.session.limits(),
            network: self.session.identity.network,
        };
        known.verdict()
    }

    /// The kernel is gone.
    pub(super) fn finish_killed(
        &mut self,
        number: ContextNumber,
        cause: Cause,
        detail: &str,
        usage: Usage,
        forks_refused: u64,
    ) {
        let Some(running) = self.take_running(number) else { return };
        let Some(context) = self.contexts.get_mut(number) else { return };
        let (grace, limits) = (self.session.timing.interrupt_grace, &self.session.limits());
        let (status, cause, detail) = match running.stop {
            // The kernel's own evidence is the better one.
            _ if cause == Cause::MemoryLimit => (Status::Killed, cause, detail.to_owned()),
            Some(stop @ (Stop::WallTime | Stop::CpuTime(_))) => {
                let (cause, limit) = limit_reached(stop, running.timeout, limits);
                let ignored = if context.state == SessionState::Replacing {
                    let mut ignored = verdict::ignored("code", grace);
                    if forks_refused > 0 {
                        join(&mut ignored, &cause::refusals(limits, forks_refused));
                    }
                    ignored
                } else {
                    detail.to_owned()
                };
                (Status::TimedOut, cause, format!("{limit}, and {ignored}"))
            }
            Some(Stop::Reset) => (Status::Killed, Cause::Reset, why_reset(&context.name)),
            Some(Stop::ContextDeleted) => {
                (Status::Killed, Cause::Deleted, "its context was deleted".to_owned())
            }
            _ if cause == Cause::CpuLimit => (Status::TimedOut, cause, detail.to_owned()),
            _ => (Status::Killed, cause, detail.to_owned()),
        };
        context.kernels.ended(cause, &detail, !running.kind.is_question());
        self.answer(running, lost(status, cause, detail), usage);
    }

    /// Why the kernel is told to go.
    pub(super) fn kill_reason(&self, number: ContextNumber) -> (Cause, String) {
        let (grace, limits) = (self.session.timing.interrupt_grace, &self.session.limits());
        let context = self.contexts.get(number);
        let running = context.and_then(|context| context.running.as_ref());
        match running.and_then(|running| Some((running.stop?, running.timeout))) {
            Some((stop @ (Stop::WallTime | Stop::CpuTime(_)), timeout)) => {
                let (cause, limit) = limit_reached(stop, timeout, limits);
                (cause, format!("{limit}, and {}", verdict::ignored("code", grace)))
            }
            _ => (Cause::Reset, why_reset(context.map_or(MAIN_CONTEXT, |context| &context.name))),
        }
    }

    pub(super) fn finish_ended(&mut self, cause: Cause, detail: &str) {
        let mut running = self.take_commands();
        for number in self.contexts.numbers() {
            running.extend(self.take_running(number));
        }
        for running in running {
            self.finish_with_session(running, cause, detail);
        }
    }

    fn finish_with_session(&mut self, running: RunningExecution, cause: Cause, detail: &str) {
        let verdict = match running.stop {
            // It was over its limit, and then could not even be killed in an orderly way.
            Some(stop @ (Stop::WallTime | Stop::CpuTime(_)))
                if !matches!(cause, Cause::Deleted | Cause::Expired) =>
            {
                let limits = &self.session.limits();
                let (cause, limit) = limit_reached(stop, running.timeout, limits);
                let detail = format!("{limit}, and the session was killed: {detail}");
                lost(Status::TimedOut, cause, detail)
            }
            _ => lost(Status::Killed, cause, detail.to_owned()),
        };
        self.answer(running, verdict, Usage::default());
    }

    pub(super) fn reject(
        &mut self,
        running: RunningExecution,
        cause: Option<Cause>,
        detail: String,
    ) {
        let (status, state) = (Status::Rejected, State::Preserved);
        let verdict = Verdict { status, cause, detail, state, exit_code: None };
        self.answer(running, verdict, Usage::default());
    }

    pub(super) fn answer(
        &mut self,
        mut running: RunningExecution,
        mut verdict: Verdict,
        usage: Usage,
    ) {
        for happened in running.collector.rest() {
            running.writer.push(happened);
        }
        self.end_calls(&mut running);
        let usage = Self::usage_of(&running, usage);
        let RunningExecution {
            number,
            kind,
            started,
            leaf,
            collector,
            writer,
            session_created,
            before,
            audited,
            kernel,
            reservation,
            ..
        } = running;
        let (kernel, unreported) = kernel.unwrap_or_else(|| {
            let of_it = self.contexts.running_in(leaf);
            (of_it.kernels.current(), of_it.kernels.unreported())
        });
        let collected = collector.finish();
        let usage = ExecutionUsage { work: collected.work, ..usage };
        if collected.oversized {
            join(&mut verdict.detail, "a result over max_result_bytes was left out");
        }
        if collected.starved {
            self.launch.observer.output_dropped();
            join(&mut verdict.detail, STARVED);
        }
        let ran = started.map(|at| at.elapsed());
        // Nobody asks for the outcome of a question: the next one's says what it has cost.
        if !kind.is_question() {
            if let Some(unreported) = unreported {
                join(&mut verdict.detail, &unreported);
            }
            let mut status = self.session.status();
            status.usage.executions += 1;
            status.usage.cpu_ms += usage.cpu_ms;
            status.usage.memory_peak_bytes =
                status.usage.memory_peak_bytes.max(usage.memory_peak_bytes);
        }
        if kind != Kind::Image {
            self.session.touch();
        }
        let answer = Answer {
            number,
            kind,
            verdict,
            collected,
            ran,
            usage,
            kernel,
            session_created,
            before,
        };
        if !kind.is_question() && answer.verdict.state == State::Preserved && !self.runs_anything()
        {
            self.session.checkpoint_due(number);
        }
        self.publish(answer, audited, writer, reservation);
    }

    fn runs_anything(&self) -> bool {
        let runs = |context: &Context| context.running.is_some();
        !self.commands.is_empty()
            || !self.making.is_empty()
            || self.contexts.iter().any(|(_, context)| runs(context))
    }

    /// Answers an execution that never had a turn.
    pub(super) fn never_ran(
        &self,
        queued: QueuedExecution,
        cause: impl Into<Option<Cause>>,
        detail: &str,
        state: State,
    ) {
        let QueuedExecution { spec, streamed, session_created, number, .. } = queued;
        let QueuedExecution { writer, reservation, .. } = queued;
        let kind = spec.kind();
        let observer = &self.launch.observer;
        let audited = Audited::of(&spec.work, &self.session.limits(), spec.timeout, observer);
        let detail = detail.to_owned();
        let (status, cause, exit_code) = (Status::Rejected, cause.into(), None);
        let verdict = Verdict { status, cause, detail, state, exit_code };
        let limits = &self.session.limits();
        let collected = Collector::new(limits, spec.outputs, streamed).finish();
        let usage = ExecutionUsage::default();
        let context = spec.context.as_deref().and_then(|name| self.contexts.by_name(name));
        let context = context.and_then(|number| self.contexts.get(number));
        let kernel = context.unwrap_or_else(|| self.contexts.first()).kernels.current();
        let answer = Answer {
            number,
            kind,
            verdict,
            collected,
            ran: None,
            usage,
            kernel,
            session_created,
            before: None,
        };
        self.publish(answer, audited, writer, reservation);
    }

    /// What it used: what its agent said, and what only its leaf and the scope know, unless that is of
    /// several executions. The agent's CPU time is exact, but for children that were never waited for.
    fn usage_of(running: &RunningExecution, reported: Usage) -> ExecutionUsage {
        if running.started.is_none() {
            return ExecutionUsage::default();
        }
        let mut used = running.meter.since(&running.mark);
        if running.overlap != Overlap::None {
            used.memory_peak_bytes = used.leaf_memory_peak_bytes;
            used.io = None;
        }
        if running.overlap == Overlap::InLeaf {
            used = Used::default();
        }
        let known = reported.cpu_us.saturating_add(TICK_US);
        ExecutionUsage {
            cpu_ms: millis(used.cpu_us.filter(|us| *us > known).unwrap_or(reported.cpu_us)),
            memory_peak_bytes: used.memory_peak_bytes.unwrap_or(reported.memory_peak_bytes),
            io_read_bytes: used.io.map(|io| io.read_bytes),
            io_write_bytes: used.io.map(|io| io.write_bytes),
            work: None,
        }
    }
}

/// A session is over, or its kernel, and with it what ran there.
pub(super) const fn lost(status: Status, cause: Cause, detail: String) -> Verdict {
    Verdict { status, cause: Some(cause), detail, state: State::Lost, exit_code: None }
}

fn why_reset(context: &str) -> String {
    if context == MAIN_CONTEXT {
        "the session was reset".to_owned()
    } else {
        "its context was reset".to_owned()
    }
}

/// Why something ended with a kernel that it did not run in.
pub(super) fn with_kernel(detail: &str) -> String {
    format!("it was ended with a kernel of its session: {detail}")
}
