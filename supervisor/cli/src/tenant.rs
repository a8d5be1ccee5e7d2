//! `vivarium tenant`

use serde_json::json;
use vivarium_api_types::Token;

use super::exit::{Exit, Failure};
use super::print;

/// What to do for tenants.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Prints a new token, and its hash for `token_sha256` in the configuration. The token is not
    /// stored.
    Token {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let Command::Token { json } = command;
    let token = Token::fresh().map_err(|error| Failure::new(Exit::Error, &error))?;
    let (text, hash) = (token.expose(), token.hash().to_string());
    if *json {
        print::json(&json!({"token": text, "token_sha256": hash}))?;
    } else {
        let row = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
        let rows = [row("token", text), row("token_sha256", &hash)];
        print::out(print::table(&rows, &[]).as_bytes())?;
    }
    Ok(Exit::Ok)
}
