//! A session that is there and warm, and what idle ones take of memory.

use std::time::Instant;

use super::{Context, concurrent, outside, requests, with_daemon};
use crate::daemon::Daemon;
use crate::memory::pss_bytes;
use crate::samples::{Samples, median};
use crate::{Bar, BenchError, Findings, Size};

/// 0.25 ms where bare Python takes 16.
const WARM_TO_BARE: f64 = 0.25 / 16.0;
const AGENT_MIB: f64 = 1.0;
const DAEMON_MIB: f64 = 9.0;
const SESSION: &str = "warm";
const WHAT: &str = "a warm session";

/// Executions before those that count.
const WARM_UP: usize = 20;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    with_daemon("", async |daemon| measure_on(daemon, context).await).await
}

async fn measure_on(daemon: &Daemon, context: &Context) -> Result<Findings, BenchError> {
    let idle = context.plan.idle_for_memory;
    let warm = warm(daemon, context.plan.executions).await?;
    concurrent::grow(daemon, 0..idle, "1+1").await?;
    let usage = concurrent::usage(daemon, 0..idle).await?;
    let daemon_bytes = pss_bytes(daemon.pid())?;

    let agent = median(usage.iter().filter_map(|usage| usage.agent_pss_bytes).collect());
    let kernel = median(usage.iter().filter_map(|usage| usage.kernel_pss_bytes).collect());
    let warm = warm.summary("warm execute of 1+1");
    let bare = outside::bare_beside(context, "warm executions").await?;
    let to_bare = warm.p50 / bare.p50;
    let agent = Size::new("agent PSS, median of the idle sessions", agent);
    let kernel = Size::new("kernel PSS, median of the idle sessions", kernel);
    let daemon = Size::new(format!("daemon PSS with {idle} idle sessions"), daemon_bytes);
    Ok(Findings {
        bars: vec![
            Bar::at_most("warm execute p50, to bare python3", to_bare, WARM_TO_BARE, "times"),
            Bar::at_most("agent PSS", agent.mib(), AGENT_MIB, "MiB"),
            Bar::at_most(format!("daemon PSS with {idle} idle"), daemon.mib(), DAEMON_MIB, "MiB"),
        ],
        times: vec![warm, bare],
        sizes: vec![agent, kernel, daemon],
        ..Findings::default()
    })
}

/// Executes `1+1` in one session again and again, on one connection.
async fn warm(daemon: &Daemon, count: usize) -> Result<Samples, BenchError> {
    let mut client = daemon.client();
    requests::create(&mut client, SESSION, "1+1", WHAT).await?;
    let mut samples = Samples::default();
    for turn in 0..WARM_UP + count {
        let start = Instant::now();
        requests::two(&mut client, SESSION, WHAT).await?;
        samples.add_if(turn >= WARM_UP, start.elapsed());
    }
    Ok(samples)
}
