//! `vivarium audit`: the log of this host's daemon, read from its files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use vivarium_audit::{Filter, Follow, Hash, Report, csv, read, verify};

use super::exit::{Exit, Failure};
use super::options::ConfigOptions;
use super::print;

/// How often `tail --follow` looks for new lines.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What to do with the audit log.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Verifies every line; exit code 1 if the log is not what was written.
    Verify(VerifyArgs),
    /// Prints the last lines.
    Tail(TailArgs),
    /// Prints the lines that have a text.
    Grep(GrepArgs),
    /// Prints lines as a JSON array or as CSV.
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(super) struct LogOption {
    /// The log's directory [default: audit.dir of the configuration]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium audit verify
  vivarium audit verify --dir /srv/copy-of-the-log --json")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    log: LogOption,
    /// A hash that the log must have, such as the last in the journal; repeatable
    #[arg(long, value_name = "HASH")]
    head: Vec<Hash>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct FilterOptions {
    /// Only lines of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only lines of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only these events, such as execution_ended; repeatable
    #[arg(long, value_name = "EVENT")]
    event: Vec<String>,
    /// Only lines since this time: RFC 3339, or how long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Only lines before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(super) struct TailArgs {
    #[command(flatten)]
    log: LogOption,
    #[command(flatten)]
    filter: FilterOptions,
    /// How many lines
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 10)]
    lines: usize,
    /// Prints new lines as they are written
    #[arg(short, long)]
    follow: bool,
}

#[derive(Debug, Args)]
pub(super) struct GrepArgs {
    /// The text, as it stands in the line
    #[arg(value_name = "TEXT")]
    text: String,
    #[command(flatten)]
    log: LogOption,
    #[command(flatten)]
    filter: FilterOptions,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    log: LogOption,
    #[command(flatten)]
    filter: FilterOptions,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Csv,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Verify(args) => check(args),
        Command::Tail(args) => tail(args),
        Command::Grep(args) => {
            let filter = Filter { text: Some(args.text.clone()), ..args.filter.filter() };
            each(&args.log.dir()?, &filter, |line| print::out(format!("{line}\n").as_bytes()))
        }
        Command::Export(args) => export(args),
    }
}

impl LogOption {
    fn dir(&self) -> Result<PathBuf, Failure> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        let config = std::env::var_os("VIVARIUM_CONFIG").map(PathBuf::from);
        let options = ConfigOptions { config, ..ConfigOptions::default() };
        options.load(&[])?.settings.audit.dir.ok_or_else(|| {
            Failure::says(Exit::Usage, "no audit log is configured: name its directory with --dir")
        })
    }
}

impl FilterOptions {
    fn filter(&self) -> Filter {
        Filter {
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            events: self.event.clone(),
            since: self.since,
            until: self.until,
            text: None,
        }
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago: SignedDuration =
        text.parse().map_err(|_| "neither an RFC 3339 time nor a duration".to_owned())?;
    Timestamp::now().checked_sub(ago).map_err(|error| error.to_string())
}

fn check(args: &VerifyArgs) -> Result<Exit, Failure> {
    let dir = args.log.dir()?;
    let report = verify(&dir, &args.head).map_err(|error| Failure::new(Exit::Error, &error))?;
    // Also what is left of a log whose files were all deleted.
    if report.files == 0 {
        let why = format!("{}: there is no audit log here", dir.display());
        return Err(Failure::says(Exit::Error, why));
    }
    if args.json {
        print::json(&report)?;
    } else {
        print::out(describe(&report).as_bytes())?;
    }
    Ok(if report.is_intact() { Exit::Ok } else { Exit::Error })
}

fn describe(report: &Report) -> String {
    let mut lines = vec![format!("{} lines in {} files", report.lines, report.files)];
    if let Some(head) = report.head {
        lines.push(format!("head: line {}, {}", head.seq, head.hash));
    }
    if let Some(first) = report.first_seq.filter(|first| *first > 1) {
        lines.push(format!("begins with line {first}: older files were removed by rotation"));
    }
    for found in &report.breaks {
        let recorded = if found.is_recorded { ", which the log records" } else { "" };
        lines.push(format!(
            "BROKEN at {}, line {}: {}{recorded}",
            found.file, found.line, found.reason
        ));
    }
    for head in &report.missing_heads {
        lines.push(format!("BROKEN: no line has the hash {head}"));
    }
    if let Some(torn) = &report.torn {
        let (file, bytes) = (&torn.file, torn.bytes);
        lines.push(format!(
            "{file} ends with {bytes} bytes of a line: one is being written, or the daemon was killed"
        ));
    }
    if report.lost > 0 {
        lines.push(format!("{} events are missing: the log could not be written", report.lost));
    }
    lines.push(if report.is_intact() { "intact\n" } else { "NOT intact\n" }.to_owned());
    lines.join("\n")
}

/// Does something with each wanted line, until that fails.
fn each(
    dir: &Path,
    filter: &Filter,
    mut print: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut failed = None;
    let done = read(dir, filter, |line| {
        failed = print(line).err();
        failed.is_none()
    });
    done.map_err(|error| Failure::new(Exit::Error, &error))?;
    failed.map_or(Ok(Exit::Ok), Err)
}

fn tail(args: &TailArgs) -> Result<Exit, Failure> {
    let filter = args.filter.filter();
    let mut follow = Follow::new(&args.log.dir()?);
    let mut last = VecDeque::new();
    let error = |error| Failure::new(Exit::Error, &error);
    let keep = |line: &str| {
        last.push_back(line.to_owned());
        if last.len() > args.lines {
            last.pop_front();
        }
        true
    };
    follow.read(&filter, keep).map_err(error)?;
    for line in last {
        print::out(format!("{line}\n").as_bytes())?;
    }
    if args.follow {
        return keep_following(&mut follow, &filter);
    }
    Ok(Exit::Ok)
}

fn keep_following(follow: &mut Follow, filter: &Filter) -> Result<Exit, Failure> {
    loop {
        #[expect(
            clippy::disallowed_methods,
            reason = "files grow without an event that all filesystems have"
        )]
        sleep(LOOK_EVERY);
        let mut failed = None;
        let print = |line: &str| {
            failed = print::out(format!("{line}\n").as_bytes()).err();
            failed.is_none()
        };
        follow.read(filter, print).map_err(|error| Failure::new(Exit::Error, &error))?;
        if let Some(failure) = failed {
            return Err(failure);
        }
    }
}

fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let (dir, filter) = (args.log.dir()?, args.filter.filter());
    if args.format == Format::Csv {
        print::out(format!("{}\r\n", csv(None).unwrap_or_default()).as_bytes())?;
        return each(&dir, &filter, |line| match csv(Some(line)) {
            Some(row) => print::out(format!("{row}\r\n").as_bytes()),
            None => Ok(()),
        });
    }
    let mut before = "[\n";
    let exit = each(&dir, &filter, |line| {
        let text = format!("{before}{line}");
        before = ",\n";
        print::out(text.as_bytes())
    })?;
    print::out(if before == "[\n" { "[]\n" } else { "\n]\n" }.as_bytes())?;
    Ok(exit)
}
