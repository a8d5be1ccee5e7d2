//! Sizes and times as people read them. `--json` has the exact ones.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// A size in bytes, of which three digits are enough: `12.3 MiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    // In tenths of the unit.
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "B";
    for larger in UNITS {
        // What would be rounded to 1024.0 is one of the next unit.
        if tenths < 10_235 {
            break;
        }
        (tenths, unit) = (tenths.div_ceil(512) / 2, larger);
    }
    if unit == "B" {
        format!("{bytes} B")
    } else if tenths < 1000 {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    } else {
        format!("{} {unit}", (tenths + 5) / 10)
    }
}

/// A size that may be unknown.
pub(super) fn size_or_dash(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), size)
}

/// When something is: `3 min ago`, `in 25 min`; beyond a month, the day.
pub(super) fn when(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_second() - now.as_second();
    let distance = match seconds.unsigned_abs() {
        0 => return "now".to_owned(),
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds if seconds < 31 * 86_400 => format!("{} d", seconds / 86_400),
        _ => return at.strftime("%F").to_string(),
    };
    if seconds < 0 { format!("{distance} ago") } else { format!("in {distance}") }
}

pub(super) fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

/// A value's name in the API.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_and_at_most_four_digits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (12_897_485, "12.3 MiB"),
            (102_400, "100 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (1 << 30, "1.0 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(size(bytes), shown, "{bytes}");
        }
        assert_eq!(size_or_dash(None), "-");
    }

    #[test]
    fn times_are_told_by_their_distance() {
        let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        for (at, shown) in [
            ("2026-07-01T12:00:00.4Z", "now"),
            ("2026-07-01T11:59:15Z", "45 s ago"),
            ("2026-07-01T11:56:01Z", "3 min ago"),
            ("2026-07-01T12:25:59Z", "in 25 min"),
            ("2026-06-30T20:00:00Z", "16 h ago"),
            ("2026-06-28T11:00:00Z", "3 d ago"),
            ("2026-01-02T00:00:00Z", "2026-01-02"),
            ("9999-01-02T00:00:00Z", "9999-01-02"),
        ] {
            assert_eq!(when(at.parse().unwrap(), now), shown);
        }
    }
}
