//! Options that several commands share.

mod policies;
mod session;

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use serde::Serialize;
use vivarium_api_types::{ListenAddr, Token};
use vivarium_client::{Remote, Url};
use vivarium_config::{self as config, Config, Host, Sources};

use super::exit::{Exit, Failure};
use super::print;

pub(super) use policies::PolicyOptions;
pub(super) use session::{CheckpointOptions, EnvOption, HomeOptions, SessionOptions, named, pairs};

const CONFIGURATION: &str = "Configuration; `vivarium config show` prints the values in effect";

/// Flags of the configuration, which parses their values itself and reports their errors with its
/// own.
#[derive(Debug, Default, Args)]
pub(super) struct ConfigOptions {
    /// The configuration file [default: /etc/vivarium/vivarium.toml if it exists]
    // Absolute from the start: a daemon that gives up root leaves its directory, and reloads the file.
    #[arg(
        long,
        value_name = "FILE",
        env = "VIVARIUM_CONFIG",
        help_heading = CONFIGURATION,
        value_parser = PathBufValueParser::new().try_map(std::path::absolute),
    )]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) sandbox: SandboxOptions,
}

/// Flags that set keys of the configuration.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = CONFIGURATION)]
pub(super) struct SandboxOptions {
    /// How much of the sandbox is mandatory: auto, on or off
    #[arg(long, value_name = "MODE")]
    sandbox: Option<String>,
    /// Layers without which nothing starts, separated by commas, or `none`
    #[arg(long, value_name = "LAYERS")]
    sandbox_require: Option<String>,
    /// What sessions can reach: none, loopback or full
    #[arg(long, value_name = "NETWORK")]
    sandbox_network: Option<String>,
    /// Memory of a session in MiB, or `unlimited`
    #[arg(long, value_name = "MIB")]
    sb_max_memory_mb: Option<String>,
    /// CPU time of an execution in seconds, or `unlimited`
    #[arg(long, value_name = "SECONDS")]
    sb_max_cpu_secs: Option<String>,
    /// Processes and threads of a session, or `unlimited`
    #[arg(long, value_name = "COUNT")]
    sb_max_procs: Option<String>,
    /// Time of an execution, such as 30s
    #[arg(long, value_name = "TIME")]
    code_exec_timeout: Option<String>,
    /// The Python to run
    #[arg(long, value_name = "PATH")]
    code_exec_python: Option<String>,
    /// Where the working directory appears inside the sandbox
    #[arg(long, value_name = "PATH")]
    code_exec_workdir: Option<String>,
}

impl SandboxOptions {
    /// Each flag with its value, if given.
    fn values(&self) -> [(&'static str, Option<&String>); 9] {
        [
            ("--sandbox", self.sandbox.as_ref()),
            ("--sandbox-require", self.sandbox_require.as_ref()),
            ("--sandbox-network", self.sandbox_network.as_ref()),
            ("--sb-max-memory-mb", self.sb_max_memory_mb.as_ref()),
            ("--sb-max-cpu-secs", self.sb_max_cpu_secs.as_ref()),
            ("--sb-max-procs", self.sb_max_procs.as_ref()),
            ("--code-exec-timeout", self.code_exec_timeout.as_ref()),
            ("--code-exec-python", self.code_exec_python.as_ref()),
            ("--code-exec-workdir", self.code_exec_workdir.as_ref()),
        ]
    }

    /// Fails if any flag was given: a daemon has its own configuration.
    pub(super) fn refuse_for(&self, remote: &Remote) -> Result<(), Failure> {
        let Some((flag, _)) = self.values().into_iter().find(|(_, value)| value.is_some()) else {
            return Ok(());
        };
        let url = &remote.url;
        let why = format!(
            "{flag} configures an embedded sandbox, and {url} has its own configuration: use \
             --network, --timeout and the limits, such as --max-memory-mb"
        );
        Err(Failure::says(Exit::Usage, why))
    }
}

impl ConfigOptions {
    /// All sources of the configuration; `listen` has the values of `--listen`. `host` was read
    /// before root was given up: afterwards the defaults would be different.
    pub(super) fn sources(&self, host: Host, listen: &[String]) -> Result<Sources, Failure> {
        let file = config::load(self.config.as_deref())
            .map_err(|error| Failure::new(Exit::Usage, &error))?;
        let flags = self.sandbox.values().into_iter().filter_map(|(flag, value)| {
            config::flag(flag, &value.cloned().into_iter().collect::<Vec<_>>())
        });
        Ok(Sources {
            host,
            file,
            credentials: std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            variables: variables(),
            all_tenants: false,
            flags: config::flag("--listen", listen).into_iter().chain(flags).collect(),
        })
    }

