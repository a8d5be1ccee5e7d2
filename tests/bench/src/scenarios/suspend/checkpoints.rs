//! Checkpoints of a session, and going back to them.

use std::time::Instant;

use vivarium_api_types::{CheckpointMode, CheckpointRequest, RollbackRequest, SessionSpec};

use super::super::{Context, requests};
use super::{CHECK, CHECKED, SESSION, SMALL, WHAT};
use crate::daemon::Daemon;
use crate::samples::{Samples, p50};
use crate::{Bar, BenchError, Findings, Size, Summary};

const NAME: &str = "kept";

const ADDED_MS: f64 = 5.0;
const THOUSAND_MB: f64 = 200.0;

/// Changes a little of the state.
const STEP: &str = "frame['b'] = frame['b'] + 1; last_frame = frame.copy(); 1+1";

pub(super) async fn measure(
    daemon: &Daemon,
    context: &Context,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    let mut client = daemon.client();
    requests::create(&mut client, SESSION, &SMALL.code(), WHAT).await?;
    let [mut checkpoints, mut rollbacks] = [(); 2].map(|()| Samples::default());
    for turn in 0..=context.plan.suspends {
        let counts = turn > 0;
        let start = Instant::now();
        let request = CheckpointRequest { name: Some(NAME.to_owned()) };
        drop(client.make_checkpoint(SESSION, &request).await?);
        checkpoints.add_if(counts, start.elapsed());

        // Every turn finds the state as it was made: the check uses the generator and the closure.
        let start = Instant::now();
        requests::gives(&mut client, SESSION, CHECK, CHECKED, WHAT).await?;
        let request = RollbackRequest { checkpoint: NAME.to_owned() };
        drop(client.roll_back(SESSION, &request).await?);
        rollbacks.add_if(counts, start.elapsed());
        client.delete_checkpoint(SESSION, NAME).await?;
    }
    findings.times.extend([
        checkpoints.summary(format!("checkpoint, {}", SMALL.name)),
        rollbacks.summary(format!("an answer and rollback, {}", SMALL.name)),
    ]);
    requests::delete(&mut client, SESSION).await?;
    after_each(daemon, context, findings).await
}

/// Runs code as fast as it is answered in a session with a checkpoint after each execution, in turns with one that has
/// none.
async fn after_each(
    daemon: &Daemon,
    context: &Context,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    let mut client = daemon.client();
    let sessions = [CheckpointMode::Off, CheckpointMode::Each].map(|mode| SessionSpec {
        id: Some(<&str>::from(mode).to_owned()),
        checkpoint: Some(mode),
        ..SessionSpec::default()
    });
    let mut samples = [(); 2].map(|()| Samples::default());
    for spec in &sessions {
        let session = client.create_session(spec).await?;
        requests::gives(&mut client, &session.id, &SMALL.code(), "2", WHAT).await?;
    }
    for turn in 0..=context.plan.suspends {
        for (spec, samples) in sessions.iter().zip(&mut samples) {
            let session = spec.id.as_deref().unwrap_or_default();
            // The first waits for the other session's checkpoint, and ends this one's last.
            requests::gives(&mut client, session, STEP, "2", WHAT).await?;
            let start = Instant::now();
            requests::gives(&mut client, session, STEP, "2", WHAT).await?;
            samples.add_if(turn > 0, start.elapsed());
        }
    }
    let kept = client.list_checkpoints(<&str>::from(CheckpointMode::Each)).await?.checkpoints;
    let bytes: u64 = kept.iter().map(|checkpoint| checkpoint.size_bytes).sum();
    findings.sizes.push(Size::new(thousand(), bytes * 1000 / (kept.len() as u64).max(1)));
    let [off, each] = samples;
    findings.times.extend([off.summary(without()), each.summary(with())]);
    for spec in &sessions {
        requests::delete(&mut client, spec.id.as_deref().unwrap_or_default()).await?;
    }
    Ok(())
}

fn with() -> String {
    format!("execution after execution, a checkpoint after each, {}", SMALL.name)
}

fn without() -> String {
    format!("execution after execution, no checkpoints, {}", SMALL.name)
}

fn thousand() -> String {
    format!("1000 checkpoints after executions, {}", SMALL.name)
}

pub(super) fn bars(times: &[Summary], sizes: &[Size]) -> [Bar; 2] {
    let added = p50(times, &with()) - p50(times, &without());
    let size = sizes.iter().find(|size| size.name == thousand());
    [
        Bar::at_most("a checkpoint after each execution adds p50", added, ADDED_MS, "ms"),
        Bar::at_most(thousand(), size.map_or(f64::NAN, Size::mb), THOUSAND_MB, "MB"),
    ]
}
