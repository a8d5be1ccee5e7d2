//! Many suspended sessions beside some that are not: what they take of disk and of the daemon's memory, and how fast
//! any of them is there again.
//!
//! Each sleeper wakes at most once, so that every wake can check all of the state that was suspended. Whichever woke is
//! suspended again before the next wakes, except where it is counted how many wake in a time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use vivarium_client::Client;

use super::suspend::{CHECK, CHECKED, SMALL};
use super::{Context, concurrent, environment, outside, ready, requests, with_daemon};
use crate::daemon::Daemon;
use crate::disk;
use crate::memory::pss_bytes;
use crate::samples::Samples;
use crate::{Bar, BenchError, Findings, Frequency, Plan, Size};

const PROMISED: usize = 20_000;
const DISK_GB: f64 = 10.0;
const WAKE_MS: f64 = 50.0;
const WAKES_PER_S: f64 = 100.0;

/// Of sleepers, the share that wakes in each way, if that is more than the plan's least number.
const WAKES_OF: usize = 20;
/// More tell no more, and would be more sessions than the daemon has.
const MOST_WAKES: usize = 1000;
/// One alone, one whose image is read from disk, and one of many at a time.
const WAYS: usize = 3;

/// What is bounded by default below what the promise is of.
const UNBOUNDED: &str = "images.max_mb = \"unlimited\"\nimages.max_per_tenant = \"unlimited\"\n";

/// Whose images are in the directory of this name, where no tenants are configured.
const TENANT: &str = "default";

const WHAT: &str = "a session asleep";

/// What the bars are of; no numbers, which meet none, where nothing was measured.
struct Measured {
    disk_gb: f64,
    wake_p95_ms: f64,
    wakes_per_s: f64,
}

const NOT_MEASURED: Measured =
    Measured { disk_gb: f64::NAN, wake_p95_ms: f64::NAN, wakes_per_s: f64::NAN };

pub(super) async fn measure(context: &Context) -> Result<Findings, BenchError> {
    let Some(interpreter) = &context.scientific else {
        let bars = bars(context, &NOT_MEASURED);
        return Ok(Findings { bars, ..Findings::default() });
    };
    let config = environment::scientific(interpreter) + environment::IMAGES + UNBOUNDED;
    with_daemon(&config, async |daemon| {
        let mut findings = Findings::default();
        let measured = match ready::no_template(daemon).await? {
            Some(reason) => {
                findings.notes.push(format!("asleep: {reason}"));
                NOT_MEASURED
            }
            None => asleep(daemon, context, &mut findings).await?,
        };
        findings.bars = bars(context, &measured);
        Ok(findings)
    })
    .await
}

async fn asleep(
    daemon: &Daemon,
    context: &Context,
    findings: &mut Findings,
) -> Result<Measured, BenchError> {
    let Plan { asleep, awake, .. } = context.plan;
    let disk_bytes = fall_asleep(daemon, asleep, findings).await?;
    concurrent::grow(daemon, 0..awake, &SMALL.code()).await?;
    findings.sizes.push(daemon_size(daemon, &format!("{asleep} asleep, {awake} awake"))?);

    let order = shuffled(asleep);
    let mut parts = order.chunks(wakes(&context.plan));
    let mut next = || parts.next().unwrap_or_default();
    let wake_p95_ms = one_by_one(daemon, context, next(), next(), findings).await?;
    let wakes = next();
    let start = Instant::now();
    concurrent::each(WHAT, daemon, context.machine.cpus, wakes, wake).await?;
    let rate = Frequency::new(many_wake(context), wakes.len(), start.elapsed());
    let wakes_per_s = rate.per_s;
    findings.frequencies.push(rate);

    // A daemon that ends would suspend them, one after the other.
    concurrent::shrink(daemon, 0..awake).await?;
    let woken: Vec<_> = wakes.iter().copied().map(id).collect();
    concurrent::each(WHAT, daemon, concurrent::MAKERS, &woken, concurrent::delete).await?;
    Ok(Measured { disk_gb: disk_bytes as f64 / 1e9, wake_p95_ms, wakes_per_s })
}

/// Makes sessions and suspends them. Gives what as many as are promised would take of disk.
async fn fall_asleep(
    daemon: &Daemon,
    asleep: usize,
    findings: &mut Findings,
) -> Result<u64, BenchError> {
    findings.sizes.push(daemon_size(daemon, "none asleep")?);
    let numbers: Vec<_> = (0..asleep).collect();
    let (first, others) = numbers.split_at(1);
    // The first also writes the template's memory to disk, once for all.
    concurrent::each(WHAT, daemon, 1, first, make).await?;
    let first_bytes = disk::used_bytes(&daemon.images())?;
    let start = Instant::now();
    concurrent::each(WHAT, daemon, concurrent::MAKERS, others, make).await?;
    let name = format!("create and suspend by {} clients", concurrent::MAKERS);
    findings.frequencies.push(Frequency::new(name, others.len(), start.elapsed()));
    let all_bytes = disk::used_bytes(&daemon.images())?;
    let promised_bytes = scaled(first_bytes, all_bytes, asleep);
    findings.sizes.extend([
        daemon_size(daemon, &format!("{asleep} asleep"))?,
        Size::new("disk of the first asleep, with its template", first_bytes),
        Size::new(format!("disk of {asleep} asleep, with their template"), all_bytes),
        Size::new(disk_of(asleep), promised_bytes),
    ]);
    Ok(promised_bytes)
}

