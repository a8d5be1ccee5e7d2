//! Content on its way from the supervisor: chunks of a little-endian `u32` length and so many
//! bytes, until one of length 0. That end is needed: the end of the stream alone is that of a
//! client that went away, and then nothing is replaced.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use vivarium_protocol::message::FileReply;

use super::unpack::Unpacker;
use super::{FileError, NewFile, Workdir, checked};

/// The largest chunk.
const CHUNK_MAX_BYTES: usize = 1 << 20;

const ENDED_EARLY: FileError = FileError::Aborted("the content ended before its end");

/// What is being received.
#[derive(Debug)]
pub(crate) struct Receiving {
    socket: OwnedFd,
    chunks: Chunks,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File { new: Option<NewFile>, path: PathBuf },
    Archive(Unpacker),
}

impl Receiving {
    /// How much is read at one time: as much as a socket holds by default.
    pub(crate) const STEP_BYTES: usize = 256 << 10;

    /// Begins to receive the file at `path`.
    ///
    /// # Errors
    /// [`FileError`]
    pub(crate) fn file(workdir: &Workdir, path: &str, socket: OwnedFd) -> Result<Self, FileError> {
        let path = checked(path)?;
        let new = Some(NewFile::create(workdir, &path)?);
        Self::start(Sink::File { new, path }, socket)
    }

    /// Begins to receive an archive, for the directory at `path`.
    ///
    /// # Errors
    /// [`FileError`]
    pub(crate) fn archive(
        workdir: &Workdir,
        path: &str,
        socket: OwnedFd,
    ) -> Result<Self, FileError> {
        let path = if path.is_empty() { PathBuf::new() } else { checked(path)? };
        Self::start(Sink::Archive(Unpacker::new(workdir.beneath(&path)?, path)), socket)
    }

    fn start(sink: Sink, socket: OwnedFd) -> Result<Self, FileError> {
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { socket, chunks: Chunks::default(), sink })
    }

    /// Reads once, by way of `buffer`, and writes what came. What came of it, once that is
    /// settled. `written` hears the path of each file when it is complete.
    pub(crate) fn step(
        &mut self,
        buffer: &mut [u8],
        written: &mut dyn FnMut(&Path),
    ) -> Option<Result<FileReply, FileError>> {
        let count = match nix::unistd::read(&self.socket, buffer) {
            Ok(0) => return Some(Err(ENDED_EARLY)),
            Ok(count) => count,
            Err(Errno::EAGAIN | Errno::EINTR) => return None,
            Err(_) => return Some(Err(ENDED_EARLY)),
        };
        let mut input: &[u8] = buffer.get(..count).unwrap_or_default();
        loop {
            let outcome = match self.chunks.next(&mut input) {
                Ok(Piece::Nothing) => return None,
                Ok(Piece::Data(data)) => self.sink.take(data, written).err().map(Err),
                Ok(Piece::End) => Some(self.sink.finish(written)),
                Err(error) => Some(Err(error)),
            };
            if outcome.is_some() {
                return outcome;
            }
        }
    }

    /// What to poll for reading.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The inode of the file that is being written.
    pub(crate) fn inode(&self) -> Option<u64> {
        match &self.sink {
            Sink::File { new, .. } => new.as_ref().map(NewFile::inode),
            Sink::Archive(unpacker) => unpacker.inode(),
        }
    }
}

impl Sink {
    fn take(&mut self, data: &[u8], written: &mut dyn FnMut(&Path)) -> Result<(), FileError> {
        match self {
            Self::File { new, .. } => new.as_mut().map_or(Ok(()), |new| new.write(data)),
            Self::Archive(unpacker) => unpacker.take(data, written),
        }
    }

    fn finish(&mut self, written: &mut dyn FnMut(&Path)) -> Result<FileReply, FileError> {
        match self {
            Self::File { new, path } => {
                let new = new.take().ok_or(ENDED_EARLY)?;
                let bytes = new.written();
                new.commit(false)?;
                written(path);
                Ok(FileReply::Written { files: 1, bytes })
            }
            Self::Archive(unpacker) => unpacker.finish(),
        }
    }
}

/// Where in the chunks we are.
#[derive(Debug, Default)]
struct Chunks {
    prefix: [u8; 4],
    prefix_len: usize,
    left: usize,
}

/// The next of the content.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// Not yet here.
    Nothing,
    /// This.
    Data(&'a [u8]),
    /// None: that was all.
    End,
}

impl Chunks {
    fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, FileError> {
        while self.left == 0 {
            let Some((byte, rest)) = input.split_first() else {
                return Ok(Piece::Nothing);
            };
            *input = rest;
            if let Some(slot) = self.prefix.get_mut(self.prefix_len) {
                *slot = *byte;
            }
            self.prefix_len += 1;
            if self.prefix_len < self.prefix.len() {
                continue;
            }
            self.prefix_len = 0;
            self.left = usize::try_from(u32::from_le_bytes(self.prefix)).unwrap_or(usize::MAX);
            match self.left {
                0 => return Ok(Piece::End),
                1..=CHUNK_MAX_BYTES => {}
                _ => return Err(FileError::Aborted("a chunk of the content is too long")),
            }
        }
        let (data, rest) = input.split_at(self.left.min(input.len()));
        *input = rest;
        self.left -= data.len();
        Ok(if data.is_empty() { Piece::Nothing } else { Piece::Data(data) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn chunks_survive_being_cut_anywhere() {
        let mut wire = Vec::new();
        for chunk in [b"ab".as_slice(), b"cde", b""] {
            wire.extend(u32::try_from(chunk.len()).unwrap().to_le_bytes());
            wire.extend(chunk);
        }
        for cut in 0..wire.len() {
            let (mut chunks, mut content) = (Chunks::default(), Vec::<u8>::new());
            let (mut first, mut second) = wire.split_at(cut);
            for input in [&mut first, &mut second] {
                while let Piece::Data(data) = chunks.next(input).unwrap() {
                    content.extend(data);
                }
            }
            assert_eq!(content, b"abcde", "cut at {cut}");
        }
    }

    #[test]
    fn a_chunk_that_is_too_long_ends_it() {
        let max = u32::try_from(CHUNK_MAX_BYTES).unwrap();
        let wire = (max + 1).to_le_bytes();
        assert!(Chunks::default().next(&mut wire.as_slice()).is_err());
        let wire = max.to_le_bytes();
        assert_eq!(Chunks::default().next(&mut wire.as_slice()).unwrap(), Piece::Nothing);
    }
}
