//! What of the host a test needs and may not find.
//!
//! A test that needs something asks for it here. If it is missing the test says so and ends;
//! where `VIVARIUM_TEST_REQUIRE` lists the requirement (CI sets it) it fails instead, so that
//! no skip goes unnoticed.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Uid, User};

use crate::program;

/// Lists requirements that have to be met, separated by commas.
const REQUIRE: &str = "VIVARIUM_TEST_REQUIRE";

/// Something a host may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The tests run as root.
    Root,
    /// Ranges in /etc/subuid and /etc/subgid for the user of daemons ([`user_of_daemons`]), and
    /// newuidmap.
    SubordinateIds,
    /// A cgroup v2 directory that daemons can make theirs. Root makes it so.
    Cgroup,
    /// Landlock in the running kernel.
    Landlock,
    /// numpy, pandas, matplotlib, scipy and Pillow for the host's /usr/bin/python3.
    PythonScience,
    /// The same, and seaborn, scikit-learn, networkx, plotly, Altair, sympy, tqdm and openpyxl.
    PythonAnalysis,
    /// A library of the host's /usr/bin/python3 (Debian's package `libpython3.N`), and `cc`.
    SharedPython,
    /// `prometheus` and `promtool`, as Debian's package `prometheus` has them.
    Prometheus,
    /// `schemathesis` and `openapi-spec-validator` (tests/requirements.txt), in the directory that
    /// `VIVARIUM_TEST_TOOLS` names or on PATH.
    Schemathesis,
    /// pandas and pyarrow (tests/requirements.txt), for the `python` of that directory.
    PythonArrow,
    /// `watchdog` and `watchfiles` (tests/requirements.txt), for the `python` of that directory.
    FileWatchers,
    /// `standardwebhooks` (tests/requirements.txt), for the `python` of that directory.
    StandardWebhooks,
    /// `mcp` (tests/requirements.txt), for the `python` of that directory.
    McpSdk,
    /// What `tests/mcp/package.json` has from npm, installed there.
    McpJudges,
    /// An agents' framework, as `tests/frameworks/install` installs it.
    Framework(&'static str),
    /// What judges the Jupyter dialect (tests/requirements.txt), for the `python` of that directory.
    JupyterClients,
    /// What `tests/librechat/package.json` has from npm, installed there, and `node`.
    LibrechatClient,
    /// `uv` (tests/requirements.txt), in that directory or on PATH.
    Uv,
    /// ipykernel (tests/ipykernel/requirements.txt), in `ipykernel` beside that directory.
    Ipykernel,
    /// E2B's SDKs for Python (tests/e2b/*.txt), each in a directory of `e2b` beside that directory.
    E2bSdks,
    /// E2B's SDK for JavaScript (tests/e2b/package.json), in `e2b/js` beside that directory.
    E2bJsSdk,
    /// `chromium`, as Debian's package `chromium` has it.
    Chromium,
    /// Flask for the host's /usr/bin/python3, as Debian's package `python3-flask` has it.
    Flask,
    /// Streamlit, for the `python` of that directory: by hand, as docs/testing.md says.
    Streamlit,
    /// `node`, as Debian's package `nodejs` has it.
    Node,
    /// `cc`, and a C library to link into a program.
    Compiler,
    /// What `runtimes/wasm/build target/wasm` makes.
    Wasm,
    /// What `tests/cpython/fetch target/cpython` makes.
    CpythonTests,
    /// `bash`, `zsh` and `fish`.
    Shells,
    /// `mandoc`.
    Mandoc,
    /// `dpkg-deb`, and `dpkg-shlibdeps` as Debian's package `dpkg-dev` has it.
    DpkgDev,
    /// Root, `pasta` as Debian's package `passt` has it, and /dev/net/tun for everybody, as udev has it.
    Passt,
}

