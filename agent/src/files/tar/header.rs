//! One block that describes what follows it.

use super::TarError;

/// Bytes of a block. An archive is a sequence of them.
pub(super) const BLOCK: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    /// Nothing: it is a directory.
    Directory,
    /// The next header's name, which is too long for it (GNU).
    Name,
    /// Records about the next header (pax).
    Pax,
    /// What is of no interest here: records about all headers, a volume's label.
    Ignored,
    Other(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
    pub(super) executable: bool,
}

impl Header {
    /// What `block` says; `None` if it is empty, which is an archive's end.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Option<Self>, TarError> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let field = |start: usize, len: usize| block.get(start..start + len).unwrap_or_default();
        let bad = TarError::Damaged;
        if number(field(148, 8)) != Some(checksum(block)) {
            return Err(bad("checksum"));
        }
        let mut name = text(field(0, 100)).to_vec();
        let prefix = text(field(345, 155));
        // GNU's own format has other things in place of the prefix, and another magic.
        if field(257, 6) == b"ustar\0" && !prefix.is_empty() {
            name = [prefix, b"/", &name].concat();
        }
        let kind = kind(field(156, 1).first().copied().unwrap_or_default());
        let size = number(field(124, 12)).ok_or(bad("size"))?;
        // Of links and directories it may be said, but nothing follows.
        let size = if kind == Kind::Directory { 0 } else { size };
        let mode = number(field(100, 8)).ok_or(bad("mode"))?;
        Ok(Some(Self { kind, name, size, executable: mode & 0o111 != 0 }))
    }
}

const fn kind(flag: u8) -> Kind {
    match flag {
        b'0' | 0 | b'7' => Kind::File,
        b'5' => Kind::Directory,
        b'L' => Kind::Name,
        b'x' => Kind::Pax,
        // A long link name belongs to a link, which is refused itself.
        b'g' | b'K' | b'V' => Kind::Ignored,
        b'1' => Kind::Other("a hard link"),
        b'2' => Kind::Other("a symbolic link"),
        b'3' | b'4' => Kind::Other("a device"),
        b'6' => Kind::Other("a FIFO"),
        b'S' => Kind::Other("a sparse file"),
        _ => Kind::Other("of an unknown type"),
    }
}

pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number: octal digits between spaces and NULs, or base 256 after a first byte of 0x80 (GNU).
fn number(field: &[u8]) -> Option<u64> {
    if let Some((0x80, digits)) = field.split_first() {
        return digits
            .iter()
            .try_fold(0_u64, |sum, digit| sum.checked_mul(256)?.checked_add(u64::from(*digit)));
    }
    let digits = field.trim_ascii_start();
    let end = digits.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(digits.len());
    let (digits, _) = digits.split_at_checked(end)?;
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = u64::from(digit.checked_sub(b'0')?);
        if digit > 7 { None } else { sum.checked_mul(8)?.checked_add(digit) }
    })
}

/// The sum of all bytes, its own field counted as spaces.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    block
        .iter()
        .enumerate()
        .map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte }))
        .sum()
}
