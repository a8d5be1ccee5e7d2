//! The rows of the tables, with CPU shares worked out from this poll and the previous one.

use std::collections::HashMap;
use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;
use vivarium_api_types::{SessionInfo, SessionState, TenantInfo};

use crate::human;
use crate::terminal::escape;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SessionRow {
    pub(super) id: String,
    pub(super) tenant: String,
    pub(super) state: SessionState,
    /// Of one core, since the previous poll; else over the session's life.
    pub(super) cpu_percent: f64,
    pub(super) memory_bytes: Option<u64>,
    pub(super) executions: u64,
    pub(super) queued: u64,
    pub(super) age_seconds: i64,
}

/// The CPU times of the previous poll.
#[derive(Debug, Default)]
pub(super) struct CpuTimes {
    at: Option<Instant>,
    /// By the id of the session, or the name of the tenant.
    cpu_ms: HashMap<String, f64>,
}

impl CpuTimes {
    /// How much of one core was used since, in per cent; none without a previous time. The new
    /// times are stored only by [`CpuTimes::replace`].
    fn percent(&self, who: &str, cpu_ms: f64, now: Instant) -> Option<f64> {
        let elapsed = now.checked_duration_since(self.at?)?.as_secs_f64() * 1000.0;
        let used = cpu_ms - self.cpu_ms.get(who)?;
        (elapsed > 0.0).then(|| (used / elapsed * 100.0).max(0.0))
    }

    fn replace<'a>(&mut self, now: Instant, times: impl Iterator<Item = (&'a str, f64)>) {
        self.at = Some(now);
        self.cpu_ms = times.map(|(who, cpu_ms)| (who.to_owned(), cpu_ms)).collect();
    }
}

pub(super) fn sessions(
    sessions: &[SessionInfo],
    previous: &mut CpuTimes,
    at: Instant,
    now: Timestamp,
) -> Vec<SessionRow> {
    let rows = sessions.iter().map(|session| {
        let age_seconds = (now.as_second() - session.created_at.as_second()).max(0);
        let cpu_ms = session.usage.cpu_ms;
        // The first second counts as one: an average over less says nothing.
        #[expect(clippy::cast_precision_loss, reason = "an age is small")]
        let over_its_life = cpu_ms / (age_seconds.max(1) as f64 * 10.0);
        SessionRow {
            id: session.id.clone(),
            tenant: session.tenant.clone(),
            state: session.state,
            cpu_percent: previous.percent(&session.id, cpu_ms, at).unwrap_or(over_its_life),
            memory_bytes: session.usage.memory_bytes,
            executions: session.usage.executions,
            queued: session.usage.queued,
            age_seconds,
        }
    });
    let rows = rows.collect();
    previous.replace(at, sessions.iter().map(|session| (&*session.id, session.usage.cpu_ms)));
    rows
}

/// Cells below [`TENANT_HEADINGS`].
pub(super) fn tenants(
    tenants: &[TenantInfo],
    previous: &mut CpuTimes,
    at: Instant,
) -> Vec<Vec<String>> {
    let cpu_ms = |tenant: &TenantInfo| tenant.cpu_seconds.map(|seconds| seconds * 1000.0);
    let rows = tenants.iter().map(|tenant| {
        let percent = cpu_ms(tenant).and_then(|cpu_ms| previous.percent(&tenant.name, cpu_ms, at));
        let seconds = tenant.cpu_seconds.map(|seconds| format!("{seconds:.1}"));
        vec![
            escape(&tenant.name).into_owned(),
            tenant.sessions.to_string(),
            tenant.running.to_string(),
            tenant.queued.to_string(),
            percent.map_or_else(unknown, |percent| format!("{percent:.0}")),
            seconds.unwrap_or_else(unknown),
            human::size_or_dash(tenant.memory_bytes),
            tenant.processes.map_or_else(unknown, |count| count.to_string()),
        ]
    });
    let rows = rows.collect();
    let times = tenants.iter().filter_map(|tenant| Some((&*tenant.name, cpu_ms(tenant)?)));
    previous.replace(at, times);
    rows
}

pub(super) const TENANT_HEADINGS: [&str; 8] =
    ["TENANT", "SESSIONS", "RUNNING", "QUEUED", "CPU %", "CPU S", "MEMORY", "PROCESSES"];

/// The columns of figures.
pub(super) const TENANT_FIGURES: [usize; 7] = [1, 2, 3, 4, 5, 6, 7];

pub(super) const SESSION_FIGURES: [usize; 5] = [3, 4, 5, 6, 7];

pub(super) const SESSION_HEADINGS: [&str; 8] =
    ["ID", "TENANT", "STATE", "CPU %", "MEMORY", "EXECUTIONS", "QUEUED", "AGE"];

impl SessionRow {
    /// Cells below [`SESSION_HEADINGS`].
    pub(super) fn cells(&self) -> Vec<String> {
        vec![
            escape(&self.id).into_owned(),
            escape(&self.tenant).into_owned(),
            <&str>::from(self.state).to_owned(),
            format!("{:.0}", self.cpu_percent),
            human::size_or_dash(self.memory_bytes),
            self.executions.to_string(),
            self.queued.to_string(),
            age(self.age_seconds),
        ]
    }
}

fn unknown() -> String {
    "-".to_owned()
}

/// An age by its two largest units.
fn age(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn cpu_shares_are_those_since_the_previous_poll() {
        let start = Instant::now();
        let mut previous = CpuTimes::default();
        assert_eq!(previous.percent("a", 100.0, start), None);
        previous.replace(start, [("a", 100.0)].into_iter());
        let later = start + Duration::from_secs(2);
        assert_eq!(previous.percent("a", 1100.0, later), Some(50.0));
        assert_eq!(previous.percent("a", 0.0, later), Some(0.0), "a fresh session of the same id");
        assert_eq!(previous.percent("b", 1.0, later), None);
        assert_eq!(previous.percent("a", 200.0, start), None, "no time has passed");
    }

    #[test]
    fn ages_are_shown_in_at_most_two_units() {
        for (seconds, shown) in
            [(0, "0s"), (59, "59s"), (61, "1m01s"), (3_600, "1h00m"), (90_000, "1d01h")]
        {
            assert_eq!(age(seconds), shown);
        }
    }

    #[test]
    fn unknown_figures_are_shown_as_dashes() {
        let tenant = TenantInfo { name: "a\x1b".into(), ..TenantInfo::default() };
        let rows = tenants(&[tenant], &mut CpuTimes::default(), Instant::now());
        assert_eq!(rows, [["a\\x1b", "0", "0", "0", "-", "-", "-", "-"].map(str::to_owned)]);
    }
}
