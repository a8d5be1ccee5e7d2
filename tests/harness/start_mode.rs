//! How the kernels of sessions start, and the check that they did so.

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::host;
use crate::processes::{self, Process};
use crate::program::Runner;
use crate::session::Session;
use crate::wait;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// Its kernel is executed.
    #[default]
    Executed,
    /// Its kernel is forked from the environment's template.
    Forked,
    /// It waited in a pool, with a kernel that was forked. One that asks for what no session of the
    /// pool has is started, and its kernel forked.
    Pooled,
    /// It was suspended and resumed, with a kernel that was forked.
    Resumed,
    /// Its kernel is executed, where the host offers neither cgroups nor namespaces, and so no mounts
    /// and no network layer.
    Restricted,
}

/// Layers that a restricted host does not offer.
const NOT_OFFERED: [&str; 2] = ["cgroup", "namespaces"];

/// How many sessions wait in the pool, where there is one.
const POOL_SIZE: usize = 1;

/// Launcher, agent and kernel.
const PROCESSES_OF_A_SESSION: usize = 3;

impl StartMode {
    /// The lines of the default environment for this mode.
    #[must_use]
    pub(crate) fn config(self) -> String {
        match self {
            Self::Executed | Self::Restricted => "template = \"off\"".to_owned(),
            Self::Forked => "template = \"auto\"".to_owned(),
            Self::Resumed => "template = \"auto\"\nimages = true".to_owned(),
            Self::Pooled => format!("template = \"auto\"\npool_size = {POOL_SIZE}"),
        }
    }

    /// Who runs the daemon.
    pub(crate) fn runner(self) -> Runner {
        match self {
            Self::Restricted => Runner::FewProcesses(host::user_of_daemons()),
            Self::Executed | Self::Forked | Self::Pooled | Self::Resumed => Runner::Self_,
        }
    }

    #[must_use]
    pub(crate) const fn missing(self) -> &'static [&'static str] {
        match self {
            Self::Restricted => &NOT_OFFERED,
            Self::Executed | Self::Forked | Self::Pooled | Self::Resumed => &[],
        }
    }

    /// Whether kernels are forked from a template.
    #[must_use]
    pub const fn has_template(self) -> bool {
        matches!(self, Self::Forked | Self::Pooled | Self::Resumed)
    }

    /// How many sessions wait for somebody to take them.
    #[must_use]
    pub const fn waiting(self) -> usize {
        match self {
            Self::Executed | Self::Forked | Self::Resumed | Self::Restricted => 0,
            Self::Pooled => POOL_SIZE,
        }
    }
}

impl Daemon {
    /// Waits until a new session starts in this daemon's mode.
    #[track_caller]
    pub(crate) fn until_start_mode_is_ready(&self) {
        if self.start_mode.has_template() {
            wait::until_true("a template", || {
                let template = self.environment()["template"].clone();
                assert_ne!(template["state"], "unavailable", "{template}");
                template["state"] == "ready"
            });
        }
        if self.start_mode.waiting() > 0 {
            wait::until_true("a full pool", || {
                self.environment()["pool"]["ready"] == self.start_mode.waiting()
            });
        }
    }

    /// What is said of its default environment.
    #[must_use]
    #[track_caller]
    pub fn environment(&self) -> Value {
        self.environment_of("default")
    }

    /// What is said of an environment; null if it is not named.
    #[must_use]
    #[track_caller]
    pub fn environment_of(&self, name: &str) -> Value {
        let host = self.request("GET", "/v1/host", None).expect_success();
        let mut environments = host["environments"].as_array().unwrap().iter();
        environments.find(|one| one["name"] == name).cloned().unwrap_or_default()
    }

    /// Waits until an environment's template is ready.
    #[track_caller]
    pub fn until_template_of(&self, name: &str) {
        wait::until_true("a template", || {
            self.environment_of(name)["template"]["state"] == "ready"
        });
    }

