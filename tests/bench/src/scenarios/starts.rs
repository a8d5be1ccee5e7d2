//! Sessions from nothing, from a template and from a pool, beside bare Python.

use std::time::{Duration, Instant};

use vivarium_client::Client;

use super::{Context, environment, outside, ready, requests, with_daemons};
use crate::daemon::Daemon;
use crate::samples::{Samples, p50};
use crate::series;
use crate::{Bar, BenchError, Findings, Summary};

/// How many times as long as bare Python each may take.
const BARS: [(&str, f64); 5] = [
    (series::COLD, 1.25),
    (series::TEMPLATE, 0.35),
    (series::TEMPLATE_SCIENTIFIC, 0.5),
    (series::POOLED_SCIENTIFIC, 0.07),
    (series::POOLED_RUN, 1.0),
];

const SESSION: &str = "start";

#[derive(Debug, Clone)]
enum Act {
    /// A session is made by executing this, which gives 2.
    Create(String),
    /// Code is run in a session of its own.
    Run,
}

/// A daemon's configuration, and what is timed of it.
struct Subject {
    config: String,
    is_cold: bool,
    acts: Vec<(&'static str, Act)>,
}

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let subjects = subjects(context);
    let configs: Vec<_> = subjects.iter().map(|subject| subject.config.clone()).collect();
    let mut findings = with_daemons(&configs, async |daemons| {
        turns(daemons, &subjects, &context.machine.interpreter, context.plan.starts).await
    })
    .await?;
    findings.bars = bars(&findings.times);
    Ok(findings)
}

fn subjects(context: &Context) -> Vec<Subject> {
    // And one of each that does not count, and one that is left: see `environment::pool`.
    let pool = |series| environment::pool(series * (context.plan.starts + 1) + 1, 1);
    let plain = || Act::Create("1+1".to_owned());
    let mut subjects = vec![
        Subject {
            config: environment::COLD.to_owned(),
            is_cold: true,
            acts: vec![(series::COLD, plain()), (series::COLD_RUN, Act::Run)],
        },
        Subject {
            config: String::new(),
            is_cold: false,
            acts: vec![(series::TEMPLATE, plain()), (series::TEMPLATE_RUN, Act::Run)],
        },
        Subject {
            config: pool(2),
            is_cold: false,
            acts: vec![(series::POOLED, plain()), (series::POOLED_RUN, Act::Run)],
        },
    ];
    if let Some(interpreter) = &context.scientific {
        let import = || Act::Create(environment::import_and_add());
        let config = environment::scientific(interpreter);
        subjects.push(Subject {
            config: config.clone(),
            is_cold: false,
            acts: vec![(series::TEMPLATE_SCIENTIFIC, import())],
        });
        subjects.push(Subject {
            config: config + &pool(1),
            is_cold: false,
            acts: vec![(series::POOLED_SCIENTIFIC, import())],
        });
    }
    subjects
}

/// Series that take their turns, so that a machine that slows down slows all of them.
async fn turns(
    daemons: &[Daemon],
    subjects: &[Subject],
    interpreter: &str,
    count: usize,
) -> Result<Findings, BenchError> {
    let mut findings = Findings::default();
    let mut measured = Vec::new();
    for (daemon, subject) in daemons.iter().zip(subjects) {
        match ready::no_template(daemon).await? {
            Some(reason) if !subject.is_cold => {
                findings
                    .notes
                    .extend(subject.acts.iter().map(|(name, _)| format!("{name}: {reason}")));
            }
            _ => {
                let series =
                    subject.acts.iter().map(|(name, act)| (*name, act, Samples::default()));
                measured.push((daemon, daemon.client(), subject, series.collect::<Vec<_>>()));
            }
        }
    }
    let (mut bare, mut deletes) = (Samples::default(), Samples::default());
    let mut executed = 0;
    for turn in 0..=count {
        // The first of each does not count: the page cache is not what is measured.
        let counts = turn > 0;
        bare.add_if(counts, time(outside::bare(interpreter)).await?);
        for (_, client, subject, series) in &mut measured {
            for (name, act, samples) in series {
                samples.add_if(counts, time(start(client, name, act)).await?);
                if matches!(act, Act::Create(_)) {
                    if counts && !subject.is_cold && !requests::is_forked(client, SESSION).await? {
                        executed += 1;
                    }
                    let took = time(requests::delete(client, SESSION)).await?;
                    deletes.add_if(counts && subject.is_cold, took);
                }
            }
        }
    }
    findings.times.push(bare.summary(series::BARE));
    for (daemon, _, _, series) in measured {
        findings.times.extend(series.iter().map(|(name, _, samples)| samples.summary(*name)));
        let (_, missed) = ready::takes(daemon).await?;
        if missed > 0 {
            let found = format!("{missed} sessions that were not from the pool");
            return Err(requests::unexpected("a pool that was large enough", &found));
        }
    }
    findings.times.push(deletes.summary("delete"));
    if executed > 0 {
        let note = format!("{executed} kernels were executed that should have been forked");
        findings.notes.push(note);
    }
    Ok(findings)
}

async fn start(client: &mut Client, name: &'static str, act: &Act) -> Result<(), BenchError> {
    match act {
        Act::Create(code) => requests::create(client, SESSION, code, name).await,
        Act::Run => requests::run(client, name).await,
    }
}

async fn time(
    action: impl Future<Output = Result<(), BenchError>>,
) -> Result<Duration, BenchError> {
    let start = Instant::now();
    action.await?;
    Ok(start.elapsed())
}

fn bars(times: &[Summary]) -> Vec<Bar> {
    let bare = p50(times, series::BARE);
    let bar = |(name, most): (&str, f64)| {
        Bar::at_most(format!("{name}, to bare python3"), p50(times, name) / bare, most, "times")
    };
    BARS.map(bar).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_was_not_measured_meets_no_bar() {
        assert!(bars(&[]).iter().all(|bar| !bar.met));
        let took =
            |name: &str, p50| Summary { name: name.into(), count: 1, p50, p95: p50, p99: p50 };
        let times = [took(series::BARE, 4.0), took(series::COLD, 5.0), took(series::TEMPLATE, 2.0)];
        let met = bars(&times).iter().map(|bar| bar.met).collect::<Vec<_>>();
        assert_eq!(met, [true, false, false, false, false]);
    }
}
