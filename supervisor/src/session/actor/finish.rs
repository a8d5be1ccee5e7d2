//! Answering an execution.

use std::time::Duration;

use vivarium_protocol::message::Completion;
use vivarium_protocol::outcome::{Cause, State, Status, Usage};

use super::{Actor, Job, Running, Stop};
use crate::engine::types::{ExecutionUsage, Outcome, SessionState};
use crate::observe::Observer;
use crate::session::cause;
use crate::session::output::{Collected, Collector};
use crate::session::{Session, millis};

/// How far `cpu.stat` may be behind, in microseconds: what a process uses is added to it when it
/// leaves its CPU or the clock ticks, with CONFIG_HZ=100 every 10 ms. So the first execution after
/// Python's start would be charged with some of that.
const TICK_US: u64 = 10_000;

/// How an execution ended.
struct Verdict {
    status: Status,
    cause: Option<Cause>,
    detail: String,
    state: State,
}

impl Actor {
    /// The kernel said that it is over.
    ///
    /// `forks_refused` is what the scope has counted meanwhile.
    pub(super) fn finish_done(&mut self, completion: Completion, usage: Usage, forks_refused: u64) {
        let Some(running) = self.running.take() else { return };
        let gave_way = match completion {
            Completion::Interrupted => "the code gave way to SIGINT",
            Completion::Ok | Completion::Error => "the code ended by itself after SIGINT",
        };
        let (status, cause, mut detail) = match (running.stop, completion) {
            (Some(stop @ (Stop::WallTime | Stop::CpuTime(_))), _) => {
                let (cause, limit) = self.limit_reached(stop, running.timeout);
                (Status::TimedOut, Some(cause), format!("{limit}, and {gave_way}"))
            }
            (_, Completion::Ok) => (Status::Ok, None, String::new()),
            (Some(Stop::User), Completion::Interrupted) => {
                (Status::Interrupted, Some(Cause::Interrupt), String::new())
            }
            // Nobody asked for it: the code raised KeyboardInterrupt itself.
            (_, Completion::Error | Completion::Interrupted) => {
                let exception = running.collector.exception();
                let limits = &self.session.identity.limits;
                let (cause, detail) = cause::explain_error(exception, limits, forks_refused);
                (Status::Error, cause, detail)
            }
        };
        if forks_refused > 0 && cause != Some(Cause::PidsLimit) {
            join(&mut detail, &cause::refusals(&self.session.identity.limits, forks_refused));
        }
        // An order to replace the kernel may be on its way to the agent.
        let state = if self.state == SessionState::Replacing {
            join(&mut detail, "its kernel was replaced as it ended");
            State::Lost
        } else {
            State::Preserved
        };
        self.answer(running, Verdict { status, cause, detail, state }, usage);
    }

    /// The kernel is gone.
    pub(super) fn finish_killed(
        &mut self,
        cause: Cause,
        detail: &str,
        usage: Usage,
        forks_refused: u64,
    ) {
        let Some(running) = self.running.take() else { return };
        let grace = seconds(self.session.timing.interrupt_grace);
        let (status, cause, detail) = match running.stop {
            // The kernel's own evidence is the better one.
            _ if cause == Cause::MemoryLimit => (Status::Killed, cause, detail.to_owned()),
            Some(stop @ (Stop::WallTime | Stop::CpuTime(_))) => {
                let (cause, limit) = self.limit_reached(stop, running.timeout);
                let ignored = if self.state == SessionState::Replacing {
                    let mut ignored = format!("the code did not give way to SIGINT within {grace}");
                    if forks_refused > 0 {
                        let limits = &self.session.identity.limits;
                        join(&mut ignored, &cause::refusals(limits, forks_refused));
                    }
                    ignored
                } else {
                    detail.to_owned()
                };
                (Status::TimedOut, cause, format!("{limit}, and {ignored}"))
            }
            Some(Stop::Reset) => (Status::Killed, Cause::Reset, "the session was reset".to_owned()),
            _ if cause == Cause::CpuLimit => (Status::TimedOut, cause, detail.to_owned()),
            _ => (Status::Killed, cause, detail.to_owned()),
        };
        let verdict = Verdict { status, cause: Some(cause), detail, state: State::Lost };
        self.answer(running, verdict, usage);
    }

    /// The session is over.
    pub(super) fn finish_ended(&mut self, cause: Cause, detail: &str) {
        let Some(running) = self.running.take() else { return };
        let verdict = match running.stop {
            // It was over its limit, and then could not even be killed in an orderly way.
            Some(stop @ (Stop::WallTime | Stop::CpuTime(_))) if cause != Cause::Deleted => {
                let (cause, limit) = self.limit_reached(stop, running.timeout);
                let detail = format!("{limit}, and the session was killed: {detail}");
                Verdict { status: Status::TimedOut, cause: Some(cause), detail, state: State::Lost }
            }
            _ => {
                let detail = detail.to_owned();
                Verdict { status: Status::Killed, cause: Some(cause), detail, state: State::Lost }
            }
        };
        self.answer(running, verdict, Usage::default());
    }

