//! Conditional and range requests for a file (RFC 9110,
//! sections 13 and 14).

use axum::http::{HeaderMap, HeaderName, header};
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use jiff::{SignedDuration, Timestamp};
use vivarium_protocol::message::FileEntry;

/// How old a modification has to be for its time to tell one version from the next: a file can
/// change twice within a tick of its filesystem's clock (RFC 9110, 8.8.2.2).
const SETTLED_AFTER: SignedDuration = SignedDuration::from_secs(2);

/// What tells one version of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    tag: String,
    is_strong: bool,
    /// Without its fraction of a second, as HTTP has it. None if it is in the future.
    modified: Option<Timestamp>,
}

/// One range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeSpec {
    /// From this byte to the end.
    From(u64),
    /// From the first byte to the last, both included.
    Span(u64, u64),
    /// So many last bytes.
    Last(u64),
}

/// The headers that matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConditionalRequest {
    range: Option<RangeSpec>,
    if_range: Option<String>,
    if_none_match: Option<String>,
    if_modified_since: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) start: u64,
    pub(super) length: u64,
    /// Whether a range was asked for.
    pub(super) is_part: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Send(ByteRange),
    /// The client has them.
    NotModified,
    /// The file has no such bytes.
    Unsatisfiable,
}

impl Version {
    pub(super) fn of(entry: &FileEntry) -> Self {
        Self::at(entry, Timestamp::now())
    }

    fn at(entry: &FileEntry, now: Timestamp) -> Self {
        let modified = Timestamp::from_millisecond(entry.modified_ms).ok();
        let age = modified.map(|modified| now.duration_since(modified));
        let whole = entry.modified_ms.div_euclid(1000);
        Self {
            tag: format!("\"{:x}-{:x}\"", entry.modified_ms, entry.size_bytes),
            is_strong: age.is_some_and(|age| age >= SETTLED_AFTER),
            modified: Timestamp::from_second(whole).ok().filter(|modified| *modified <= now),
        }
    }

    pub(super) fn etag(&self) -> String {
        if self.is_strong { self.tag.clone() } else { format!("W/{}", self.tag) }
    }

    /// The time of the last modification, in words.
    pub(super) fn last_modified(&self) -> Option<String> {
        DateTimePrinter::new().timestamp_to_rfc9110_string(&self.modified?).ok()
    }
}

impl ConditionalRequest {
    pub(super) fn new(headers: &HeaderMap, is_head: bool) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let tags: Vec<_> = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        let since = text(header::IF_MODIFIED_SINCE);
        Self {
            // A range is defined for GET only.
            range: text(header::RANGE).filter(|_| !is_head).and_then(parse_range),
            if_range: text(header::IF_RANGE).map(str::to_owned),
            if_none_match: (!tags.is_empty()).then(|| tags.join(",")),
            if_modified_since: since
                .and_then(|since| DateTimeParser::new().parse_timestamp(since).ok()),
        }
    }

    /// What to open before anything is known of the file: offset and length.
    pub(super) const fn first_guess(&self) -> (u64, Option<u64>) {
        match self.range {
            None => (0, None),
            Some(RangeSpec::From(start)) => (start, None),
            Some(RangeSpec::Span(first, last)) => (first, (last - first).checked_add(1)),
            // Its size decides where that is.
            Some(RangeSpec::Last(_)) => (0, Some(0)),
        }
    }

    /// The answer for a file of this version and size.
    pub(super) fn decide(&self, version: &Version, size: u64) -> Decision {
        if self.has(version) {
            return Decision::NotModified;
        }
        let whole = Decision::Send(ByteRange { start: 0, length: size, is_part: false });
        let Some(range) = self.range else { return whole };
        // Dates are no strong validators here, so one never matches and all is sent.
        let is_same = |tag: &String| version.is_strong && *tag == version.tag;
        if self.if_range.as_ref().is_some_and(|tag| !is_same(tag)) {
            return whole;
        }
        let (start, end) = match range {
            RangeSpec::From(start) => (start, size),
            RangeSpec::Span(first, last) => (first, size.min(last.saturating_add(1))),
            RangeSpec::Last(count) => (size.saturating_sub(count), size),
        };
        if start >= end {
            return Decision::Unsatisfiable;
        }
        Decision::Send(ByteRange { start, length: end - start, is_part: true })
    }

    /// Whether the client has this version.
    fn has(&self, version: &Version) -> bool {
        if let Some(tags) = &self.if_none_match {
            let bare = |tag: &str| tag.trim().trim_start_matches("W/") == version.tag;
            return tags.trim() == "*" || tags.split(',').any(bare);
        }
        self.if_modified_since
            .zip(version.modified)
            .is_some_and(|(since, modified)| modified <= since)
    }
}

/// One range. Anything else is ignored, as if it had not been asked for.
fn parse_range(text: &str) -> Option<RangeSpec> {
    let (unit, ranges) = text.split_once('=')?;
    let (first, last) = ranges.trim().split_once('-')?;
    let number = |digits: &str| match digits {
        "" => Some(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            // A number too large to count is past the end of any file.
            Some(Some(digits.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    match (number(first)?, number(last)?) {
        (Some(first), None) => Some(RangeSpec::From(first)),
        (Some(first), Some(last)) if first <= last => Some(RangeSpec::Span(first, last)),
        (None, Some(count)) => Some(RangeSpec::Last(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
