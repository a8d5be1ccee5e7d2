//! `vivarium exec`: runs code, or a command, in a session of a daemon.

use super::exit::{Exit, Failure};
use super::inputs::CodeOptions;
use super::interrupt::OnStubborn;
use super::options::UrlOption;
use super::target::{self, Target};
use super::task::Task;
use super::work::Work;

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
    /// The script and its arguments.
    pub(super) fn script(&self) -> &[String] {
        &self.rest
    }
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let job = args.code.read(&args.rest)?;
    let folder = args.code.folder()?;
    let target = Target::Daemon(args.url.or_configured()?);
    target::block_on(async {
        let (mut create, mut prepared) = (args.create, None);
        if let Some(before) = job.before {
            prepared = Some(target.execute(&args.session, before, create).await?);
            create = false;
        }
        if create && matches!(job.work, Work::Command(_)) {
            // A command does not make its session.
            target.find_or_create(&args.session).await?;
            create = false;
        }
        let task =
            Task { target: &target, session: &args.session, work: job.work, create, prepared };
        task.perform(&args.code, folder, OnStubborn::Leave).await
    })
}
