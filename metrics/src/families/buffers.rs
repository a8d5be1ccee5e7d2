//! The daemon's own buffers for its tenants: request bodies, executions, results, responses.

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

#[derive(Debug)]
pub struct Buffers {
    used: Gauge<1>,
    limit: Gauge<0>,
    dropped: Counter<1>,
}

impl Family for Buffers {
    const TITLE: &'static str = "What the daemon holds for tenants";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            used: register.gauge(
                "vivarium_buffered_bytes",
                &["tenant"],
                "Bytes that the daemon holds for the tenant: request bodies, queued and running \
                 executions, kept results and events, responses under way.",
            )?,
            limit: register.gauge(
                "vivarium_buffered_limit_bytes",
                &[],
                "The limit of these for all tenants together (`server.max_buffered_mb`).",
            )?,
            dropped: register.counter(
                "vivarium_executions_without_room_total",
                &["tenant"],
                "Executions that lost output or results because the daemon had no room for them.",
            )?,
        })
    }

    fn introduce(&self, tenant: &str) {
        self.dropped.begin([tenant]);
    }
}

impl Buffers {
    /// Scrape: the bytes held for a tenant.
    pub fn are_used(&self, tenant: &str, bytes: u64) {
        self.used.set_count([tenant], bytes);
    }

    /// Scrape: the maximum for all tenants together.
    pub fn may_be(&self, bytes: u64) {
        self.limit.set_count([], bytes);
    }

    /// A part of an execution was dropped.
    pub fn dropped(&self, tenant: &str) {
        self.dropped.add_one([tenant]);
    }
}
