//! Files of a session: what a client asked for is checked, and done by the agent.
//!
//! Checks here are for clear answers: the agent checks again, inside, where it counts. No path
//! of a session is ever opened by the supervisor.

use std::sync::Arc;

use jiff::Timestamp;
use vivarium_api_types::{FileChange, FileInfo, FileList, FilePage};
use vivarium_protocol::message::{
    FileEntry, FileKind, FileOperation, FileProblem, FileProblemKind, FileReply,
};
use vivarium_protocol::places::{Place, TMP};
use vivarium_protocol::units::Limit;

use super::request::roots;
use super::{Engine, EngineError};
use crate::descriptors;
use crate::media;
use crate::observe::Refusal;
use crate::session::transfer::{
    ArchiveDownload, Download, FileWatch, MAX_TRANSFERS, MAX_WATCHERS, TransferError, UploadWriter,
    Uploaded,
};
use crate::session::{Identity, Session};

/// The longest path, in bytes (`PATH_MAX`).
pub(super) const MAX_PATH_BYTES: usize = 4096;

/// The most entries in one part of a list.
pub(super) const MAX_FILE_PAGE: u32 = 1000;

/// What a path has to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Something in a root.
    Entry,
    /// Also a root itself.
    Directory,
}

/// A file or archive that is being sent to a session.
#[derive(Debug)]
pub struct Upload {
    writing: UploadWriter,
    path: String,
    session: String,
    /// Bytes it may still have, if it is a file.
    left: Option<u64>,
    max_file_size: Limit,
}

impl Upload {
    /// Where it goes, as answers name it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sends more, waiting for the session to take it.
    /// On an error nothing is written.
    pub async fn send(mut self, data: &[u8]) -> Result<Self, EngineError> {
        if let Some(left) = &mut self.left {
            let max_mb = self.max_file_size;
            let too_large = EngineError::FileTooLarge { max_mb };
            *left = left.checked_sub(data.len() as u64).ok_or(too_large)?;
        }
        match self.writing.send(data).await {
            Ok(writing) => Ok(Self { writing, ..self }),
            Err(error) => Err(explain(error, &self.session, &self.path)),
        }
    }

    /// Says that this was all. Returns when it is in its place.
    /// On an error no file is written, and of an archive what was unpacked before.
    pub async fn finish(self) -> Result<Uploaded, EngineError> {
        let written = self.writing.finish().await;
        written.map_err(|error| explain(error, &self.session, &self.path))
    }
}

impl Engine {
    pub async fn list_files(
        &self,
        tenant: &str,
        id: &str,
        page: FilePage,
    ) -> Result<FileList, EngineError> {
        let session = self.find(tenant, id)?;
        let FilePage { path, recursive, after, limit } = page;
        if !(1..=MAX_FILE_PAGE).contains(&limit) {
            return Err(EngineError::invalid("limit", format!("it is 1 to {MAX_FILE_PAGE}")));
        }
        let path = self.place(&path, Wanted::Directory)?;
        let after = after.unwrap_or_default();
        if after.len() > MAX_PATH_BYTES || after.contains('\0') {
            return Err(EngineError::invalid("after", "it is the next of the part before"));
        }
        let operation = FileOperation::List { path: path.clone(), recursive, after, limit };
        let listed = session.list_files(&self.inner.transfers, operation).await;
        let (entries, more) = listed.map_err(|error| self.refuse(tenant, id, &path, error))?;
        let next = if more { entries.last().map(|entry| entry.path.clone()) } else { None };
        Ok(FileList { entries: entries.into_iter().map(info).collect(), next })
    }

    /// What is at a path, a link not followed.
    pub async fn stat_file(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
    ) -> Result<FileInfo, EngineError> {
        let path = self.place(path, Wanted::Directory)?;
        let operation = FileOperation::Stat { path: path.clone() };
        self.entry(tenant, id, &path, operation).await
    }

    /// Makes a directory, and those it lies in. Returns its path, and whether it is new.
    pub async fn make_directory(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
    ) -> Result<(String, bool), EngineError> {
        self.check_open(tenant)?;
        let session = self.awake(tenant, id).await?;
        let path = self.place(path, Wanted::Entry)?;
        let operation = FileOperation::MakeDirectory { path: path.clone() };
        match session.operate(&self.inner.transfers, operation).await {
            Ok(FileReply::DirectoryMade { new }) => Ok((path, new)),
            Ok(_) => Err(explain(TransferError::OutOfTurn, id, &path)),
            Err(error) => Err(self.refuse(tenant, id, &path, error)),
        }
    }

