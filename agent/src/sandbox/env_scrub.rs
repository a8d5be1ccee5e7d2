//! Layer: no inherited variable reaches the kernel.
//!
//! The supervisor starts the launcher with an empty environment, the launcher empties its own
//! again, and the kernel is executed with exactly what [`kernel_environment`] makes: what the
//! supervisor let through (SPEC section 1 has the list) and what is set here.

use std::env;
use std::ffi::CString;
use std::path::PathBuf;

use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::policy::Network;
use vivarium_protocol::{egress, one_python};

use super::{Context, LayerCode, LayerError};

/// What has programs that watch files poll: Streamlit, chokidar and webpack.
const POLLING: [(&str, &str); 3] = [
    ("STREAMLIT_SERVER_FILE_WATCHER_TYPE", "poll"),
    ("CHOKIDAR_USEPOLLING", "true"),
    ("WATCHPACK_POLLING", "true"),
];

/// Defaults of pip: what it keeps would count against the session's disk, and asking for a newer pip
/// is a request to the index for nothing.
const PIP: [(&str, &str); 2] = [("PIP_DISABLE_PIP_VERSION_CHECK", "1"), ("PIP_NO_CACHE_DIR", "1")];

/// What has pip and uv ask no index, where the session reaches none.
const OFFLINE: [(&str, &str); 2] = [("PIP_NO_INDEX", "1"), ("UV_OFFLINE", "1")];

pub(super) struct EnvScrub;

impl LayerCode for EnvScrub {
    fn layer(&self) -> Layer {
        Layer::EnvScrub
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        let inherited: Vec<_> = env::vars_os().map(|(name, _)| name).collect();
        if !inherited.is_empty() {
            return Err(LayerError::not_in_force(
                "an empty environment",
                format!("{inherited:?} was inherited"),
            ));
        }
        let names: Vec<_> = variables(context).into_iter().map(|(name, _)| name).collect();
        Ok(Report::enforced(Layer::EnvScrub, format!("only {}", names.join(", "))))
    }
}

/// The environment the kernel is executed with, as `NAME=value`.
///
/// # Errors
/// [`LayerError`] for a variable with a NUL in it, which the policy's validation refuses too.
pub(crate) fn kernel_environment(context: &Context) -> Result<Vec<CString>, LayerError> {
    variables(context)
        .into_iter()
        .map(|(name, value)| {
            CString::new(format!("{name}={value}"))
                .map_err(|error| LayerError::new(format!("set variable {name}"), error))
        })
        .collect()
}

/// The policy's variables, and those that are ours to set, which win; PATH, and what tells of the
/// egress gate, only if the policy has none.
fn variables(context: &Context) -> Vec<(String, String)> {
    let policy = &context.policy;
    let workdir = policy.inner_workdir();
    let home = policy.home().unwrap_or(workdir).to_string_lossy();
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let beneath = |name: &str| format!("{home}/{name}");
    // More threads than cores only cost memory: each OpenBLAS thread reserves tens of MiB,
    // which counts against RLIMIT_AS where no cgroup limits memory.
    let threads = policy.limits.cpu_cores.threads(context.host.cpus).to_string();
    let mut ours = vec![
        ("HOME", home.to_string()),
        ("TMPDIR", format!("{}/.tmp", workdir.display())),
        ("XDG_CACHE_HOME", beneath(".cache")),
        ("XDG_CONFIG_HOME", beneath(".config")),
        ("XDG_DATA_HOME", beneath(".local/share")),
        ("MPLBACKEND", "Agg".to_owned()),
        (one_python::PACKAGES_VARIABLE, text(one_python::packages(workdir))),
        ("PIP_PYTHON", text(one_python::directory(policy).join(one_python::PACKAGES_PYTHON))),
        ("MPLCONFIGDIR", beneath(".config/matplotlib")),
    ];
    // There is no inotify, and these do not find that out by themselves.
    ours.extend(POLLING.map(|(name, value)| (name, value.to_owned())));
    for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
        ours.push((name, threads.clone()));
    }
    let given = policy.env.iter().filter(|(name, _)| ours.iter().all(|(own, _)| own != name));
    let mut all: Vec<_> = given.cloned().collect();
    let mut add = |name: &str, value: String| {
        if all.iter().all(|(given, _)| given != name) {
            all.push((name.to_owned(), value));
        }
    };
    let directory = one_python::directory(policy);
    add("PATH", one_python::search_path(&directory, workdir, &policy.interpreter));
    if policy.network == Network::Trusted {
        egress::proxy_variables().into_iter().for_each(|(name, value)| add(name, value));
    }
    if policy.ca_certificate.is_some() {
        egress::CA_VARIABLES.iter().for_each(|name| add(name, egress::CA_BUNDLE.to_owned()));
    }
    // A session without a way out is not to wait for an index that cannot answer.
    let offline = matches!(policy.network, Network::None | Network::Loopback);
    let defaults = PIP.iter().chain(if offline { &OFFLINE[..] } else { &[] });
    for (name, value) in defaults {
        add(name, (*value).to_owned());
    }
    all.extend(ours.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    all
}
