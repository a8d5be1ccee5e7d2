//! The audit log.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

#[derive(Debug)]
pub struct Audit {
    lines: Counter<0>,
    bytes: Counter<0>,
    failures: Counter<0>,
    dropped: Counter<0>,
    breaks: Counter<0>,
    pending: Gauge<0>,
    head_age: Gauge<0>,
    refuses: Gauge<0>,
}

impl Family for Audit {
    const TITLE: &'static str = "Audit log";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            lines: register.counter(
                "vivarium_audit_lines_total",
                &[],
                "Lines written to the audit log. Without `audit.dir` there is none of this family.",
            )?,
            bytes: register.counter(
                "vivarium_audit_written_bytes_total",
                &[],
                "Bytes of these lines.",
            )?,
            failures: register.counter(
                "vivarium_audit_write_failures_total",
                &[],
                "Attempts to write or synchronise the audit log that failed. A failed write is tried \
                 again four times a second.",
            )?,
            dropped: register.counter(
                "vivarium_audit_dropped_total",
                &[],
                "Events that the audit log lacks: it could not be written and `audit.on_full` is \
                 `go_on`, or more came than fitted. The log records each gap.",
            )?,
            breaks: register.counter(
                "vivarium_audit_breaks_total",
                &[],
                "Breaks of the chain that the daemon has found, at its start or while it writes.",
            )?,
            pending: register.gauge(
                "vivarium_audit_pending_lines",
                &[],
                "Events that wait to be written.",
            )?,
            head_age: register.gauge(
                "vivarium_audit_head_age_seconds",
                &[],
                "Time since the last line was written.",
            )?,
            refuses: register.gauge(
                "vivarium_audit_refusing",
                &[],
                "1 while new executions are refused because the audit log cannot be written \
                 (`audit_unavailable`), else 0.",
            )?,
        })
    }
}

impl Audit {
    /// There is a log: shows its counters as 0.
    pub fn introduced(&self) {
        for counter in [&self.lines, &self.bytes, &self.failures, &self.dropped, &self.breaks] {
            counter.begin([]);
        }
    }

    pub fn wrote(&self, lines: u64, bytes: u64) {
        self.lines.add([], lines);
        self.bytes.add([], bytes);
    }

    pub fn failed(&self) {
        self.failures.add_one([]);
    }

    pub fn dropped(&self, count: u64) {
        self.dropped.add([], count);
    }

    pub fn broken(&self, count: u64) {
        self.breaks.add([], count);
    }

    /// Scrape: how many events wait.
    pub fn is_behind(&self, count: u64) {
        self.pending.set_count([], count);
    }

    /// Scrape: the age of the last line.
    pub fn head_is_old(&self, age: Duration) {
        self.head_age.set([], age.as_secs_f64());
    }

    /// Scrape: whether executions are refused.
    pub fn refuses(&self, refuses: bool) {
        self.refuses.set([], if refuses { 1.0 } else { 0.0 });
    }
}
