//! Sessions that could be suspended and are not, in turns with those of an environment without
//! images.

use std::time::Instant;

use super::super::{Context, environment, ready, requests, with_daemons};
use crate::daemon::Daemon;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings};

/// Within 3 %.
const TIMES: f64 = 1.03;
const SESSION: &str = "unused";
const WHAT: &str = "a session that is not suspended";

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let count = context.plan.unused;
    let mut findings = pair("plain", "", "1+1", count).await?;
    let three = "the three";
    let scientific = match &context.scientific {
        Some(interpreter) => {
            let config = environment::scientific(interpreter);
            pair(three, &config, &environment::import_and_add(), count).await?
        }
        None => Findings { bars: vec![bar(three, f64::NAN)], ..Findings::default() },
    };
    findings.times.extend(scientific.times);
    findings.bars.extend(scientific.bars);
    findings.notes.extend(scientific.notes);
    Ok(findings)
}

/// Measures a daemon without images and one with them, in turns.
async fn pair(kind: &str, config: &str, code: &str, count: usize) -> Result<Findings, BenchError> {
    let configs = [config.to_owned(), format!("{config}{}", environment::IMAGES)];
    with_daemons(&configs, async |daemons| {
        for daemon in daemons {
            if let Some(reason) = ready::no_template(daemon).await? {
                let notes = vec![format!("create to delete, {kind}: {reason}")];
                let bars = vec![bar(kind, f64::NAN)];
                return Ok(Findings { bars, notes, ..Findings::default() });
            }
        }
        turns(daemons, kind, code, count).await
    })
    .await
}

/// Makes and deletes sessions of each of these two daemons.
async fn turns(
    daemons: &[Daemon],
    kind: &str,
    code: &str,
    count: usize,
) -> Result<Findings, BenchError> {
    let mut series: Vec<_> = ["off", "on"]
        .iter()
        .zip(daemons)
        .map(|(images, daemon)| (images, daemon.client(), Samples::default()))
        .collect();
    for turn in 0..=count.div_ceil(2) {
        // In this order and the opposite one: whatever comes second may find another machine.
        for _ in 0..2 {
            for (_, client, samples) in &mut series {
                let start = Instant::now();
                requests::create(client, SESSION, code, WHAT).await?;
                requests::delete(client, SESSION).await?;
                samples.add_if(turn > 0, start.elapsed());
            }
            series.reverse();
        }
    }
    let times: Vec<_> = series
        .iter()
        .map(|(images, _, samples)| {
            samples.summary(format!("create to delete, {kind}, images {images}"))
        })
        .collect();
    let ratio = match times.as_slice() {
        [off, on] => on.p50 / off.p50,
        _ => f64::NAN,
    };
    Ok(Findings { bars: vec![bar(kind, ratio)], times, ..Findings::default() })
}

fn bar(kind: &str, ratio: f64) -> Bar {
    Bar::at_most(format!("create to delete, {kind}, images on to off"), ratio, TIMES, "times")
}
