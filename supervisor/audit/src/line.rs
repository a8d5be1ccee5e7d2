//! One line: how it is written, and the parts by which it is verified.
//!
//! ```text
//! {"seq":7,"time":"…","prev":"<64 digits>","event":"…",…,"hash":"<64 digits>"}\n
//! ```
//!
//! `hash` is the SHA-256 of the bytes of the line before `,"hash":"`. Lines are ASCII: everything else
//! is escaped, so that no reader finds another end of line, and no terminal a control sequence.

use std::io;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::ser::Formatter;

use crate::chain::HEX_BYTES;
use crate::{Event, Hash, Head};

/// The longest line. Code and output are captured in part only.
pub(crate) const MAX_LINE_BYTES: usize = 4 << 20;

const BEFORE_HASH: &[u8] = b",\"hash\":\"";
const AFTER_HASH: &[u8] = b"\"}\n";
const SUFFIX_BYTES: usize = BEFORE_HASH.len() + HEX_BYTES + AFTER_HASH.len();

#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    time: String,
    prev: Hash,
    #[serde(flatten)]
    event: &'a Event,
}

/// Adds an event's line to `to`, after the line `head`; returns the new head.
pub(crate) fn write(
    to: &mut Vec<u8>,
    head: Head,
    time: Timestamp,
    event: &Event,
) -> io::Result<Head> {
    let start = to.len();
    let seq = head.seq + 1;
    let line = Line { seq, time: format!("{time:.6}"), prev: head.hash, event };
    let mut serializer = serde_json::Serializer::with_formatter(&mut *to, Ascii);
    line.serialize(&mut serializer)?;
    // Its closing brace comes after the hash.
    to.pop();
    let hash = Hash::of(to.get(start..).unwrap_or_default());
    to.extend_from_slice(BEFORE_HASH);
    to.extend_from_slice(hash.to_string().as_bytes());
    to.extend_from_slice(AFTER_HASH);
    Ok(Head { seq, hash })
}

/// JSON in ASCII.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_plain = |c: char| c.is_ascii() && c != '\x7f';
        let mut rest = fragment;
        while let Some(at) = rest.find(|c| !is_plain(c)) {
            let (plain, other) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = other.chars();
            for unit in
                chars.next().map(|c| c.encode_utf16(&mut [0; 2]).to_vec()).unwrap_or_default()
            {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// The parts of a line that its place in the chain depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) seq: u64,
    pub(crate) prev: Hash,
    pub(crate) hash: Hash,
}

/// Reads a line with its line feed, and checks its hash.
///
/// # Errors
/// Why it is none that was written here.
pub(crate) fn parse(line: &[u8]) -> Result<Parts, &'static str> {
    let (body, hash) = split(line).ok_or("does not end with its hash")?;
    if hash != Hash::of(body) {
        return Err("does not have the content that its hash is of");
    }
    let (seq, prev) = prefix(body).ok_or("does not begin with its number and the hash before")?;
    Ok(Parts { seq, prev, hash })
}

/// The hash that a line says it has, whether or not it does.
pub(crate) fn claimed_hash(line: &[u8]) -> Option<Hash> {
    split(line).map(|(_, hash)| hash)
}

fn split(line: &[u8]) -> Option<(&[u8], Hash)> {
    let (body, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX_BYTES)?)?;
    let hex = suffix.strip_prefix(BEFORE_HASH)?.strip_suffix(AFTER_HASH)?;
    Some((body, Hash::from_hex(hex).ok()?))
}

fn prefix(body: &[u8]) -> Option<(u64, Hash)> {
    let rest = body.strip_prefix(b"{\"seq\":")?;
    let (number, rest) = rest.split_at(rest.iter().position(|byte| *byte == b',')?);
    let seq = std::str::from_utf8(number).ok()?.parse().ok()?;
    let rest = rest.strip_prefix(b",\"time\":\"")?;
    let (_, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    let rest = rest.strip_prefix(b"\",\"prev\":\"")?;
    let prev = Hash::from_hex(rest.get(..HEX_BYTES)?).ok()?;
    rest.get(HEX_BYTES..)?.starts_with(b"\",\"event\":\"").then_some((seq, prev))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdminAct;

    fn act(actor: &str) -> Event {
        Event::Admin(Box::new(AdminAct {
            actor: actor.to_owned(),
            action: "tenant.pause".into(),
            target: None,
            result: "ok".into(),
            detail: None,
        }))
    }

    #[test]
    fn a_line_is_one_line_of_ascii_whatever_is_in_it() {
        let hostile = "a\n{\"seq\":9}\r\u{2028}\u{85}\u{1b}[2J\u{7f}\u{1f600}\",\"hash\":\"\0";
        let mut line = Vec::new();
        let head = write(&mut line, Head::NONE, Timestamp::UNIX_EPOCH, &act(hostile)).unwrap();
        assert!(line.is_ascii());
        assert!(line[..line.len() - 1].iter().all(|byte| (0x20..0x7f).contains(byte)));
        assert_eq!(line.last(), Some(&b'\n'));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["actor"], hostile);
        assert_eq!(value["hash"], head.hash.to_string());
        assert_eq!(value["time"], "1970-01-01T00:00:00.000000Z");
        let parts = parse(&line).unwrap();
        assert_eq!((parts.seq, parts.hash), (1, head.hash));
    }

    #[test]
    fn anything_else_is_no_line() {
        let mut line = Vec::new();
        write(&mut line, Head::NONE, Timestamp::UNIX_EPOCH, &Event::DaemonStopped).unwrap();
        parse(&line).unwrap();
        for end in 0..line.len() {
            parse(&line[..end]).unwrap_err();
        }
        for at in 0..line.len() {
            let mut flipped = line.clone();
            flipped[at] ^= 0x20;
            parse(&flipped).unwrap_err();
        }
    }
}
