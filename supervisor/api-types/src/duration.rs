//! Durations as people write them: `500ms`, `30s`, `5m`, `1h30m`, `2d`.

use std::fmt::Write as _;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("{0:?} is not a duration: give numbers with units ms, s, m, h or d, such as \"30s\"")]
    Form(String),
    /// No key means zero by a duration, and a reader might take it for "for ever".
    #[error("{0:?} is no time at all: give a positive duration")]
    Zero(String),
    #[error("{0:?} is longer than 10000 days")]
    TooLong(String),
}

/// Units from the longest, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Longer than any uptime, and far from overflowing a clock.
const MAX_MS: u64 = 10_000 * 86_400_000;

/// # Errors
/// Any [`DurationError`]; zero is refused.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let form = || DurationError::Form(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());
    let mut rest = text;
    let mut total_ms: u64 = 0;
    if rest.is_empty() {
        return Err(form());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(form)?;
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_len);
        let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(form)?;
        if number.is_empty() {
            return Err(form());
        }
        total_ms = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*unit_ms))
            .and_then(|part| total_ms.checked_add(part))
            .filter(|total| *total <= MAX_MS)
            .ok_or_else(too_long)?;
        rest = next;
    }
    if total_ms == 0 {
        return Err(DurationError::Zero(text.to_owned()));
    }
    Ok(Duration::from_millis(total_ms))
}

/// The shortest text that [`parse`] reads back as `duration`, to the millisecond.
#[must_use]
pub fn show(duration: Duration) -> String {
    let mut rest_ms = u64::try_from(duration.as_millis()).unwrap_or(MAX_MS);
    let mut text = String::new();
    for (unit, unit_ms) in UNITS {
        let count = rest_ms / unit_ms;
        rest_ms %= unit_ms;
        if count > 0 {
            // Writing to a String can not fail.
            write!(text, "{count}{unit}").unwrap_or_default();
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_and_their_sums() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(ms), "{text}");
            assert_eq!(show(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn malformed_durations_are_refused() {
        for bad in ["", "30", "s", "1.5s", "-1s", "30 s", "1y", "ms5", "30s5", "٣s"] {
            assert!(matches!(parse(bad), Err(DurationError::Form(_))), "{bad}");
        }
        assert!(matches!(parse("0s"), Err(DurationError::Zero(_))));
        assert!(matches!(parse("99999999999999999999d"), Err(DurationError::TooLong(_))));
        assert!(matches!(parse("10001d"), Err(DurationError::TooLong(_))));
    }
}
