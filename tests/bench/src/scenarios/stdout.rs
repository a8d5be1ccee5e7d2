//! Much output at full speed to a client that follows it, and the daemon's memory meanwhile.

use std::time::Instant;

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::memory::Peak;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings, Size};

const RATE_MB_PER_S: f64 = 200.0;

/// What is bounded by design, together: the events that are kept, at most twice
/// `session.event_buffer_bytes` (2 MiB), or once where the client keeps up; a batch of them on its
/// way, as events and as JSON (0.6 MiB); the text that the outcome keeps (0.25 MiB); what is being
/// read from the agent and written to the client (0.5 MiB). The rest is for pages of the program
/// that are needed for the first time.
const GROWTH_MIB: f64 = 4.0;

const SESSION: &str = "stdout";
const WHAT: &str = "a stream of stdout";

/// What is printed at a time: lines of 80 bytes.
const BLOCK_BYTES: u64 = 80 * 1250;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let blocks = context.plan.stream_bytes / BLOCK_BYTES;
    let bytes = blocks * BLOCK_BYTES;
    let config = format!("sandbox.max_output_bytes = {bytes}\n");
    let (samples, before, growth) =
        with_daemon(&config, async |daemon| streams(daemon, blocks, context.plan.streams).await)
            .await?;
    let mb = bytes / 1_000_000;
    let rate = samples.rate(format!("{mb} MB of stdout, from code to client"), bytes);
    let growth = Size::new(format!("daemon growth while {mb} MB of stdout stream"), growth);
    Ok(Findings {
        bars: vec![
            Bar::at_least("stdout, from code to client", rate.mb_per_s(), RATE_MB_PER_S, "MB/s"),
            Bar::at_most("daemon's growth while stdout streams", growth.mib(), GROWTH_MIB, "MiB"),
        ],
        rates: vec![rate],
        sizes: vec![growth, Size::new("daemon resident before that", before)],
        ..Findings::default()
    })
}

/// The times, what the daemon had resident before, and how much more it had at most during the
/// first: later ones stand beside the kept results of earlier ones.
async fn streams(
    daemon: &Daemon,
    blocks: u64,
    count: usize,
) -> Result<(Samples, u64, u64), BenchError> {
    let prepare = "import sys\nblock = ('x' * 79 + '\\n') * 1250";
    requests::execute(&mut daemon.client(), SESSION, prepare, WHAT).await?;
    let code = format!("for _ in range({blocks}):\n    sys.stdout.write(block)\n");
    let expected = blocks * BLOCK_BYTES;
    let peak = Peak::watch(daemon.pid())?;
    let mut growth = None;
    let mut samples = Samples::default();
    for _ in 0..count {
        let mut arrived = 0;
        let start = Instant::now();
        requests::follow(daemon.client(), SESSION, &code, WHAT, |text| {
            arrived += text.len() as u64
        })
        .await?;
        samples.add_since(start);
        if arrived != expected {
            return Err(requests::unexpected(WHAT, &format!("{arrived} of {expected} bytes")));
        }
        if growth.is_none() {
            growth = Some(peak.most_bytes()?.saturating_sub(peak.before_bytes()));
        }
    }
    Ok((samples, peak.before_bytes(), growth.unwrap_or_default()))
}
