//! Content on its way from the supervisor, in [`Chunks`], into a file or an archive's
//! files.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use vivarium_protocol::content::{Chunks, Piece};
use vivarium_protocol::message::FileReply;

use super::unpack::Unpacker;
use super::{FileError, NewFile, Workdir, checked};

const ENDED_EARLY: FileError = FileError::Aborted("the content ended before its end");

#[derive(Debug)]
pub(crate) struct Upload {
    socket: OwnedFd,
    chunks: Chunks,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File { new: Option<NewFile>, path: PathBuf },
    Archive(Box<Unpacker>),
}

impl Upload {
    /// How much is read at one time: as much as a socket holds by default.
    pub(crate) const STEP_BYTES: usize = 256 << 10;

    pub(crate) fn file(workdir: &Workdir, path: &str, socket: OwnedFd) -> Result<Self, FileError> {
        let path = checked(path)?;
        let new = Some(NewFile::create(workdir, &path)?);
        Self::start(Sink::File { new, path }, socket)
    }

    pub(crate) fn archive(
        workdir: &Workdir,
        path: &str,
        socket: OwnedFd,
    ) -> Result<Self, FileError> {
        let path = if path.is_empty() { PathBuf::new() } else { checked(path)? };
        let unpacker = Unpacker::new(workdir.beneath(&path)?, path);
        Self::start(Sink::Archive(Box::new(unpacker)), socket)
    }

    fn start(sink: Sink, socket: OwnedFd) -> Result<Self, FileError> {
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { socket, chunks: Chunks::default(), sink })
    }

    /// Reads once into `buffer`, and writes the content. Returns the outcome once there is one. Calls
    /// `written` with the path of each complete file.
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
                Err(error) => Some(Err(error.into())),
            };
            if outcome.is_some() {
                return outcome;
            }
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

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
