//! A session of a daemon under test.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::events::Events;
use crate::http::Response;
use crate::outcome::Outcome;
use crate::processes::{self, Process};
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

    /// Runs code and follows its events.
    #[must_use]
    #[track_caller]
    pub fn stream(&self, code: &str) -> Events {
        self.stream_with("/execute", &[], &json!({"code": code}))
    }

    /// Sends a request about it that is answered by events.
    #[must_use]
    #[track_caller]
    pub fn stream_with(&self, rest: &str, headers: &[(&str, &str)], request: &Value) -> Events {
        let path = self.path(rest);
        let events = Events::open(&self.daemon.unix(), "POST", &path, headers, Some(request));
        assert_eq!(events.head.status, 200, "{}", String::from_utf8_lossy(&events.head.body));
        events
    }

    /// Follows an execution's events, from the one after `after` on if that is given.
    #[must_use]
    #[track_caller]
    pub fn follow(&self, execution_id: &str, after: Option<u64>) -> Events {
        let path = self.path(&format!("/executions/{execution_id}"));
        let after = after.map(|after| after.to_string());
        let header = after.as_ref().map(|after| ("Last-Event-ID", after.as_str()));
        let headers: Vec<_> = header.into_iter().collect();
        Events::open(&self.daemon.unix(), "GET", &path, &headers, None)
    }

    /// How far an execution has come.
    #[must_use]
    #[track_caller]
    pub fn execution(&self, execution_id: &str) -> Value {
        self.request("GET", &format!("/executions/{execution_id}"), None).expect_success()
    }

    /// Waits for the end of an execution.
    #[track_caller]
    pub fn until_done(&self, execution_id: &str) -> Outcome {
        Outcome(wait::until("the execution's end", || {
            let info = self.execution(execution_id);
            (info["state"] == "done").then(|| info["outcome"].clone())
        }))
    }

    /// Runs a command.
    #[must_use]
    #[track_caller]
    pub fn command(&self, request: &Value) -> Outcome {
        Outcome(self.request("POST", "/commands", Some(request)).expect_success())
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

    /// Waits until it runs this many executions.
    #[track_caller]
    pub fn until_running(&self, executions: usize) {
        wait::until_true("so many executions run", || {
            self.info()["running"].as_array().unwrap().len() == executions
        });
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

    /// Its processes, as the host sees them. Runs code to find out. Whoever is not root sees them as the
    /// owner of the session's user namespace, or of one that it is in: user_namespaces(7).
    #[must_use]
    #[track_caller]
    pub fn members(&self) -> Vec<Process> {
        let own = self.value("__import__('os').readlink('/proc/self/ns/pid')");
        let own = PathBuf::from(own.trim_matches('\''));
        let mut all = processes::all();
        all.retain(|one| {
            fs::read_link(format!("/proc/{}/ns/pid", one.pid)).is_ok_and(|found| found == own)
        });
        all
    }

    /// Its kernel, as the host sees it. Runs code to find out.
    #[must_use]
    #[track_caller]
    pub fn kernel(&self) -> Process {
        let members = self.members();
        let python = members.iter().find(|one| one.name.starts_with("python"));
        python.unwrap_or_else(|| panic!("{members:?}")).clone()
    }

    /// The directory of its scope, which is named after the session only if it did not wait in a
    /// pool. Runs code to find out.
    #[must_use]
    #[track_caller]
    pub fn scope(&self) -> PathBuf {
        self.leaf().ancestors().nth(2).unwrap().to_owned()
    }

    /// The directory of the cgroup that the kernel of its context `main` is in. Runs code to find out.
    #[must_use]
    #[track_caller]
    pub fn leaf(&self) -> PathBuf {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", self.kernel().pid)).unwrap();
        let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
        let (_, of_tenant) = own.rsplit_once("/tenants/").unwrap();
        self.daemon.cgroup().unwrap().join("tenants").join(of_tenant)
    }

    /// Whether its kernel was forked from a template. Runs code to find out.
    #[must_use]
    #[track_caller]
    pub fn is_forked(&self) -> bool {
        let parent = self.kernel().parent;
        self.daemon.templates().iter().any(|template| template.pid == parent)
    }
}
