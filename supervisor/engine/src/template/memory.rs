//! A template's memory, as a file that its kernels share (agent/src/image/template.rs).

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::PoisonError;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use sha2::{Digest, Sha256};
use vivarium_audit::Hash;

/// No template has more.
pub(crate) const BYTES_MAX: u64 = 8 << 30;
pub(crate) const LAYOUT_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct TemplateMemory {
    file: File,
    programs: Option<Hash>,
    known: Mutex<Option<Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    /// SHA-256 of the file.
    fingerprint: Hash,
    /// How much of the file is memory.
    memory_bytes: u64,
    /// Where that memory is, in the order of the file.
    held: Vec<Range<u64>>,
}

impl TemplateMemory {
    /// A file that nobody can change any more, of a template of these programs.
    pub(crate) fn new(file: OwnedFd, programs: Option<Hash>) -> io::Result<Self> {
        let seals = SealFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GET_SEALS)?);
        let needed = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        if !seals.contains(needed) {
            return Err(io::Error::other("a template's memory that can be changed"));
        }
        Ok(Self { file: file.into(), programs, known: Mutex::new(None) })
    }

    /// By what the library and kernel program of the template are kept.
    pub(crate) const fn programs(&self) -> Option<Hash> {
        self.programs
    }

    /// Blocks the first time: the file is read.
    pub(crate) fn fingerprint(&self) -> io::Result<Hash> {
        Ok(self.known()?.fingerprint)
    }

    /// How much of the file is memory; the rest says where it is mapped.
    pub(crate) fn memory_bytes(&self) -> io::Result<u64> {
        Ok(self.known()?.memory_bytes)
    }

    pub(crate) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Another reader of it, from the start.
    pub(crate) fn reader(&self) -> io::Result<impl Read + use<>> {
        // Opened anew: a duplicate would share its offset.
        File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.file)))
    }

    /// Where what is at an offset in the file is in a kernel's memory.
    pub(crate) fn address_of(&self, offset: u64) -> io::Result<u64> {
        let mut before = 0;
        for range in self.known()?.held {
            let len = range.end - range.start;
            if offset < before + len {
                return Ok(range.start + (offset - before));
            }
            before += len;
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    fn known(&self) -> io::Result<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        Ok(known.insert(self.read()?).clone())
    }

    fn read(&self) -> io::Result<Known> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let len = self.bytes()?;
        let mut count = [0; 8];
        let end = len.checked_sub(8).filter(|_| len <= BYTES_MAX).ok_or_else(damaged)?;
        self.read_at(&mut count, end)?;
        let layout_bytes = u64::from_le_bytes(count);
        let memory_bytes = end.checked_sub(layout_bytes).ok_or_else(damaged)?;
        if layout_bytes > LAYOUT_BYTES_MAX {
            return Err(damaged());
        }
        let mut layout = vec![0; usize::try_from(layout_bytes).map_err(io::Error::other)?];
        self.read_at(&mut layout, memory_bytes)?;
        let held: Option<Vec<_>> = layout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(held)
            .filter(|held| !held.as_ref().is_some_and(Range::is_empty))
            .collect();
        let held = held.ok_or_else(damaged)?;
        if held.iter().map(|range| range.end - range.start).sum::<u64>() != memory_bytes {
            return Err(damaged());
        }
        let (mut hash, mut reader) = (Sha256::new(), self.reader()?);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match reader.read(&mut buffer)? {
                0 => break,
                count => hash.update(buffer.get(..count).unwrap_or_default()),
            }
        }
        let fingerprint = <[u8; 32]>::from(hash.finalize()).into();
        Ok(Known { fingerprint, memory_bytes, held })
    }
}

/// What a line of the layout says is held of a mapping; an empty range if nothing is.
fn held(line: &[u8]) -> Option<Range<u64>> {
    let mut fields = line
        .split(|byte| *byte == b' ')
        .map(|field| u64::from_str_radix(std::str::from_utf8(field).ok()?, 16).ok());
    let (start, end, bytes) = (fields.next()??, fields.next()??, fields.next()??);
    if bytes == 0 {
        return Some(start..start);
    }
    (end.checked_sub(start)? == bytes).then_some(start..end)
}
