//! `vivarium admin token`

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use vivarium_api_types::{Scope, Token};
use vivarium_config::duration;

use crate::exit::{Exit, Failure};
use crate::print;

/// What to do about tokens.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Prints a new token, once, and the lines for the configuration. The token is not stored.
    New(NewArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  vivarium admin token new --scopes read --expires 90d --name dashboard

Put the lines after the tenant that the token is for, in the configuration file or the tenant's own, and
reload. To replace a token: add a new one, hand it out, and take the old one away.")]
pub(crate) struct NewArgs {
    /// What it may do: run, which includes read; read; admin
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', default_value = "run",
        value_parser = |text: &str| text.parse::<Scope>())]
    scopes: Vec<Scope>,
    /// When it ends: after a time, such as 90d, or at one, such as 2027-01-31T00:00:00Z [default: never]
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Timestamp>,
    /// What people call it, without blanks
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

fn expiry(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let after = duration::parse(text).map_err(|error| error.to_string())?;
    let after = SignedDuration::try_from(after).map_err(|error| error.to_string())?;
    let time = Timestamp::now().checked_add(after).map_err(|error| error.to_string())?;
    time.round(jiff::Unit::Second).map_err(|error| error.to_string())
}

fn name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\'));
    if fits { Ok(text.to_owned()) } else { Err("1 to 64 printable characters, no blanks".into()) }
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let Command::New(args) = command;
    let token = Token::fresh().map_err(|error| Failure::new(Exit::Error, &error))?;
    let entry = entry(args, &token);
    if args.json {
        let hash = token.hash().to_string();
        print::json(&json!({
            "token": token.expose(), "hash": hash, "scopes": args.scopes,
            "expires": args.expires, "name": args.name, "entry": entry
        }))?;
    } else {
        print::out(format!("# token: {}\n{entry}", token.expose()).as_bytes())?;
    }
    Ok(Exit::Ok)
}

/// The lines of the configuration.
fn entry(args: &NewArgs, token: &Token) -> String {
    let scopes: Vec<_> = args.scopes.iter().map(|scope| format!("\"{scope}\"")).collect();
    let mut lines = format!(
        "[[tenant.token]]\nhash = \"{}\"\nscopes = [{}]\n",
        token.hash(),
        scopes.join(", ")
    );
    if let Some(expires) = args.expires {
        lines += &format!("expires = \"{expires}\"\n");
    }
    if let Some(name) = &args.name {
        lines += &format!("name = \"{name}\"\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_config::{File, Sources, resolve};

    #[test]
    fn what_is_printed_is_what_the_configuration_takes() {
        let args = NewArgs {
            scopes: vec![Scope::Read, Scope::Admin],
            expires: Some(expiry("90d").unwrap()),
            name: Some("ci".to_owned()),
            json: false,
        };
        let token = Token::fresh().unwrap();
        let text = format!("[[tenant]]\nname = \"a\"\n{}", entry(&args, &token));
        assert!(!text.contains(token.expose()));
        let file = Some(File { path: "v.toml".into(), text });
        let config = resolve(&Sources { file, ..Sources::default() }).unwrap();
        let (tenant, found) = config.settings.token(&token.hash()).unwrap();
        assert_eq!((tenant, found.name.as_deref(), found.expires), ("a", Some("ci"), args.expires));
        assert_eq!(found.scopes.listed(), args.scopes);
        assert!(expiry("soon").is_err() && name("a b").is_err());
    }
}
