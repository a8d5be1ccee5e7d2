//! Calls of functions of clients' by code in sessions.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Durations};
use crate::register::Register;

/// What became of a call, as in the API.
const OUTCOMES: [&str; 6] = ["result", "error", "refused", "timeout", "withdrawn", "ended"];

#[derive(Debug)]
pub struct Calls {
    opened: Counter<1>,
    ended: Counter<2>,
    waited: Durations<1>,
}

impl Family for Calls {
    const TITLE: &'static str = "Calls of tools";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            opened: register.counter(
                "vivarium_tool_calls_opened_total",
                &["tenant"],
                "Calls of tools that reached whoever answers them. Less those of \
                 `vivarium_tool_calls_total` of every outcome but `refused`, these are the calls \
                 that wait now.",
            )?,
            ended: register.counter(
                "vivarium_tool_calls_total",
                &["tenant", "outcome"],
                "Calls of tools that are over: answered with a `result` or an `error`, `refused` \
                 (they did not reach the client: their schema, size or number), `timeout`, `withdrawn` (the \
                 code was interrupted, or cancelled them), `ended` (the execution was over before).",
            )?,
            waited: register.durations(
                "vivarium_tool_call_duration_seconds",
                &["tenant"],
                "Time from a call of a tool to its end.",
            )?,
        })
    }

    fn introduce(&self, tenant: &str) {
        self.opened.begin([tenant]);
        for outcome in OUTCOMES {
            self.ended.begin([tenant, outcome]);
        }
    }
}

impl Calls {
    pub fn opened(&self, tenant: &str) {
        self.opened.add_one([tenant]);
    }

    pub fn ended(&self, tenant: &str, outcome: &'static str, after: Duration) {
        self.ended.add_one([tenant, outcome]);
        self.waited.observe([tenant], after);
    }

    pub fn refused(&self, tenant: &str) {
        self.ended.add_one([tenant, "refused"]);
    }
}
