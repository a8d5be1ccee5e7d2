//! The sandbox: the ordered list of layers, and the moments at which they are applied.
//!
//! [`prepare_surroundings`] runs in the session's new namespaces, perhaps before anybody asks for
//! the session. [`enter`] runs in the agent, PID 1 of the session. [`restrict`] runs in each kernel or command after it has joined the session and before it becomes its program.
//! Each walks [`LAYERS`] in order. Nothing here decides anything: what is allowed is
//! [`vivarium_protocol::policy`], how it is applied is one file per layer.
//!
//! A layer that is planned and does not apply, or reads back as not applied, is an error that
//! ends the session. No result is dropped.

mod cgroup;
mod credentials;
mod env_scrub;
mod landlock;
mod mounts;
mod namespaces;
mod network;
mod proc_file;
mod rlimits;
mod seccomp;
mod system_paths;

use std::any::Any;
use std::fmt::Display;
use std::os::fd::OwnedFd;

use vivarium_protocol::layer::{Layer, Report, Status};
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{Failure, Transient};
use vivarium_protocol::policy::Policy;

use crate::failure::{OrFailure, errno};

pub(crate) use env_scrub::kernel_environment;
#[cfg(test)]
pub(crate) use landlock::fixture;
pub(crate) use mounts::HostPaths;
pub(crate) use namespaces::{HostFacts, SessionNamespaces, clone_flags};
pub(crate) use system_paths::READ_EXECUTE;

pub(crate) fn clone_diagnosis(error: std::io::Error) -> Failure {
    let transient = error.raw_os_error().and_then(Transient::of_fork);
    Failure { transient, ..namespaces::diagnose(error).into_failure(Layer::Namespaces) }
}

/// Drops the capabilities of a launcher, which needs none once its session's ids are mapped.
pub(crate) fn give_up_capabilities() -> Result<(), Failure> {
    credentials::give_up_capabilities().map_err(|error| error.into_failure(Layer::Credentials))
}

/// Keeps a process outside of sessions from being dumped.
pub(crate) fn abort_core_dumps() -> Result<(), Failure> {
    rlimits::abort_core_dumps().map_err(|error| error.into_failure(Layer::Rlimits))
}

/// Takes a session's homes and volumes as mounts that only the session has. For the agent, in its mount
/// namespace and before it takes the session's ids: these could not search the daemon's directories.
pub(crate) fn take_stores(context: &Context) -> Result<Vec<OwnedFd>, Failure> {
    mounts::take_stores(context).map_err(|error| error.into_failure(Layer::Mounts))
}

/// Confines a process that works on one home or volume from outside: to the `directory`, and to what
/// it needs to read or change the files of other ids in it.
pub(crate) fn confine_to_store(directory: &OwnedFd, writes: bool) -> Result<(), Failure> {
    credentials::keep_for_storage().map_err(|error| error.into_failure(Layer::Credentials))?;
    landlock::confine_to(directory, writes).map_err(|error| error.into_failure(Layer::Landlock))
}

/// Has the program that is executed next be pasta, in the session's user namespace.
pub(crate) fn become_passt(context: &Context) -> Result<(), Failure> {
    credentials::become_passt(context).map_err(|error| error.into_failure(Layer::Network))
}

/// Nobody of the same id may trace this process, nor open its memory in /proc: `PR_SET_DUMPABLE`
/// of prctl(2). For a process that is in a session and not confined yet.
pub(crate) fn forbid_tracing() -> Result<(), Failure> {
    credentials::forbid_tracing().map_err(|error| error.into_failure(Layer::Credentials))
}

/// Gives the agent, which has set its session up, a seccomp filter of its own, if there is that
/// layer.
pub(crate) fn confine_agent(context: &Context) -> Result<(), Failure> {
    filter(context, seccomp::confine_agent)
}

