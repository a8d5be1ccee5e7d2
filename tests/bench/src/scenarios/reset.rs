//! A new kernel for a session that is there.

use std::time::Instant;

use super::{Context, environment, ready, requests, with_daemons};
use crate::daemon::Daemon;
use crate::samples::{Samples, p50};
use crate::series;
use crate::{Bar, BenchError, Findings};

const RESET_MS: f64 = 10.0;
const SESSION: &str = "reset";

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let mut subjects = vec![(series::RESET, "1+1".to_owned(), String::new())];
    if let Some(interpreter) = &context.scientific {
        let (code, config) = (environment::import_and_add(), environment::scientific(interpreter));
        subjects.push((series::RESET_SCIENTIFIC, code, config));
    }
    let configs: Vec<_> = subjects.iter().map(|(.., config)| config.clone()).collect();
    let mut findings = with_daemons(&configs, async |daemons| {
        let mut findings = Findings::default();
        for (daemon, (name, code, _)) in daemons.iter().zip(&subjects) {
            match ready::no_template(daemon).await? {
                Some(reason) => findings.notes.push(format!("{name}: {reason}")),
                None => resets(daemon, name, code, context.plan.resets, &mut findings).await?,
            }
        }
        Ok(findings)
    })
    .await?;
    findings.bars = [series::RESET, series::RESET_SCIENTIFIC]
        .map(|name| Bar::at_most(format!("{name} p50"), p50(&findings.times, name), RESET_MS, "ms"))
        .into();
    Ok(findings)
}

/// Times resets, and the execution after each.
async fn resets(
    daemon: &Daemon,
    name: &'static str,
    code: &str,
    count: usize,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    let mut client = daemon.client();
    requests::create(&mut client, SESSION, code, name).await?;
    let [mut resets, mut executions, mut both] = [(); 3].map(|()| Samples::default());
    for turn in 0..=count {
        // What is reset has been used.
        requests::execute(&mut client, SESSION, code, name).await?;
        let start = Instant::now();
        requests::reset(&mut client, SESSION).await?;
        let reset = start.elapsed();
        requests::two(&mut client, SESSION, name).await?;
        let whole = start.elapsed();
        let counts = turn > 0;
        resets.add_if(counts, reset);
        executions.add_if(counts, whole.saturating_sub(reset));
        both.add_if(counts, whole);
    }
    findings.times.extend([
        resets.summary(name),
        executions.summary(format!("{name}: 1+1 after it")),
        both.summary(format!("{name}: both")),
    ]);
    Ok(())
}
