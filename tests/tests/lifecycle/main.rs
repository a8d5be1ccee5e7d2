//! The programs' own lives: start, stop, violent ends, privileges, modes, the command line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod configuration;
mod ends;
mod fork_server;
mod manager;
mod modes;
mod passt;
mod reports;
mod run;
mod starts;
mod users;

use vivarium_tests::Daemon;
use vivarium_tests::processes::Process;

/// The processes of a daemon with one session.
struct Family {
    launcher: Process,
    agent: Process,
    kernel: Process,
}

impl Family {
    /// Tells them apart: the launcher is the daemon's child, agent and kernel are the launcher's.
    fn of(daemon: &Daemon) -> Self {
        let all = daemon.descendants();
        let launcher = all.iter().find(|process| process.parent == daemon.pid()).unwrap();
        let children = |python: bool| {
            let mut found = all.iter().filter(|process| {
                process.parent == launcher.pid && process.name.starts_with("python") == python
            });
            found.next().unwrap_or_else(|| panic!("{all:?}")).clone()
        };
        Self { launcher: launcher.clone(), agent: children(false), kernel: children(true) }
    }
}