    /// Moves what is at a path, or changes its permissions, or both.
    pub async fn change_file(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
        change: FileChange,
    ) -> Result<FileInfo, EngineError> {
        self.check_open(tenant)?;
        let awake = self.awake(tenant, id).await?;
        let FileChange { move_to, replace, mode } = change;
        let mode = mode.map(|mode| permissions(&mode)).transpose()?;
        let path = self.place(path, Wanted::Entry)?;
        let to = move_to.map(|to| self.place(&to, Wanted::Entry)).transpose()?;
        if to.is_none() && mode.is_none() {
            let reason = "give move_to, mode or both";
            return Err(EngineError::Missing { field: "move_to", reason });
        }
        let mut changed = None;
        if let Some(mode) = mode {
            let operation = FileOperation::SetMode { path: path.clone(), mode };
            changed = Some(self.entry(tenant, id, &path, operation).await?);
        }
        let changed = match (to, changed) {
            (None, Some(changed)) => Ok(changed),
            (to, _) => {
                let to = to.unwrap_or_default();
                let operation = FileOperation::Move { path: path.clone(), to, replace };
                self.entry(tenant, id, &path, operation).await
            }
        };
        drop(awake);
        changed
    }

    /// An operation that is answered by an entry.
    async fn entry(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
        operation: FileOperation,
    ) -> Result<FileInfo, EngineError> {
        let session = self.find(tenant, id)?;
        match session.operate(&self.inner.transfers, operation).await {
            Ok(FileReply::Entry(entry)) => Ok(info(entry)),
            Ok(_) => Err(explain(TransferError::OutOfTurn, id, path)),
            Err(error) => Err(self.refuse(tenant, id, path, error)),
        }
    }

    /// Opens a file of a session, or `length` bytes of it from `offset` on.
    pub async fn read_file(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Download, EngineError> {
        let session = self.find(tenant, id)?;
        let path = self.place(path, Wanted::Directory)?;
        if is_root(&path) {
            let detail = "it is a directory".to_owned();
            return Err(EngineError::NotAFile { path, detail });
        }
        let reading = session.read_file(&self.inner.transfers, path.clone(), offset, length).await;
        reading.map_err(|error| self.refuse(tenant, id, &path, error))
    }

    /// Opens a directory of a session as a tar archive.
    pub async fn read_archive(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
    ) -> Result<ArchiveDownload, EngineError> {
        let session = self.find(tenant, id)?;
        let path = self.place(path, Wanted::Directory)?;
        let reading = session.read_archive(&self.inner.transfers, path.clone()).await;
        reading.map_err(|error| self.refuse(tenant, id, &path, error))
    }

    /// Watches a directory of a session.
    pub async fn watch_files(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
        recursive: bool,
    ) -> Result<FileWatch, EngineError> {
        self.check_open(tenant)?;
        let session = self.find(tenant, id)?;
        let path = self.place(path, Wanted::Directory)?;
        let watching = session.watch(&self.inner.watchers, path.clone(), recursive).await;
        watching.map_err(|error| match self.refuse(tenant, id, &path, error) {
            EngineError::TooManyTransfers { .. } => {
                EngineError::TooManyTransfers { max: MAX_WATCHERS }
            }
            other => other,
        })
    }

    /// Begins to write a file of a session, of so many bytes where that is known. It is there,
    /// or changed, when [`Upload::finish`] returns, and until then not at all.
    pub async fn write_file(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
        announced_bytes: Option<u64>,
    ) -> Result<Upload, EngineError> {
        self.check_open(tenant)?;
        let session = self.awake(tenant, id).await?;
        let path = self.place(path, Wanted::Entry)?;
        let max_file_size = session.limits().max_file_size_mb;
        let left = max_file_size.get().map(|mb| mb.saturating_mul(1 << 20));
        if left.zip(announced_bytes).is_some_and(|(left, announced)| announced > left) {
            return Err(EngineError::FileTooLarge { max_mb: max_file_size });
        }
        let operation = FileOperation::Write { path: path.clone() };
        self.upload(&session, operation, path, left).await
    }

    /// Begins to unpack a tar archive into a directory of a session, the workdir if empty.
    pub async fn unpack_files(
        &self,
        tenant: &str,
        id: &str,
        path: &str,
    ) -> Result<Upload, EngineError> {
        self.check_open(tenant)?;
        let session = self.awake(tenant, id).await?;
        let path = self.place(path, Wanted::Directory)?;
        let operation = FileOperation::Unpack { path: path.clone() };
        self.upload(&session, operation, path, None).await
    }

    /// Removes a file, a link, or a directory with all that is in it.
    pub async fn delete_file(&self, tenant: &str, id: &str, path: &str) -> Result<(), EngineError> {
        self.check_open(tenant)?;
        let session = self.awake(tenant, id).await?;
        let path = self.place(path, Wanted::Entry)?;
        let deleted = session.delete_file(&self.inner.transfers, path.clone()).await;
        deleted.map_err(|error| self.refuse(tenant, id, &path, error))
    }

    async fn upload(
        &self,
        session: &Arc<Session>,
        operation: FileOperation,
        path: String,
        left: Option<u64>,
    ) -> Result<Upload, EngineError> {
        let Identity { id, tenant, .. } = &session.identity;
        let writing = session.write_file(&self.inner.transfers, operation).await;
        Ok(Upload {
            writing: writing.map_err(|error| self.refuse(tenant, id, &path, error))?,
            path,
            session: id.clone(),
            left,
            max_file_size: session.limits().max_file_size_mb,
        })
    }

    /// The one name of what `path` names, if it may be there.
    fn place(&self, path: &str, wanted: Wanted) -> Result<String, EngineError> {
        let bad = |reason: String| EngineError::BadPath { path: path.to_owned(), reason };
        if path.len() > MAX_PATH_BYTES {
            return Err(bad(format!("it is over {MAX_PATH_BYTES} bytes")));
        }
        if path.contains('\0') {
            return Err(bad("it has a NUL".to_owned()));
        }
        let settings = self.settings();
        let workdir = &settings.sandbox.workdir;
        let place = Place::of(path, workdir).ok_or_else(|| bad(roots(workdir)))?;
        let is_root = place.path.is_empty();
        if is_root && wanted == Wanted::Entry {
            return Err(bad("it names no file".to_owned()));
        }
        if !is_root && place.path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad("a path has no empty part, \".\" or \"..\"".to_owned()));
        }
        Ok(place.name())
    }

    fn refuse(&self, tenant: &str, id: &str, path: &str, error: TransferError) -> EngineError {
        if matches!(error, TransferError::TooMany) {
            self.observer(tenant).refused(Refusal::TooManyTransfers);
        }
        explain(error, id, path)
    }
}

