//! `vivarium-agent storage`: reads, measures, seals and removes what is in one home, volume or built
//! environment, from outside of sessions.
//!
//! The files belong to a subordinate id, and their names and kinds are the tenant's: any of them may be
//! a trap ([`crate::files`]). This process serves one request for one directory, which it was given
//! open, and before it looks at anything in it gives up all that it does not need: capabilities over
//! other ids than the daemon's, other files (Landlock) and the network. It must never run anything, nor
//! believe a path.

mod measure;
mod owner;
mod seal;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::discard;
use vivarium_protocol::frame::MAX_FRAME_BYTES;
use vivarium_protocol::message::{
    Failure, FileOperation, FileReply, StorageOperation, StorageReply, StorageRequest,
};
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::files::{self, Deletion, Download, FileError, Listing, Workdir};
use crate::startup::{check_protocol, sanitise};
use crate::sys::DescriptorTable;
use crate::{id_namespace, sandbox};

pub(crate) fn main(table: &DescriptorTable, control: &UnixStream) -> ExitCode {
    match serve(table, control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            let failed = StorageReply::Failed(failed);
            stream::send_if_open(control, &failed, MAX_FRAME_BYTES);
            ExitCode::FAILURE
        }
    }
}

fn serve(table: &DescriptorTable, control: &UnixStream) -> Result<(), Failure> {
    sanitise(table)?;
    let (StorageRequest { protocol_version, operation }, fds) =
        stream::receive_with(control, MAX_FRAME_BYTES).or_failure("receive the request")?;
    check_protocol(protocol_version)?;
    let mut fds = fds.into_iter();
    let missing = || failure("receive the directory", "there is none");
    let directory = fds.next().ok_or_else(missing)?;
    match fds.next() {
        Some(namespace) => id_namespace::enter(namespace)?,
        // What the tenant has locked away belongs to the daemon's own id then. Where there are no
        // user namespaces it stays locked.
        None => discard(id_namespace::enter_own(), "the files may be readable without"),
    }
    sandbox::confine_to_store(&directory, writes(&operation))?;
    let reply = match operation {
        StorageOperation::Prepare { uid, gid } => {
            owner::give(&directory, uid, gid).or_failure("give the directory to its id")?;
            StorageReply::Prepared
        }
        StorageOperation::Measure { max_inodes } => {
            let usage = measure::usage(&directory, max_inodes);
            StorageReply::Measured(usage.or_failure("measure the directory")?)
        }
        StorageOperation::Clear => {
            clear(&directory).or_failure("clear the directory")?;
            StorageReply::Cleared
        }
        StorageOperation::Seal(request) => StorageReply::Sealed(
            seal::seal(&directory, &request).map_err(|refusal| refusal.to_string()),
        ),
        StorageOperation::File(operation) => return serve_file(directory, operation, control),
    };
    answer(control, &reply)
}

fn answer(control: &UnixStream, reply: &StorageReply) -> Result<(), Failure> {
    stream::send(control, reply, MAX_FRAME_BYTES).or_failure("answer")
}

const fn writes(operation: &StorageOperation) -> bool {
    match operation {
        StorageOperation::Clear | StorageOperation::File(FileOperation::Delete { .. }) => true,
        StorageOperation::Prepare { .. }
        | StorageOperation::Measure { .. }
        | StorageOperation::Seal(_)
        | StorageOperation::File(_) => false,
    }
}

fn serve_file(
    directory: OwnedFd,
    operation: FileOperation,
    control: &UnixStream,
) -> Result<(), Failure> {
    let store = Workdir::of(directory);
    if let FileOperation::Read { path, offset, length } = operation {
        let socket = control.try_clone().or_failure("duplicate the socket")?;
        return match Download::start(&store, &path, offset, length, socket.into()) {
            Ok((download, reply)) => send_file(control, download, reply),
            Err(error) => answer(control, &StorageReply::File(Err(error.problem()))),
        };
    }
    let result = match operation {
        FileOperation::List { path, recursive, after, limit } => {
            Listing::start(&store, &path, recursive, after, limit).map(|mut listing| {
                loop {
                    if let Some(reply) = listing.step(&store, &[]) {
                        break reply;
                    }
                }
            })
        }
        FileOperation::Stat { path } => store.entry(&path).map(FileReply::Entry),
        FileOperation::Delete { path } => delete(&store, &path).map(|()| FileReply::Deleted),
        _ => return Err(failure("serve the request", "no operation on a home or volume")),
    };
    answer(control, &StorageReply::File(result.map_err(|error| error.problem())))
}

/// Sends the reply, then the content. The socket does not block from [`Download::start`] on.
fn send_file(
    control: &UnixStream,
    mut download: Download,
    reply: FileReply,
) -> Result<(), Failure> {
    answer(control, &StorageReply::File(Ok(reply)))?;
    while !download.step() {
        let mut fds = [PollFd::new(download.socket(), PollFlags::POLLOUT)];
        discard(poll(&mut fds, PollTimeout::NONE), "the next step finds out");
    }
    Ok(())
}

fn delete(store: &Workdir, path: &str) -> Result<(), FileError> {
    let mut deletion = Deletion::start(store, path)?;
    loop {
        if let Some(result) = deletion.step() {
            return result;
        }
    }
}

/// Removes all that is in it, and not the directory itself.
fn clear(directory: &OwnedFd) -> Result<(), FileError> {
    for name in files::names(directory)? {
        let mut deletion = Deletion::of(directory.try_clone()?, name);
        loop {
            match deletion.step() {
                None => {}
                Some(Ok(()) | Err(FileError::NotFound)) => break,
                Some(Err(error)) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
