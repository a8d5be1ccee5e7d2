//! `vivarium config`

use std::path::PathBuf;

use vivarium_config::{self as config, Host, Sources};

use super::exit::{Exit, Failure};
use super::options::{self, ConfigOptions};
use super::print;

/// What to do with the configuration.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Prints a file with every key, its meaning and its default.
    Sample,
    /// Reports every error in a file, ignoring environment and flags.
    Check {
        /// The file
        #[arg(value_name = "FILE", default_value = config::DEFAULT_PATH)]
        file: PathBuf,
    },
    /// Prints every value in effect and where it comes from.
    Show {
        #[command(flatten)]
        options: Box<ConfigOptions>,
        /// Only what holds for this tenant: its own values, and those of all for the rest
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints docs/configuration.md.
    #[command(hide = true)]
    Docs,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Sample => print::out(config::sample().as_bytes())?,
        Command::Docs => print::out(config::markdown().as_bytes())?,
        Command::Check { file } => {
            let file = config::load(Some(file)).map_err(|e| Failure::new(Exit::Usage, &e))?;
            let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
            let host = Host::look();
            let sources =
                Sources { host, file, credentials, all_tenants: true, ..Sources::default() };
            options::resolve(&sources)?;
            print::note("the file is in order");
        }
        Command::Show { options, tenant, json } => {
            let mut config = options.load_all()?;
            if let Some(name) = tenant {
                config = config::of_tenant(config, name).ok_or_else(|| {
                    let why = format!("there is no tenant {name:?} in the configuration");
                    Failure::says(Exit::Usage, why)
                })?;
            }
            if *json {
                print::json(&config::show_json(&config))?;
            } else {
                print::out(config::show(&config).as_bytes())?;
            }
        }
    }
    Ok(Exit::Ok)
}
