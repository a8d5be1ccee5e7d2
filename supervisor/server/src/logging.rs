//! Where log lines go and how they look. Nothing here may log what tenants' code or files hold.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::stat::fstat;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use vivarium_engine::settings::LogFormat;

mod journal;
mod lines;

use journal::Journal;
use lines::Lines;

/// The variable with the log filter.
const VARIABLE: &str = "VIVARIUM_LOG";

/// How long [`flush`] waits.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

static LINES: OnceLock<Lines> = OnceLock::new();

#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("{VARIABLE}: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("cannot reach the journal")]
    Journal(#[source] std::io::Error),
    #[error("cannot start writing the log")]
    Thread(#[source] std::io::Error),
    #[error("cannot set up logging")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up logging to standard error or the journal, with the filter in `VIVARIUM_LOG` or else of
/// `level` and above.
///
/// # Errors
/// Any [`LoggingError`].
pub fn init(format: LogFormat, level: &str) -> Result<(), LoggingError> {
    let filter = match std::env::var(VARIABLE) {
        Ok(filter) => EnvFilter::try_new(filter)?,
        Err(_) => EnvFilter::try_new(level)?,
    };
    let registry = tracing_subscriber::registry().with(filter);
    let is_json = format == LogFormat::Json;
    let keep = |started: std::io::Result<Lines>| -> Result<Lines, LoggingError> {
        let lines = started.map_err(LoggingError::Thread)?;
        Ok(LINES.get_or_init(|| lines).clone())
    };
    let start = || keep(Lines::start(std::io::stderr(), move |dropped| note(is_json, dropped)));
    match format {
        LogFormat::Auto if stderr_is_the_journal() => {
            let sender = journal::Sender::new(journal::SOCKET).map_err(LoggingError::Journal)?;
            let note = |dropped| journal::warning(&missing(dropped, "journald"));
            registry.with(Journal(keep(Lines::start(sender, note))?)).try_init()?;
        }
        LogFormat::Json => {
            let json = tracing_subscriber::fmt::layer().json().flatten_event(true);
            registry.with(json.with_writer(start()?)).try_init()?;
        }
        LogFormat::Auto | LogFormat::Text => {
            let text = tracing_subscriber::fmt::layer().with_target(false);
            let ansi = std::io::stderr().is_terminal();
            registry.with(text.with_ansi(ansi).with_writer(start()?)).try_init()?;
        }
    }
    Ok(())
}

fn missing(dropped: u64, reader: &str) -> String {
    format!("{dropped} log lines were dropped: {reader} took no more")
}

/// The line that reports dropped lines.
fn note(is_json: bool, dropped: u64) -> Vec<u8> {
    let now = jiff::Timestamp::now();
    let message = missing(dropped, "standard error");
    let line = if is_json {
        format!("{{\"timestamp\":\"{now}\",\"level\":\"WARN\",\"message\":\"{message}\"}}\n")
    } else {
        format!("{now}  WARN {message}\n")
    };
    line.into_bytes()
}

/// Waits a moment for all lines to be written, at the start and the end of the program.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(FLUSH_WITHIN);
    }
}

/// The number of lines dropped because nobody read them.
#[must_use]
pub fn dropped() -> u64 {
    LINES.get().map_or(0, Lines::dropped)
}

/// Whether systemd has connected standard error to the journal: `JOURNAL_STREAM` has its device
/// and inode (`systemd.exec(5)`), and stays set when somebody redirects it.
fn stderr_is_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(std::io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}