    /// It was not run.
    pub(super) fn reject(&mut self, cause: Option<Cause>, detail: String) {
        let Some(running) = self.running.take() else { return };
        let verdict = Verdict { status: Status::Rejected, cause, detail, state: State::Preserved };
        self.answer(running, verdict, Usage::default());
    }

    fn limit_reached(&self, stop: Stop, timeout: Duration) -> (Cause, String) {
        match stop {
            Stop::CpuTime(used_us) => {
                let limit = self.session.identity.limits.max_cpu_secs;
                let used = seconds(Duration::from_micros(used_us));
                (Cause::CpuLimit, format!("{used} of CPU time were used (max_cpu_secs {limit})"))
            }
            _ => (Cause::WallTime, format!("the time of {} was up", seconds(timeout))),
        }
    }

    fn answer(&mut self, running: Running, mut verdict: Verdict, usage: Usage) {
        if let Some(notice) = self.notice.take() {
            join(&mut verdict.detail, &notice);
        }
        let usage = self.usage_of(&running, usage);
        let collected = running.collector.finish();
        if collected.oversized {
            join(&mut verdict.detail, "a result over max_result_bytes was left out");
        }
        let duration = running.started.map_or(Duration::ZERO, |at| at.elapsed());
        {
            let mut notes = self.session.notes();
            notes.usage.executions += 1;
            notes.usage.cpu_ms += usage.cpu_ms;
            notes.usage.memory_peak_bytes =
                notes.usage.memory_peak_bytes.max(usage.memory_peak_bytes);
        }
        self.session.touch();
        let outcome = outcome(&self.session, running.number, verdict, collected, duration, usage);
        let ran = running.started.map(|_| duration);
        self.means.observer.execution_ended(&outcome, ran);
        // A client that went away does not stop the execution, and misses its answer.
        running.reply.send(Ok(outcome)).unwrap_or(());
    }

    /// What it used: what its agent said, and what only the scope knows. The agent's CPU time is
    /// exact, but for children that were never waited for.
    fn usage_of(&self, running: &Running, said: Usage) -> ExecutionUsage {
        if running.started.is_none() {
            return ExecutionUsage::default();
        }
        let used = self.meter.since(&running.mark);
        let known = said.cpu_us.saturating_add(TICK_US);
        ExecutionUsage {
            cpu_ms: millis(used.cpu_us.filter(|us| *us > known).unwrap_or(said.cpu_us)),
            memory_peak_bytes: used.memory_peak_bytes.unwrap_or(said.memory_peak_bytes),
            io_read_bytes: used.io.map(|io| io.read_bytes),
            io_write_bytes: used.io.map(|io| io.write_bytes),
        }
    }
}

/// Answers an execution that never had a turn.
pub(super) fn never_ran(
    session: &Session,
    observer: &Observer,
    job: Job,
    cause: Cause,
    detail: &str,
) {
    let verdict = Verdict {
        status: Status::Rejected,
        cause: Some(cause),
        detail: detail.to_owned(),
        state: State::Lost,
    };
    let nothing = Collector::new(&session.identity.limits).finish();
    let usage = ExecutionUsage::default();
    let outcome = outcome(session, job.number, verdict, nothing, Duration::ZERO, usage);
    observer.execution_ended(&outcome, None);
    job.reply.send(Ok(outcome)).unwrap_or(());
}

fn outcome(
    session: &Session,
    number: u64,
    verdict: Verdict,
    collected: Collected,
    duration: Duration,
    usage: ExecutionUsage,
) -> Outcome {
    Outcome {
        execution_id: number.to_string(),
        session_id: session.identity.id.clone(),
        status: verdict.status,
        cause: verdict.cause,
        detail: verdict.detail,
        state: verdict.state,
        stdout: collected.stdout,
        stdout_truncated: collected.stdout_truncated,
        stderr: collected.stderr,
        stderr_truncated: collected.stderr_truncated,
        exception: collected.exception,
        result: collected.result,
        displays: Vec::new(),
        images: Vec::new(),
        video_frames: Vec::new(),
        files: Vec::new(),
        files_changed: Vec::new(),
        duration_ms: millis(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
        usage,
    }
}

/// Adds a sentence.
fn join(detail: &mut String, more: &str) {
    if !detail.is_empty() {
        detail.push_str("; ");
    }
    detail.push_str(more);
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
