//! Verifying a log: every line's hash, its number, and the hash of the line before.
//!
//! The verifier goes on after a break, with the next line that is whole, so that all breaks are told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::line::{self, MAX_LINE_BYTES, Parts};
use crate::unended::Unended;
use crate::{Hash, Head, store};

const EVENT: &[u8] = b"\"event\":\"";

/// The most breaks that are told.
const MAX_BREAKS: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("list the audit log")]
    List(#[source] io::Error),
    #[error("read {file} of the audit log")]
    Read { file: String, source: io::Error },
}

/// A line that is not the next of its chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Break {
    pub file: String,
    /// From 1; 0 stands for the beginning of the file.
    pub line: u64,
    pub reason: String,
    /// Whether a later line says that the chain was found to be broken here.
    pub is_recorded: bool,
}

/// What there is of the last line, if it has no end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Torn {
    pub file: String,
    pub bytes: u64,
    pub sha256: Hash,
}

/// What became of a log's verification.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub files: u64,
    pub lines: u64,
    /// Bytes of whole lines in the last file.
    #[serde(skip)]
    pub(crate) last_file_bytes: u64,
    #[serde(skip)]
    pub(crate) last_file: Option<u64>,
    /// The last line of each file.
    #[serde(skip)]
    pub(crate) file_heads: BTreeMap<u64, Head>,
    /// The number of the first line that is there.
    pub first_seq: Option<u64>,
    /// The last line.
    pub head: Option<Head>,
    pub breaks: Vec<Break>,
    /// Not a break: what kill -9 may leave. The next start cuts it and says so.
    pub torn: Option<Torn>,
    /// Events that could not be written, by what the log itself says.
    pub lost: u64,
    #[serde(skip)]
    pub(crate) unended: Unended,
    /// Of the heads that were asked for, those that no line has.
    pub missing_heads: Vec<Hash>,
}

impl Report {
    /// Whether nothing contradicts that this is what was written.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.breaks.is_empty() && self.missing_heads.is_empty()
    }
}

/// Verifies the log in a directory. `heads` are hashes that it has to have, such as the journal's.
///
/// # Errors
/// [`VerifyError`] if it cannot be read.
pub fn verify(dir: &Path, heads: &[Hash]) -> Result<Report, VerifyError> {
    let files = store::list(dir).map_err(VerifyError::List)?;
    let mut verifier = Verifier::new(heads);
    for (index, number) in files.iter().enumerate() {
        let name = store::name(*number);
        let error = |source| VerifyError::Read { file: name.clone(), source };
        let file = store::open_to_read(dir, *number).map_err(error)?;
        verifier.begin_file(*number);
        verifier.read(BufReader::with_capacity(256 << 10, file)).map_err(error)?;
        verifier.end_file(index + 1 == files.len());
    }
    Ok(verifier.finish())
}

/// The fields of the lines that speak of the log itself.
#[derive(Deserialize)]
struct OfTheLog {
    file: Option<String>,
    #[serde(default)]
    previous: Option<PreviousFile>,
    #[serde(default)]
    broken: Vec<BrokenLine>,
    head: Option<String>,
    lost: Option<u64>,
}

#[derive(Deserialize)]
struct PreviousFile {
    file: String,
    head: String,
}

#[derive(Deserialize)]
struct BrokenLine {
    file: String,
    line: u64,
    reason: String,
}

/// Verifies lines as they come.
#[derive(Debug, Default)]
pub struct Verifier {
    report: Report,
    wanted: BTreeSet<String>,
    /// The line before.
    head: Option<Head>,
    file: String,
    line: u64,
    /// The breaks that the log itself tells of, and why.
    recorded: BTreeMap<(String, u64), String>,
    /// Of the files that the log says were removed: their last hashes.
    removed: BTreeMap<String, String>,
    /// What the first file says came before it.
    before_first: Option<(String, String)>,
    partial: Vec<u8>,
}

impl Verifier {
    #[must_use]
    pub fn new(heads: &[Hash]) -> Self {
        Self { wanted: heads.iter().map(Hash::to_string).collect(), ..Self::default() }
    }

    /// What follows are the lines of this file.
    pub fn begin_file(&mut self, number: u64) {
        self.file = store::name(number);
        self.line = 0;
        self.report.files += 1;
        self.report.last_file = Some(number);
        self.report.last_file_bytes = 0;
    }