    /// Waits until the default environment's template is in this state; why it is.
    #[track_caller]
    pub fn until_template(&self, state: &str) -> String {
        wait::until(&format!("a template that is {state}"), || {
            let last = self.environment()["template"].clone();
            (last["state"] == state).then(|| last["reason"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// Makes a session, whichever way its kernel comes about.
    #[must_use]
    #[track_caller]
    pub fn any_session(&self, spec: &Value) -> Session<'_> {
        let info = self.request("POST", "/v1/sessions", Some(spec)).expect_success();
        Session::named(self, info["id"].as_str().unwrap())
    }

    /// The same session, resumed; with `VIVARIUM_TEST_BRANCHED` its branch instead.
    #[track_caller]
    pub(crate) fn sleep_or_branch<'d>(&'d self, session: Session<'d>) -> Session<'d> {
        if std::env::var_os("VIVARIUM_TEST_BRANCHED").is_none() {
            let _asleep = session.request("POST", "/suspend", None).expect_success();
            let _awake = session.request("POST", "/resume", None).expect_success();
            return session;
        }
        let one = json!({"count": 1});
        let branches = session.request("POST", "/branch", Some(&one)).expect_success();
        assert_eq!(session.request("DELETE", "", None).status, 204);
        Session::named(self, branches["sessions"][0]["id"].as_str().unwrap())
    }

    /// The templates' processes: the Pythons that the daemon itself has started.
    #[must_use]
    pub fn templates(&self) -> Vec<Process> {
        let mut all = processes::all();
        all.retain(|one| one.parent == self.pid() && is_python(one) && one.state != 'Z');
        all
    }

    /// Checks that no session has started in another mode. A kernel that was executed is the
    /// child of its launcher, one that was forked of its template, or of what was in between.
    #[track_caller]
    pub fn check_start_mode(&self) {
        let all = processes::descendants(self.pid());
        let templates = self.templates();
        let launchers: Vec<_> =
            all.iter().filter(|one| one.parent == self.pid() && !is_python(one)).collect();
        let executed = all
            .iter()
            .any(|one| is_python(one) && launchers.iter().any(|parent| parent.pid == one.parent));
        let forked =
            all.iter().any(|one| templates.iter().any(|template| one.parent == template.pid));
        let right = match self.start_mode {
            StartMode::Executed | StartMode::Restricted => (true, false, 0),
            StartMode::Forked | StartMode::Pooled | StartMode::Resumed => (false, true, 1),
        };
        let found = (executed, forked, templates.len());
        assert_eq!(
            found,
            right,
            "sessions that are not {:?}: {all:?}\n{}",
            self.start_mode,
            self.log()
        );
    }

    /// How many sessions were taken from the pool.
    #[must_use]
    pub(crate) fn taken(&self) -> u64 {
        let name = "vivarium_pool_takes_total{environment=\"default\",outcome=\"hit\"}";
        self.metric(name).unwrap_or_default()
    }

    /// The value of a metric, by its name and labels; `None` if there is none yet.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<u64> {
        let text = String::from_utf8(self.request("GET", "/metrics", None).body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    /// Waits until there are the processes of so many sessions that hold nothing but a kernel, of
    /// the template and of the pool, and no other.
    #[track_caller]
    pub fn until_only(&self, sessions: usize) {
        let sessions = sessions + self.start_mode.waiting();
        let right = usize::from(self.start_mode.has_template()) + sessions * PROCESSES_OF_A_SESSION;
        wait::until_true(&format!("{right} processes and no other"), || {
            self.descendants().len() == right
        });
    }
}

/// Whether a session of the pool will do.
#[must_use]
pub(crate) fn is_plain(spec: &Value) -> bool {
    ["limits", "env", "network"].iter().all(|key| spec.get(key).is_none())
}

/// Whether a child of the daemon is a template.
pub(crate) fn is_interpreter(process: &Process) -> bool {
    is_python(process) || process.name == "vivarium-wasm"
}

fn is_python(process: &Process) -> bool {
    process.name.starts_with("python")
}