/// What the first takes, and so many others of the mean of the others.
fn scaled(first_bytes: u64, all_bytes: u64, asleep: usize) -> u64 {
    let others = (asleep as u64).saturating_sub(1).max(1);
    let others_bytes = all_bytes.saturating_sub(first_bytes);
    first_bytes + others_bytes * (PROMISED as u64 - 1) / others
}

/// Wakes one after the other, in turns with bare Python: one whose image is where it came to be, and one whose image is
/// on disk only. Gives the 95th percentile of the former in milliseconds.
async fn one_by_one(
    daemon: &Daemon,
    context: &Context,
    cached: &[usize],
    forgotten: &[usize],
    findings: &mut Findings,
) -> Result<f64, BenchError> {
    let mut client = daemon.client();
    let [mut bare, mut of_cached, mut of_forgotten] = [(); 3].map(|()| Samples::default());
    for (turn, (cached, forgotten)) in cached.iter().zip(forgotten).enumerate() {
        let counts = turn > 0;
        let start = Instant::now();
        outside::bare(&context.machine.interpreter).await?;
        bare.add_if(counts, start.elapsed());
        for (number, samples) in [(cached, &mut of_cached), (forgotten, &mut of_forgotten)] {
            if number == forgotten {
                disk::forget(&daemon.images().join(TENANT).join(id(*number)))?;
            }
            let start = Instant::now();
            answers(&mut client, *number).await?;
            samples.add_if(counts, start.elapsed());
            drop(client.suspend_session(&id(*number)).await?);
        }
    }
    let cached = of_cached.summary(one_wakes(context));
    let wake_p95_ms = cached.p95;
    let forgotten = format!("{}, image not in the page cache", one_wakes(context));
    findings.times.extend([
        bare.summary("bare python3 -c pass, beside sessions asleep"),
        cached,
        of_forgotten.summary(forgotten),
    ]);
    Ok(wake_p95_ms)
}

async fn make(mut client: Client, numbers: Vec<usize>) -> Result<(), BenchError> {
    for number in numbers {
        let code = format!("number = {number}\n{}", SMALL.code());
        requests::create(&mut client, &id(number), &code, WHAT).await?;
        drop(client.suspend_session(&id(number)).await?);
    }
    Ok(())
}

async fn wake(mut client: Client, numbers: Vec<usize>) -> Result<(), BenchError> {
    for number in numbers {
        answers(&mut client, number).await?;
    }
    Ok(())
}

/// Has a sleeper show that it is what it was, and none of the others.
async fn answers(client: &mut Client, number: usize) -> Result<(), BenchError> {
    let (check, checked) = (format!("(number, {CHECK})"), format!("({number}, {CHECKED})"));
    requests::gives(client, &id(number), &check, &checked, WHAT).await
}

fn daemon_size(daemon: &Daemon, beside: &str) -> Result<Size, BenchError> {
    Ok(Size::new(format!("daemon PSS with {beside}"), pss_bytes(daemon.pid())?))
}

/// How many wake in each way.
fn wakes(plan: &Plan) -> usize {
    (plan.asleep / WAKES_OF).min(MOST_WAKES).max(plan.wakes).min(plan.asleep / WAYS).max(1)
}

/// The numbers below `count`, in an order that is none and the same in every run.
fn shuffled(count: usize) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..count).collect();
    numbers.sort_by_cached_key(|number| {
        let mut hasher = DefaultHasher::new();
        number.hash(&mut hasher);
        hasher.finish()
    });
    numbers
}

fn id(number: usize) -> String {
    format!("asleep-{number}")
}

fn disk_of(asleep: usize) -> String {
    format!("disk of {PROMISED} asleep, from {asleep}")
}

fn one_wakes(context: &Context) -> String {
    let Plan { asleep, awake, .. } = context.plan;
    format!("wake to first answer, {asleep} asleep beside {awake} awake")
}

fn many_wake(context: &Context) -> String {
    let Plan { asleep, awake, .. } = context.plan;
    let clients = context.machine.cpus;
    format!("wakes by {clients} clients, {asleep} asleep beside {awake} awake")
}

fn bars(context: &Context, measured: &Measured) -> Vec<Bar> {
    let Measured { disk_gb, wake_p95_ms, wakes_per_s } = *measured;
    vec![
        Bar::at_most(disk_of(context.plan.asleep), disk_gb, DISK_GB, "GB"),
        Bar::at_most(format!("{} p95", one_wakes(context)), wake_p95_ms, WAKE_MS, "ms"),
        Bar::at_least(many_wake(context), wakes_per_s, WAKES_PER_S, "1/s"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_counted_once_in_what_many_take() {
        // A template of 900, and sleepers of 100.
        assert_eq!(scaled(1_000, 1_900, 10), 1_000 + 19_999 * 100);
        assert_eq!(scaled(1_000, 1_000, 1), 1_000);
    }

    #[test]
    fn no_sleeper_wakes_twice_and_each_way_has_some() {
        for (asleep, least, expected) in
            [(40_000, 60, 1_000), (2_000, 60, 100), (200, 60, 60), (30, 10, 10), (10, 60, 3)]
        {
            let plan = Plan { asleep, wakes: least, ..Plan::QUICK };
            assert_eq!(wakes(&plan), expected);
            let order = shuffled(asleep);
            assert!(order.chunks(wakes(&plan)).take(WAYS).all(|part| part.len() == expected));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..asleep) && sorted != order);
        }
    }
}
