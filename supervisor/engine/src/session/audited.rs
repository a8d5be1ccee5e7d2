//! What a session has written to the audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use vivarium_api_types::{CallOutcome, LimitsInfo, Outcome};
use vivarium_audit::{
    AuditLog, Captured, EgressCounts, Event, ExecutionEnded, ExecutionStarted, Hash,
    SessionCreated, SessionEnded, ToolCall, Usage, WorkHash, Written,
};
use vivarium_protocol::message::{CommandSpec, ExecutionNumber, Work};
use vivarium_protocol::outcome::Cause;
use vivarium_protocol::policy::Limits;

use super::{Identity, Session};
use crate::egress::{Counting, Counts, SessionEgress};
use crate::observe::{Observer, Printed};

/// The most characters of the name of a tool or an event that are recorded: code may give any.
const MAX_NAME_CHARS: usize = 64;

/// The most events of Python of an execution that are recorded by name.
const MAX_AUDIT_EVENTS: usize = 64;

/// What the others are counted as.
const OTHER: &str = "other";

/// Of an execution, what its lines say of the request.
#[derive(Debug)]
pub(super) struct Audited {
    work: WorkHash,
    limits: LimitsInfo,
    timeout_ms: u64,
    egress: Option<EgressMark>,
    /// The events of Python that its policy denies.
    denied: BTreeSet<String>,
}

/// What a session had of the egress gate when an execution began.
#[derive(Debug)]
pub(super) struct EgressMark {
    session: Arc<SessionEgress>,
    began: Counting,
}

impl EgressMark {
    /// What it has had since.
    pub(super) async fn spent(self) -> EgressCounts {
        let now = self.session.count();
        let Counts { allowed, denied, bytes_in, bytes_out } = self.began.until(now).await;
        EgressCounts { allowed, denied, bytes_in, bytes_out }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no time is negative")]
const fn whole(ms: f64) -> u64 {
    ms.round() as u64
}

pub(super) fn created(session: &Session, observer: &Observer) {
    let Some(audit) = observer.audit() else { return };
    let Identity { id, tenant, environment, network, .. } = &session.identity;
    audit.record(|| {
        Event::SessionCreated(Box::new(SessionCreated {
            tenant: tenant.clone(),
            session: id.clone(),
            environment: environment.clone(),
            network: *network,
            limits: Limits::clone(&session.limits()).into(),
            home: session.home_id().map(str::to_owned),
            volumes: session.volumes(),
        }))
    });
}

pub(super) fn ended(session: &Session, observer: &Observer, cause: Cause, started: bool) {
    let Some(audit) = observer.audit() else { return };
    let usage = session.status().usage;
    audit.record(|| {
        Event::SessionEnded(Box::new(SessionEnded {
            tenant: session.identity.tenant.clone(),
            session: session.identity.id.clone(),
            cause,
            started,
            duration_ms: millis(session.created.elapsed()),
            executions: usage.executions,
            cpu_ms: whole(usage.cpu_ms),
            memory_peak_bytes: usage.memory_peak_bytes,
        }))
    });
}

/// A call of a tool that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called<'a> {
    pub(super) execution: ExecutionNumber,
    pub(super) call: Option<u64>,
    pub(super) tool: &'a str,
    pub(super) server: Option<&'a str>,
    pub(super) bytes: usize,
    pub(super) outcome: CallOutcome,
    pub(super) after: Duration,
}

pub(super) fn called(identity: &Identity, called: Called<'_>, observer: &Observer) {
    let Some(audit) = observer.audit() else { return };
    audit.record(|| {
        Event::ToolCall(Box::new(ToolCall {
            tenant: identity.tenant.clone(),
            session: identity.id.clone(),
            execution: called.execution,
            call: called.call,
            tool: called.tool.chars().take(MAX_NAME_CHARS).collect(),
            server: called.server.map(str::to_owned),
            arguments_bytes: called.bytes as u64,
            outcome: called.outcome.into(),
            duration_ms: millis(called.after),
        }))
    });
}

impl Audited {
    /// Of what is to be executed, if there is a log; questions to a kernel are not.
    pub(super) fn of(
        work: &Work,
        limits: &Limits,
        timeout: Duration,
        observer: &Observer,
    ) -> Option<Box<Self>> {
        observer.audit()?;
        let (kind, code_sha256, code_bytes) = match work {
            Work::Assist { .. } | Work::Image(_) => return None,
            Work::Code { code, .. } => ("code", Hash::of(code.as_bytes()), code.len()),
            Work::Command(CommandSpec { argv, .. }) => {
                let hash = Hash::of_parts(argv.iter().map(String::as_str));
                ("command", hash, argv.iter().map(|argument| argument.len() + 1).sum())
            }
        };
        let denied = match work {
            Work::Code { policy, .. } => {
                policy.audit_events.iter().flat_map(|it| it.deny.iter().cloned()).collect()
            }
            _ => BTreeSet::new(),
        };
        let work = WorkHash { kind, code_sha256, code_bytes: code_bytes as u64 };
        let limits = limits.clone().into();
        Some(Box::new(Self { work, limits, timeout_ms: millis(timeout), egress: None, denied }))
    }

