//! What a limit of work costs: a loop and calls with `max_work`, against the same without.

use std::time::Duration;

use serde_json::json;
use vivarium_api_types::Outcome;
use vivarium_client::Method;

use super::{Context, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

const SESSION: &str = "work";
const WHAT: &str = "code whose work is limited";
const MAX_WORK: u64 = 1 << 40;
/// What is run, by name, and how many times longer it may take.
const KINDS: [(&str, &str, f64); 2] = [
    ("loop", "for n in range(1_000_000): pass", 1.2),
    ("calls", "def f(n): return n\nfor n in range(300_000): f(n)", 1.6),
];

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let [major, minor] = version(&context.machine.python_version);
    if (major, minor) < (3, 12) {
        let notes = vec![format!("Python {major}.{minor} counts no work: nothing was measured")];
        return Ok(Findings { notes, ..Findings::default() });
    }
    let mut findings = Findings::default();
    for (name, code, most) in KINDS {
        let measured = async |daemon: &Daemon| in_turns(daemon, code, context.plan.commands).await;
        let [plain, limited] = with_daemon("", measured).await?;
        let plain = plain.summary(format!("{name} without a limit of work"));
        let limited = limited.summary(format!("{name} with a limit of work"));
        let ratio = limited.p50 / plain.p50;
        let bar = format!("{name} with a limit of work, to the same without");
        findings.bars.push(Bar::at_most(bar, ratio, most, "times"));
        findings.times.extend([plain, limited]);
    }
    Ok(findings)
}

fn version(python: &str) -> [u64; 2] {
    let mut numbers = python.split('.').map(|part| part.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
}

/// The same in turns, by the clock of the code.
async fn in_turns(daemon: &Daemon, code: &str, count: usize) -> Result<[Samples; 2], BenchError> {
    let mut client = daemon.client();
    requests::create(&mut client, SESSION, "1+1", WHAT).await?;
    let code = format!(
        "import time\nstart = time.perf_counter_ns()\n{code}\n\
         print(time.perf_counter_ns() - start)"
    );
    let path = format!("/v1/sessions/{SESSION}/execute");
    let mut samples = [(); 2].map(|()| Samples::default());
    for turn in 0..=count {
        let bodies = [json!({ "code": code }), json!({"code": code, "max_work": MAX_WORK})];
        for (body, samples) in bodies.iter().zip(&mut samples) {
            let outcome: Outcome = client.json(Method::POST, &path, Some(body)).await?;
            let Ok(nanoseconds) = outcome.stdout.trim().parse() else {
                return Err(requests::unexpected(WHAT, &outcome));
            };
            samples.add_if(turn > 0, Duration::from_nanos(nanoseconds));
        }
    }
    Ok(samples)
}
