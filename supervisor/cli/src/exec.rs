//! `vivarium exec`: runs code, or a command, in a session of a daemon.

use super::exit::{Exit, Failure};
use super::inputs::{CodeOptions, Inputs};
use super::invocation::{IfUnresponsive, Invocation};
use super::options::UrlOption;
use super::outcome::check_setup;
use super::target::{self, ExecutionRequest, Target};

/// What is run, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES, override_usage = "vivarium exec [OPTIONS] <SESSION> <FILE|-|-c CODE|--shell COMMAND|--argv PROGRAM> [ARGUMENTS]...")]
pub(super) struct Args {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A Python file, or - for standard input, and its arguments
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    rest: Vec<String>,
    /// Creates the session if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    url: UrlOption,
}

#[cfg(test)]
impl Args {
    pub(super) fn script(&self) -> &[String] {
        &self.rest
    }
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let Inputs { setup, request } = args.code.read(&args.rest)?;
    let output_dir = args.code.output_dir()?;
    let target = Target::Daemon(args.url.or_configured()?);
    target::block_on(async {
        let (session, mut create) = (args.session.as_str(), args.create);
        let mut setup_outcome = None;
        if let Some(setup) = setup {
            let outcome = target.execute(session, setup, create).await?;
            check_setup(&outcome)?;
            setup_outcome = Some(outcome);
            create = false;
        }
        if create && matches!(request, ExecutionRequest::Command(_)) {
            // The route of commands does not create sessions.
            target.find_or_create(session).await?;
            create = false;
        }
        let target = &target;
        let invocation = Invocation { target, session, request, create, setup: setup_outcome };
        invocation.perform(&args.code, output_dir, IfUnresponsive::Leave).await
    })
}
