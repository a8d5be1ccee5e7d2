//! Clients at work while processes die and stand still at random: every answer comes, is right and
//! says the truth about what was lost; nothing runs twice, and nothing is left behind.
//!
//! `VIVARIUM_CHAOS_SECS` is how long each test takes, 25 unless said otherwise, and
//! `VIVARIUM_CHAOS_SEED` repeats the decisions of a run. What the machine makes of them differs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and what was done is printed"
)]

mod answer;
mod client;
mod faults;
mod random;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::Client;
use faults::Faults;
use random::Random;
use vivarium_tests::http::Endpoint;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Setup, wait};

/// How many clients there are.
const CLIENTS: u64 = 6;

/// A number of the environment's.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Where the decisions of this run come from.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = given("VIVARIUM_CHAOS_SEED").unwrap_or_else(|| u64::try_from(now >> 10).unwrap());
    println!("VIVARIUM_CHAOS_SEED={seed}");
    seed
}

fn until() -> Instant {
    faults::after(given("VIVARIUM_CHAOS_SECS").unwrap_or(25))
}

/// Tells the clients that it is over, also where the chaos itself fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Has clients work until `chaos` returns. Then each of them has a session that works.
fn work(endpoint: &Endpoint, daemons: &AtomicU64, seed: u64, chaos: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let mut answers = BTreeMap::new();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = Client::new(number, seed, endpoint.clone(), daemons);
                let is_over = &is_over;
                scope.spawn(move || {
                    // A client that has failed keeps the others only until the time is up.
                    while !is_over.load(Ordering::SeqCst) {
                        client.act();
                    }
                    client.finish();
                    client.answers
                })
            })
            .collect();
        let over = Over(&is_over);
        chaos();
        drop(over);
        for client in clients {
            for (answer, times) in client.join().unwrap() {
                *answers.entry(answer).or_insert(0) += times;
            }
        }
    });
    println!("{} requests: {answers:?}", answers.values().sum::<u64>());
}

fn processes_die(start_mode: StartMode) {
    let (seed, daemons) = (seed(), AtomicU64::new(0));
    let daemon = setup(start_mode).start();
    let mut faults = Faults::default();
    work(&daemon.unix(), &daemons, seed, || {
        faults.inflict(&daemon, &mut Random::new(seed, CLIENTS), until());
    });
    println!("{:?}", faults.done);
    daemon.until_only(0);
    daemon.stop_and_check();
    faults.nothing_lives();
}

fn setup(start_mode: StartMode) -> Setup {
    // Killed often, and expected to be there again for the next client.
    Setup::with_start_mode(start_mode).config("session", "interrupt_grace = \"1s\"")
}

#[test]
fn processes_of_executed_kernels_die_and_stand_still() {
    processes_die(StartMode::Executed);
}

#[test]
fn processes_of_pooled_sessions_die_and_stand_still() {
    processes_die(StartMode::Pooled);
}

#[test]
fn the_daemon_dies() {
    let (seed, daemons) = (seed(), AtomicU64::new(0));
    let (mut random, until) = (Random::new(seed, CLIENTS), until());
    let mut faults = Faults::default();
    let mut daemon = Some(setup(StartMode::Pooled).start());
    let endpoint = daemon.as_ref().unwrap().unix();
    work(&endpoint, &daemons, seed, || {
        while Instant::now() < until {
            wait::pause(Duration::from_millis(200) + random.millis(2000));
            let dir = daemon.take().map(Daemon::kill_and_check).unwrap();
            faults.note("SIGKILL of the daemon");
            daemon = Some(setup(StartMode::Pooled).in_place_of(dir).start());
            daemons.fetch_add(1, Ordering::SeqCst);
        }
    });
    println!("{:?}", faults.done);
    let daemon = daemon.unwrap();
    daemon.until_only(0);
    daemon.stop_and_check();
}
