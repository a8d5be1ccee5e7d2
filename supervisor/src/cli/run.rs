//! `vivarium run`: one session for one execution, in this process or in a daemon.

use std::sync::Arc;
use std::time::Duration;

use vivarium_protocol::policy::Network;
use vivarium_protocol::units::Limit;

use super::exit::{Exit, Failure};
use super::inputs::{self, Code, CodeOptions};
use super::interrupt::{self, OnStubborn};
use super::options::{ConfigOptions, UrlOption};
use super::place::{self, Place};
use super::{outcome, print};
use crate::engine::Engine;
use crate::engine::types::{ExecuteRequest, FileSpec, SessionSpec};
use crate::logging;
use crate::privilege::{self, Purpose};

/// What is run, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES, override_usage = "vivarium run [OPTIONS] <FILE|-|-c CODE> [ARGUMENTS]...")]
pub(super) struct Args {
    /// A Python file, or - for standard input, and arguments for it
    #[arg(value_name = "FILE", trailing_var_arg = true)]
    rest: Vec<String>,
    #[command(flatten)]
    code: CodeOptions,
    /// What the code can reach: none, loopback or full
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// Which configured environment
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Gives the code a variable; can be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    #[command(flatten)]
    url: UrlOption,
    #[command(flatten)]
    config: ConfigOptions,
}

/// Everything read, so that nothing more is needed of who started us.
struct Job {
    code: Code,
    arguments: Vec<String>,
    files: Vec<FileSpec>,
    timeout_ms: Option<u64>,
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
    let job = read(args)?;
    match args.url.named()? {
        Some(remote) => {
            let mut job = job;
            if let Some(flag) = args.config.sandbox.first_given() {
                return Err(Failure::says(
                    Exit::Usage,
                    format!(
                        "{flag} configures an embedded sandbox, and {} has its own",
                        remote.url
                    ),
                ));
            }
            job.spec.idle_timeout_ms = Some(ORPHAN_MS);
            place::runtime()?.block_on(perform(&Place::Daemon(remote), job, &args.code))
        }
        None => embedded(args, job),
    }
}

fn read(args: &Args) -> Result<Job, Failure> {
    let (code, arguments) = args.code.read(&args.rest)?;
    let mut spec = SessionSpec { environment: args.environment.clone(), ..SessionSpec::default() };
    spec.network = args.network.as_deref().map(network).transpose()?;
    for pair in &args.env {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Failure::says(Exit::Usage, format!("--env {pair}: give NAME=VALUE")));
        };
        spec.env.insert(name.to_owned(), value.to_owned());
    }
    let files = args.code.read_files()?;
    Ok(Job { code, arguments, files, timeout_ms: args.code.timeout_ms()?, spec })
}

fn network(text: &str) -> Result<Network, Failure> {
    match text {
        "none" => Ok(Network::None),
        "loopback" => Ok(Network::Loopback),
        "full" => Ok(Network::Full),
        "trusted" => {
            Err(Failure::says(Exit::Usage, "--network trusted comes with a later version"))
        }
        _ => Err(Failure::says(Exit::Usage, format!("--network {text}: none, loopback or full"))),
    }
}

fn embedded(args: &Args, job: Job) -> Result<Exit, Failure> {
    let mut settings = args.config.load(&[])?.settings;
    // Who starts an embedded sandbox is its operator: what they ask for is allowed, and one
    // execution may take as long as they say.
    if let Some(network) = job.spec.network
        && !settings.sandbox.allowed_networks.contains(&network)
    {
        settings.sandbox.allowed_networks.push(network);
    }
    if let Some(timeout_ms) = job.timeout_ms {
        let asked = Duration::from_millis(timeout_ms);
        settings.session.max_exec_timeout = settings.session.max_exec_timeout.max(asked);
    }
    settings.session.max_sessions = Limit::Unlimited;
    logging::init(settings.server.log_format, "error")
        .map_err(|error| Failure::new(Exit::Usage, &error))?;
    privilege::prepare(&mut settings, Purpose::OneShot)
        .map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    place::runtime()?.block_on(async {
        let engine = Engine::start(Arc::new(settings))
            .await
            .map_err(|error| Failure::new(Exit::Unavailable, &error))?;
        let place = Place::Embedded(engine.clone());
        let exit = perform(&place, job, &args.code).await;
        engine.shutdown(Duration::ZERO).await;
        exit
    })
}

/// Runs the job in a session of its own.
async fn perform(place: &Place, job: Job, options: &CodeOptions) -> Result<Exit, Failure> {
    let Job { code, arguments, files, timeout_ms, spec } = job;
    let session = place.create(spec).await?;
    if !options.quiet
        && !options.json
        && let Some(line) = outcome::missing_layers(&session.protection)
    {
        print::note(&line);
    }
    if !arguments.is_empty() || code.name != "-c" {
        let code = inputs::set_argv(&code, &arguments);
        let request = ExecuteRequest { code, ..ExecuteRequest::default() };
        place.execute(&session.id, request, false).await?;
    }
    let request = ExecuteRequest { code: code.text, timeout_ms, files, ..Default::default() };
    let execution = place.execute(&session.id, request, false);
    let ended = interrupt::watch(place, &session.id, OnStubborn::Delete, execution).await;
    if let Err(failure) = place.delete(&session.id).await {
        // It may be gone already; a daemon reaps it in any case.
        tracing::debug!(?failure, "the session was not deleted");
    }
    outcome::show(&ended?, options)
}
