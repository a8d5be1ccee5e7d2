//! A `vivarium serve` of a test's own.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, Endpoint, Response};
use crate::outcome::Outcome;
use crate::processes::{self, Process};
use crate::program::{self, Runner};
use crate::session::Session;
use crate::start_mode::{self, StartMode};
use crate::wait;

mod config;
mod ending;
mod reload;

/// The name of the fork server of launchers.
const FORK_SERVER: &str = "viv-launchers";
const SPARE: &str = "viv-spare";

/// How to start a daemon.
#[derive(Debug, Default)]
pub struct Setup {
    sections: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    arguments: Vec<String>,
    runner: Runner,
    dir: Option<tempfile::TempDir>,
    start_mode: StartMode,
    off: Vec<String>,
    open_files: Option<u32>,
}

impl Setup {
    /// Lets it, and what it starts, have so many descriptors.
    #[must_use]
    pub fn open_files(mut self, max: u32) -> Self {
        self.open_files = Some(max);
        self
    }

    /// A daemon whose kernels start in this mode, which is checked of each session. By default they are
    /// executed, and no template is among the processes.
    #[must_use]
    pub fn with_start_mode(start_mode: StartMode) -> Self {
        Self { start_mode, runner: start_mode.runner(), ..Self::default() }
            .without(start_mode.missing())
    }

    /// Sets limits that all its sessions have, as a request has them for one.
    #[must_use]
    pub fn limits(self, limits: &Value) -> Self {
        let limits = limits.as_object().unwrap().iter();
        let lines: Vec<_> = limits.map(|(name, value)| format!("{name} = {value}")).collect();
        self.config("sandbox", &lines.join("\n"))
    }

    /// Adds lines of TOML to a section of the configuration.
    #[must_use]
    pub fn config(mut self, section: &str, lines: &str) -> Self {
        self.sections.push((section.to_owned(), lines.to_owned()));
        self
    }

    /// Switches layers off: the positive control of an attack. None is then required, and kernels
    /// are executed where there are no namespaces, and not resumed without mounts, whatever the start mode.
    #[must_use]
    pub fn without(mut self, layers: &[&str]) -> Self {
        if layers.is_empty() {
            return self;
        }
        if layers.contains(&"namespaces") && self.start_mode.has_template() {
            self.start_mode = StartMode::Executed;
        }
        if layers.contains(&"mounts") && self.start_mode == StartMode::Resumed {
            self.start_mode = StartMode::Forked; // images need it
        }
        self.off.extend(layers.iter().map(|layer| (*layer).to_owned()));
        let lines = format!("disable_layers = {:?}\nrequire = []", self.off);
        self.config("sandbox", &lines)
    }

    /// Switches the whole sandbox off; kernels are then executed, whatever the start mode.
    #[must_use]
    pub fn without_sandbox(self) -> Self {
        Self { start_mode: StartMode::Executed, ..self }.config("sandbox", "mode = \"off\"")
    }

    /// Sets a variable of the daemon's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds an argument to `vivarium serve`.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Has another user start it.
    #[must_use]
    pub fn runner(mut self, runner: Runner) -> Self {
        self.runner = runner;
        self
    }

    /// Takes over the directories of a daemon that is no more.
    #[must_use]
    pub fn in_place_of(mut self, dir: tempfile::TempDir) -> Self {
        self.dir = Some(dir);
        self
    }

    /// Starts it and waits until it is ready.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> Daemon {
        match self.try_start() {
            Ok(daemon) => {
                daemon.until_start_mode_is_ready();
                daemon
            }
            Err((status, log)) => panic!("the daemon did not start: {status}\n{log}"),
        }
    }

    /// Starts it; if it ends before it is ready, how, and what it said.
    ///
    /// # Errors
    /// The exit status and the log of a daemon that did not start.
    pub fn try_start(self) -> Result<Daemon, (ExitStatus, String)> {
        let dir = self.dir.unwrap_or_else(program::temp_dir);
        let root = dir.path();
        let config = root.join("vivarium.toml");
        fs::write(&config, config::render(root, self.start_mode, &self.sections)).unwrap();
        fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
        let notify = root.join("notify");
        let _earlier = fs::remove_file(&notify).is_ok();
        let manager = UnixDatagram::bind(&notify).unwrap();
        fs::set_permissions(&notify, Permissions::from_mode(0o777)).unwrap();
        manager.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        if let Runner::User(user) | Runner::OneInotify(user) | Runner::FewProcesses(user) =
            &self.runner
        {
            nix::unistd::chown(root, Some(user.uid), Some(user.gid)).unwrap();
        }
        let log = root.join("log");
        let mut command = program::vivarium(&self.runner, root);
        if let Some(max) = self.open_files {
            command = program::with_open_files(&command, max);
        }
        command.arg("serve").arg("--config").arg(&config).args(&self.arguments);
        command.env("NOTIFY_SOCKET", &notify).envs(self.variables);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let mut daemon = Daemon {
            child,
            dir: Some(dir),
            log,
            manager,
            messages: String::new(),
            status: None,
            start_mode: self.start_mode,
        };
        let ready = wait::until("the daemon's start", || {
            daemon.hear();
            if daemon.messages.contains("READY=1") {
                return Some(true);
            }
            daemon.has_ended().then_some(false)
        });
        if ready { Ok(daemon) } else { Err((daemon.status.unwrap(), daemon.log())) }
    }
}

/// A running daemon. Killed on drop; [`Daemon::stop_and_check`] is the orderly way.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    dir: Option<tempfile::TempDir>,
    log: PathBuf,
    manager: UnixDatagram,
    messages: String,
    status: Option<ExitStatus>,
    /// How its sessions come about.
    pub start_mode: StartMode,
}

