//! Headers of an archive that is made: ustar, with pax records for what does not fit.

use super::header::BLOCK;
use super::padding_of;

/// The largest size that eleven octal digits can say.
const SIZE_MAX: u64 = 0o777_7777_7777;

/// The longest name that a header has room for, without the NUL at its end.
const NAME_MAX: usize = 99;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// Ends with a slash if it is a directory.
    pub(crate) name: &'a [u8],
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Seconds since 1970.
    pub(crate) modified: u64,
}

/// Appends what begins an entry. Its content follows, and zeros to the end of its last block.
pub(crate) fn push_header(out: &mut Vec<u8>, entry: Entry<'_>) {
    let mut records = Vec::new();
    if entry.name.len() > NAME_MAX || !entry.name.is_ascii() {
        push_record(&mut records, b"path", entry.name);
    }
    if entry.size > SIZE_MAX {
        push_record(&mut records, b"size", entry.size.to_string().as_bytes());
    }
    if !records.is_empty() {
        let size = u64::try_from(records.len()).unwrap_or(0);
        push_block(out, Entry { name: b"pax", size, ..entry }, b'x');
        out.extend(&records);
        out.resize(out.len() + padding_of(size), 0);
    }
    let flag = if entry.name.ends_with(b"/") { b'5' } else { b'0' };
    push_block(out, entry, flag);
}

/// Appends what ends an archive.
pub(crate) fn push_end(out: &mut Vec<u8>) {
    out.resize(out.len() + 2 * BLOCK, 0);
}

fn push_block(out: &mut Vec<u8>, entry: Entry<'_>, flag: u8) {
    let name = entry.name.get(..NAME_MAX).unwrap_or(entry.name);
    let start = out.len();
    let mut field = |text: &[u8], len: usize| {
        out.extend(text);
        out.resize(out.len() + len.saturating_sub(text.len()), 0);
    };
    field(name, 100);
    field(format!("{:07o}", entry.mode & 0o777).as_bytes(), 8);
    field(b"0000000", 8);
    field(b"0000000", 8);
    field(format!("{:011o}", entry.size.min(SIZE_MAX)).as_bytes(), 12);
    field(format!("{:011o}", entry.modified.min(SIZE_MAX)).as_bytes(), 12);
    field(b"        ", 8);
    field(&[flag], 1);
    field(b"", 100);
    field(b"ustar\x0000", 8);
    field(b"", 64);
    field(b"0000000", 8);
    field(b"0000000", 8);
    field(b"", 167);
    let block = out.get_mut(start..).unwrap_or_default();
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    for (slot, byte) in block.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *slot = byte;
    }
}

/// Appends "length key=value\n", of which the length counts itself.
fn push_record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    out.extend(len.to_string().bytes());
    out.extend([b" ", key, b"=", value, b"\n"].concat());
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Parser};
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for name in
            ["a", "d/", &"n".repeat(99), &"n".repeat(100), &"\u{fc}/".repeat(2000), "\u{fc}"]
        {
            let mut archive = Vec::new();
            let size = if name.ends_with('/') { 0 } else { 5 };
            push_header(
                &mut archive,
                Entry { name: name.as_bytes(), mode: 0o4755, size, modified: 1 },
            );
            assert_eq!(archive.len() % BLOCK, 0, "{name}");
            if size > 0 {
                archive.extend(b"hello");
                archive.resize(archive.len() + padding_of(size), 0);
            }
            push_end(&mut archive);
            let (mut parser, mut input) = (Parser::default(), archive.as_slice());
            match parser.next(&mut input).unwrap() {
                Event::Directory(found) => assert_eq!(found, name.as_bytes()),
                Event::File { name: found, executable } => {
                    assert_eq!((found.as_slice(), executable), (name.as_bytes(), true));
                    assert_eq!(parser.next(&mut input).unwrap(), Event::Data(b"hello"));
                    assert_eq!(parser.next(&mut input).unwrap(), Event::FileEnd);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(parser.next(&mut input).unwrap(), Event::Nothing);
            parser.finish().unwrap();
        }
    }

    #[test]
    fn records_count_their_own_length() {
        for len in 1..2000 {
            let mut out = Vec::new();
            push_record(&mut out, b"path", &vec![b'x'; len]);
            assert!(out.starts_with(format!("{} ", out.len()).as_bytes()), "{len}");
        }
    }
}
