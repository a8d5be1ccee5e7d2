//! `[audit]` of the configuration.

use std::path::PathBuf;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where the log is; no log if not given.
    pub dir: Option<PathBuf>,
    pub fsync: Fsync,
    /// Size at which a new file is begun, in MiB.
    pub rotate_mb: u64,
    /// How many files are kept.
    pub keep: u64,
    pub capture_code: bool,
    pub capture_output: bool,
    pub on_full: OnFull,
}

/// When lines are synchronised to the disk (fdatasync(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before an execution is answered; lines that come together share one.
    #[default]
    Each,
    /// Once a second.
    Second,
    /// When a file is complete, and at the end.
    Off,
}

/// What happens while the log cannot be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFull {
    /// New executions are refused. The ends of those that run are kept until they can be written.
    #[default]
    Stop,
    /// Executions go on, and the log says afterwards how many lines it lacks.
    GoOn,
}
