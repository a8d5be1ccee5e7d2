//! `vivarium exec`: runs code in a session of a daemon.

use super::exit::{Exit, Failure};
use super::inputs::CodeOptions;
use super::interrupt::{self, OnStubborn};
use super::options::UrlOption;
use super::place::{self, Place};
use super::{inputs, outcome};
use crate::engine::types::ExecuteRequest;

/// What is run, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES, override_usage = "vivarium exec [OPTIONS] <SESSION> <FILE|-|-c CODE> [ARGUMENTS]...")]
pub(super) struct Args {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A Python file, or - for standard input, and arguments for it
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    rest: Vec<String>,
    /// Makes the session if there is none of this id
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    url: UrlOption,
}

#[cfg(test)]
impl Args {
    /// The script and its arguments.
    pub(super) fn script(&self) -> &[String] {
        &self.rest
    }
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let (code, arguments) = args.code.read(&args.rest)?;
    let mut create = args.create;
    let files = args.code.read_files()?;
    let timeout_ms = args.code.timeout_ms()?;
    let place = Place::Daemon(args.url.or_configured()?);
    place::runtime()?.block_on(async {
        if !arguments.is_empty() {
            let code = inputs::set_argv(&code, &arguments);
            let request = ExecuteRequest { code, ..ExecuteRequest::default() };
            place.execute(&args.session, request, create).await?;
            create = false;
        }
        let request = ExecuteRequest { code: code.text, timeout_ms, files, ..Default::default() };
        let execution = place.execute(&args.session, request, create);
        let outcome = interrupt::watch(&place, &args.session, OnStubborn::Leave, execution).await?;
        outcome::show(&outcome, &args.code)
    })
}
