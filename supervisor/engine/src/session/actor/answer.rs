//! All that is known of an execution that is over, as the outcome that clients get.

use std::time::Duration;

use vivarium_api_types::{ExecutionUsage, KernelInfo, Outcome};
use vivarium_protocol::message::ExecutionNumber;

use super::verdict::Verdict;
use crate::observe::Printed;
use crate::session::execution::Kind;
use crate::session::output::Collected;
use crate::session::{Session, millis};

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
}

impl Answer {
    /// What it printed within the limits, of which an outcome may have less.
    pub(super) const fn printed(&self) -> Printed {
        let Collected { stdout, stderr, .. } = &self.collected;
        Printed {
            stdout_bytes: stdout.bytes,
            stdout_truncated: stdout.over_limit,
            stderr_bytes: stderr.bytes,
            stderr_truncated: stderr.over_limit,
        }
    }

    pub(super) fn outcome(self, session: &Session) -> Outcome {
        let Self { number, verdict, collected, ran, usage, kernel, session_created, .. } = self;
        let ran_us = ran.map_or(0, |ran| u64::try_from(ran.as_micros()).unwrap_or(u64::MAX));
        Outcome {
            execution_id: number.to_string(),
            session_id: session.identity.id.clone(),
            status: verdict.status,
            cause: verdict.cause,
            detail: verdict.detail,
            state: verdict.state,
            kernel,
            session_created,
            exit_code: verdict.exit_code,
            stdout: collected.stdout.text,
            stdout_truncated: collected.stdout.truncated,
            stderr: collected.stderr.text,
            stderr_truncated: collected.stderr.truncated,
            exception: collected.exception,
            result: collected.result,
            displays: collected.displays,
            images: collected.images,
            video_frames: collected.video_frames,
            files: collected.files,
            files_changed: collected.files_changed,
            files_changed_more: collected.files_changed_more,
            duration_ms: millis(ran_us),
            usage,
        }
    }
}
