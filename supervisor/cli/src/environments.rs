//! `vivarium env`: environments that are built from a list of packages.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use vivarium_api_types::{BuildInfo, BuildRequest, BuildState, BuiltEnvironmentInfo};
use vivarium_client::{Builder, Client, Event};

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::{human, print, target};

/// What to do with environments.
#[derive(Debug, clap::Subcommand)]
#[command(
    after_help = "Environments of all tenants and of single ones are built as an administrator \
                        (vivarium admin --help); with --own, those of the tenant whose token \
                        VIVARIUM_TOKEN has.\n\n\
                        Examples:\n  vivarium env build pandas --requirements requirements.txt\n  \
                        vivarium env build report --pyproject pyproject.toml --lock uv.lock --tenant team\n  \
                        vivarium run -c 'import pandas' --environment pandas"
)]
pub(super) enum Command {
    /// Builds an environment, and follows the build to its end.
    Build(BuildArgs),
    /// Lists environments.
    List(Whose),
    /// Shows an environment, with what is installed in it.
    Show(One),
    /// Prints the log of an environment's last build.
    Log(One),
    /// Removes an environment; sessions that have it keep it.
    Rm(One),
    /// Removes what neither a name nor a session has.
    Gc(Just),
}

#[derive(Debug, Args)]
pub(super) struct Whose {
    /// The tenant whose they are [default: for all tenants]
    #[arg(long, value_name = "NAME", conflicts_with = "own")]
    tenant: Option<String>,
    /// Those of the tenant whose token VIVARIUM_TOKEN has
    #[arg(long)]
    own: bool,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// The environment
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Debug, Args)]
pub(super) struct Just {
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    one: One,
    /// A requirements.txt; with a --hash in it, every package needs one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pyproject", "lock"],
        required_unless_present = "pyproject")]
    requirements: Option<PathBuf>,
    /// A pyproject.toml, whose dependencies are installed
    #[arg(long, value_name = "FILE")]
    pyproject: Option<PathBuf>,
    /// The uv.lock that goes with it
    #[arg(long, value_name = "FILE", requires = "pyproject")]
    lock: Option<PathBuf>,
    /// The configured environment whose interpreter it uses [default: default]
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
}

impl Whose {
    fn builder(&self) -> Builder<'_> {
        if self.own { Builder::Own } else { Builder::Administrator(self.tenant.as_deref()) }
    }

    fn client(&self) -> Result<Client, Failure> {
        let url = &self.daemon.url;
        Ok(Client::new(if self.own { url.or_configured()? } else { url.of_administrators()? }))
    }
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let whose = match command {
        Command::Build(args) => &args.one.whose,
        Command::List(whose) => whose,
        Command::Show(one) | Command::Log(one) | Command::Rm(one) => &one.whose,
        Command::Gc(Just { daemon }) => return collect(daemon),
    };
    let (client, builder) = (&mut whose.client()?, whose.builder());
    target::runtime()?.block_on(async {
        match command {
            Command::Build(args) => return build(client, args).await,
            Command::List(_) => {
                let list = client.list_environments(builder).await?.environments;
                if whose.daemon.json {
                    print::json(&list)?;
                } else {
                    print::out(table(&list).as_bytes())?;
                }
            }
            Command::Show(one) => {
                let environment = client.environment(builder, &one.name).await?;
                if whose.daemon.json {
                    print::json(&environment)?;
                } else {
                    show(&environment)?;
                }
            }
            Command::Log(one) => {
                let mut log = client.build_log(builder, &one.name).await?;
                while let Some(chunk) = log.chunk().await? {
                    print::out(&chunk)?;
                }
            }
            Command::Rm(one) => {
                client.remove_environment(builder, &one.name).await?;
                whose.daemon.confirm(&one.name, &json!({"name": one.name}), "removed")?;
            }
            Command::Gc(_) => {}
        }
        Ok(Exit::Ok)
    })
}

fn collect(daemon: &DaemonOptions) -> Result<Exit, Failure> {
    let client = &mut Client::new(daemon.url.of_administrators()?);
    target::runtime()?.block_on(async {
        let reply = client.collect().await?;
        let done = format!("{} removed, {}", reply.artefacts, human::size(reply.bytes));
        daemon.confirm("environments", &reply, &done)
    })?;
    Ok(Exit::Ok)
}

async fn build(client: &mut Client, args: &BuildArgs) -> Result<Exit, Failure> {
    let BuildArgs { one: One { name, whose }, requirements, pyproject, lock, base } = args;
    let request = BuildRequest {
        name: name.clone(),
        base: base.clone(),
        requirements: requirements.as_deref().map(read).transpose()?,
        pyproject: pyproject.as_deref().map(read).transpose()?,
        lock: lock.as_deref().map(read).transpose()?,
    };
    let builder = whose.builder();
    client.build_environment(builder, &request).await?;
    let quiet = whose.daemon.json;
    let followed = client.follow_build(builder, name, |event| match event {
        Event::Stdout(text) | Event::Stderr(text) if !quiet => print::err(text.as_bytes()),
        _ => {}
    });
    // A build that ended before it began to print has no events.
    let followed = followed.await;
    let built: BuildInfo = loop {
        let built = client.build(builder, name).await?;
        if built.state != BuildState::Building {
            break built;
        }
        // The connection broke: the build goes on.
        followed.as_ref().map_err(|error| Failure::says(Exit::Error, error.to_string()))?;
    };
    match (&built.error, built.artefact.as_deref()) {
        (None, artefact) => {
            let short = artefact.unwrap_or_default().get(..12).unwrap_or_default();
            whose.daemon.confirm(name, &built, &format!("built, {short}"))?;
            Ok(Exit::Ok)
        }
        (Some(_), _) if quiet => {
            print::json(&built)?;
            Ok(Exit::Error)
        }
        (Some(error), _) => Err(Failure::says(Exit::Error, format!("{name}: {error}"))),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::says(Exit::Usage, format!("{}: {error}", path.display())))
}

fn table(environments: &[BuiltEnvironmentInfo]) -> String {
    let heading =
        ["NAME", "TENANT", "BASE", "PYTHON", "PACKAGES", "SIZE", "BUILT", "LOCKED", "IN USE"];
    let row = |it: &BuiltEnvironmentInfo| {
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        vec![
            it.name.clone(),
            it.tenant.clone().unwrap_or_else(|| "(all)".to_owned()),
            it.base.clone(),
            it.python_version.clone(),
            it.distributions.len().to_string(),
            human::size(it.size_bytes),
            human::when(it.built_at, jiff::Timestamp::now()),
            yes(it.hash_locked),
            yes(it.in_use),
        ]
    };
    let rows: Vec<_> = [heading.map(str::to_owned).to_vec()]
        .into_iter()
        .chain(environments.iter().map(row))
        .collect();
    print::table(&rows, &[4, 5])
}

fn show(environment: &BuiltEnvironmentInfo) -> Result<(), Failure> {
    let mut text = table(std::slice::from_ref(environment));
    text.push_str(&format!("artefact {}\n", environment.artefact));
    for distribution in &environment.distributions {
        text.push_str(&format!("  {distribution}\n"));
    }
    print::out(text.as_bytes())
}
