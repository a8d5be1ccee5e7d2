//! `vivarium bench`: runs the program `vivarium-bench`, which is not part of an installation.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::exit::{Exit, Failure};

/// Measures sessions, executions, streamed output and files on this host.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// Options of `vivarium-bench`; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let unavailable = |message| Failure::says(Exit::Unavailable, message);
    let own = std::env::current_exe()
        .map_err(|error| unavailable(format!("cannot find this program: {error}")))?;
    let program = own.with_file_name("vivarium-bench");
    let error = Command::new(&program).args(&args.options).exec();
    Err(unavailable(format!(
        "cannot run {}: {error}; in a checkout, `cargo build --release` makes it",
        program.display()
    )))
}
