//! Executions that have ended.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Durations};
use crate::register::Register;

#[derive(Debug)]
pub struct Executions {
    ended: Counter<3>,
    duration: Durations<1>,
    cpu: Counter<1>,
}

impl Family for Executions {
    const TITLE: &'static str = "Executions";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            ended: register.counter(
                "vivarium_executions_total",
                &["tenant", "status", "cause"],
                "Executions that ended, by status and cause; `cause` is `none` where the outcome \
                 has none.",
            )?,
            duration: register.durations(
                "vivarium_execution_duration_seconds",
                &["tenant"],
                "Time from the start of the code to its end, of executions that started.",
            )?,
            cpu: register.counter(
                "vivarium_execution_cpu_seconds_total",
                &["tenant"],
                "CPU time of executions, as their outcomes report it.",
            )?,
        })
    }

    fn introduce(&self, tenant: &str) {
        self.ended.begin([tenant, "ok", "none"]);
        self.cpu.begin([tenant]);
    }
}

impl Executions {
    /// An execution has ended, after this time if it ever started.
    pub fn ended(
        &self,
        tenant: &str,
        status: &'static str,
        cause: &'static str,
        duration: Option<Duration>,
        cpu: Duration,
    ) {
        self.ended.add_one([tenant, status, cause]);
        if let Some(duration) = duration {
            self.duration.observe([tenant], duration);
            self.cpu.add_seconds([tenant], cpu);
        }
    }
}
