//! Sessions that are suspended, resumed and branched, beside bare Python, and what it costs sessions
//! that they could be.

mod checkpoints;
mod unused;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vivarium_api_types::{BranchRequest, MAX_BRANCHES};
use vivarium_client::Client;

use super::{Context, concurrent, environment, outside, ready, requests, with_daemon};
use crate::daemon::Daemon;
use crate::samples::{Samples, median, p50};
use crate::{Bar, BenchError, Findings, Size, Summary};

const STANDS_STILL_MS: f64 = 5.0;
const RESUME_MS: f64 = 10.0;
const IMAGE_MB: f64 = 0.5;
const LARGE_MS: f64 = 60.0;
const BRANCHES_MS: f64 = 600.0;

const SESSION: &str = "suspend";
const WHAT: &str = "a session that is suspended";

/// What a session has when it is suspended, and bytes in each of its ten arrays.
pub(super) struct State {
    name: &'static str,
    array_bytes: usize,
}

pub(super) const SMALL: State = State { name: "small state", array_bytes: 1 };
const LARGE: State = State { name: "100 MB", array_bytes: 10_000_000 };

/// Uses everything that [`State::code`] makes.
pub(super) const CHECK: &str = "(next(numbers), count(), len(frame), len(figure.axes), \
                     last == int(arrays[-1][-1]))";
pub(super) const CHECKED: &str = "(500, 2, 20, 1, True)";

impl State {
    /// Code that makes the state, and gives 2. The arrays are random, so that they do not compress.
    pub(super) fn code(&self) -> String {
        format!(
            "import numpy, pandas\n\
             import matplotlib.pyplot as plt\n\
             frame = pandas.DataFrame({{'a': range(20), 'b': [n / 2 for n in range(20)]}})\n\
             figure, axes = plt.subplots()\n\
             lines = axes.plot(frame['a'], frame['b']); plt.close('all')\n\
             def counter(count):\n    \
                 def step():\n        \
                     nonlocal count\n        \
                     count += 1\n        \
                     return count\n    \
                 return step\n\
             count = counter(0); count()\n\
             numbers = (n for n in range(1000))\n\
             for _ in range(500): next(numbers)\n\
             generator = numpy.random.default_rng(1)\n\
             arrays = [generator.integers(0, 256, {}, dtype='uint8') for _ in range(10)]\n\
             last = int(arrays[-1][-1])\n\
             1+1",
            self.array_bytes
        )
    }

    fn bare(&self) -> String {
        format!("bare python3 -c pass, beside {}", self.name)
    }

    fn suspend(&self) -> String {
        format!("suspend, {}", self.name)
    }

    fn resume(&self) -> String {
        format!("resume to first answer, {}", self.name)
    }

    fn stands_still(&self) -> String {
        format!("longest wait for an answer while branched, {}", self.name)
    }

    fn image(&self) -> String {
        format!("image, {}", self.name)
    }
}

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let mut findings = Findings::default();
    if let Some(interpreter) = &context.scientific {
        let config = environment::scientific(interpreter) + environment::IMAGES;
        findings = with_daemon(&config, async |daemon| images(daemon, context).await).await?;
    }
    findings.bars = bars(&findings.times, &findings.sizes);
    let unused = unused::measure(context).await?;
    findings.times.extend(unused.times);
    findings.bars.extend(unused.bars);
    findings.notes.extend(unused.notes);
    Ok(findings)
}

async fn images(daemon: &Daemon, context: &Context) -> Result<Findings, BenchError> {
    let mut findings = Findings::default();
    if let Some(reason) = ready::no_template(daemon).await? {
        findings.notes.push(format!("suspend: {reason}"));
        return Ok(findings);
    }
    for state in [SMALL, LARGE] {
        suspends(daemon, context, &state, &mut findings).await?;
    }
    let times = p50(&findings.times, &LARGE.resume()) / p50(&findings.times, &LARGE.bare());
    findings.notes.push(format!("{} takes {times:.2} times bare python3", LARGE.resume()));
    for state in [SMALL, LARGE] {
        stands_still(daemon, context, &state, &mut findings).await?;
    }
    checkpoints::measure(daemon, context, &mut findings).await?;
    branches(daemon, context, &mut findings).await?;
    Ok(findings)
}

/// Suspends and resumes sessions, each once, in turns with bare Python.
async fn suspends(
    daemon: &Daemon,
    context: &Context,
    state: &State,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    let mut client = daemon.client();
    let [mut bare, mut suspends, mut resumes] = [(); 3].map(|()| Samples::default());
    let mut sizes = Vec::new();
    for turn in 0..=context.plan.suspends {
        // The first does not count: it also writes the template's memory to disk.
        let counts = turn > 0;
        let start = Instant::now();
        outside::bare(&context.machine.interpreter).await?;
        bare.add_if(counts, start.elapsed());

        requests::create(&mut client, SESSION, &state.code(), WHAT).await?;
        let start = Instant::now();
        let suspended = client.suspend_session(SESSION).await?;
        suspends.add_if(counts, start.elapsed());
        let Some(image) = suspended.image else {
            return Err(requests::unexpected(WHAT, &suspended));
        };
        sizes.push(image.size_bytes);

        let start = Instant::now();
        requests::gives(&mut client, SESSION, CHECK, CHECKED, WHAT).await?;
        resumes.add_if(counts, start.elapsed());
        requests::delete(&mut client, SESSION).await?;
    }
    findings.times.extend([
        bare.summary(state.bare()),
        suspends.summary(state.suspend()),
        resumes.summary(state.resume()),
    ]);
    findings.sizes.push(Size::new(state.image(), median(sizes)));
    Ok(())
}

