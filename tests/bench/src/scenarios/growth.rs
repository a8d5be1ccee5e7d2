//! Whether executions take longer the more idle sessions there are.
//!
//! Two series that run minutes, or only seconds, apart differ by what else the machine does. So
//! there are two daemons, of which only one gets more sessions, and they take strict turns.

use std::time::Instant;

use super::{Context, concurrent, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings, Growth};

const BESIDE_IDLE_TIMES: f64 = 1.2;
const SESSION: &str = "latency";
const WHAT: &str = "a session beside idle ones";

/// Executions before those that count.
const WARM_UP: usize = 20;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let growth = with_daemon("", async |many| {
        with_daemon("", async |one| {
            let mut growth = Vec::new();
            // The session that is measured is one of them.
            let mut idle = 0;
            for sessions in context.plan.growth {
                let wanted = sessions.saturating_sub(1);
                concurrent::grow(many, idle..wanted, "1+1").await?;
                idle = wanted;
                growth.push(turns(many, one, *sessions, context.plan.executions).await?);
            }
            Ok(growth)
        })
        .await
    })
    .await?;
    let last = growth.last();
    let name = last.map_or(0, |growth| growth.sessions);
    let bar = Bar::at_most(
        format!("execute among {name} sessions, to that with one"),
        last.map_or(f64::NAN, Growth::times),
        BESIDE_IDLE_TIMES,
        "times",
    );
    Ok(Findings { growth, bars: vec![bar], ..Findings::default() })
}

async fn turns(
    many: &Daemon,
    one: &Daemon,
    sessions: usize,
    count: usize,
) -> Result<Growth, BenchError> {
    let mut clients = [many.client(), one.client()];
    for client in &mut clients {
        requests::create(client, SESSION, "1+1", WHAT).await?;
    }
    let mut samples = [Samples::default(), Samples::default()];
    for turn in 0..WARM_UP + count {
        for (client, samples) in clients.iter_mut().zip(&mut samples) {
            let start = Instant::now();
            requests::two(client, SESSION, WHAT).await?;
            samples.add_if(turn >= WARM_UP, start.elapsed());
        }
    }
    let [many, one] = samples;
    Ok(Growth {
        sessions,
        many: many.summary(format!("execute, {sessions} sessions")),
        one: one.summary(format!("execute, one session, in turns with {sessions}")),
    })
}
