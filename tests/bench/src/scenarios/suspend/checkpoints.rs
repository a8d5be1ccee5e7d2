//! Checkpoints of a session, and going back to them.

use std::time::Instant;

use vivarium_api_types::{CheckpointRequest, RollbackRequest};

use super::super::{Context, requests};
use super::{CHECK, CHECKED, SESSION, SMALL, WHAT};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{BenchError, Findings};

const NAME: &str = "kept";

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
    requests::delete(&mut client, SESSION).await
}