/// Asks a session all the time while a branch of it is made, which needs its image: how long it takes to answer
/// at most.
async fn stands_still(
    daemon: &Daemon,
    context: &Context,
    state: &State,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    let (mut branching, mut asking) = (daemon.client(), daemon.client());
    requests::create(&mut branching, SESSION, &state.code(), WHAT).await?;
    let mut samples = Samples::default();
    for turn in 0..=context.plan.suspends {
        let is_made = AtomicBool::new(false);
        let branch = async {
            let reply = loop {
                let request = BranchRequest::default();
                match branching.branch_session(SESSION, &request).await {
                    // What was asked came first.
                    Err(error) if error.code() == Some("busy") => {}
                    reply => break reply,
                }
            };
            is_made.store(true, Ordering::Relaxed);
            reply
        };
        let ask = async {
            let mut longest = Duration::ZERO;
            while !is_made.load(Ordering::Relaxed) {
                let start = Instant::now();
                requests::gives(&mut asking, SESSION, "1+1", "2", WHAT).await?;
                longest = longest.max(start.elapsed());
            }
            Ok::<_, BenchError>(longest)
        };
        let (reply, longest) = tokio::join!(branch, ask);
        samples.add_if(turn > 0, longest?);
        for made in reply?.sessions {
            requests::delete(&mut branching, &made.id).await?;
        }
    }
    findings.times.push(samples.summary(state.stands_still()));
    requests::delete(&mut branching, SESSION).await
}

/// Makes as many branches as one request can, and has each answer.
async fn branches(
    daemon: &Daemon,
    context: &Context,
    findings: &mut Findings,
) -> Result<(), BenchError> {
    let mut client = daemon.client();
    requests::create(&mut client, SESSION, &SMALL.code(), WHAT).await?;
    let cpus = context.machine.cpus;
    let [mut made, mut answered] = [(); 2].map(|()| Samples::default());
    for turn in 0..=context.plan.branchings {
        let counts = turn > 0;
        let start = Instant::now();
        let request = BranchRequest { count: MAX_BRANCHES, checkpoint: None };
        let reply = client.branch_session(SESSION, &request).await?;
        made.add_if(counts, start.elapsed());
        let ids: Vec<_> = reply.sessions.into_iter().map(|session| session.id).collect();
        concurrent::each("branches", daemon, cpus, &ids, answer).await?;
        answered.add_if(counts, start.elapsed());
        concurrent::each("branches", daemon, cpus, &ids, concurrent::delete).await?;
    }
    findings.times.extend([made.summary(all_made()), answered.summary(all_answered())]);
    Ok(())
}

async fn answer(mut client: Client, ids: Vec<String>) -> Result<(), BenchError> {
    for id in ids {
        requests::gives(&mut client, &id, CHECK, CHECKED, "a branch").await?;
    }
    Ok(())
}

fn all_made() -> String {
    format!("{MAX_BRANCHES} branches, all ready")
}

fn all_answered() -> String {
    format!("{MAX_BRANCHES} branches, all have answered")
}

fn bars(times: &[Summary], sizes: &[Size]) -> Vec<Bar> {
    let most =
        |name: &str, limit| Bar::at_most(format!("{name} p50"), p50(times, name), limit, "ms");
    let to_bare = p50(times, &SMALL.resume()) / p50(times, &SMALL.bare());
    let image = sizes.iter().find(|size| size.name == SMALL.image());
    let image_mb = image.map_or(f64::NAN, Size::mb);
    let mut bars = vec![
        most(&SMALL.resume(), RESUME_MS),
        Bar::at_most("resume to first answer, to bare python3", to_bare, 1.0, "times"),
        Bar::at_most(SMALL.image(), image_mb, IMAGE_MB, "MB"),
        most(&SMALL.stands_still(), STANDS_STILL_MS),
        most(&LARGE.stands_still(), LARGE_MS),
        most(&LARGE.resume(), LARGE_MS),
        most(&all_answered(), BRANCHES_MS),
    ];
    bars.extend(checkpoints::bars(times, sizes));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_needs_its_series_and_is_of_the_right_one() {
        assert!(bars(&[], &[]).iter().all(|bar| !bar.met));
        let took = |name: String, p50| Summary { name, count: 1, p50, p95: p50, p99: p50 };
        let times = [
            took(SMALL.bare(), 8.0),
            took(SMALL.resume(), 9.0),
            took(SMALL.stands_still(), 5.1),
            took(LARGE.stands_still(), 60.0),
            took(LARGE.resume(), 61.0),
            took(all_answered(), 500.0),
        ];
        let sizes = [Size::new(LARGE.image(), 100_000_000), Size::new(SMALL.image(), 400_000)];
        let met = bars(&times, &sizes).iter().map(|bar| bar.met).collect::<Vec<_>>();
        assert_eq!(met, [true, false, true, false, true, false, true, false, false]);
    }

    #[test]
    fn the_state_is_made_of_lines_that_python_understands() {
        let code = LARGE.code();
        for line in ["    def step():", "        nonlocal count", "    return step", "1+1"] {
            assert!(code.lines().any(|found| found == line), "{line} in {code}");
        }
        assert!(code.contains("{'a': range(20)") && code.contains("(0, 256, 10000000, "), "{code}");
    }
}
