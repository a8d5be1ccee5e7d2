//! Sessions made, used and deleted by many clients, for a while.
//!
//! The clients share the CPUs with the daemon and its sessions, as there is one machine only.

use std::time::{Duration, Instant};

use super::{Context, concurrent, environment, outside, ready, requests, with_daemon};
use crate::daemon::Daemon;
use crate::{Bar, BenchError, Findings, Frequency};

/// Sessions in the time of one bare start.
const SESSIONS_PER_BARE: f64 = 5.0;

/// Clients for each CPU: enough that there always is one whose session can be worked for, and few
/// enough that sessions do not wait for each other longer than they take.
const CLIENTS_PER_CPU: usize = 4;

/// Sessions of the pool, of which many clients take at one time.
const POOL: usize = 100;

/// Before what counts.
const WARM_UP: Duration = Duration::from_millis(500);

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let (clients, span) = (context.machine.cpus * CLIENTS_PER_CPU, context.plan.sustained);
    let mut findings = Findings::default();
    let name = format!("create, execute, delete by {clients} clients");
    let plain = with_daemon("", async |daemon| {
        let without = ready::no_template(daemon).await?;
        Ok((without, sustain(daemon, clients, span, &name).await?))
    });
    let (without, plain) = plain.await?;
    findings.notes.extend(without.map(|reason| format!("{name}: {reason}")));

    // As it is refilled usually: while others are taken.
    let config = environment::pool(POOL, POOL / 2);
    let name = format!("the same, pool of {POOL}");
    let (pooled, hits, missed) = with_daemon(&config, async |daemon| {
        let found = sustain(daemon, clients, span, &name).await?;
        let (hits, missed) = ready::takes(daemon).await?;
        Ok((found, hits, missed))
    })
    .await?;
    findings.notes.push(format!("{name}: {hits} came from the pool, {missed} did not"));
    let bare = outside::bare_beside(context, "sustained sessions").await?;
    let bar = format!("sessions on {} CPUs in the time of a bare python3", context.machine.cpus);
    let found = plain.per_s * bare.p50 / 1000.0;
    findings.bars.push(Bar::at_least(bar, found, SESSIONS_PER_BARE, "sessions"));
    findings.times.push(bare);
    findings.frequencies = vec![plain, pooled];
    Ok(findings)
}

/// How many sessions are made, used and deleted in this time.
async fn sustain(
    daemon: &Daemon,
    clients: usize,
    span: Duration,
    name: &str,
) -> Result<Frequency, BenchError> {
    let from = Instant::now() + WARM_UP;
    let until = from + span;
    let tasks = (0..clients).map(|number| {
        let mut client = daemon.client();
        async move {
            let (session, what) = (format!("sustained-{number}"), "a session among others");
            let mut counted = 0_usize;
            loop {
                requests::create(&mut client, &session, "1+1", what).await?;
                requests::delete(&mut client, &session).await?;
                let now = Instant::now();
                if now >= until {
                    return Ok(counted);
                }
                counted += usize::from(now >= from);
            }
        }
    });
    let counted = concurrent::at_once("sessions in a row", tasks).await?.iter().sum();
    Ok(Frequency::new(name, counted, span))
}
