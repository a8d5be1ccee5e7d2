//! Runtime `wasm`: starts beside bare Python, executions and a loop beside an interpreter, and memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Context, environment, outside, ready, requests, size, with_daemons};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

/// To bare Python.
const CREATE_TIMES: f64 = 0.5;
const POOLED_TIMES: f64 = 0.1;
/// To an interpreter in a session.
const WARM_TIMES: f64 = 1.0;
const LOOP_TIMES: f64 = 5.0;
const SESSION_MB: f64 = 2.0;

const SESSION: &str = "wasm";
const WHAT: &str = "a session of runtime wasm";
const LOOP: &str = "def f():\n    total = 0\n    for n in range(1_000_000): total += n\n\
                    import time\nstart = time.perf_counter_ns()\nf()\n\
                    print(time.perf_counter_ns() - start)";
/// Executions before those that count.
const WARM_UP: usize = 20;

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let Some(program) = program() else {
        let notes = vec!["there is no vivarium-wasm: nothing of runtime wasm was measured".into()];
        return Ok(Findings { notes, ..Findings::default() });
    };
    let light = format!(
        "environments.default.runtime = \"wasm\"\nenvironments.default.interpreter = {program:?}\n"
    );
    let mut findings = starts(context, &light).await?;
    let both = [light.clone(), String::new()];
    let beside =
        with_daemons(&both, async |daemons| beside_interpreter(daemons, context).await).await?;
    findings.times.extend(beside.times);
    findings.bars.extend(beside.bars);
    let counts = context.plan.idle_for_size;
    let (sizes, session_mb) = size::grown(counts, "runtime wasm", &light, "1+1").await?;
    findings.sizes = sizes.sizes;
    let most = counts.iter().max().copied().unwrap_or_default();
    let name = format!("PSS per idle session of {most}, runtime wasm");
    findings.bars.push(Bar::at_most(name, session_mb, SESSION_MB, "MB"));
    Ok(findings)
}

/// Where `runtimes/wasm/build target/wasm` or a package puts it.
fn program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let beside = own.ancestors().skip(1).take(2).map(|directory| directory.join("wasm"));
    let found = beside.chain([PathBuf::from("/usr/lib/vivarium/wasm")]);
    found.map(|directory| directory.join("vivarium-wasm")).find(|program| program.is_file())
}

/// In turns with bare Python.
async fn starts(context: &Context, light: &str) -> Result<Findings, BenchError> {
    let count = context.plan.starts;
    // And one that does not count, and one that is left: see `environment::pool`.
    let configs = [light.to_owned(), light.to_owned() + &environment::pool(count + 2, 1)];
    with_daemons(&configs, async |daemons| {
        let names = ["wasm create to first result", "wasm pooled create to first result"];
        let mut series = [Samples::default(), Samples::default()];
        let mut bare = Samples::default();
        for turn in 0..=count {
            let start = Instant::now();
            outside::bare(&context.machine.interpreter).await?;
            bare.add_if(turn > 0, start.elapsed());
            for ((daemon, name), samples) in daemons.iter().zip(names).zip(&mut series) {
                let mut client = daemon.client();
                let start = Instant::now();
                requests::create(&mut client, SESSION, "1+1", name).await?;
                samples.add_if(turn > 0, start.elapsed());
                requests::delete(&mut client, SESSION).await?;
            }
        }
        for daemon in daemons.iter().skip(1) {
            let (_, missed) = ready::takes(daemon).await?;
            if missed > 0 {
                let found = format!("{missed} sessions that were not from the pool");
                return Err(requests::unexpected("a pool that was large enough", &found));
            }
        }
        let bare = bare.summary("bare python3 -c pass, beside wasm");
        let mut findings = Findings::default();
        for ((name, samples), most) in names.iter().zip(series).zip([CREATE_TIMES, POOLED_TIMES]) {
            let times = samples.summary(*name);
            let bar = format!("{name}, to bare python3");
            findings.bars.push(Bar::at_most(bar, times.p50 / bare.p50, most, "times"));
            findings.times.push(times);
        }
        findings.times.push(bare);
        Ok(findings)
    })
    .await
}

/// Warm executions and a loop, in turns with those in an interpreter.
async fn beside_interpreter(daemons: &[Daemon], context: &Context) -> Result<Findings, BenchError> {
    let names = ["runtime wasm", "runtime cpython"];
    let mut clients = Vec::new();
    for daemon in daemons {
        let mut client = daemon.client();
        requests::create(&mut client, SESSION, "1+1", WHAT).await?;
        clients.push(client);
    }
    let mut warm = [Samples::default(), Samples::default()];
    for turn in 0..WARM_UP + context.plan.executions {
        for (client, samples) in clients.iter_mut().zip(&mut warm) {
            let start = Instant::now();
            requests::two(client, SESSION, WHAT).await?;
            samples.add_if(turn >= WARM_UP, start.elapsed());
        }
    }
    let mut loops = [Samples::default(), Samples::default()];
    for turn in 0..=context.plan.commands / 4 {
        for (client, samples) in clients.iter_mut().zip(&mut loops) {
            let outcome = requests::execute(client, SESSION, LOOP, WHAT).await?;
            let Ok(nanoseconds) = outcome.stdout.trim().parse() else {
                return Err(requests::unexpected(WHAT, &outcome));
            };
            samples.add_if(turn > 0, Duration::from_nanos(nanoseconds));
        }
    }
    let mut findings = Findings::default();
    for (what, samples, most) in
        [("warm execute of 1+1", warm, WARM_TIMES), ("loop of 1,000,000 steps", loops, LOOP_TIMES)]
    {
        let [wasm, cpython] = samples;
        let wasm = wasm.summary(format!("{what}, {}", names[0]));
        let cpython = cpython.summary(format!("{what}, {}", names[1]));
        let bar = format!("{what} in runtime wasm, to the same in cpython");
        findings.bars.push(Bar::at_most(bar, wasm.p50 / cpython.p50, most, "times"));
        findings.times.extend([wasm, cpython]);
    }
    Ok(findings)
}
