//! The ledger on disk: a file for each day (UTC), with what each tenant used in each of its hours.
//!
//! What is not written yet is kept apart and added to what the file has, so that the disk has the
//! last word and a write that fails loses nothing. Files are replaced whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};
use vivarium_api_types::{UsagePeriod, UsageRow};

use super::{Figures, write};

/// The version of the files.
const VERSION: u32 = 1;

/// No day of ours has more.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The most rows of one answer.
const MAX_ROWS: usize = 100_000;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRange {
    pub from: Timestamp,
    pub to: Timestamp,
    pub period: UsagePeriod,
    pub tenant: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("{operation} {path}", path = path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is no ledger of this version", path = path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("more than {MAX_ROWS} rows: ask for less time, one tenant or a longer period")]
    TooMuch,
}

impl LedgerError {
    fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }
}

/// The hours of a day and what each tenant used in them.
type Hours = BTreeMap<i8, BTreeMap<String, Figures>>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DayFile {
    version: u32,
    hours: Hours,
}

#[derive(Debug)]
pub(super) struct Ledger {
    dir: PathBuf,
    /// What no file has yet.
    unwritten: BTreeMap<Date, Hours>,
}

impl Ledger {
    /// The ledger in this directory, which is there.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, unwritten: BTreeMap::new() }
    }

    /// Adds what a tenant has used to the hour that this is.
    pub(super) fn book(&mut self, now: Timestamp, tenant: &str, figures: &Figures) {
        if *figures == Figures::default() {
            return;
        }
        let time = now.to_zoned(TimeZone::UTC);
        let hours = self.unwritten.entry(time.date()).or_default();
        let tenants = hours.entry(time.hour()).or_default();
        match tenants.get_mut(tenant) {
            Some(of) => of.add(figures),
            None => {
                tenants.insert(tenant.to_owned(), *figures);
            }
        }
    }

    /// Has everything on disk, or keeps what could not be written.
    pub(super) fn flush(&mut self) -> Result<(), LedgerError> {
        let mut result = Ok(());
        for date in self.unwritten.keys().copied().collect::<Vec<_>>() {
            let written = self.day(date).and_then(|hours| self.replace(date, hours));
            match written {
                Ok(()) => {
                    self.unwritten.remove(&date);
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    fn replace(&self, date: Date, hours: Hours) -> Result<(), LedgerError> {
        let name = file_name(date);
        let path = self.dir.join(&name);
        let content = serde_json::to_vec(&DayFile { version: VERSION, hours })
            .map_err(|error| LedgerError::at("write", &path)(error.into()))?;
        write::replace(&self.dir, &name, &content).map_err(LedgerError::at("write", &path))
    }

    /// What is known of a day: what its file has and what is to be added to it.
    fn day(&self, date: Date) -> Result<Hours, LedgerError> {
        let mut hours = self.read(date)?;
        for (hour, tenants) in self.unwritten.get(&date).into_iter().flatten() {
            let of_hour = hours.entry(*hour).or_default();
            for (tenant, figures) in tenants {
                of_hour.entry(tenant.clone()).or_default().add(figures);
            }
        }
        Ok(hours)
    }

    fn read(&self, date: Date) -> Result<Hours, LedgerError> {
        let path = self.dir.join(file_name(date));
        let mut bytes = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Hours::new()),
            opened => opened
                .and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes))
                .map_err(LedgerError::at("read", &path))?,
        };
        let parsed = serde_json::from_slice(&bytes);
        let damaged = |source| LedgerError::Damaged { path: path.clone(), source };
        let DayFile { version, hours } = parsed.map_err(damaged)?;
        if version == VERSION {
            return Ok(hours);
        }
        let why = format!("version {version}");
        Err(damaged(<serde_json::Error as serde::de::Error>::custom(why)))
    }

    /// Puts files aside that can not be read as a ledger, so that the day goes on with a new one, and
    /// removes what a crash left and what is older than it is kept. Returns what was put aside.
    pub(super) fn tidy(&self, now: Timestamp, keep: Duration) -> Result<Vec<PathBuf>, LedgerError> {
        let in_dir = LedgerError::at("list", &self.dir);
        let entries =
            fs::read_dir(&self.dir).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let keep = SignedDuration::try_from(keep).unwrap_or(SignedDuration::MAX);
        let oldest = now.saturating_sub(keep).unwrap_or(Timestamp::MIN);
        let oldest = oldest.to_zoned(TimeZone::UTC).date();
        let mut aside = Vec::new();
        for entry in entries.map_err(in_dir)? {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let date = name.strip_suffix(".json").and_then(|date| date.parse::<Date>().ok());
            if write::is_unfinished(&name) || date.is_some_and(|date| date < oldest) {
                fs::remove_file(&path).map_err(LedgerError::at("remove", &path))?;
            } else if let Some(date) = date
                && let Err(LedgerError::Damaged { .. }) = self.read(date)
            {
                let to = self.dir.join(format!("{name}.damaged-{}", now.as_millisecond()));
                fs::rename(&path, &to).map_err(LedgerError::at("rename", &path))?;
                aside.push(to);
            }
        }
        Ok(aside)
    }

    /// What was used in a range, by tenant and period, in order of time and then of name. A range
    /// begins and ends with the hours that it touches.
    pub(super) fn query(&self, range: &UsageRange) -> Result<Vec<UsageRow>, LedgerError> {
        let mut rows: BTreeMap<(Timestamp, Timestamp, String), Figures> = BTreeMap::new();
        for date in self.dates()? {
            if !may_touch(date, range) {
                continue;
            }
            for (hour, tenants) in self.day(date)? {
                let Some((start, end)) = hour_of(date, hour) else { continue };
                if end <= range.from || start >= range.to {
                    continue;
                }
                let (start, end) = period(range, date, (start, end));
                for (tenant, figures) in tenants {
                    if range.tenant.as_ref().is_none_or(|wanted| *wanted == tenant) {
                        rows.entry((start, end, tenant)).or_default().add(&figures);
                    }
                }
                if rows.len() > MAX_ROWS {
                    return Err(LedgerError::TooMuch);
                }
            }
        }
        Ok(rows
            .into_iter()
            .map(|((start, end, tenant), of)| row(start, end, tenant, &of))
            .collect())
    }

    /// The days of which there is something.
    fn dates(&self) -> Result<Vec<Date>, LedgerError> {
        let in_dir = LedgerError::at("list", &self.dir);
        let entries =
            fs::read_dir(&self.dir).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let mut dates: Vec<Date> = entries
            .map_err(in_dir)?
            .iter()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok())
            .chain(self.unwritten.keys().copied())
            .collect();
        dates.sort_unstable();
        dates.dedup();
        Ok(dates)
    }
}

