//! A tar archive as it comes, and as it goes (`write`): ustar and pax (POSIX.1-2024, pax, "ustar Interchange Format"), and
//! GNU tar's long names and large numbers.
//!
//! The parser is fed bytes; it never waits for them, holds no content, and keeps no more of headers than
//! [`META_MAX_BYTES`]. It yields directories and regular files only: at the first of anything else the
//! archive is refused. What a name means is not decided here.

mod header;
mod write;

use self::header::{BLOCK, Header, Kind};
pub(super) use self::write::{Entry, push_end, push_header};

/// The most bytes of a long name, or of a file's pax records.
const META_MAX_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TarError {
    /// Not a header, or a damaged one.
    #[error("it is no tar archive, or a damaged one ({0})")]
    Damaged(&'static str),
    /// It ended within a header or a file.
    #[error("it ends within an entry")]
    Short,
    /// Something that is not unpacked.
    #[error("{name:?} is {what}: only regular files and directories are unpacked")]
    Unsupported { name: String, what: &'static str },
    #[error("a header of {0} bytes is too large")]
    TooLarge(u64),
}

/// The next thing in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// Nothing, until more bytes come.
    Nothing,
    Directory(Vec<u8>),
    /// A file of this name. Its content follows.
    File {
        name: Vec<u8>,
        executable: bool,
    },
    Data(&'a [u8]),
    FileEnd,
}

#[derive(Debug)]
pub(super) struct Parser {
    state: State,
    /// What the records before a header say of it.
    next: Overrides,
    any: bool,
}

#[derive(Debug)]
enum State {
    Header {
        block: Box<[u8; BLOCK]>,
        len: usize,
    },
    Meta {
        kind: Kind,
        bytes: Vec<u8>,
        left: u64,
        padding: usize,
    },
    Content {
        left: u64,
        padding: usize,
    },
    Padding {
        left: u64,
    },
    /// After the end; what else may come means nothing.
    End,
}

#[derive(Debug, Default)]
struct Overrides {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Default for Parser {
    fn default() -> Self {
        Self { state: State::header(), next: Overrides::default(), any: false }
    }
}

impl State {
    fn header() -> Self {
        Self::Header { block: Box::new([0; BLOCK]), len: 0 }
    }
}

/// Bytes that fill up the last block of `size` bytes.
pub(super) fn padding_of(size: u64) -> usize {
    let block = u64::try_from(BLOCK).unwrap_or(u64::MAX);
    usize::try_from(size.next_multiple_of(block).saturating_sub(size)).unwrap_or(0)
}

/// Takes at most `most` bytes off the front of `input`.
fn take<'a>(input: &mut &'a [u8], most: u64) -> &'a [u8] {
    let len = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
    let (taken, rest) = input.split_at(len);
    *input = rest;
    taken
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Parser {
    /// The next thing in `input`, of which it takes what it needs.
    ///
    /// # Errors
    /// [`TarError`]; nothing that follows means anything.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, TarError> {
        loop {
            match &mut self.state {
                State::End => {
                    *input = &[];
                    return Ok(Event::Nothing);
                }
                State::Padding { left } => {
                    *left -= count(take(input, *left));
                    if *left > 0 {
                        return Ok(Event::Nothing);
                    }
                    self.state = State::header();
                }
                State::Content { left: 0, padding } => {
                    self.state = State::Padding { left: u64::try_from(*padding).unwrap_or(0) };
                    return Ok(Event::FileEnd);
                }
                State::Content { left, .. } => {
                    let data = take(input, *left);
                    *left -= count(data);
                    return Ok(if data.is_empty() { Event::Nothing } else { Event::Data(data) });
                }
                State::Meta { kind, bytes, left, padding } => {
                    let data = take(input, *left);
                    *left -= count(data);
                    bytes.extend_from_slice(data);
                    if *left > 0 {
                        return Ok(Event::Nothing);
                    }
                    self.next.note(*kind, bytes)?;
                    self.state = State::Padding { left: u64::try_from(*padding).unwrap_or(0) };
                }
                State::Header { block, len } => {
                    let data = take(input, u64::try_from(BLOCK - *len).unwrap_or(0));
                    for (slot, byte) in block.iter_mut().skip(*len).zip(data) {
                        *slot = *byte;
                    }
                    *len += data.len();
                    if *len < BLOCK {
                        return Ok(Event::Nothing);
                    }
                    let header = Header::parse(block)?;
                    if let Some(event) = self.begin(header)? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// The event that a header begins, if it is one. `header` is `None` at the end.
    fn begin(&mut self, header: Option<Header>) -> Result<Option<Event<'static>>, TarError> {
        let Some(header) = header else {
            // Archives cut off after one empty block are in use, and those without one.
            self.state =
                if self.any { State::End } else { return Err(TarError::Damaged("empty")) };
            return Ok(None);
        };
        self.any = true;
        let padding = padding_of(header.size);
        match header.kind {
            Kind::Name | Kind::Pax => {
                if header.size > META_MAX_BYTES {
                    return Err(TarError::TooLarge(header.size));
                }
                let (bytes, left) = (Vec::new(), header.size);
                self.state = State::Meta { kind: header.kind, bytes, left, padding };
                Ok(None)
            }
            Kind::Ignored => {
                let padding = u64::try_from(padding).unwrap_or(0);
                self.state = State::Padding { left: header.size.saturating_add(padding) };
                Ok(None)
            }
            Kind::Directory => {
                self.state = State::header();
                Ok(Some(Event::Directory(self.next.take_name(header.name))))
            }
            Kind::File => {
                let left = self.next.size.unwrap_or(header.size);
                let name = self.next.take_name(header.name);
                self.state = State::Content { left, padding: padding_of(left) };
                if name.ends_with(b"/") && left == 0 {
                    // Before ustar a directory was marked by its name alone.
                    self.state = State::header();
                    return Ok(Some(Event::Directory(name)));
                }
                Ok(Some(Event::File { name, executable: header.executable }))
            }
            Kind::Other(what) => {
                let name = self.next.take_name(header.name);
                let name = String::from_utf8_lossy(&name).into_owned();
                Err(TarError::Unsupported { name, what })
            }
        }
    }

    pub(super) fn finish(&self) -> Result<(), TarError> {
        match &self.state {
            State::End => Ok(()),
            State::Header { len: 0, .. } | State::Padding { left: 0 } if self.any => Ok(()),
            State::Header { len: 0, .. } => Err(TarError::Damaged("empty")),
            _ => Err(TarError::Short),
        }
    }
}

impl Overrides {
    /// Notes what `bytes` say of the next header.
    fn note(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), TarError> {
        if kind == Kind::Name {
            self.name = Some(header::text(bytes).to_vec());
            return Ok(());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (key, value) = pax_record(&mut rest).ok_or(TarError::Damaged("pax record"))?;
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"size" => {
                    self.size = Some(decimal(value).ok_or(TarError::Damaged("pax size"))?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    let name = self.name.take().unwrap_or_default();
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Err(TarError::Unsupported { name, what: "a sparse file" });
                }
                // Times, owners and comments.
                _ => {}
            }
        }
        Ok(())
    }

    /// The name of a file whose header says `short`; what was noted is for this file only.
    fn take_name(&mut self, short: Vec<u8>) -> Vec<u8> {
        std::mem::take(self).name.unwrap_or(short)
    }
}

/// Takes one record, "length key=value\n", off the front of `rest`.
fn pax_record<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let len = usize::try_from(decimal(rest.get(..space)?)?).ok()?;
    let (record, after) = rest.split_at_checked(len)?;
    let pair = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (key, value) = pair.split_at_checked(equals)?;
    *rest = after;
    Some((key, value.get(1..)?))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
