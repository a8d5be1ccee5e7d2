//! Saying what became of an execution.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use vivarium_api_types::{ExecutionUsage, KernelInfo, MAIN_CONTEXT, Outcome};
use vivarium_protocol::message::ExecutionNumber;
use vivarium_protocol::outcome::{Cause, State};

use super::Actor;
use super::verdict::Verdict;
use crate::budget::Reservation;
use crate::observe::{Observer, Printed};
use crate::session::audited::Audited;
use crate::session::checkpointing::LostState;
use crate::session::execution::Kind;
use crate::session::execution_log::LogWriter;
use crate::session::output::Collected;
use crate::session::{Results, Session, millis};

impl Actor {
    /// Says what became of an execution to everybody who asks, now or later; once its session is what it was before,
    /// if the state was lost and is to be brought back.
    pub(super) fn publish(
        &self,
        answer: Answer,
        audited: Option<Box<Audited>>,
        writer: LogWriter,
        reservation: Reservation,
    ) {
        let Answer { number, kind, ran, before, .. } = answer;
        let printed = answer.printed();
        let mut outcome = answer.outcome(&self.session);
        let publishing = Publishing {
            session: Arc::clone(&self.session),
            results: Arc::clone(&self.launch.results),
            observer: self.launch.observer.clone(),
            number,
            kind,
            ran,
            printed,
            audited,
            writer,
            reservation,
        };
        let is_over = self.session.is_closed();
        let is_undone =
            kind == Kind::Code && ran.is_some() && !is_over && is_to_be_undone(&outcome);
        let has_others = self.contexts.len() > 1;
        if is_undone && has_others && self.session.rolls_back_by_itself() {
            let why = "it is not rolled back, as the session has other contexts, which go on";
            outcome.detail = format!("{}; {why}", outcome.detail);
        }
        if is_undone && !has_others {
            let lost = LostState { before, outcome, publishing };
            if let Some(LostState { outcome, publishing, .. }) = self.session.undo(lost) {
                publishing.publish(outcome);
            }
        } else {
            publishing.publish(outcome);
        }
    }
}

/// Whether the kernel was lost by what the code did, and by nobody's wish.
fn is_to_be_undone(outcome: &Outcome) -> bool {
    let is_wanted = |cause| {
        use Cause::{Deleted, Draining, Expired, Interrupt, Reset, Suspended};
        matches!(cause, Deleted | Draining | Expired | Interrupt | Reset | Suspended)
    };
    let is_main = |kernel: &KernelInfo| kernel.context == MAIN_CONTEXT;
    outcome.state == State::Lost
        && !outcome.cause.is_some_and(is_wanted)
        && outcome.kernel.as_ref().is_some_and(is_main)
}

/// What an execution's end is told with.
#[derive(Debug)]
pub(crate) struct Publishing {
    session: Arc<Session>,
    results: Arc<Results>,
    observer: Observer,
    number: ExecutionNumber,
    kind: Kind,
    ran: Option<Duration>,
    printed: Printed,
    audited: Option<Box<Audited>>,
    writer: LogWriter,
    reservation: Reservation,
}

impl Publishing {
    pub(crate) const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Says it: where the audit log is to have it first, when that has.
    pub(crate) fn publish(self, outcome: Outcome) {
        let Self { session, results, observer, number, kind, ran, printed, .. } = self;
        let Self { audited, writer, reservation, .. } = self;
        if !kind.is_question() {
            observer.execution_ended(&outcome, ran, printed);
        }
        let done = move |outcome, session: &Session| {
            writer.done(outcome, printed.stdout_truncated, printed.stderr_truncated);
            writer.log().keep(reservation);
            results.ended(&session.identity, number, session.timing.results_kept);
        };
        let Some((audit, mut audited)) = observer.audit().zip(audited) else {
            return done(outcome, &session);
        };
        if let Some(egress) = audited.take_egress() {
            let audit = audit.clone();
            tokio::spawn(async move {
                let egress = Some(egress.spent().await);
                let written = audited.ended(&session, number, &outcome, printed, egress, &audit);
                if let Some(written) = written {
                    written.wait().await;
                }
                done(outcome, &session);
            });
            return;
        }
        match audited.ended(&session, number, &outcome, printed, None, audit) {
            None => done(outcome, &session),
            Some(written) => drop(tokio::spawn(async move {
                written.wait().await;
                done(outcome, &session);
            })),
        }
    }
}

/// All that is known of an execution that is over.
pub(super) struct Answer {
    pub(super) number: ExecutionNumber,
    pub(super) kind: Kind,
    pub(super) verdict: Verdict,
    pub(super) collected: Collected,
    /// How long it ran, if it did.
    pub(super) ran: Option<Duration>,
    pub(super) usage: ExecutionUsage,
    pub(super) kernel: Option<KernelInfo>,
    pub(super) session_created: bool,
    pub(super) before: Option<Uuid>,
}

impl Answer {
    /// What it printed within the limits, of which an outcome may have less.
    const fn printed(&self) -> Printed {
        let Collected { stdout, stderr, .. } = &self.collected;
        Printed {
            stdout_bytes: stdout.bytes,
            stdout_truncated: stdout.over_limit,
            stderr_bytes: stderr.bytes,
            stderr_truncated: stderr.over_limit,
        }
    }

    fn outcome(self, session: &Session) -> Outcome {
        let Self { number, verdict, collected, ran, usage, kernel, session_created, .. } = self;
        let ran_us = ran.map_or(0, |ran| u64::try_from(ran.as_micros()).unwrap_or(u64::MAX));
        Outcome {
            execution_id: number.to_string(),
            session_id: session.identity.id.clone(),
            status: verdict.status,
            cause: verdict.cause,
            detail: verdict.detail,
            state: verdict.state,
            rolled_back: false,
            kernel,
            session_created,
            exit_code: verdict.exit_code,
            stdout_bytes: collected.stdout.text.len() as u64,
            stdout: collected.stdout.text,
            stdout_truncated: collected.stdout.truncated,
            stderr_bytes: collected.stderr.text.len() as u64,
            stderr: collected.stderr.text,
            stderr_truncated: collected.stderr.truncated,
            exception: collected.exception,
            result: collected.result,
            displays: collected.displays,
            images: collected.images,
            video_frames: collected.video_frames,
            outputs: None,
            order: collected.order,
            cuts: vec![],
            files: collected.files,
            files_changed: collected.files_changed,
            files_changed_more: collected.files_changed_more,
            duration_ms: millis(ran_us),
            usage,
            audit_events: collected.audit_events,
            prints: collected.prints,
        }
    }
}