fn file_name(date: Date) -> String {
    format!("{date}.json")
}

fn midnight(date: Date) -> Option<Timestamp> {
    date.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
}

fn hour_of(date: Date, hour: i8) -> Option<(Timestamp, Timestamp)> {
    let start = date.at(hour.clamp(0, 23), 0, 0, 0).to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some((start, start.checked_add(1.hour()).ok()?))
}

fn may_touch(date: Date, range: &UsageRange) -> bool {
    let (Some(start), Some(end)) = (midnight(date), date.tomorrow().ok().and_then(midnight)) else {
        return false;
    };
    end > range.from && start < range.to
}

/// The period that an hour is part of.
fn period(range: &UsageRange, date: Date, hour: (Timestamp, Timestamp)) -> (Timestamp, Timestamp) {
    let month = date.first_of_month();
    let days = match range.period {
        UsagePeriod::Hour => None,
        UsagePeriod::Day => Some((date, date.tomorrow().ok())),
        UsagePeriod::Month => Some((month, month.checked_add(1.month()).ok())),
        UsagePeriod::Total => return (range.from, range.to),
    };
    days.and_then(|(start, end)| Some((midnight(start)?, midnight(end?)?))).unwrap_or(hour)
}

fn row(start: Timestamp, end: Timestamp, tenant: String, figures: &Figures) -> UsageRow {
    UsageRow {
        tenant,
        start,
        end,
        cpu_seconds: Duration::from_micros(figures.cpu_us).as_secs_f64(),
        memory_byte_seconds: figures.memory_byte_ms / 1000,
        executions: figures.executions,
        sessions: figures.sessions,
        egress_bytes: figures.egress_bytes,
        cpu_source: figures.cpu_from.told(),
        memory_source: figures.memory_from.told(),
    }
}

#[cfg(test)]
mod tests;