/// Gives the launcher, which has made its session, a seccomp filter of its own, if there is that
/// layer.
pub(crate) fn confine_launcher(context: &Context) -> Result<(), Failure> {
    filter(context, seccomp::confine_launcher)
}

/// Prepares what is the same for all processes that are forked from this one: the host's namespaces, and
/// the filters.
pub(crate) fn prepare() -> Result<(), Failure> {
    HostFacts::capture().or_failure("read /proc/self/ns")?;
    seccomp::prepare().map_err(|error| error.into_failure(Layer::Seccomp))
}

fn filter(context: &Context, install: fn() -> Result<(), LayerError>) -> Result<(), Failure> {
    if !context.applies(Layer::Seccomp) {
        return Ok(());
    }
    install().map_err(|error| error.into_failure(Layer::Seccomp))
}

/// Adds to a session's report what only the agent knows: its own seccomp filter, installed by then, and
/// the packet filter that it read back.
pub(crate) fn add_agents_part(context: &Context, reports: &mut [Report]) {
    let passt = context.policy.passt.as_ref();
    for report in reports.iter_mut().filter(|report| report.status == Status::Enforced) {
        let more = match report.layer {
            Layer::Seccomp => format!("the agent's own allows {}", seccomp::agent_calls()),
            Layer::Network => match passt {
                Some(passt) => network::describe_filter(passt),
                None => continue,
            },
            _ => continue,
        };
        report.detail.push_str("; ");
        report.detail.push_str(&more);
    }
}

/// Every layer, in the order of application. The order is SPEC's and docs/sandbox-layers.md
/// gives the reason for each place; a test holds the two together.
pub(crate) static LAYERS: [&dyn LayerCode; Layer::ALL.len()] = [
    &env_scrub::EnvScrub,      // first: nothing inherited may steer what follows
    &cgroup::Cgroup,           // processes start in it: no moment outside the limits
    &namespaces::Namespaces,   // gives the capabilities that the next two need
    &mounts::Mounts,           // needs CAP_SYS_ADMIN of the new user namespace
    &network::Network,         // needs CAP_NET_ADMIN of it
    &credentials::Credentials, // gives all capabilities up: nothing after it may need one
    &rlimits::Rlimits,         // after the id is final: RLIMIT_NPROC counts per id
    &landlock::Landlock,       // needs no_new_privs; opens paths that seccomp would refuse to
    &seccomp::Seccomp,         // last: it takes away the calls the others are made of
];

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) policy: Policy,
    /// Read by the launcher before it made the session, or prepared it: a layer compares with it when it verifies that
    /// the inside is another.
    pub(crate) host: HostFacts,
    /// The kernel program, for kernels that are executed; one that is forked has it already.
    pub(crate) program: Option<OwnedFd>,
    /// Where the kernel or command that is being spawned starts, if there is a cgroup.
    pub(crate) leaf: Leaf,
    /// In the agent: the session's homes and volumes, as mounts that are not attached yet.
    pub(crate) stores: Vec<OwnedFd>,
    /// Whether [`prepare_surroundings`] is done, by another process in the session's namespaces.
    pub(crate) is_prepared: bool,
}

impl Context {
    pub(crate) const fn new(policy: Policy, host: HostFacts) -> Self {
        Self {
            policy,
            host,
            program: None,
            leaf: Leaf::FIRST,
            stores: Vec::new(),
            is_prepared: false,
        }
    }

    /// User and group id, inside the session, of the kernel. With one id mapped it is the
    /// agent's as well.
    pub(crate) const KERNEL_ID: u32 = 1000;
    /// User and group id, inside the session, of the agent where it has one of its own.
    pub(crate) const AGENT_ID: u32 = 0;

    pub(crate) fn applies(&self, layer: Layer) -> bool {
        self.policy.plan.applies(layer)
    }

    /// Whether the kernel is the engine's program, which needs less than an interpreter.
    pub(crate) const fn is_wasm(&self) -> bool {
        self.policy.interpreter.wasm.is_some()
    }
}

