//! What the gate reports, counted in one place.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vivarium_audit::{AuditLog, EgressDecision, Event};
use vivarium_egress::decision::ConnectionNumber;
use vivarium_egress::{Decided, Decision, Reason};
use vivarium_metrics::Metrics;
use vivarium_metrics::families::egress::Direction;

use super::SessionEgress;
use crate::quotas::Quota;
use crate::usage::Collector;

/// An allowed connection that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) connection: ConnectionNumber,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) duration: Duration,
    /// What ended it, if that was the gate.
    pub(super) cut: Option<Reason>,
}

/// Where what sessions reach is counted, recorded and billed.
#[derive(Debug, Clone)]
pub struct Accounting {
    pub metrics: Arc<Metrics>,
    pub audit: AuditLog,
    pub usage: Arc<Collector>,
}

impl Accounting {
    /// Notes a decision about a connection, before any byte goes to its destination.
    pub(super) fn decided(&self, session: &SessionEgress, decided: &Decided) {
        session.counter.decided(decided.decision);
        self.metrics.egress.decided(&session.tenant, outcome(decided));
        if decided.reason == Reason::EgressRate {
            self.metrics.quotas.refused(&session.tenant, Quota::EgressRate);
        }
        self.audit.record(|| Event::Egress(Box::new(event(session, decided))));
        log(session, decided);
    }

    /// Notes the end of a connection.
    pub(super) fn ended(&self, session: &SessionEgress, ended: Ended) {
        let Ended { connection, bytes_in, bytes_out, duration, cut } = ended;
        session.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        session.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
        let tenant = &session.tenant;
        self.metrics.egress.transferred(tenant, Direction::In, bytes_in);
        self.metrics.egress.transferred(tenant, Direction::Out, bytes_out);
        self.usage.egress(tenant, bytes_in.saturating_add(bytes_out));
        tracing::debug!(%tenant, connection, bytes_in, bytes_out, ?duration, ?cut, "egress ended");
    }
}

fn event(session: &SessionEgress, decided: &Decided) -> EgressDecision {
    let reason: &'static str = (&decided.reason).into();
    EgressDecision {
        tenant: session.tenant.to_string(),
        session: session.id.get().cloned().unwrap_or_default(),
        host: decided.destination.clone(),
        port: decided.port,
        method: decided.method.clone(),
        decision: match decided.decision {
            Decision::Allowed => "allow",
            Decision::Refused => "deny",
        }
        .into(),
        reason: reason.into(),
        address: decided.address.map(|address| address.to_string()),
    }
}

fn log(session: &SessionEgress, decided: &Decided) {
    let tenant = &session.tenant;
    let Decided { destination, port, reason, address, .. } = decided;
    let reason: &'static str = reason.into();
    match decided.decision {
        Decision::Allowed => {
            tracing::debug!(%tenant, destination, port, ?address, "egress allowed");
        }
        Decision::Refused => {
            tracing::debug!(%tenant, destination, port, ?address, reason, "egress refused");
        }
    }
}

/// The label of a decision. Reasons are few, and none is a client's to choose.
fn outcome(decided: &Decided) -> &'static str {
    match decided.decision {
        Decision::Allowed => "allowed",
        Decision::Refused => (&decided.reason).into(),
    }
}
