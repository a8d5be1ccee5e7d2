//! Starting a session's processes, with all that is theirs alone.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::message::{Failure, Launch};
use vivarium_protocol::policy::Policy;

use super::Session;
use super::channel::Channel;
use crate::backend::ids::{IdPool, Lease};
use crate::backend::{Backend, LaunchSpec, Launched};
use crate::cgroup::Tree;
use crate::engine::Results;
use crate::observe::Observer;
use crate::recover::Workdirs;

/// How to start a session.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The policy, but for what each session has of its own. Gone once it is sent: it holds
    /// the kernel program, and there may be many sessions.
    pub policy: Policy,
    /// What it takes.
    pub means: Means,
}

/// What all sessions of a tenant and an environment are started and ended with.
#[derive(Debug, Clone)]
pub struct Means {
    /// What starts them.
    pub backend: Arc<dyn Backend>,
    /// Where their scopes are made.
    pub tree: Option<Arc<Tree>>,
    /// Where their ids come from; `None` if they have none.
    pub ids: Option<Arc<IdPool>>,
    /// Where their workdirs are on the host, for those without the mounts layer.
    pub workdirs: Option<Arc<Workdirs>>,
    /// What such sessions usually report; kept once for all of them.
    pub protection: Arc<[Report]>,
    /// Where executions can be asked for, also when the session is gone.
    pub results: Arc<Results>,
    /// Whom it tells what happens.
    pub observer: Observer,
}

/// What belongs to a session until it is gone.
#[derive(Debug)]
pub(super) struct Resources {
    /// Its processes.
    pub(super) launched: Launched,
    /// Its ids: dropped last.
    pub(super) lease: Option<Lease>,
    /// Its workdir on the host.
    pub(super) workdir: Option<PathBuf>,
}

/// Starts the processes and sends the policy. The session's scope is put where everybody can
/// read its usage.
pub(super) fn launch(
    session: &Session,
    mut policy: Policy,
    means: &Means,
) -> Result<(Channel, Resources), Failure> {
    // The launcher starts while its session is prepared, and then waits for the policy. If the
    // preparation fails it is killed with the handle that is dropped.
    let spec = LaunchSpec { session_id: session.identity.id.clone() };
    let launched =
        means.backend.launch(&spec).map_err(|error| failure(None, "start the launcher", &error))?;
    if policy.plan.applies(Layer::Cgroup)
        && let Some(tree) = &means.tree
    {
        let who = &session.identity;
        let scope = tree
            .make_scope(&who.tenant, &who.id, &policy.limits)
            .map_err(|error| failure(Some(Layer::Cgroup), "make the session's scope", &error))?;
        policy.cgroup = Some(scope.placement());
        if session.scope.set(scope).is_err() {
            return Err(internal("a session was started twice"));
        }
    }
    let lease = match &means.ids {
        None => None,
        Some(pool) => Some(pool.lease().ok_or_else(|| Failure {
            layer: Some(Layer::Credentials),
            operation: "take subordinate ids".to_owned(),
            reason: "all of them are in use".to_owned(),
            fix: "grant more in /etc/subuid and /etc/subgid".to_owned(),
        })?),
    };
    policy.ids = lease.as_ref().map(Lease::ids);
    let mut resources = Resources { launched, lease, workdir: None };
    if !policy.plan.applies(Layer::Mounts)
        && let Some(workdirs) = &means.workdirs
    {
        let made = workdirs.make().map_err(|error| failure(None, "make a workdir", &error))?;
        policy.host_workdir = Some(made.clone());
        resources.workdir = Some(made);
    }
    policy.validate().map_err(|error| failure(None, "check the policy", &error))?;
    let Some(stream) = resources.launched.stream.take() else {
        return Err(internal("the backend gave no stream"));
    };
    let mut channel = Channel::new(stream);
    let launch = Launch { protocol_version: PROTOCOL_VERSION, policy };
    channel.send(&launch).map_err(|error| failure(None, "send the policy", &error))?;
    Ok((channel, resources))
}

/// A failure with its whole chain of causes.
fn failure(layer: Option<Layer>, operation: &str, error: &dyn std::error::Error) -> Failure {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        reason.push_str(": ");
        reason.push_str(&error.to_string());
        source = error.source();
    }
    Failure { layer, operation: operation.to_owned(), reason, fix: String::new() }
}

pub(super) fn internal(reason: &str) -> Failure {
    Failure {
        layer: None,
        operation: "start a session".to_owned(),
        reason: reason.to_owned(),
        fix: "report this as a defect".to_owned(),
    }
}

/// Removes a workdir.
pub(super) fn remove_workdir(dir: &std::path::Path) {
    match crate::recover::remove_tree(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, workdir = %dir.display(), "a workdir is left behind");
        }
        _ => {}
    }
}
