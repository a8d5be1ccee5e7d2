//! Suspended sessions.

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

/// What keeps a session from being suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObstacleKind {
    Threads,
    Processes,
    Descriptors,
    Timers,
    Memory,
    Files,
    Executed,
    Other,
}

impl ObstacleKind {
    const ALL: [Self; 8] = [
        Self::Threads,
        Self::Processes,
        Self::Descriptors,
        Self::Timers,
        Self::Memory,
        Self::Files,
        Self::Executed,
        Self::Other,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Descriptors => "descriptors",
            Self::Timers => "timers",
            Self::Memory => "memory",
            Self::Files => "files",
            Self::Executed => "executed",
            Self::Other => "other",
        }
    }
}

impl From<&str> for ObstacleKind {
    /// The one of this name; `Other` if there is none.
    fn from(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(Self::Other)
    }
}

#[derive(Debug)]
pub struct Images {
    count: Gauge<1>,
    bytes: Gauge<1>,
    suspended: Counter<1>,
    refused: Counter<1>,
    resumed: Counter<1>,
}

impl Family for Images {
    const TITLE: &'static str = "Images";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            count: register.gauge(
                "vivarium_images",
                &["tenant"],
                "The tenant's suspended sessions and checkpoints.",
            )?,
            bytes: register.gauge(
                "vivarium_images_bytes",
                &["tenant"],
                "What they take of the disk together: what `images.max_mb` bounds.",
            )?,
            suspended: register.counter(
                "vivarium_suspends_total",
                &["outcome"],
                "Sessions that were to be suspended, by `outcome`: `suspended`, `refused` \
                 (vivarium_suspend_refusals_total says why), `failed`.",
            )?,
            refused: register.counter(
                "vivarium_suspend_refusals_total",
                &["reason"],
                "What kept sessions from being suspended, and checkpoints after executions from being made, by \
                 `reason`: `threads`, `processes`, `descriptors`, `timers`, `memory`, `files`, `executed`, `other`.",
            )?,
            resumed: register.counter(
                "vivarium_resumes_total",
                &["outcome"],
                "Images that were put into a new session, by `outcome`: `resumed`, `failed`. A branch \
                 counts as one.",
            )?,
        })
    }

    fn introduce(&self, _tenant: &str) {
        for outcome in ["suspended", "refused", "failed"] {
            self.suspended.begin([outcome]);
        }
        for reason in ObstacleKind::ALL {
            self.refused.begin([reason.name()]);
        }
        for outcome in ["resumed", "failed"] {
            self.resumed.begin([outcome]);
        }
    }
}

impl Images {
    /// Scrape: what a tenant has.
    pub fn of_tenant(&self, tenant: &str, count: u64, bytes: u64) {
        self.count.set_count([tenant], count);
        self.bytes.set_count([tenant], bytes);
    }

    pub fn suspended(&self) {
        self.suspended.add_one(["suspended"]);
    }

    pub fn suspend_failed(&self) {
        self.suspended.add_one(["failed"]);
    }

    /// Something was in the way.
    pub fn refused(&self, reasons: impl Iterator<Item = ObstacleKind>) {
        self.suspended.add_one(["refused"]);
        for reason in reasons {
            self.refused.add_one([reason.name()]);
        }
    }

    pub fn resumed(&self, worked: bool) {
        self.resumed.add_one([if worked { "resumed" } else { "failed" }]);
    }
}
