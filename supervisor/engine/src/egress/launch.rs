//! How the gate is started: where it is, and what of the host's files it is to have.
//!
//! The gate confines itself to these files before it hears of any session, so other files mean another
//! gate. One that is a unit of its own has them from its unit: nothing here changes it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::settings::{GateSource, Settings};

/// How the gate is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateLaunch {
    pub(super) source: GateSource,
    /// Where it keeps packages, and how many MiB of them.
    cache: Option<(PathBuf, u64)>,
    /// Directories of wheels that it is to read.
    find_links: BTreeSet<PathBuf>,
}

impl GateLaunch {
    /// As these settings have it. The gate stays where it is for the daemon's life.
    pub fn of(settings: &Settings) -> Self {
        let max_mb = settings.packages.max_cache_mb;
        Self {
            source: settings.egress.gate.clone(),
            cache: settings.packages_cache().map(|dir| (dir, max_mb)),
            find_links: settings.packages_directories(),
        }
    }

    /// Whether a gate that was started so is not what `other` wants.
    pub(super) fn is_outdated_by(&self, other: &Self) -> bool {
        self.source == GateSource::Process && self != other
    }

    /// The gate's arguments.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        if let Some((dir, max_mb)) = &self.cache {
            add("--cache-dir", dir.into());
            add("--max-cache-mb", max_mb.to_string().into());
        }
        for directory in &self.find_links {
            add("--find-links", directory.into());
        }
        arguments
    }
}

impl From<GateSource> for GateLaunch {
    fn from(source: GateSource) -> Self {
        Self { source, ..Self::default() }
    }
}