/// One layer's code. A layer that has nothing to do at a moment keeps the default.
pub(crate) trait LayerCode: Sync {
    fn layer(&self) -> Layer;

    /// In the session's namespaces: what is the same for all sessions of such a policy, and may be made ahead.
    fn prepare(&self, _: &Context) -> Result<(), LayerError> {
        Ok(())
    }

    /// In the agent, as PID 1.
    fn enter(&self, _: &Context) -> Result<(), LayerError> {
        Ok(())
    }

    /// In the kernel or command, before it is its program.
    fn restrict(&self, _: &Context) -> Result<(), LayerError> {
        Ok(())
    }

    /// What still holds where the layer is not applied; may be empty.
    fn without(&self, _: &Context) -> &'static str {
        ""
    }

    /// In the kernel or command, after every layer's [`LayerCode::restrict`]: reads back what is
    /// now true. [`LayerError`] if it contradicts the policy.
    fn verify(&self, _: &Context) -> Result<Report, LayerError>;
}

#[derive(Debug, thiserror::Error)]
#[error("{operation}: {reason}")]
pub(crate) struct LayerError {
    operation: String,
    reason: String,
    fix: String,
    errno: Option<i32>,
}

impl LayerError {
    pub(crate) fn new(operation: impl Into<String>, reason: impl Display + Any) -> Self {
        let errno = errno(&reason);
        Self { operation: operation.into(), reason: reason.to_string(), fix: String::new(), errno }
    }

    /// A read-back that contradicts the policy.
    pub(crate) fn not_in_force(what: impl Into<String>, found: impl Display) -> Self {
        Self::new(what, format!("not in force: {found}"))
    }

    pub(crate) fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    fn into_failure(self, layer: Layer) -> Failure {
        Failure {
            layer: Some(layer),
            operation: self.operation,
            reason: self.reason,
            fix: self.fix,
            transient: self.errno.and_then(Transient::of),
        }
    }
}

/// Makes what a session is in, as far as that is the same for all of such a policy, in the session's namespaces. The
/// calling process has the id of their owner before, and the agent's afterwards.
pub(crate) fn prepare_surroundings(context: &Context) -> Result<(), Failure> {
    each(planned(context), |code| code.prepare(context))
}

/// Applies the layers of the inside, in the agent. `ask` is called when others can join the session. They must wait with
/// being confined until this has returned.
pub(crate) fn enter<T>(
    context: &Context,
    ask: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !context.is_prepared {
        prepare_surroundings(context)?;
    }
    let (own, shared): (Vec<_>, Vec<_>) =
        planned(context).partition(|code| code.layer() < Layer::Mounts);
    let enter_all = |layers| each(layers, |code| code.enter(context));
    enter_all(own)?;
    let asked = ask()?;
    enter_all(shared)?;
    Ok(asked)
}

fn each(
    layers: impl IntoIterator<Item = &'static dyn LayerCode>,
    apply: impl Fn(&dyn LayerCode) -> Result<(), LayerError>,
) -> Result<(), Failure> {
    layers
        .into_iter()
        .try_for_each(|code| apply(code).map_err(|error| error.into_failure(code.layer())))
}

/// Confines the calling process for good, then reads every layer back.
///
/// # Errors
/// The first layer that did not apply, or did not read back. The process must then exit.
pub(crate) fn restrict(context: &Context) -> Result<Vec<Report>, Failure> {
    each(planned(context), |code| code.restrict(context))?;
    let engine = context.policy.interpreter.wasm.iter().map(|engine| Ok(engine.report()));
    LAYERS.iter().map(|code| report(*code, context)).chain(engine).collect()
}

fn planned(context: &Context) -> impl Iterator<Item = &'static dyn LayerCode> {
    LAYERS.iter().copied().filter(|code| context.applies(code.layer()))
}

