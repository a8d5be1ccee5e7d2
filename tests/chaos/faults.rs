//! Processes of a daemon that die or stand still at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vivarium_tests::Daemon;
use vivarium_tests::processes::Process;
use vivarium_tests::wait;

use crate::random::Random;

/// The longest that a process stands still, in milliseconds.
const MAX_STOP_MS: usize = 1500;

/// The longest time between two faults, in milliseconds.
const MAX_PAUSE_MS: usize = 200;

/// What has been done to a daemon's processes, and every process there was.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// How often, by the process's name and the signal.
    pub(crate) done: BTreeMap<String, u64>,
    stopped: Vec<(Process, Instant)>,
    seen: BTreeSet<(i32, u64)>,
}

impl Faults {
    /// Kills, stops and continues until the time is up; then all go on that can.
    pub(crate) fn inflict(&mut self, daemon: &Daemon, random: &mut Random, until: Instant) {
        while Instant::now() < until {
            let all = daemon.processes();
            self.seen.extend(all.iter().map(|one| (one.pid, one.started)));
            self.go_on(false);
            if let Some(victim) = choose(&all, random) {
                let signal = if random.below(10) < 6 { Signal::SIGKILL } else { Signal::SIGSTOP };
                self.send(victim, signal);
                if signal == Signal::SIGSTOP {
                    let until = Instant::now() + random.millis(MAX_STOP_MS);
                    self.stopped.push((victim.clone(), until));
                }
            }
            wait::pause(random.millis(MAX_PAUSE_MS));
        }
        self.go_on(true);
    }

    /// Those that have stood still for long enough, or all, go on.
    fn go_on(&mut self, all: bool) {
        let now = Instant::now();
        let stopped = std::mem::take(&mut self.stopped);
        let (due, left) = stopped.into_iter().partition(|(_, until)| all || *until <= now);
        self.stopped = left;
        let due: Vec<(Process, Instant)> = due;
        for (process, _) in due {
            self.send(&process, Signal::SIGCONT);
        }
    }

    fn send(&mut self, process: &Process, signal: Signal) {
        // Numbers are not used again within the moment between these two.
        if process.is_alive() && kill(Pid::from_raw(process.pid), signal).is_ok() {
            *self.done.entry(format!("{} of {}", signal.as_str(), process.name)).or_default() += 1;
        }
    }

    /// Notes a fault of another kind.
    pub(crate) fn note(&mut self, what: &str) {
        *self.done.entry(what.to_owned()).or_default() += 1;
    }

    /// Nothing that was ever a daemon's process lives, also if its parents are no more.
    pub(crate) fn nothing_lives(&self) {
        wait::until_true("the end of every process there was", || {
            let alive = |&(pid, started): &(i32, u64)| {
                Process::find(pid).is_some_and(|one| one.started == started && one.is_alive())
            };
            !self.seen.iter().any(alive)
        });
    }
}

/// Some process, or some process of a kind of which there are few.
fn choose<'a>(all: &'a [Process], random: &mut Random) -> Option<&'a Process> {
    if random.below(3) > 0 {
        return random.one(all);
    }
    let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let name = random.one(&names)?;
    let of_it: Vec<&Process> = all.iter().filter(|one| one.name == **name).collect();
    random.one(&of_it).copied()
}

/// When a run of this many seconds is over.
pub(crate) fn after(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}
