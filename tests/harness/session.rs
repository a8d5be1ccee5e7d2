//! A session of a daemon under test.

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::http::Response;
use crate::outcome::Outcome;
use crate::wait;

/// One session, by its id. Nothing happens to it on drop: its daemon ends it.
#[derive(Debug, Clone)]
pub struct Session<'d> {
    daemon: &'d Daemon,
    /// Its id.
    pub id: String,
}

impl<'d> Session<'d> {
    /// The session of this id, which is there or not.
    #[must_use]
    pub fn named(daemon: &'d Daemon, id: &str) -> Self {
        Self { daemon, id: id.to_owned() }
    }

    /// Its path in the API, with something after it.
    #[must_use]
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    /// Sends a request about it.
    #[must_use]
    pub fn request(&self, method: &str, rest: &str, body: Option<&Value>) -> Response {
        self.daemon.request(method, &self.path(rest), body)
    }

    /// Runs code.
    #[must_use]
    #[track_caller]
    pub fn execute(&self, code: &str) -> Outcome {
        self.execute_with(&json!({"code": code}))
    }

    /// Runs code for no longer than this.
    #[must_use]
    #[track_caller]
    pub fn execute_for(&self, timeout_ms: u64, code: &str) -> Outcome {
        self.execute_with(&json!({"code": code, "timeout_ms": timeout_ms}))
    }

    /// Runs code as asked for.
    #[must_use]
    #[track_caller]
    pub fn execute_with(&self, request: &Value) -> Outcome {
        Outcome(self.request("POST", "/execute", Some(request)).expect_success())
    }

    /// The `repr` of an expression that works.
    #[must_use]
    #[track_caller]
    pub fn value(&self, expression: &str) -> String {
        self.execute(expression).ok().result().to_owned()
    }

    /// Its description.
    #[must_use]
    #[track_caller]
    pub fn info(&self) -> Value {
        self.request("GET", "", None).expect_success()
    }

    /// Waits until it is in this state.
    #[track_caller]
    pub fn until_state(&self, state: &str) {
        wait::until_true(&format!("state {state}"), || self.info()["state"] == state);
    }

    /// Waits until it is not there any more.
    #[track_caller]
    pub fn until_gone(&self) {
        wait::until_true("the session's end", || self.request("GET", "", None).status == 404);
    }

    /// Processes of it, its agent not counted.
    #[must_use]
    #[track_caller]
    pub fn processes(&self) -> u64 {
        self.info()["usage"]["processes"].as_u64().unwrap()
    }

    /// Interrupts what is running.
    #[track_caller]
    pub fn interrupt(&self) -> Value {
        self.request("POST", "/interrupt", None).expect_success()
    }

    /// Resets it.
    #[track_caller]
    pub fn reset(&self) -> Value {
        self.request("POST", "/reset", None).expect_success()
    }

    /// What a layer reports in this session.
    #[must_use]
    #[track_caller]
    pub fn layer(&self, name: &str) -> Value {
        let info = self.info();
        let layers = info["protection"].as_array().unwrap();
        layers.iter().find(|layer| layer["layer"] == name).cloned().unwrap()
    }
}
