//! Opening a log: verify what is there, cut a torn line, begin anew after a break.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::store::{self, Current, Directory};
use crate::verify::{Break, VerifyError, verify};
use crate::{BreakRecord, Event, Head, Previous, line};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("open the directory of the audit log {dir}", dir = dir.display())]
    Directory { dir: PathBuf, source: io::Error },
    #[error("another process writes the audit log in {dir}", dir = dir.display())]
    InUse { dir: PathBuf },
    #[error("verify the audit log in {dir}", dir = dir.display())]
    Verify { dir: PathBuf, source: VerifyError },
    #[error(
        "the chain of the audit log in {dir} is broken: {file}, line {line}: {reason} ({count} in all; \
         `vivarium audit verify` lists them): keep its files as evidence, and move them away to start \
         with a new log", dir = dir.display()
    )]
    Broken { dir: PathBuf, file: String, line: u64, reason: String, count: usize },
    #[error("write {file} of the audit log")]
    Write { file: String, source: io::Error },
    #[error("start the thread that writes the audit log")]
    Thread(#[source] io::Error),
}

/// A log that is ready to be written.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) dir: Directory,
    pub(crate) current: Current,
    pub(crate) head: Head,
    /// The complete files, and the last line of each.
    pub(crate) complete: Vec<(u64, Head)>,
    /// What was found, to be written first.
    pub(crate) notes: Vec<Event>,
    /// Breaks that nobody had found before.
    pub(crate) new_breaks: usize,
}

/// Opens a log. `is_strict` says whether a chain that is broken is refused.
pub(crate) fn open(path: &Path, is_strict: bool) -> Result<Opened, OpenError> {
    let dir = Directory::lock(path).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse { dir: path.to_owned() },
        _ => OpenError::Directory { dir: path.to_owned(), source },
    })?;
    let unverified = |source| OpenError::Verify { dir: path.to_owned(), source };
    let report = verify(path, &[]).map_err(unverified)?;
    let (known, new): (Vec<_>, Vec<_>) = report.breaks.iter().partition(|it| it.is_recorded);
    for Break { file, line, reason, .. } in known {
        tracing::warn!(file, line, reason, "the audit log has a break that is recorded");
    }
    let mut complete: Vec<_> =
        report.file_heads.iter().map(|(file, head)| (*file, *head)).collect();
    if let Some(first) = new.first() {
        for Break { file, line, reason, .. } in &new {
            tracing::error!(file, line, reason, "the chain of the audit log is broken");
        }
        if is_strict {
            return Err(OpenError::Broken {
                dir: path.to_owned(),
                file: first.file.clone(),
                line: first.line,
                reason: first.reason.clone(),
                count: new.len(),
            });
        }
        let new_breaks = new.len();
        let (current, head) = begin_anew(&dir, None)?;
        return Ok(Opened { dir, current, head, complete, notes: Vec::new(), new_breaks });
    }
    let (current, head) = match report.last_file {
        Some(number) if report.last_file_bytes > 0 => {
            let failed = |source| OpenError::Write { file: store::name(number), source };
            complete.retain(|(file, _)| *file != number);
            let current = Current::open(&dir, number, report.last_file_bytes).map_err(failed)?;
            (current, report.head.unwrap_or(Head::NONE))
        }
        last => {
            let number = last.unwrap_or(1);
            let failed = |source| OpenError::Write { file: store::name(number), source };
            let current = match last {
                Some(_) => Current::open(&dir, number, 0),
                None => Current::create(&dir, number),
            };
            let before = complete.last().map(|(file, head)| (*file, *head));
            begin(current.map_err(failed)?, before, Vec::new()).map_err(failed)?
        }
    };
    let notes = report.torn.map(|torn| {
        tracing::warn!(
            file = torn.file,
            bytes = torn.bytes,
            "a torn line of the audit log was cut"
        );
        Event::TornLineCut { file: torn.file, bytes: torn.bytes, sha256: torn.sha256 }
    });
    let notes = notes.into_iter().chain(report.unended.interrupted()).collect();
    Ok(Opened { dir, current, head, complete, notes, new_breaks: 0 })
}

/// Begins a chain in a new file, which records the breaks before, and `also`.
pub(crate) fn begin_anew(
    dir: &Directory,
    also: Option<BreakRecord>,
) -> Result<(Current, Head), OpenError> {
    let unverified = |source| OpenError::Verify { dir: dir.path.clone(), source };
    let files = store::list(&dir.path).map_err(|error| unverified(VerifyError::List(error)))?;
    let number = files.last().copied().unwrap_or(0) + 1;
    let failed = |source| OpenError::Write { file: store::name(number), source };
    // First: then what was the last file is judged like the others.
    let current = Current::create(dir, number).map_err(failed)?;
    let breaks = verify(&dir.path, &[]).map_err(unverified)?.breaks;
    let new = breaks.into_iter().filter(|it| !it.is_recorded);
    let record = |it: Break| BreakRecord { file: it.file, line: it.line, reason: it.reason };
    let broken = new.map(record).chain(also).collect();
    begin(current, None, broken).map_err(failed)
}

/// Writes the first line of a file.
pub(crate) fn begin(
    mut current: Current,
    before: Option<(u64, Head)>,
    broken: Vec<BreakRecord>,
) -> io::Result<(Current, Head)> {
    let previous = before.map(|(number, head)| Previous {
        file: store::name(number),
        seq: head.seq,
        head: head.hash,
    });
    let event = Event::FileOpened { file: store::name(current.number), previous, broken };
    let mut line = Vec::new();
    let head = before.map_or(Head::NONE, |(_, head)| head);
    let head = line::write(&mut line, head, Timestamp::now(), &event)?;
    current.append(&line)?;
    current.sync()?;
    Ok((current, head))
}
