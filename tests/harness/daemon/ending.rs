//! The end of a daemon, and what must not be left of it.

use std::process::ExitStatus;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Daemon;
use crate::remains::Remains;
use crate::wait;

impl Daemon {
    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for it to end.
    pub fn wait(&mut self) -> ExitStatus {
        wait::until("the daemon's end", || {
            self.hear();
            self.has_ended().then_some(())
        });
        self.status.unwrap()
    }

    /// What it has told its service manager.
    #[must_use]
    pub fn told_manager(&mut self) -> String {
        self.hear();
        self.messages.clone()
    }

    /// Stops it as a service manager does, and checks that nothing is left of it.
    #[track_caller]
    pub fn stop_and_check(mut self) {
        self.stop().check();
    }

    /// Stops it as a service manager does, and gives its directories for another start.
    #[track_caller]
    pub fn stop_and_keep(mut self) -> tempfile::TempDir {
        self.stop().check_running();
        self.dir.take().unwrap()
    }

    /// What could be left of it.
    #[track_caller]
    fn stop(&mut self) -> Remains {
        let left = Remains::of(self);
        self.signal(Signal::SIGTERM);
        let status = self.wait();
        assert!(status.success(), "{status}\n{}", self.log());
        left
    }

    /// Kills it as nothing else does, checks that nothing runs or is mounted any more, and
    /// gives its directories for another start.
    #[track_caller]
    pub fn kill_and_check(mut self) -> tempfile::TempDir {
        let left = Remains::of(&self);
        self.signal(Signal::SIGKILL);
        self.wait();
        left.check_running();
        self.dir.take().unwrap()
    }
}
