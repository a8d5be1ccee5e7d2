//! Another configuration for a daemon that runs.

use std::fs;

use nix::sys::signal::Signal;

use super::Daemon;
use crate::wait;

impl Daemon {
    /// Replaces a part of its configuration, and has it read that.
    #[track_caller]
    pub fn reload_with(&self, from: &str, to: &str) {
        let path = self.dir().join("vivarium.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
        let reloads = || self.log().matches("configuration reloaded").count();
        let before = reloads();
        self.signal(Signal::SIGHUP);
        wait::until_true("the reload", || reloads() > before);
    }
}
