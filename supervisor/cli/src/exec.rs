//! `vivarium exec`: runs code, or a command, in a session of a daemon.

use vivarium_api_types::SessionSpec;

use super::exit::{Exit, Failure};
use super::inputs::{CodeOptions, Inputs};
use super::invocation::{IfUnresponsive, Invocation};
use super::options::{SessionOptions, UrlOption};
use super::outcome::check_setup;
use super::target::{self, ExecutionRequest, Target};

const EXAMPLES: &str = "\
Examples:
  vivarium exec --create demo -c 'x = 6 * 7'
  vivarium exec --value demo -c x
  vivarium exec demo --argv ls -l";

/// What is run, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = super::examples_and_exit_codes(EXAMPLES), override_usage = "vivarium exec [OPTIONS] <SESSION> <FILE|-|-c CODE|--shell COMMAND|--argv PROGRAM> [ARGUMENTS]...")]
pub(super) struct Args {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A Python file, or - for standard input, and its arguments
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    rest: Vec<String>,
    /// Creates the session if it does not exist, with the options of a new one
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    url: UrlOption,
    #[command(flatten)]
    new_session: SessionOptions,
}

#[cfg(test)]
impl Args {
    pub(super) fn script(&self) -> &[String] {
        &self.rest
    }
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let spec = args.new_session.spec()?;
    let is_plain = spec == SessionSpec::default();
    if !is_plain && !args.create {
        let why = "--env, --network, --environment and limits are a new session's: add --create, \
                   which creates the session if there is none";
        return Err(Failure::says(Exit::Usage, why));
    }
    // The session goes on: its threads and exit functions do too.
    let Inputs { setup, request, end: _ } = args.code.read(&args.rest)?;
    let output_dir = args.code.output_dir()?;
    let target = Target::Daemon(args.url.or_configured()?);
    target::block_on(async {
        let (session, mut create) = (args.session.as_str(), args.create);
        let (mut setup_outcome, mut is_new) = (None, false);
        // The route of code creates sessions without options, that of commands none.
        if create && (!is_plain || matches!(request, ExecutionRequest::Command(_))) {
            (_, is_new) = target.find_or_create(session, spec).await?;
            create = false;
        }
        if let Some(setup) = setup {
            let outcome = target.execute(session, setup, create).await?;
            check_setup(&outcome)?;
            is_new |= outcome.session_created;
            setup_outcome = Some(outcome);
            create = false;
        }
        let invocation = Invocation {
            target: &target,
            session,
            request,
            create,
            is_new,
            setup: setup_outcome,
            end: None,
        };
        invocation.perform(&args.code, output_dir, IfUnresponsive::Leave).await
    })
}
