//! Reading a log: all of it, or what a filter lets through, and what is added meanwhile.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use crate::line::MAX_LINE_BYTES;
use crate::store;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("list the audit log")]
    List(#[source] io::Error),
    #[error("read {file} of the audit log")]
    Read { file: String, source: io::Error },
}

/// Which lines are wanted. The default wants all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub tenant: Option<String>,
    pub session: Option<String>,
    /// Any of these; all if there are none.
    pub events: Vec<String>,
    pub since: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
    /// A text that the line has.
    pub text: Option<String>,
}

#[derive(Deserialize)]
struct Known<'a> {
    time: Timestamp,
    #[serde(borrow)]
    event: &'a str,
    tenant: Option<String>,
    session: Option<String>,
}

impl Filter {
    /// Whether a line is wanted. One that cannot be read is, unless something of it is asked for.
    #[must_use]
    pub fn wants(&self, line: &str) -> bool {
        if self.text.as_ref().is_some_and(|text| !line.contains(text.as_str())) {
            return false;
        }
        let Self { tenant, session, events, since, until, .. } = self;
        let of_fields = tenant.is_some() || session.is_some() || !events.is_empty();
        if !of_fields && since.is_none() && until.is_none() {
            return true;
        }
        let Ok(known) = serde_json::from_str::<Known<'_>>(line) else { return false };
        (tenant.is_none() || *tenant == known.tenant)
            && (session.is_none() || *session == known.session)
            && (events.is_empty() || events.iter().any(|event| event == known.event))
            && since.is_none_or(|since| known.time >= since)
            && until.is_none_or(|until| known.time < until)
    }
}

/// Calls `each` with every wanted line, without its line feed, from the oldest. It stops when `each`
/// returns `false`.
///
/// # Errors
/// [`ReadError`]
pub fn read(
    dir: &Path,
    filter: &Filter,
    mut each: impl FnMut(&str) -> bool,
) -> Result<(), ReadError> {
    Follow::new(dir).read(filter, &mut each).map(drop)
}

/// A place in a log, from which reading goes on when there is more.
#[derive(Debug)]
pub struct Follow {
    dir: PathBuf,
    file: Option<Reading>,
}

#[derive(Debug)]
struct Reading {
    number: u64,
    from: BufReader<File>,
    /// A line that has no end yet.
    partial: Vec<u8>,
}

impl Follow {
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), file: None }
    }

    /// Calls `each` with every wanted line that there is by now and was not read before; returns
    /// `false` if `each` did.
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn read(
        &mut self,
        filter: &Filter,
        mut each: impl FnMut(&str) -> bool,
    ) -> Result<bool, ReadError> {
        loop {
            if let Some(reading) = &mut self.file {
                let file = store::name(reading.number);
                let went_on = reading.lines(|line| !filter.wants(line) || each(line));
                if !went_on.map_err(|source| ReadError::Read { file, source })? {
                    return Ok(false);
                }
            }
            let after = self.file.as_ref().map_or(0, |reading| reading.number);
            let files = store::list(&self.dir).map_err(ReadError::List)?;
            let Some(number) = files.into_iter().find(|number| *number > after) else {
                return Ok(true);
            };
            let opened = store::open_to_read(&self.dir, number);
            let error = |source| ReadError::Read { file: store::name(number), source };
            let from = BufReader::with_capacity(256 << 10, opened.map_err(error)?);
            // What was written to the one before, between the last look at it and this.
            if let Some(reading) = &mut self.file {
                let went_on = reading.lines(|line| !filter.wants(line) || each(line));
                if !went_on.map_err(error)? {
                    return Ok(false);
                }
            }
            self.file = Some(Reading { number, from, partial: Vec::new() });
        }
    }
}

impl Reading {
    fn lines(&mut self, mut each: impl FnMut(&str) -> bool) -> io::Result<bool> {
        loop {
            let room = MAX_LINE_BYTES.saturating_sub(self.partial.len()) as u64;
            let taken = (&mut self.from).take(room).read_until(b'\n', &mut self.partial)?;
            if self.partial.last() == Some(&b'\n') {
                self.partial.pop();
                let line = String::from_utf8_lossy(&self.partial);
                let goes_on = each(&line);
                self.partial.clear();
                if !goes_on {
                    return Ok(false);
                }
            } else if self.partial.len() >= MAX_LINE_BYTES {
                // Nobody has written such a line here: it is read in parts.
                self.partial.clear();
            } else if taken == 0 {
                // Cut, as a torn line is: go on from the new end.
                let length = self.from.get_ref().metadata()?.size();
                if length < io::Seek::stream_position(&mut self.from)? {
                    self.partial.clear();
                    io::Seek::seek(&mut self.from, io::SeekFrom::Start(length))?;
                }
                return Ok(true);
            }
        }
    }
}