impl Requirement {
    /// The name in `VIVARIUM_TEST_REQUIRE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::SubordinateIds => "subordinate-ids",
            Self::Cgroup => "cgroup",
            Self::Landlock => "landlock",
            Self::PythonScience => "python-science",
            Self::PythonAnalysis => "python-analysis",
            Self::SharedPython => "shared-python",
            Self::Prometheus => "prometheus",
            Self::Schemathesis => "schemathesis",
            Self::PythonArrow => "python-arrow",
            Self::FileWatchers => "file-watchers",
            Self::StandardWebhooks => "standard-webhooks",
            Self::McpSdk => "mcp-sdk",
            Self::McpJudges => "mcp-judges",
            Self::Framework(name) => name,
            Self::JupyterClients => "jupyter-clients",
            Self::LibrechatClient => "librechat-client",
            Self::Uv => "uv",
            Self::Ipykernel => "ipykernel",
            Self::E2bSdks => "e2b-sdks",
            Self::E2bJsSdk => "e2b-js-sdk",
            Self::Chromium => "chromium",
            Self::Flask => "flask",
            Self::Streamlit => "streamlit",
            Self::Node => "node",
            Self::Compiler => "compiler",
            Self::Wasm => "wasm",
            Self::CpythonTests => "cpython-tests",
            Self::Shells => "shells",
            Self::Mandoc => "mandoc",
            Self::DpkgDev => "dpkg-dev",
            Self::Passt => "passt",
        }
    }

    fn is_met(self) -> bool {
        match self {
            Self::Root => is_root(),
            Self::SubordinateIds => grants_ids(),
            Self::Cgroup => is_root() && cgroup2_is_mounted(),
            Self::Landlock => has_landlock(),
            Self::PythonScience => host_has_modules("numpy pandas matplotlib scipy PIL"),
            Self::PythonAnalysis => host_has_modules(
                "numpy pandas matplotlib scipy PIL seaborn sklearn networkx plotly altair sympy \
                 tqdm openpyxl",
            ),
            Self::SharedPython => shared_python().exists() && tool("cc").is_some(),
            Self::Prometheus => ["prometheus", "promtool"]
                .iter()
                .all(|name| Path::new("/usr/bin").join(name).exists()),
            Self::Schemathesis => {
                ["schemathesis", "openapi-spec-validator"].iter().all(|name| tool(name).is_some())
            }
            Self::PythonArrow => tools_have_modules("pandas pyarrow"),
            Self::FileWatchers => tools_have_modules("watchdog watchfiles"),
            Self::StandardWebhooks => tools_have_modules("standardwebhooks"),
            Self::McpSdk => tools_have_modules("mcp httpx2"),
            Self::McpJudges => mcp_judges().is_some(),
            Self::Framework(name) => framework(name).is_some(),
            Self::JupyterClients => tools_have_modules(
                "nbclient papermill jupyter_server aiohttp jupyterlab nbconvert autogen_ext asyncio_atexit",
            ),
            Self::LibrechatClient => {
                let agents = "tests/librechat/node_modules/@librechat/agents/package.json";
                tool("node").is_some() && program::workspace().join(agents).is_file()
            }
            Self::Uv => tool("uv").is_some(),
            Self::Ipykernel => ipykernel().is_some(),
            Self::E2bSdks => ["newest", "openai-agents", "crewai"]
                .iter()
                .all(|name| e2b_sdk(name).is_some_and(|at| at.join("e2b").is_dir())),
            Self::E2bJsSdk => e2b_sdk("js").is_some(),
            Self::Chromium => Path::new("/usr/bin/chromium").exists(),
            Self::Flask => host_has_modules("flask"),
            Self::Streamlit => tools_have_modules("streamlit"),
            Self::Node => Path::new("/usr/bin/node").exists(),
            Self::Compiler => has_static_libc(),
            Self::Wasm => program::workspace().join("target/wasm/python.cwasm").is_file(),
            Self::CpythonTests => cpython_tests().is_file(),
            Self::Shells => ["bash", "zsh", "fish"].iter().all(|name| tool(name).is_some()),
            Self::Mandoc => tool("mandoc").is_some(),
            Self::DpkgDev => {
                ["dpkg-deb", "dpkg-shlibdeps", "objdump"].iter().all(|name| tool(name).is_some())
            }
            Self::Passt => {
                is_root() && tool("pasta").is_some() && tool("ip").is_some() && tun_is_open()
            }
        }
    }
}

/// Whether all of these are there. If not the test has been told to end, or has failed.
#[track_caller]
#[must_use]
pub fn has(requirements: &[Requirement]) -> bool {
    let demanded = std::env::var(REQUIRE).unwrap_or_default();
    let missing: Vec<_> =
        requirements.iter().filter(|one| !one.is_met()).map(|one| one.name()).collect();
    if missing.is_empty() {
        return true;
    }
    let demanded_and_missing =
        missing.iter().any(|one| demanded.split(',').any(|d| d.trim() == *one));
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    assert!(!demanded_and_missing, "{REQUIRE}={demanded}, but this host lacks {missing:?}");
    let line = format!("SKIPPED {test}: host requirement {}\n", missing.join(", "));
    // Not by eprintln!, which the test runner keeps to itself where a test passes.
    let _nobody_reads = std::io::stderr().write_all(line.as_bytes()).is_err();
    false
}

/// The archive of CPython's own tests.
#[must_use]
pub fn cpython_tests() -> PathBuf {
    program::workspace().join("target/cpython/tests.tar")
}

/// The library of the host's Python, if it has one.
#[must_use]
pub fn shared_python() -> PathBuf {
    let ask = "import sysconfig as s; print(s.get_config_var('LIBDIR'), \
               s.get_config_var('INSTSONAME'), sep='/')";
    let said = Command::new("/usr/bin/python3").args(["-c", ask]).output();
    let said = said.map(|output| output.stdout).unwrap_or_default();
    PathBuf::from(String::from_utf8_lossy(&said).trim())
}

