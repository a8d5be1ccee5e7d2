//! What the gate reports, counted in one place.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vivarium_egress::decision::ConnectionNumber;
use vivarium_egress::{Decided, Decision, Reason};
use vivarium_metrics::Metrics;
use vivarium_metrics::families::egress::Direction;

use super::SessionEgress;

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

/// A decision about a connection, before any byte goes to its destination.
pub(super) fn decided(metrics: &Metrics, session: &SessionEgress, decided: &Decided) {
    metrics.egress.decided(&session.tenant, outcome(decided));
    let Decided { destination, port, reason, address, .. } = decided;
    let reason: &'static str = reason.into();
    match decided.decision {
        Decision::Allowed => {
            tracing::debug!(tenant = session.tenant, destination, port, ?address, "egress allowed");
        }
        Decision::Refused => {
            tracing::debug!(
                tenant = session.tenant,
                destination,
                port,
                ?address,
                reason,
                "egress refused"
            );
        }
    }
}

/// The end of a connection.
pub(super) fn ended(metrics: &Metrics, session: &SessionEgress, ended: Ended) {
    let Ended { connection, bytes_in, bytes_out, duration, cut } = ended;
    session.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
    session.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    metrics.egress.transferred(&session.tenant, Direction::In, bytes_in);
    metrics.egress.transferred(&session.tenant, Direction::Out, bytes_out);
    tracing::debug!(
        tenant = session.tenant,
        connection,
        bytes_in,
        bytes_out,
        ?duration,
        ?cut,
        "egress ended"
    );
}

/// The label of a decision. Reasons are few, and none is a client's to choose.
fn outcome(decided: &Decided) -> &'static str {
    match decided.decision {
        Decision::Allowed => "allowed",
        Decision::Refused => (&decided.reason).into(),
    }
}
