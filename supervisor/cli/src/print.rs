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

/// Rows in aligned columns, those of numbers to the right; the first row is the heading.
pub(super) fn table(rows: &[Vec<String>], numbers: &[usize]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = " ".repeat(width(column).saturating_sub(cell.chars().count()));
            let (before, after) = if numbers.contains(&column) { (&*gap, "") } else { ("", &*gap) };
            line.extend([before, cell, after, "  "]);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let rows = [row("ID", "SIZE"), row("longer", "1")];
        assert_eq!(table(&rows, &[]), "ID      SIZE\nlonger  1\n");
        assert_eq!(table(&rows, &[1]), "ID      SIZE\nlonger     1\n");
    }
}