    /// It begins: what goes through the gate from now on is its own.
    pub(super) fn begins(&mut self, session: &Session) {
        self.egress = session
            .egress()
            .map(|egress| EgressMark { session: Arc::clone(egress), began: egress.count() });
    }

    pub(super) const fn take_egress(&mut self) -> Option<EgressMark> {
        self.egress.take()
    }

    pub(super) fn started(
        &self,
        identity: &Identity,
        execution: ExecutionNumber,
        work: &Work,
        audit: &AuditLog,
    ) {
        audit.record(|| {
            Event::ExecutionStarted(Box::new(ExecutionStarted {
                tenant: identity.tenant.clone(),
                session: identity.id.clone(),
                execution,
                work: self.work.clone(),
                limits: self.limits,
                timeout_ms: self.timeout_ms,
                code: audit.captures_code().then(|| captured(work)),
            }))
        });
    }

    /// Records the end. What is returned resolves when the client may be answered.
    pub(super) fn ended(
        self,
        session: &Arc<Session>,
        execution: ExecutionNumber,
        outcome: &Outcome,
        printed: Printed,
        egress: Option<EgressCounts>,
        audit: &AuditLog,
    ) -> Option<Written> {
        let captured = |text: &str| audit.captures_output().then(|| Captured::of(text));
        audit.record_and_wait(|| {
            Event::ExecutionEnded(Box::new(ExecutionEnded {
                tenant: session.identity.tenant.clone(),
                session: session.identity.id.clone(),
                execution,
                work: self.work,
                limits: self.limits,
                timeout_ms: self.timeout_ms,
                status: outcome.status,
                cause: outcome.cause,
                state: outcome.state,
                exit_code: outcome.exit_code,
                duration_ms: whole(outcome.duration_ms),
                usage: Usage {
                    cpu_ms: whole(outcome.usage.cpu_ms),
                    memory_peak_bytes: outcome.usage.memory_peak_bytes,
                    work: outcome.usage.work,
                    stdout_bytes: printed.stdout_bytes,
                    stderr_bytes: printed.stderr_bytes,
                },
                audit_events: outcome.audit_events.as_ref().map(|it| counts(it, &self.denied)),
                egress,
                stdout: captured(&outcome.stdout),
                stderr: captured(&outcome.stderr),
            }))
        })
    }
}

/// As many as are recorded, those that are denied first: a kernel may tell any.
fn counts(events: &BTreeMap<String, u64>, denied: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let (first, rest): (Vec<_>, Vec<_>) =
        events.iter().partition(|(name, _)| denied.contains(*name));
    let (mut recorded, mut left_out) = (BTreeMap::new(), 0_u64);
    for (name, count) in first.into_iter().chain(rest) {
        let cut: String = name.chars().take(MAX_NAME_CHARS).collect();
        if cut == OTHER || recorded.contains_key(&cut) || recorded.len() >= MAX_AUDIT_EVENTS {
            left_out = left_out.saturating_add(*count);
        } else {
            recorded.insert(cut, *count);
        }
    }
    if left_out > 0 {
        recorded.insert(OTHER.to_owned(), left_out);
    }
    recorded
}

fn captured(work: &Work) -> Captured {
    match work {
        Work::Code { code, .. } | Work::Assist { code, .. } => Captured::of(code),
        Work::Image(_) => Captured::of(""),
        Work::Command(CommandSpec { argv, .. }) => Captured::of(&argv.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_events_are_recorded_among_any_number_of_others() {
        let mut events: BTreeMap<_, _> = (0..300).map(|n| (format!("a{n:03}"), 1)).collect();
        events.extend([("z.denied".to_owned(), 2), (OTHER.to_owned(), 5)]);
        let alike = "x".repeat(MAX_NAME_CHARS);
        events.extend([(format!("{alike}y"), 3), (format!("{alike}z"), 4)]);
        let denied = ["z.denied".to_owned(), format!("{alike}z")].into();
        let recorded = counts(&events, &denied);
        assert_eq!(recorded.len(), MAX_AUDIT_EVENTS + 1);
        assert_eq!((recorded["z.denied"], recorded[&alike]), (2, 4));
        assert_eq!(recorded.values().sum::<u64>(), 300 + 2 + 5 + 3 + 4, "none is lost");
        assert_eq!(recorded[OTHER], 5 + 3 + 300 - 62);
        let few = BTreeMap::from([("open".to_owned(), 3)]);
        assert_eq!(counts(&few, &BTreeSet::new()), few);
    }
}
