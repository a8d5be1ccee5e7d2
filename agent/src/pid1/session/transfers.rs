//! File operations in progress, beside whatever runs.
//!
//! None of them waits: content goes as its socket allows, the rest is done in steps between
//! other events. So a transfer that stalls holds up nobody, and there are never more than
//! [`TRANSFERS_MAX`], each with a bounded part of the agent's memory.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::poll::PollFlags;
use vivarium_protocol::message::{
    Failure, FileEntry, FileOperation, FileProblem, FileProblemKind, FileReply, FromAgent,
    TransferNumber,
};
use vivarium_protocol::places::Root;

use super::Session;
use crate::files::{
    Archive, ChangeTracker, Deletion, Download, FileError, Listing, Roots, Upload, WATCHERS_MAX,
    Watcher, Workdir,
};

/// The most file operations of a session at one time.
const TRANSFERS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Transfers {
    active: Vec<Transfer>,
    /// Shared by all uploads; empty while there is none.
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Transfer {
    number: TransferNumber,
    operation: Operation,
}

#[derive(Debug)]
enum Operation {
    Download(Download),
    Archive(Box<Archive>),
    Watch(Root, Box<Watcher>),
    Upload(Root, Box<Upload>),
    Listing(Root, Listing),
    /// With its path, if it is in the workdir.
    Deletion(Option<PathBuf>, Deletion),
}

enum Step {
    Pending,
    /// It is over, and the reply was sent.
    Over,
    Done(Result<FileReply, FileError>),
}

impl Transfers {
    pub(super) fn sources(
        &self,
    ) -> impl Iterator<Item = (TransferNumber, BorrowedFd<'_>, PollFlags)> {
        let watching = self.watchers().flat_map(|(number, watcher)| {
            watcher.sources().map(move |(source, flags)| (number, source, flags))
        });
        let others = self.active.iter().filter_map(|transfer| match &transfer.operation {
            Operation::Download(it) => Some((transfer.number, it.socket(), PollFlags::POLLOUT)),
            Operation::Archive(it) => Some((transfer.number, it.socket(), PollFlags::POLLOUT)),
            Operation::Upload(_, it) => Some((transfer.number, it.socket(), PollFlags::POLLIN)),
            Operation::Listing(..) | Operation::Deletion(..) | Operation::Watch(..) => None,
        });
        watching.chain(others)
    }

    /// When the first of the watchers reads its events.
    pub(super) fn due(&self) -> Option<Instant> {
        self.watchers().filter_map(|(_, watcher)| watcher.due()).min()
    }

    pub(super) fn overdue(&self, now: Instant) -> Vec<TransferNumber> {
        let is_due = |watcher: &Watcher| watcher.due().is_some_and(|due| due <= now);
        self.watchers().filter(|(_, watcher)| is_due(watcher)).map(|(number, _)| number).collect()
    }

    fn watchers(&self) -> impl Iterator<Item = (TransferNumber, &Watcher)> {
        self.active.iter().filter_map(|transfer| match &transfer.operation {
            Operation::Watch(_, watcher) => Some((transfer.number, &**watcher)),
            _ => None,
        })
    }

    /// Those that poll nothing and go on between events.
    pub(super) fn runnable(&self) -> impl Iterator<Item = TransferNumber> {
        self.active
            .iter()
            .filter(|transfer| {
                matches!(transfer.operation, Operation::Listing(..) | Operation::Deletion(..))
            })
            .map(|transfer| transfer.number)
    }

    /// Inodes of the files being written, which are reported only when they are complete.
    pub(super) fn hidden(&self) -> Vec<u64> {
        self.active
            .iter()
            .filter_map(|transfer| match &transfer.operation {
                Operation::Upload(_, receiving) => receiving.inode(),
                _ => None,
            })
            .collect()
    }

    fn step(&mut self, number: TransferNumber, files: &Roots, changes: &mut ChangeTracker) -> Step {
        let hidden = self.hidden();
        let Some(index) = self.active.iter().position(|transfer| transfer.number == number) else {
            return Step::Over;
        };
        let Some(transfer) = self.active.get_mut(index) else {
            return Step::Over;
        };
        let done = match &mut transfer.operation {
            Operation::Download(reading) => {
                if reading.step() {
                    Step::Over
                } else {
                    Step::Pending
                }
            }
            Operation::Archive(sending) => {
                if sending.step(&hidden) {
                    Step::Over
                } else {
                    Step::Pending
                }
            }
            Operation::Watch(root, watcher) => {
                if files.get(*root).is_ok_and(|root| !watcher.step(root)) {
                    Step::Pending
                } else {
                    Step::Over
                }
            }
            Operation::Upload(root, receiving) => {
                self.buffer.resize(Upload::STEP_BYTES, 0);
                let mut written = |path: &_| {
                    if *root == Root::Workdir {
                        changes.exclude(&files.workdir, path);
                    }
                };
                receiving.step(&mut self.buffer, &mut written).map_or(Step::Pending, Step::Done)
            }
            Operation::Listing(root, listing) => match files.get(*root) {
                Ok(root) => {
                    listing.step(root, &hidden).map_or(Step::Pending, |reply| Step::Done(Ok(reply)))
                }
                Err(error) => Step::Done(Err(error)),
            },
            Operation::Deletion(path, deleting) => match deleting.step() {
                None => Step::Pending,
                Some(done) => {
                    if let Some(path) = path {
                        changes.exclude_deletion(&files.workdir, path);
                    }
                    Step::Done(done.map(|()| FileReply::Deleted))
                }
            },
        };
        if !matches!(done, Step::Pending) {
            self.active.swap_remove(index);
            if self.active.iter().all(|other| !matches!(other.operation, Operation::Upload(..))) {
                self.buffer = Vec::new();
            }
        }
        done
    }
}

impl Session<'_> {
    pub(super) fn begin_transfer(
        &mut self,
        number: TransferNumber,
        operation: FileOperation,
    ) -> Result<(), Failure> {
        // Taken in any case, so that the next operation gets its own.
        let socket = match &operation {
            FileOperation::Read { .. }
            | FileOperation::Archive { .. }
            | FileOperation::Watch { .. }
            | FileOperation::Write { .. }
            | FileOperation::Unpack { .. } => self.control.descriptor().map(Some),
            _ => Ok(None),
        };
        let watchers = self.transfers.watchers().count();
        let (under_way, max) = match operation {
            FileOperation::Watch { .. } => (watchers, WATCHERS_MAX),
            _ => (self.transfers.active.len() - watchers, TRANSFERS_MAX),
        };
        if under_way >= max {
            let detail = format!("{max} operations on files are under way already");
            let problem = FileProblem { kind: FileProblemKind::Aborted, detail };
            return self.send_file_done(number, Err(problem));
        }
        if let Some(reply) = self.change_entry(&operation) {
            return self.send_file_done(number, reply.map_err(|error| error.problem()));
        }
        let begun = socket
            .map_err(FileError::from)
            .and_then(|socket| begin(&self.files, operation, socket));
        match begun {
            Ok((begun, reply)) => {
                self.transfers.active.push(Transfer { number, operation: begun });
                reply.map_or(Ok(()), |reply| self.send_file_done(number, Ok(reply)))?;
                self.step_transfer(number)
            }
            Err(error) => self.send_file_done(number, Err(error.problem())),
        }
    }

    /// Does what is done in one step; `None` if the operation is another.
    fn change_entry(&mut self, operation: &FileOperation) -> Option<Result<FileReply, FileError>> {
        Some(match operation {
            FileOperation::Stat { path } => {
                self.at(path, |root, path| root.entry(path)).map(FileReply::Entry)
            }
            FileOperation::MakeDirectory { path } => {
                self.at(path, Workdir::make_directory).map(|new| FileReply::DirectoryMade { new })
            }
            FileOperation::SetMode { path, mode } => {
                self.at(path, |root, path| root.set_mode(path, *mode)).map(FileReply::Entry)
            }
            FileOperation::Move { path, to, replace } => {
                self.rename(path, to, *replace).map(FileReply::Entry)
            }
            _ => return None,
        })
    }

    fn at<T>(
        &self,
        path: &str,
        act: impl Fn(&Workdir, &str) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let (root, path) = self.files.find(path)?;
        act(self.files.get(root)?, path)
    }

    fn rename(&mut self, path: &str, to: &str, replace: bool) -> Result<FileEntry, FileError> {
        let ((root, path), (new_root, to)) = (self.files.find(path)?, self.files.find(to)?);
        // Also where they are on one filesystem: rename(2) goes by mounts.
        if root != new_root {
            return Err(FileError::OtherRoot);
        }
        let entry = self.files.get(root)?.rename(path, to, replace)?;
        if root == Root::Workdir {
            self.changes.exclude_deletion(&self.files.workdir, Path::new(path));
            self.changes.exclude(&self.files.workdir, Path::new(to));
        }
        Ok(entry)
    }

    pub(super) fn step_transfer(&mut self, number: TransferNumber) -> Result<(), Failure> {
        match self.transfers.step(number, &self.files, &mut self.changes) {
            Step::Pending | Step::Over => Ok(()),
            Step::Done(outcome) => {
                self.send_file_done(number, outcome.map_err(|error| error.problem()))
            }
        }
    }

    fn send_file_done(
        &mut self,
        transfer: TransferNumber,
        reply: Result<FileReply, FileProblem>,
    ) -> Result<(), Failure> {
        self.control.send(&FromAgent::FileDone { transfer, reply })
    }
}