    /// For programs other than the daemon: prints the warnings.
    pub(super) fn load(&self, listen: &[String]) -> Result<Config, Failure> {
        Self::resolved(&self.sources(Host::look(), listen)?)
    }

    /// The same, with the tenants that a daemon would have.
    pub(super) fn load_all(&self) -> Result<Config, Failure> {
        let sources = self.sources(Host::look(), &[])?;
        Self::resolved(&Sources { all_tenants: true, ..sources })
    }

    fn resolved(sources: &Sources) -> Result<Config, Failure> {
        let config = resolve(sources)?;
        for warning in &config.warnings {
            print::note(&format!("warning: {warning}"));
        }
        Ok(config)
    }
}

/// The configuration of these sources, or all of its errors.
pub(super) fn resolve(sources: &Sources) -> Result<Config, Failure> {
    config::resolve(sources).map_err(|errors| Failure::says(Exit::Usage, errors.to_string()))
}

/// The environment variables. Bytes that are not UTF-8 are replaced, which makes a value invalid
/// and a `VIVARIUM_` name unknown.
pub(super) fn variables() -> Vec<(String, String)> {
    std::env::vars_os()
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        })
        .collect()
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Daemon")]
pub(super) struct UrlOption {
    /// The daemon: http://HOST:PORT or unix:/PATH
    #[arg(long, value_name = "URL", env = "VIVARIUM_URL")]
    pub(super) url: Option<String>,
}

/// A daemon, and how its reply is printed.
#[derive(Debug, Args)]
pub(super) struct DaemonOptions {
    /// Prints JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) url: UrlOption,
}

impl DaemonOptions {
    /// Says what was done to something, or prints the reply.
    pub(super) fn confirm(
        &self,
        id: &str,
        reply: &impl Serialize,
        done: &str,
    ) -> Result<(), Failure> {
        if self.json {
            print::json(reply)
        } else {
            print::out(format!("{id}: {done}\n").as_bytes())
        }
    }
}

impl UrlOption {
    /// The daemon that `--url` or `VIVARIUM_URL` names.
    pub(super) fn named(&self) -> Result<Option<Remote>, Failure> {
        let text = self.url.as_deref().filter(|text| !text.is_empty());
        let url = text.map(str::parse).transpose();
        let url: Option<Url> = url.map_err(|error| Failure::new(Exit::Usage, &error))?;
        Ok(url.map(|url| Remote { url, token: token() }))
    }

    /// The daemon that is named, else the first address that this host's configuration listens on.
    pub(super) fn or_configured(&self) -> Result<Remote, Failure> {
        if let Some(remote) = self.named()? {
            return Ok(remote);
        }
        configured(|listen| listen.first())
    }

    /// The daemon that is named, else the configured one, by its Unix socket if it has one.
    pub(super) fn of_administrators(&self) -> Result<Remote, Failure> {
        if let Some(remote) = self.named()? {
            return Ok(remote);
        }
        configured(|listen| {
            let unix = listen.iter().find(|address| matches!(address, ListenAddr::Unix(_)));
            unix.or_else(|| listen.first())
        })
    }
}

/// The daemon of this host's configuration, at one of the addresses that it listens on.
fn configured(
    choose: impl FnOnce(&[ListenAddr]) -> Option<&ListenAddr>,
) -> Result<Remote, Failure> {
    let file = std::env::var_os("VIVARIUM_CONFIG").map(PathBuf::from);
    let options = ConfigOptions { config: file, ..ConfigOptions::default() };
    let config = options.load(&[])?;
    let url = choose(&config.settings.server.listen).map(Url::from);
    let url = url.ok_or_else(|| Failure::says(Exit::Usage, "no daemon is configured"))?;
    Ok(Remote { url, token: token() })
}

/// The token to present. Not from a flag, which every user of this host could read in /proc. A
/// token that is not UTF-8 is sent with replacement characters, and refused.
pub(super) fn token() -> Option<Token> {
    let token = std::env::var_os("VIVARIUM_TOKEN").filter(|token| !token.is_empty())?;
    Some(Token::new(token.to_string_lossy().trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        options: ConfigOptions,
    }

    #[test]
    fn a_relative_configuration_file_is_found_from_another_directory_too() {
        let program = Program::parse_from(["program", "--config", "a.toml"]);
        let path = program.options.config.unwrap();
        assert_eq!(path, std::env::current_dir().unwrap().join("a.toml"));
    }
}
