//! Operations on files that are under way, beside whatever runs.
//!
//! None of them waits: content goes as its socket allows, the rest is done in steps between
//! other events. So a transfer that stalls holds up nobody, and there are never more than
//! [`TRANSFERS_MAX`], each with a bounded part of the agent's memory.

use std::os::fd::{BorrowedFd, OwnedFd};

use nix::poll::PollFlags;
use vivarium_protocol::message::{
    Failure, FileOperation, FileProblem, FileProblemKind, FileReply, FromAgent, TransferNumber,
};

use super::Session;
use crate::files::{Deleting, FileError, Listing, Reading, Receiving, Tracker, Workdir};

/// The most operations under way in a session.
const TRANSFERS_MAX: usize = 8;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    active: Vec<Transfer>,
    /// For what is received, while anything is.
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Transfer {
    number: TransferNumber,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Reading(Reading),
    Receiving(Box<Receiving>),
    Listing(Listing),
    Deleting(Deleting),
}

/// What became of a transfer by one step.
enum Step {
    /// It goes on.
    Pending,
    /// It is over, and the supervisor knows.
    Over,
    /// It is over, and this is to be told.
    Done(Result<FileReply, FileError>),
}

impl Transfers {
    /// What to poll, and for what.
    pub(super) fn sources(
        &self,
    ) -> impl Iterator<Item = (TransferNumber, BorrowedFd<'_>, PollFlags)> {
        self.active.iter().filter_map(|transfer| match &transfer.work {
            Work::Reading(it) => Some((transfer.number, it.socket(), PollFlags::POLLOUT)),
            Work::Receiving(it) => Some((transfer.number, it.socket(), PollFlags::POLLIN)),
            Work::Listing(_) | Work::Deleting(_) => None,
        })
    }

    /// What has no source and goes on between events.
    pub(super) fn jobs(&self) -> impl Iterator<Item = TransferNumber> {
        self.active
            .iter()
            .filter(|transfer| matches!(transfer.work, Work::Listing(_) | Work::Deleting(_)))
            .map(|transfer| transfer.number)
    }

    /// Inodes of the files that are being written, which are not told of before they are whole.
    pub(super) fn hidden(&self) -> Vec<u64> {
        self.active
            .iter()
            .filter_map(|transfer| match &transfer.work {
                Work::Receiving(receiving) => receiving.inode(),
                _ => None,
            })
            .collect()
    }

    /// Takes a transfer one step on.
    fn step(&mut self, number: TransferNumber, workdir: &Workdir, changes: &mut Tracker) -> Step {
        let hidden = self.hidden();
        let Some(index) = self.active.iter().position(|transfer| transfer.number == number) else {
            return Step::Over;
        };
        let Some(transfer) = self.active.get_mut(index) else {
            return Step::Over;
        };
        let done = match &mut transfer.work {
            Work::Reading(reading) => {
                if reading.step() {
                    Step::Over
                } else {
                    Step::Pending
                }
            }
            Work::Receiving(receiving) => {
                self.buffer.resize(Receiving::STEP_BYTES, 0);
                let mut written = |path: &_| changes.own(workdir, path);
                receiving.step(&mut self.buffer, &mut written).map_or(Step::Pending, Step::Done)
            }
            Work::Listing(listing) => {
                listing.step(workdir, &hidden).map_or(Step::Pending, |reply| Step::Done(Ok(reply)))
            }
            Work::Deleting(deleting) => deleting
                .step()
                .map_or(Step::Pending, |done| Step::Done(done.map(|()| FileReply::Deleted))),
        };
        if !matches!(done, Step::Pending) {
            self.active.swap_remove(index);
            if self.active.iter().all(|other| !matches!(other.work, Work::Receiving(_))) {
                self.buffer = Vec::new();
            }
        }
        done
    }
}

impl Session<'_> {
    /// Begins what the supervisor asks for.
    pub(super) fn begin_transfer(
        &mut self,
        number: TransferNumber,
        operation: FileOperation,
    ) -> Result<(), Failure> {
        // Taken in any case, so that the next one's is the next.
        let socket = match &operation {
            FileOperation::Read { .. }
            | FileOperation::Write { .. }
            | FileOperation::Unpack { .. } => self.control.descriptor().map(Some),
            FileOperation::List { .. } | FileOperation::Delete { .. } => Ok(None),
        };
        if self.transfers.active.len() >= TRANSFERS_MAX {
            let detail = format!("{TRANSFERS_MAX} operations on files are under way already");
            let problem = FileProblem { kind: FileProblemKind::Aborted, detail };
            return self.tell_done(number, Err(problem));
        }
        let begun = socket
            .map_err(FileError::from)
            .and_then(|socket| begin(&self.workdir, operation, socket));
        match begun {
            Ok((work, reply)) => {
                self.transfers.active.push(Transfer { number, work });
                reply.map_or(Ok(()), |reply| self.tell_done(number, Ok(reply)))?;
                self.step_transfer(number)
            }
            Err(error) => self.tell_done(number, Err(error.problem())),
        }
    }

    /// Takes a transfer one step on.
    pub(super) fn step_transfer(&mut self, number: TransferNumber) -> Result<(), Failure> {
        match self.transfers.step(number, &self.workdir, &mut self.changes) {
            Step::Pending | Step::Over => Ok(()),
            Step::Done(outcome) => self.tell_done(number, outcome.map_err(|error| error.problem())),
        }
    }

    fn tell_done(
        &mut self,
        transfer: TransferNumber,
        reply: Result<FileReply, FileProblem>,
    ) -> Result<(), Failure> {
        self.control.tell(&FromAgent::FileDone { transfer, reply })
    }
}

/// Begins an operation; with what is told of it at once.
fn begin(
    workdir: &Workdir,
    operation: FileOperation,
    socket: Option<OwnedFd>,
) -> Result<(Work, Option<FileReply>), FileError> {
    let without_socket = FileError::Aborted("no descriptor came with it");
    Ok(match (operation, socket) {
        (FileOperation::Read { path, offset, length }, Some(socket)) => {
            let (reading, reply) = Reading::start(workdir, &path, offset, length, socket)?;
            (Work::Reading(reading), Some(reply))
        }
        (FileOperation::Write { path }, Some(socket)) => {
            (Work::Receiving(Box::new(Receiving::file(workdir, &path, socket)?)), None)
        }
        (FileOperation::Unpack { path }, Some(socket)) => {
            (Work::Receiving(Box::new(Receiving::archive(workdir, &path, socket)?)), None)
        }
        (FileOperation::List { path, recursive, after, limit }, _) => {
            (Work::Listing(Listing::start(workdir, &path, recursive, after, limit)?), None)
        }
        (FileOperation::Delete { path }, _) => {
            (Work::Deleting(Deleting::start(workdir, &path)?), None)
        }
        (_, None) => return Err(without_socket),
    })
}
