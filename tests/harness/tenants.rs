//! Tenants of a daemon under test: their tokens, and their entries in its configuration.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::http::{Client, Endpoint, Response};
use crate::{program, wait};

/// What a daemon logs when it uses another configuration.
pub const RELOADED: &str = "configuration reloaded";

/// A token and its hash, as the command line makes them.
#[derive(Debug)]
pub struct Token {
    /// What a request presents.
    pub text: String,
    /// What the configuration has.
    pub hash: String,
}

impl Token {
    /// A new one.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Self {
        let made = program::run(&["tenant", "token", "--json"]).expect_code(0).stdout();
        let made: Value = serde_json::from_str(&made).unwrap();
        let text = |key: &str| made[key].as_str().unwrap().to_owned();
        Self { text: text("token"), hash: text("token_sha256") }
    }

    /// Sends a request that presents it.
    #[must_use]
    pub fn ask(&self, at: &Endpoint, method: &str, path: &str, body: Option<&Value>) -> Response {
        ask(at, &format!("Bearer {}", self.text), method, path, body)
    }

    /// Runs code that works.
    #[track_caller]
    pub fn execute(&self, at: &Endpoint, session: &str, code: &str) -> Value {
        let path = format!("/v1/sessions/{session}/execute");
        self.ask(at, "POST", &path, Some(&json!({ "code": code }))).expect_success()
    }
}

/// Sends a request with this header `Authorization`.
#[must_use]
pub fn ask(
    at: &Endpoint,
    authorization: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Response {
    let body = body.map(|body| body.to_string().into_bytes());
    let headers = [("Authorization", authorization)];
    Client::connect(at).send(method, path, &headers, body.as_deref())
}

/// An entry of the configuration, without its header.
#[must_use]
pub fn entry(name: &str, token: &Token, more: &str) -> String {
    format!("name = {name:?}\ntoken_sha256 = [{:?}]\n{more}\n", token.hash)
}

/// The entries of two tenants.
#[must_use]
pub fn two(one: &str, two: &str) -> String {
    format!("{one}[[tenant]]\n{two}")
}

/// Has a daemon read this configuration, and waits until it says so.
#[track_caller]
pub fn reload(daemon: &Daemon, text: &str, said: &str) {
    fs::write(daemon.dir().join("vivarium.toml"), text).unwrap();
    let before = daemon.log().matches(said).count();
    daemon.signal(Signal::SIGHUP);
    wait::until_true(said, || daemon.log().matches(said).count() > before);
}
