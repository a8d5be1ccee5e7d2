//! `vivarium run`: one session for one execution, in this process or in a daemon.

use vivarium_api_types::SessionSpec;

use super::artifacts::Folder;
use super::embedded::{self, Asked};
use super::exit::{Exit, Failure};
use super::inputs::{CodeOptions, Job};
use super::interrupt::OnStubborn;
use super::options::{ConfigOptions, SessionOptions, UrlOption};
use super::target::{self, Target};
use super::task::Task;
use super::{outcome, print};

/// What is run, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES, override_usage = "vivarium run [OPTIONS] <FILE|-|-c CODE|--shell COMMAND|--argv PROGRAM> [ARGUMENTS]...")]
pub(super) struct Args {
    /// A Python file, or - for standard input, and its arguments
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    rest: Vec<String>,
    #[command(flatten)]
    code: CodeOptions,
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    url: UrlOption,
    #[command(flatten)]
    config: ConfigOptions,
}

/// Everything read, so that nothing more is needed of who started us.
struct Plan {
    job: Job,
    folder: Option<Folder>,
    spec: SessionSpec,
}

/// Idle time of a session in a daemon, should we die before we delete it.
const ORPHAN_MS: u64 = 60_000;

#[cfg(test)]
impl Args {
    /// The script and its arguments.
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
    let job = args.code.read(&args.rest)?;
    let spec = args.session.spec()?;
    Ok(Plan { job, folder: args.code.folder()?, spec })
}

fn embedded(args: &Args, plan: Plan) -> Result<Exit, Failure> {
    let asked = Asked { network: plan.spec.network, timeout_ms: args.code.timeout_ms()? };
    let settings = embedded::prepare(&args.config, &asked, plan.folder.as_ref())?;
    target::block_on(embedded::with_engine(settings, async |target| {
        perform(&target, plan, &args.code).await
    }))
}

/// Runs the job in a session of its own.
async fn perform(target: &Target, plan: Plan, options: &CodeOptions) -> Result<Exit, Failure> {
    let Plan { job, folder, spec } = plan;
    let session = target.create(spec).await?;
    if !options.quiet
        && !options.json
        && let Some(line) = outcome::missing_layers(&session.protection)
    {
        print::note(&line);
    }
    if let Some(before) = job.before {
        target.execute(&session.id, before, false).await?;
    }
    let task = Task { target, session: &session.id, work: job.work, create: false, prepared: None };
    let ended = task.perform(options, folder, OnStubborn::Delete).await;
    if let Err(failure) = target.delete(&session.id).await {
        // It may be gone already; a daemon reaps it in any case.
        tracing::debug!(?failure, "the session was not deleted");
    }
    ended
}
