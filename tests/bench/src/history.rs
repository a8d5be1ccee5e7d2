//! The history of the bars: a file of JSON lines, one for each run.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::{Bar, Machine, Report};

/// A line of the file.
#[derive(Debug, Serialize)]
struct Run<'a> {
    /// When the run ended: RFC 3339, UTC.
    at: Timestamp,
    /// What was measured: a version, a tag, a commit.
    version: &'a str,
    machine: &'a Machine,
    bars: &'a [Bar],
    /// The scenarios that failed, whose bars are missing.
    failures: Vec<&'a str>,
}

/// Appends the bars of a run to a file, which is made if it is not there.
pub fn append(path: &Path, version: &str, report: &Report) -> io::Result<()> {
    let run = Run {
        at: Timestamp::now(),
        version,
        machine: &report.machine,
        bars: &report.bars,
        failures: report.failures.iter().map(|failure| &*failure.scenario).collect(),
    };
    let line = serde_json::to_string(&run)? + "\n";
    // One write: two runs at a time leave two whole lines.
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_run_is_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut report = Report::new(Machine { cpus: 2, ..Machine::unknown() });
        report.bars = vec![Bar::at_most("x\ny", 1.0, 2.0, "times")];
        append(file.path(), "1.0.0", &report).unwrap();
        report.bars.clear();
        append(file.path(), "1.1.0-3-gabc", &report).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told: Vec<_> = lines
            .iter()
            .map(|line| (&line["version"], line["bars"].as_array().unwrap().len()))
            .collect();
        assert_eq!(told, [(&json!("1.0.0"), 1), (&json!("1.1.0-3-gabc"), 0)]);
        assert_eq!(lines[0]["bars"][0]["found"], 1.0);
        assert_eq!(lines[0]["machine"]["cpus"], 2);
        assert!(lines[1]["at"].as_str().unwrap().parse::<Timestamp>().is_ok());
    }
}
