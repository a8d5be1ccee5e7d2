//! Where log lines go and how they look. Nothing here may log what tenants' code or files hold.

use std::io::IsTerminal;

use nix::sys::stat::fstat;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::LogFormat;

/// The variable that says how much is logged.
const VARIABLE: &str = "VIVARIUM_LOG";

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The variable is no filter.
    #[error("{VARIABLE}: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The journal can not be reached.
    #[error("cannot reach the journal")]
    Journal(#[source] std::io::Error),
    /// There is a log already.
    #[error("cannot set up logging")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up logging to standard error: what `VIVARIUM_LOG` asks for, else what is at least of
/// `level`.
///
/// # Errors
/// Any [`LoggingError`].
pub fn init(format: LogFormat, level: &str) -> Result<(), LoggingError> {
    let filter = match std::env::var(VARIABLE) {
        Ok(filter) => EnvFilter::try_new(filter)?,
        Err(_) => EnvFilter::try_new(level)?,
    };
    let registry = tracing_subscriber::registry().with(filter);
    let stderr = std::io::stderr;
    match format {
        LogFormat::Auto if stderr_is_the_journal() => {
            let journal = tracing_journald::layer().map_err(LoggingError::Journal)?;
            registry.with(journal).try_init()?;
        }
        LogFormat::Json => {
            let json = tracing_subscriber::fmt::layer().json().flatten_event(true);
            registry.with(json.with_writer(stderr)).try_init()?;
        }
        LogFormat::Auto | LogFormat::Text => {
            let text = tracing_subscriber::fmt::layer().with_target(false);
            let ansi = stderr().is_terminal();
            registry.with(text.with_ansi(ansi).with_writer(stderr)).try_init()?;
        }
    }
    Ok(())
}

/// Whether systemd has connected standard error to the journal: `JOURNAL_STREAM` has its device
/// and inode (`systemd.exec(5)`), and stays set when somebody redirects it.
fn stderr_is_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(std::io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}
