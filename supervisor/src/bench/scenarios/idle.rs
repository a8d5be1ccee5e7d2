//! A session that is there, alone and beside many that are idle, and what those take of memory.

use std::time::Instant;

use hyper::Method;

use super::{Context, ask, with_daemon};
use crate::bench::daemon::Daemon;
use crate::bench::memory::pss_bytes;
use crate::bench::samples::{Samples, median};
use crate::bench::{Bar, BenchError, Findings, Size};
use crate::client::Client;
use crate::engine::types::SessionInfo;

const WARM_MS: f64 = 0.5;
const BESIDE_IDLE_TIMES: f64 = 1.2;
const AGENT_MIB: f64 = 1.0;
const DAEMON_MIB: f64 = 20.0;

/// Executions before those that count.
const WARM_UP: usize = 20;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    with_daemon("", async |daemon| measure_on(daemon, context).await).await
}

async fn measure_on(daemon: &Daemon, context: &Context) -> Result<Findings, BenchError> {
    let plan = &context.plan;
    let mut client = daemon.client();
    let alone = warm(&mut client, plan.executions).await?;
    let (agent, kernel) = grow(&mut client, 0, plan.idle_for_memory).await?;
    let daemon_bytes = pss_bytes(daemon.pid())?;
    grow(&mut client, plan.idle_for_memory, plan.idle_for_latency).await?;
    let beside = warm(&mut client, plan.executions).await?;

    let idle = plan.idle_for_memory;
    let alone = alone.summary("warm execute of 1+1");
    let beside = beside.summary(format!("warm execute beside {} idle", plan.idle_for_latency));
    let agent = Size::new("agent PSS, median of the idle sessions", agent);
    let kernel = Size::new("kernel PSS, median of the idle sessions", kernel);
    let daemon = Size::new(format!("daemon PSS with {idle} idle sessions"), daemon_bytes);
    Ok(Findings {
        bars: vec![
            Bar::at_most("warm execute p50", alone.p50, WARM_MS, "ms"),
            Bar::at_most("agent PSS", agent.mib(), AGENT_MIB, "MiB"),
            Bar::at_most(format!("daemon PSS with {idle} idle"), daemon.mib(), DAEMON_MIB, "MiB"),
            Bar::at_most(
                "latency beside idle sessions, to that with one",
                beside.p50 / alone.p50,
                BESIDE_IDLE_TIMES,
                "times",
            ),
        ],
        times: vec![alone, beside],
        sizes: vec![agent, kernel, daemon],
        ..Findings::default()
    })
}

/// Executes `1+1` in one session again and again, on one connection.
async fn warm(client: &mut Client, count: usize) -> Result<Samples, BenchError> {
    let path = "/v1/sessions/latency/execute";
    for _ in 0..WARM_UP {
        ask::two(client, &format!("{path}?create=true"), "a warm session").await?;
    }
    let mut samples = Samples::default();
    for _ in 0..count {
        let start = Instant::now();
        ask::two(client, path, "a warm session").await?;
        samples.add_since(start);
    }
    Ok(samples)
}

/// Makes idle sessions from number `from` up to `to`; the median PSS of their agents and
/// kernels.
async fn grow(client: &mut Client, from: usize, to: usize) -> Result<(u64, u64), BenchError> {
    let ids: Vec<_> = (from..to).map(|number| format!("idle-{number}")).collect();
    for id in &ids {
        let path = format!("/v1/sessions/{id}/execute?create=true");
        ask::two(client, &path, "an idle session").await?;
    }
    let (mut agents, mut kernels) = (Vec::new(), Vec::new());
    for id in &ids {
        let path = format!("/v1/sessions/{id}");
        let info: SessionInfo = client.json(Method::GET, &path, None::<&()>).await?;
        agents.extend(info.usage.agent_pss_bytes);
        kernels.extend(info.usage.kernel_pss_bytes);
    }
    Ok((median(agents), median(kernels)))
}
