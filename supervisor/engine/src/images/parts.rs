//! Images that follow each other, of which equal parts are written once.
//!
//! What a kernel writes is cut where its content says so (FastCDC), so that what moves stays equal. A part that the
//! image before has too stays where that has it. A file has the parts that were new with it, each after its length in four
//! bytes, little-endian; [`Parts`] says where all parts of an image are. What the files of one image have is used in
//! the order in which they have it, so that each is read once, from its start.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use fastcdc::v2020::StreamCDC;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use vivarium_audit::Hash;

/// Bytes of a part: at least, about, at most. What changes between two executions are lines of 64 in many places.
const PART_BYTES: [usize; 3] = [512, 2 << 10, 8 << 10];

/// The most files that an image is put together of, as all are open then. What the others have is written again.
const FILES_MAX: usize = 16;

/// The most parts that are known of an image: what has more, some 64 MiB, writes the rest of them each time.
const KNOWN_MAX: usize = 32 << 10;

/// The most places that an image has its parts in: what comes after is written again. Records are in the daemon's memory.
const RUNS_MAX: usize = 4 << 10;

/// Parts of one file that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Run(u16, u32, u32);

/// Where the parts of an image are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parts {
    /// The images whose files have them; this one is the last.
    files: Vec<Uuid>,
    /// Which of these files, the number of a part there, and how many from that on.
    runs: Vec<Run>,
}

impl Parts {
    pub(super) fn files(&self) -> &[Uuid] {
        &self.files
    }

    fn add(&mut self, file: u16, number: u32) {
        match self.runs.last_mut() {
            Some(Run(last, start, count)) if *last == file && *start + *count == number => {
                *count += 1
            }
            _ => self.runs.push(Run(file, number, 1)),
        }
    }
}

/// The parts of an image, among which the next one finds its own.
#[derive(Debug, Default)]
pub(crate) struct KnownParts {
    files: Vec<Uuid>,
    /// By what is in it: the file that has it, and its number there.
    places: HashMap<Hash, (u16, u32)>,
}

impl KnownParts {
    pub(super) fn files(&self) -> &[Uuid] {
        &self.files
    }

    /// Which files are used again, by their new numbers: those that have most of the parts.
    fn kept(&self) -> Vec<u16> {
        let mut counts: HashMap<u16, usize> = HashMap::new();
        for (file, _) in self.places.values() {
            *counts.entry(*file).or_default() += 1;
        }
        let mut files: Vec<_> = counts.into_iter().collect();
        files.sort_by_key(|(file, count)| (std::cmp::Reverse(*count), *file));
        files.truncate(FILES_MAX - 1);
        files.into_iter().map(|(file, _)| file).collect()
    }
}

/// Writes those parts of an image that the one before has not.
pub(super) fn write(
    from: impl Read,
    to: &mut impl Write,
    image: Uuid,
    before: &KnownParts,
) -> io::Result<(Parts, KnownParts)> {
    let kept = before.kept();
    let files = kept.iter().filter_map(|old| before.files.get(usize::from(*old)).copied());
    let files: Vec<_> = files.chain([image]).collect();
    let numbers: HashMap<u16, u16> = kept.iter().copied().zip(0..).collect();
    let own = u16::try_from(kept.len()).unwrap_or(u16::MAX);
    // Of each file, the number of the first part that can still be used.
    let mut next = vec![0_u32; files.len()];
    let mut known = KnownParts { files: files.clone(), places: HashMap::new() };
    let mut parts = Parts { files, runs: Vec::new() };
    let [least, about, most] = PART_BYTES;
    for part in StreamCDC::new(from, least, about, most) {
        let data = part.map_err(io::Error::from)?.data;
        let hash = Hash::of(&data);
        let found = before.places.get(&hash).filter(|_| parts.runs.len() < RUNS_MAX);
        let found = found.and_then(|(old, number)| {
            let file = *numbers.get(old)?;
            (*next.get(usize::from(file))? <= *number).then_some((file, *number))
        });
        let (file, number) = match found {
            Some(place) => place,
            None => {
                let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
                to.write_all(&bytes.to_le_bytes())?;
                to.write_all(&data)?;
                (own, next.last().copied().unwrap_or_default())
            }
        };
        if let Some(next) = next.get_mut(usize::from(file)) {
            *next = number + 1;
        }
        parts.add(file, number);
        if known.places.len() < KNOWN_MAX {
            known.places.entry(hash).or_insert((file, number));
        }
    }
    Ok((parts, known))
}

/// A file that has parts, and the number of the next one.
struct Source {
    file: Box<dyn Read + Send>,
    next: u32,
}

impl Source {
    /// Goes to a part; how many bytes it has.
    fn find(&mut self, number: u32) -> io::Result<u64> {
        if self.next > number {
            return Err(io::Error::other("its parts are in no order"));
        }
        loop {
            let mut bytes = [0; 4];
            self.file.read_exact(&mut bytes)?;
            let bytes = u64::from(u32::from_le_bytes(bytes));
            self.next += 1;
            if self.next > number {
                return Ok(bytes);
            }
            let skipped = io::copy(&mut self.file.by_ref().take(bytes), &mut io::sink())?;
            if skipped < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// An image, put together of its parts.
pub(super) struct Reader<Open> {
    open: Open,
    files: Vec<(Uuid, Option<Source>)>,
    runs: std::vec::IntoIter<Run>,
    run: Run,
    /// Of the present part.
    left: u64,
}

impl<Open: FnMut(Uuid) -> io::Result<Box<dyn Read + Send>>> Reader<Open> {
    /// `open` opens the file of an image.
    pub(super) fn new(parts: Parts, open: Open) -> Self {
        let Parts { files, runs } = parts;
        let files = files.into_iter().map(|image| (image, None)).collect();
        Self { open, files, runs: runs.into_iter(), run: Run(0, 0, 0), left: 0 }
    }

    /// Its next part; `false` after the last.
    fn advance(&mut self) -> io::Result<bool> {
        while self.run.2 == 0 {
            let Some(run) = self.runs.next() else { return Ok(false) };
            self.run = run;
        }
        let Run(file, number, _) = self.run;
        let (image, source) = self.files.get_mut(usize::from(file)).ok_or_else(no_file)?;
        if source.is_none() {
            *source = Some(Source { file: (self.open)(*image)?, next: 0 });
        }
        self.left = source.as_mut().ok_or_else(no_file)?.find(number)?;
        self.run = Run(file, number + 1, self.run.2 - 1);
        Ok(true)
    }
}

impl<Open: FnMut(Uuid) -> io::Result<Box<dyn Read + Send>>> Read for Reader<Open> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let (_, source) = self.files.get_mut(usize::from(self.run.0)).ok_or_else(no_file)?;
        let file = &mut source.as_mut().ok_or_else(no_file)?.file;
        let read = file.take(self.left).read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn no_file() -> io::Error {
    io::Error::other("a part of it is in no file")
}

#[cfg(test)]
mod tests;