impl Daemon {
    /// One with the defaults.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Setup::default().start()
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// It, as a process.
    #[must_use]
    #[track_caller]
    pub fn process(&self) -> Process {
        Process::find(self.pid()).unwrap_or_else(|| panic!("the daemon is gone:\n{}", self.log()))
    }

    /// All its launchers, agents, kernels, what tenants started, and its templates. Not the fork
    /// server of launchers nor spares, which are there whether there are sessions or not.
    #[must_use]
    pub fn descendants(&self) -> Vec<Process> {
        let mut all = self.processes();
        let own =
            all.iter().filter(|one| one.parent == self.pid() && start_mode::is_interpreter(one));
        let templates: Vec<_> = own.map(|one| one.pid).collect();
        all.retain(|process| {
            // A spare is called as its template is until it has another name.
            ![FORK_SERVER, SPARE].contains(&process.name.as_str())
                && (!templates.contains(&process.parent) || process.is_in_session())
        });
        all
    }

    /// All its processes but itself.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        processes::descendants(self.pid())
    }

    /// The process that its template has forked ahead.
    #[must_use]
    pub fn spare(&self) -> Option<Process> {
        let all = self.processes();
        let templates = self.templates();
        let is_templates = |one: &Process| templates.iter().any(|it| it.pid == one.parent);
        all.into_iter().find(|one| one.name == SPARE && is_templates(one))
    }

    /// The process that keeps what is prepared for the next session.
    #[must_use]
    pub fn prepared(&self) -> Option<Process> {
        let all = self.processes();
        let is_spare = |pid: i32| {
            all.iter().any(|one| one.pid == pid && one.name == SPARE && one.parent == self.pid())
        };
        all.iter().find(|one| one.name == SPARE && is_spare(one.parent)).cloned()
    }

    /// Waits until its template has forked one.
    #[must_use]
    #[track_caller]
    pub fn until_spare(&self) -> Process {
        wait::until("a spare", || self.spare())
    }

    /// The fork server of launchers that it uses now.
    #[must_use]
    pub fn fork_server(&self) -> Option<Process> {
        self.processes().into_iter().find(|process| process.name == FORK_SERVER)
    }

    /// Where it keeps everything.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }

    /// Waits until it has logged this.
    #[track_caller]
    pub fn until_logged(&self, text: &str) {
        wait::until_true(text, || self.log().contains(text));
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its Unix socket.
    #[must_use]
    pub fn unix(&self) -> Endpoint {
        Endpoint::Unix(self.dir().join("api.sock"))
    }

    /// Its TCP port, which the system chose. Its descriptors are for root to see; the log tells others.
    #[must_use]
    #[track_caller]
    pub fn tcp(&self) -> Endpoint {
        let log = self.log();
        let logged = || log.split_once("127.0.0.1:")?.1.split(['"', ',']).next()?.parse().ok();
        let port = processes::listening_port(self.pid()).or_else(logged);
        Endpoint::Tcp(port.expect("it listens on TCP"))
    }

    /// Sends a request on a connection of its own.
    #[must_use]
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        Client::connect(&self.unix()).json(method, path, body)
    }

    /// Makes a session.
    #[must_use]
    #[track_caller]
    pub fn session(&self) -> Session<'_> {
        self.session_with(&json!({}))
    }

    /// Makes a session as asked for.
    #[must_use]
    #[track_caller]
    pub fn session_with(&self, spec: &Value) -> Session<'_> {
        self.until_start_mode_is_ready();
        let is_pooled = self.start_mode == StartMode::Pooled && start_mode::is_plain(spec);
        let before = is_pooled.then(|| self.taken());
        let info = self.request("POST", "/v1/sessions", Some(spec)).expect_success();
        if let Some(before) = before {
            assert_eq!(self.taken(), before + 1, "not from the pool: {spec}\n{}", self.log());
        }
        let mut session = Session::named(self, info["id"].as_str().unwrap());
        // To be saved a kernel forks.
        let can_fork = spec["limits"]["max_procs"] != 1;
        if self.start_mode == StartMode::Resumed && can_fork {
            session = self.sleep_or_branch(session);
        }
        self.check_start_mode();
        session
    }

    /// Runs code in a session of its own.
    #[must_use]
    #[track_caller]
    pub fn run(&self, request: &Value) -> Outcome {
        Outcome(self.request("POST", "/v1/run", Some(request)).expect_success())
    }

    /// The status of each layer, as a trial session reported it.
    #[must_use]
    pub fn layer(&self, name: &str) -> Value {
        let host = self.request("GET", "/v1/host", None).expect_success();
        let layers = host["layers"].as_array().unwrap();
        layers.iter().find(|layer| layer["layer"] == name).cloned().unwrap()
    }

    /// Its part of the cgroup tree, where it has one.
    #[must_use]
    pub fn cgroup(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", self.pid())).ok()?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        let tree = own.strip_suffix("/supervisor")?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        Some(Path::new(mount.split(' ').nth(4)?).join(tree.trim_start_matches('/')))
    }

    fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
        }
        self.status.is_some()
    }

    /// Reads what the daemon tells its service manager. Waits a moment if there is nothing.
    fn hear(&mut self) {
        let mut buffer = [0; 4096];
        if let Ok(length) = self.manager.recv(&mut buffer) {
            self.messages.push_str(&String::from_utf8_lossy(&buffer[..length]));
            self.messages.push('\n');
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _gone = self.child.kill().is_err();
            let _gone = self.child.wait().is_err();
        }
        if std::thread::panicking() {
            eprintln!("--- the daemon's log ---\n{}", self.log());
        }
    }
}
