//! `vivarium run`: one session for one execution, in this process or in a daemon.

use vivarium_api_types::SessionSpec;

use super::embedded;
use super::exit::{Exit, Failure};
use super::inputs::{CodeOptions, CommandInput, Inputs};
use super::invocation::{IfUnresponsive, Invocation};
use super::options::{ConfigOptions, SessionOptions, UrlOption};
use super::output_dir::OutputDir;
use super::target::{self, Target};
use super::{outcome, print};

const EXAMPLES: &str = "\
Examples:
  vivarium run script.py argument
  vivarium run --file data.csv --output-dir out --outputs result.csv script.py
  vivarium run --max-memory-mb 512 --network none --timeout 30s -c 'print(6 * 7)'
  echo 'a,b' | vivarium run --shell 'wc -l'";

/// What is run, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = super::examples_and_exit_codes(EXAMPLES), override_usage = "vivarium run [OPTIONS] <FILE|-|-c CODE|--shell COMMAND|--argv PROGRAM> [ARGUMENTS]...")]
pub(super) struct Args {
    /// A Python file, or - for standard input, and its arguments
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    rest: Vec<String>,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    url: UrlOption,
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    config: ConfigOptions,
}

/// Everything that needed the rights of the user who started us.
struct Plan {
    inputs: Inputs,
    output_dir: Option<OutputDir>,
    spec: SessionSpec,
}

/// The idle timeout of a session in a daemon, in case this process dies before it deletes the
/// session.
const ORPHAN_MS: u64 = 60_000;

#[cfg(test)]
impl Args {
    pub(super) fn script(&self) -> &[String] {
        &self.rest
    }
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let mut plan = read(args)?;
    match args.url.named()? {
        Some(remote) => {
            args.config.sandbox.refuse_for(&remote)?;
            plan.spec.idle_timeout_ms = Some(ORPHAN_MS);
            target::block_on(perform(&Target::Daemon(remote), plan, &args.code))
        }
        None => embedded(args, plan),
    }
}

fn read(args: &Args) -> Result<Plan, Failure> {
    let inputs = args.code.read(&args.rest, CommandInput::Passed)?;
    let spec = SessionSpec { env: args.code.env.read()?, ..args.session.spec() };
    Ok(Plan { inputs, output_dir: args.code.output_dir()?, spec })
}

fn embedded(args: &Args, plan: Plan) -> Result<Exit, Failure> {
    let (config, timeout) = (&args.config, args.code.timeout);
    let settings = embedded::prepare(config, &plan.spec, timeout, plan.output_dir.as_ref())?;
    target::block_on(embedded::with_engine(settings, async |target| {
        perform(&target, plan, &args.code).await
    }))
}

async fn perform(target: &Target, plan: Plan, options: &CodeOptions) -> Result<Exit, Failure> {
    let Plan { inputs, output_dir, spec } = plan;
    let session = target.create(spec).await?;
    if !options.quiet
        && !options.json
        && let Some(line) = outcome::missing_layers(&session.protection)
    {
        print::note(&line);
    }
    let Inputs { setup, input, request, end } = inputs;
    let reader = input.start(target, &session.id).await?;
    if let Some(setup) = setup {
        let prepared = target.execute(&session.id, setup, false).await;
        prepared.and_then(|outcome| outcome::check_setup(&outcome))?;
    }
    let (create, is_new) = (false, true);
    let (session_id, setup) = (session.id.as_str(), None);
    let invocation =
        Invocation { target, session: session_id, request, create, is_new, setup, reader, end };
    let ended = invocation.perform(options, output_dir, IfUnresponsive::Delete).await;
    if let Err(failure) = target.delete(&session.id).await {
        // It may be gone already; a daemon deletes idle sessions in any case.
        tracing::debug!(?failure, "the session was not deleted");
    }
    ended
}
