//! What is told to whom there is no room for.

use std::fmt;
use std::time::Duration;

/// Why there is no room for one more session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shortage {
    /// What sessions may still take, the reserve left out; `None` where nothing tells.
    pub available_bytes: Option<u64>,
    /// What this one needs, with those that were admitted just before it.
    pub needed_bytes: u64,
    /// The part of the time in which processes of the host wait for memory, in percent.
    pub pressure_percent: Option<f64>,
    pub is_pressure: bool,
}

impl Shortage {
    /// When it may be worth trying again. Pressure is an average over 10 s.
    pub const fn retry_after(&self) -> Duration {
        if self.is_pressure { Duration::from_secs(10) } else { Duration::from_secs(2) }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.is_pressure { "the host waits for memory" } else { "no memory is left" };
        write!(
            f,
            "{why}: needed for this session and those that are starting {} MiB",
            mib(self.needed_bytes)
        )?;
        if let Some(bytes) = self.available_bytes {
            write!(f, ", available {} MiB", mib(bytes))?;
        }
        if let Some(percent) = self.pressure_percent {
            write!(f, ", memory pressure {percent:.0} %")?;
        }
        Ok(())
    }
}

const fn mib(bytes: u64) -> u64 {
    bytes >> 20
}