fn report(code: &dyn LayerCode, context: &Context) -> Result<Report, Failure> {
    let layer = code.layer();
    match context.policy.plan.report_unapplied(layer) {
        Some(mut report) => {
            report.detail.push_str(code.without(context));
            Ok(report)
        }
        None => code.verify(context).map_err(|error| error.into_failure(layer)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nix::sys::prctl;
    use nix::sys::resource::{Resource, getrlimit};
    use vivarium_protocol::policy::Network;

    use super::credentials::OwnStatus;
    use super::*;

    #[test]
    fn a_process_outside_of_sessions_gives_up_what_it_does_not_need() {
        let name = "::a_process_outside_of_sessions_gives_up_what_it_does_not_need";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            prctl::set_dumpable(true).unwrap();

            abort_core_dumps().unwrap();
            forbid_tracing().unwrap();
            give_up_capabilities().unwrap();

            let (core, _) = getrlimit(Resource::RLIMIT_CORE).unwrap();
            assert!(core <= 1, "{core}");
            assert!(!prctl::get_dumpable().unwrap());
            let held = OwnStatus::read().unwrap().capabilities;
            assert!(held.iter().all(|(_, set)| *set == 0), "{held:?}");
        });
    }

    #[test]
    fn agent_and_launcher_have_a_filter_where_there_is_that_layer() {
        let name = "::agent_and_launcher_have_a_filter_where_there_is_that_layer";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            let context =
                |layers: &[Layer]| fixture::context(layers, Network::None, Path::new("/"));
            let filters = || {
                let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
                let mut lines = status.lines();
                let found = lines.find_map(|line| line.strip_prefix("Seccomp_filters:"));
                found.unwrap().trim().parse::<u32>().unwrap()
            };
            let before = filters();
            confine_launcher(&context(&[Layer::Mounts])).unwrap();
            confine_agent(&context(&[Layer::Mounts])).unwrap();
            assert_eq!(filters(), before, "without the layer");
            confine_launcher(&context(&[Layer::Seccomp])).unwrap();
            assert_eq!(filters(), before + 1);
            confine_agent(&context(&[Layer::Seccomp])).unwrap();
            assert_eq!(filters(), before + 2);
        });
    }

    #[test]
    fn the_agents_own_filter_is_reported_with_the_seccomp_layer_only() {
        let mut reports = [
            Report::enforced(Layer::Seccomp, "a filter"),
            Report::enforced(Layer::Mounts, "a root"),
            Report::partial(Layer::Seccomp, "half a filter", ""),
        ];
        let context = fixture::context(&[], Network::None, Path::new("/"));
        add_agents_part(&context, &mut reports);
        let details = reports.map(|report| report.detail);
        let calls = seccomp::agent_calls();
        let told = format!("a filter; the agent's own allows {calls}");
        assert_eq!(details, [told.as_str(), "a root", "half a filter"]);
    }

    #[test]
    fn a_layer_that_does_not_apply_reports_what_still_holds() {
        for code in LAYERS {
            let context = fixture::context(&[], Network::None, Path::new("/"));
            let report = report(code, &context).unwrap();
            let known = context.policy.plan.report_unapplied(code.layer()).unwrap();
            let more = report.detail.strip_prefix(known.detail.as_str()).unwrap();
            assert!(more.is_empty() || more.starts_with("; "), "{more}");
            assert_eq!(report.status, known.status);
        }
        let network = |layers, network| {
            let context = fixture::context(layers, network, Path::new("/"));
            report(&network::Network, &context).unwrap().detail
        };
        assert!(network(&[Layer::Seccomp], Network::None).contains("no sockets but AF_UNIX"));
        assert!(network(&[], Network::None).contains("the host's network"));
        assert!(network(&[Layer::Seccomp], Network::Loopback).contains("the host's network"));
    }

    #[test]
    fn layers_are_in_the_order_of_the_protocol() {
        let order: Vec<_> = LAYERS.iter().map(|code| code.layer()).collect();
        assert_eq!(order, Layer::ALL);
    }
}
