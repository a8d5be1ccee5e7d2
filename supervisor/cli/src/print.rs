//! Standard output and standard error.

use std::io::{self, Write};

use serde::Serialize;

use super::exit::{Exit, Failure};
use super::terminal::{escape, escape_json};

pub(super) fn out(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| stdout_failure(&error))
}

/// The failure to write to standard output; a quiet success if the reader has gone.
pub(super) fn stdout_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::quiet(Exit::Ok),
        _ => Failure::says(Exit::Error, format!("cannot write to standard output: {error}")),
    }
}

/// Writes a value as indented JSON and a line end.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::says(Exit::Error, format!("cannot be shown as JSON: {error}")))?;
    out(format!("{}\n", escape_json(&text)).as_bytes())
}

/// Writes to standard error, and ignores that it is gone.
pub(super) fn err(bytes: &[u8]) {
    io::stderr().lock().write_all(bytes).unwrap_or_default();
}

/// Writes a line that begins with `vivarium:` to standard error.
pub(super) fn note(line: &str) {
    err(format!("vivarium: {}\n", escape(line)).as_bytes());
}

pub(super) fn failure(failure: &Failure) -> Exit {
    failure.message().lines().for_each(note);
    failure.exit()
}

/// Rows in aligned columns; the first row is the heading.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(cell);
            let gap = (width(column) + 2).saturating_sub(cell.chars().count());
            line.extend(std::iter::repeat_n(' ', gap));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Rounded up.
pub(super) fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(table(&[row("ID", "STATE"), row("longer", "x")]), "ID      STATE\nlonger  x\n");
    }
}