/// A program that the tests bring along, or that the host has.
#[must_use]
pub fn tool(name: &str) -> Option<PathBuf> {
    let dirs = ["VIVARIUM_TEST_TOOLS", "PATH"].map(|key| std::env::var_os(key).unwrap_or_default());
    let mut paths = dirs.iter().flat_map(std::env::split_paths).map(|dir| dir.join(name));
    paths.find(|path| path.is_file())
}

/// The directory with ipykernel and what it imports, for the host's /usr/bin/python3.
#[must_use]
pub fn ipykernel() -> Option<PathBuf> {
    let directory = tool("python")?.parent()?.parent()?.join("ipykernel");
    directory.join("ipykernel_launcher.py").is_file().then_some(directory)
}

/// The directory with one of E2B's SDKs and what it imports.
#[must_use]
pub fn e2b_sdk(name: &str) -> Option<PathBuf> {
    let directory = tool("python")?.parent()?.parent()?.join("e2b").join(name);
    directory.is_dir().then_some(directory)
}

/// The Node that judges of MCP are run with, where they are installed: they want a newer one than Debian has.
#[must_use]
pub fn mcp_judges() -> Option<PathBuf> {
    let node = program::workspace().join("tests/mcp/node_modules/.bin/node");
    node.is_file().then_some(node)
}

/// The Python of a framework's environment.
#[must_use]
pub fn framework(name: &str) -> Option<PathBuf> {
    let environment = program::workspace().join("target/frameworks").join(name);
    environment.join("complete").is_file().then(|| environment.join("bin/python"))
}

/// Whether this process is root.
#[must_use]
pub fn is_root() -> bool {
    Uid::effective().is_root()
}

/// The user that daemons started as root become.
#[must_use]
pub fn service_user() -> User {
    let named = |name| User::from_name(name).expect("the user database can be read");
    named("vivarium").or_else(|| named("nobody")).expect("there is a user nobody")
}

/// An ordinary user: that of daemons, or whoever runs the tests.
#[must_use]
pub fn user_of_daemons() -> User {
    if is_root() {
        return service_user();
    }
    let own = User::from_uid(Uid::effective()).expect("the user database can be read");
    own.expect("whoever runs the tests has an entry")
}

/// A user that has no subordinate ids, or whoever runs the tests.
#[must_use]
pub fn nobody() -> User {
    if !is_root() {
        return user_of_daemons();
    }
    User::from_name("nobody").expect("the user database can be read").expect("there is one")
}

/// The kernel's release as major and minor number.
#[must_use]
pub fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = text.split(['.', '-']).map(|part| part.trim().parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Whether daemons get subordinate ids here: subuid(5), which names a user or gives an id.
#[must_use]
pub fn grants_ids() -> bool {
    let user = user_of_daemons();
    let names = [user.name, user.uid.to_string()];
    let has_range = |file: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().any(|line| names.iter().any(|name| line.split(':').next() == Some(name)))
    };
    ["/etc/subuid", "/etc/subgid"].into_iter().all(has_range)
        && Path::new("/usr/bin/newuidmap").exists()
}

/// What `cc` answers for a file that it does not find is the bare name.
fn has_static_libc() -> bool {
    let said = tool("cc").map(|cc| Command::new(cc).arg("-print-file-name=libc.a").output());
    said.is_some_and(|said| said.is_ok_and(|said| said.stdout.starts_with(b"/")))
}

fn tun_is_open() -> bool {
    let mode = std::fs::metadata("/dev/net/tun").map(|it| it.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o006 == 0o006)
}

fn cgroup2_is_mounted() -> bool {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().any(|line| line.contains(" - cgroup2 "))
}

/// /proc/kallsyms names the system call of every kernel that has Landlock; whether it is
/// active, the kernel's list of security modules tells where securityfs is mounted.
fn has_landlock() -> bool {
    let active = std::fs::read_to_string("/sys/kernel/security/lsm");
    active.map_or_else(|_| kernel_version() >= (5, 19), |list| list.contains("landlock"))
}

fn host_has_modules(names: &str) -> bool {
    has_modules(Path::new("/usr/bin/python3"), names)
}

fn tools_have_modules(names: &str) -> bool {
    tool("python").is_some_and(|python| has_modules(&python, names))
}

fn has_modules(python: &Path, names: &str) -> bool {
    let imports = "import importlib.util as u, sys; exit(not all(map(u.find_spec, sys.argv[1:])))";
    let python = Command::new(python).args(["-c", imports]).args(names.split_whitespace()).output();
    python.is_ok_and(|output| output.status.success())
}