/// Begins an operation. Returns it with the reply to send at once, if there is one.
fn begin(
    files: &Roots,
    operation: FileOperation,
    socket: Option<OwnedFd>,
) -> Result<(Operation, Option<FileReply>), FileError> {
    let without_socket = FileError::Aborted("no descriptor came with it");
    let find = |path| files.find(path).and_then(|(root, path)| Ok((root, files.get(root)?, path)));
    Ok(match (operation, socket) {
        (FileOperation::Read { path, offset, length }, Some(socket)) => {
            let (_, root, path) = find(&path)?;
            let (reading, reply) = Download::start(root, path, offset, length, socket)?;
            (Operation::Download(reading), Some(reply))
        }
        (FileOperation::Archive { path }, Some(socket)) => {
            let (_, root, path) = find(&path)?;
            let (sending, reply) = Archive::start(root, path, socket)?;
            (Operation::Archive(Box::new(sending)), Some(reply))
        }
        (FileOperation::Watch { path, recursive }, Some(socket)) => {
            let (place, root, path) = find(&path)?;
            let (watcher, reply) = Watcher::start(root, path, recursive, socket)?;
            (Operation::Watch(place, Box::new(watcher)), Some(reply))
        }
        (FileOperation::Write { path }, Some(socket)) => {
            let (place, root, path) = find(&path)?;
            (Operation::Upload(place, Box::new(Upload::file(root, path, socket)?)), None)
        }
        (FileOperation::Unpack { path }, Some(socket)) => {
            let (place, root, path) = find(&path)?;
            (Operation::Upload(place, Box::new(Upload::archive(root, path, socket)?)), None)
        }
        (FileOperation::List { path, recursive, after, limit }, _) => {
            let (place, root, path) = find(&path)?;
            let listing = Listing::start(root, path, recursive, after, limit)?;
            (Operation::Listing(place, listing), None)
        }
        (FileOperation::Delete { path }, _) => {
            let (place, root, path) = find(&path)?;
            let in_workdir = (place == Root::Workdir).then(|| PathBuf::from(path));
            (Operation::Deletion(in_workdir, Deletion::start(root, path)?), None)
        }
        _ => return Err(without_socket),
    })
}