/// Whether the name of a place is that of a root.
fn is_root(name: &str) -> bool {
    name.is_empty() || name == TMP
}

/// Permission bits, from the octal digits of chmod(1).
fn permissions(text: &str) -> Result<u32, EngineError> {
    let is_octal =
        (3..=4).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| EngineError::invalid("mode", "it is octal, \"0000\" to \"0777\""))
}

pub(super) fn info(entry: FileEntry) -> FileInfo {
    let FileEntry { path, kind, size_bytes, modified_ms, mode } = entry;
    let mime_type = (kind == FileKind::File).then(|| media::of_name(&path).to_owned());
    // The session can set any time; one that is none is that of the epoch.
    let modified_at = Timestamp::from_millisecond(modified_ms).unwrap_or_default();
    FileInfo { path, kind, size_bytes, modified_at, mode: format!("{mode:04o}"), mime_type }
}

fn explain(error: TransferError, session: &str, path: &str) -> EngineError {
    match error {
        TransferError::TooMany => EngineError::TooManyTransfers { max: MAX_TRANSFERS },
        TransferError::Over => EngineError::UnknownSession(session.to_owned()),
        TransferError::Suspended => EngineError::Suspended(session.to_owned()),
        TransferError::Refused(problem) => refusal(problem, path),
        TransferError::Socket(error) if descriptors::are_exhausted(&error) => {
            EngineError::NoDescriptors
        }
        TransferError::OutOfTurn | TransferError::Socket(_) => {
            EngineError::Internal(error.to_string())
        }
    }
}

/// A program's refusal of an operation on files, in the engine's words.
pub(super) fn refusal(FileProblem { kind, detail }: FileProblem, path: &str) -> EngineError {
    let path = path.to_owned();
    match kind {
        FileProblemKind::Path => EngineError::BadPath { path, reason: detail },
        FileProblemKind::NotFound => EngineError::UnknownFile(path),
        FileProblemKind::Kind => EngineError::NotAFile { path, detail },
        FileProblemKind::NoSpace => EngineError::NoSpace { path, detail },
        FileProblemKind::Archive => EngineError::BadArchive(detail),
        FileProblemKind::Aborted => EngineError::TooManyTransfers { max: MAX_TRANSFERS },
        FileProblemKind::Io => EngineError::FileRefused { path, detail },
        FileProblemKind::Exists => EngineError::FileExists { path, detail },
    }
}