    /// Reads lines to the end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&mut self, mut from: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let taken = (&mut from).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
            if taken == 0 {
                return Ok(());
            }
            if line.last() == Some(&b'\n') {
                self.whole_line(&line);
            } else if taken == MAX_LINE_BYTES {
                self.line += 1;
                self.breaks("is longer than any line that is written");
                skip_line(&mut from)?;
            } else {
                self.partial = std::mem::take(&mut line);
                return Ok(());
            }
        }
    }

    /// The end of a file. What has no line feed is torn in the last file, and a break in another.
    pub fn end_file(&mut self, is_last: bool) {
        let partial = std::mem::take(&mut self.partial);
        if partial.is_empty() {
            return;
        }
        if is_last {
            self.report.torn = Some(Torn {
                file: self.file.clone(),
                bytes: partial.len() as u64,
                sha256: Hash::of(&partial),
            });
        } else {
            self.line += 1;
            self.breaks("is not whole, and not the last of the log");
        }
    }

    #[must_use]
    pub fn finish(mut self) -> Report {
        if let Some((file, head)) = self.before_first.take()
            && self.removed.get(&file) != Some(&head)
        {
            let reason = "is missing, and no line says that it was removed".to_owned();
            let missing = Break { file, line: 0, reason, is_recorded: false };
            self.report.breaks.insert(0, missing);
            self.report.breaks.truncate(MAX_BREAKS);
        }
        for found in &mut self.report.breaks {
            let recorded = self.recorded.remove(&(found.file.clone(), found.line));
            found.is_recorded = recorded.is_some();
        }
        // What cannot be seen any more, as the files are gone.
        let gone = self.recorded.into_iter();
        self.report.breaks.extend(gone.map(|((file, line), reason)| Break {
            file,
            line,
            reason,
            is_recorded: true,
        }));
        self.report.missing_heads =
            self.wanted.iter().filter_map(|head| head.parse().ok()).collect();
        self.report.head = self.head;
        self.report
    }

    fn whole_line(&mut self, bytes: &[u8]) {
        self.line += 1;
        self.report.last_file_bytes += bytes.len() as u64;
        let parts = match line::parse(bytes) {
            Ok(parts) => parts,
            Err(why) => {
                // What follows is judged by the line that was there.
                if let (Some(head), Some(hash)) = (&mut self.head, line::claimed_hash(bytes)) {
                    *head = Head { seq: head.seq + 1, hash };
                }
                return self.breaks(why);
            }
        };
        self.report.lines += 1;
        let of_the_log = self.of_the_log(bytes);
        self.links(&parts, of_the_log.as_ref());
        if let Some(said) = of_the_log {
            self.believe(said);
        }
        let head = Head { seq: parts.seq, hash: parts.hash };
        self.head = Some(head);
        self.report.file_heads.extend(self.report.last_file.map(|file| (file, head)));
        self.report.first_seq.get_or_insert(parts.seq);
        if !self.wanted.is_empty() {
            self.wanted.remove(&parts.hash.to_string());
        }
    }

    /// Whether a line follows the one before it.
    fn links(&mut self, parts: &Parts, said: Option<&OfTheLog>) {
        let opens = said.filter(|said| said.file.is_some() && said.head.is_none());
        let begins = opens.filter(|said| said.previous.is_none());
        let expected = match (self.head, begins) {
            // A chain begins: the log's first, or the one after a break, which then says where.
            (head, Some(said)) if self.line == 1 && (head.is_none() || !said.broken.is_empty()) => {
                Head::NONE
            }
            (Some(head), _) => head,
            // The files before are removed.
            (None, _) => {
                if let Some(PreviousFile { file, head }) = opens.and_then(|o| o.previous.as_ref())
                    && self.line == 1
                    && *head == parts.prev.to_string()
                {
                    self.before_first = Some((file.clone(), head.clone()));
                } else {
                    self.breaks("is not the first of a file, and nothing is before it");
                }
                return;
            }
        };
        if parts.prev != expected.hash {
            self.breaks("does not have the hash of the line before it");
        } else if parts.seq != expected.seq + 1 {
            self.breaks("does not have the next number");
        } else if self.line == 1 && opens.and_then(|said| said.file.as_ref()) != Some(&self.file) {
            self.breaks("is the first line, and does not name its file");
        }
    }

    /// The line, if it is one of those that speak of the log itself.
    fn of_the_log(&mut self, bytes: &[u8]) -> Option<OfTheLog> {
        // Its place is fixed: nothing that a client sends comes before it.
        let at = bytes.windows(EVENT.len()).position(|window| window == EVENT)?;
        let event = bytes.get(at + EVENT.len()..)?;
        self.report.unended.note(event, bytes);
        let is_one = ["file_opened\"", "file_removed\"", "gap\""];
        if !is_one.iter().any(|name| event.starts_with(name.as_bytes())) {
            return None;
        }
        serde_json::from_slice(bytes).ok()
    }

    fn believe(&mut self, said: OfTheLog) {
        self.report.lost += said.lost.unwrap_or(0);
        let broken = said.broken.into_iter();
        self.recorded.extend(broken.map(|it| ((it.file, it.line), it.reason)));
        if let (Some(file), Some(head)) = (said.file, said.head) {
            self.removed.insert(file, head);
        }
    }

    fn breaks(&mut self, why: &str) {
        if self.report.breaks.len() < MAX_BREAKS {
            self.report.breaks.push(Break {
                file: self.file.clone(),
                line: self.line,
                reason: why.to_owned(),
                is_recorded: false,
            });
        }
    }
}

fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = from.fill_buf()?;
        let (used, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        from.consume(used);
        if is_end {
            return Ok(());
        }
    }
}
