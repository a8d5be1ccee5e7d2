//! Starting a session's processes, with all that is theirs alone.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{Failure, Launch, LaunchOrder, Origin, Transient};
use vivarium_protocol::policy::Policy;
use vivarium_protocol::{PROTOCOL_VERSION, error_chain, one_python};

use super::Results;
use super::Turns;
use super::channel::Channel;
use crate::approvals::Approvals;
use crate::artefacts::Held;
use crate::backend::ids::{IdPool, Lease};
use crate::backend::program::ProgramFile;
use crate::backend::{Backend, LaunchSpec, Launched};
use crate::budget::Account;
use crate::cgroup::{LeafFiles, Scope, Tree};
use crate::descriptors;
use crate::observe::Observer;
use crate::quotas::TenantQuotas;
use crate::recover::Workdirs;
use crate::stores::StoreLease;
use crate::template::memory::TemplateMemory;
use crate::template::{Connected, Template};

#[derive(Debug, Clone)]
pub struct LaunchPlan {
    /// The policy, but for what each session has of its own.
    pub policy: Policy,
    pub context: LaunchContext,
}

/// What all sessions of a tenant and an environment are started and ended with.
#[derive(Debug, Clone)]
pub struct LaunchContext {
    pub backend: Arc<dyn Backend>,
    /// What their kernels run, if they are executed.
    pub program: ProgramFile,
    pub template: Arc<Template>,
    pub tree: Option<Arc<Tree>>,
    /// Where their ids come from; `None` if they have none.
    pub ids: Option<Arc<IdPool>>,
    /// The home and volumes of the one session, if it has any.
    pub stores: Option<Arc<StoreLease>>,
    /// The built environment that they run in, or that the one session builds.
    pub(crate) environment: Option<Held>,
    /// Where their workdirs are on the host, for those without the mounts layer.
    pub workdirs: Option<Arc<Workdirs>>,
    /// When its turn to start is.
    pub turns: Arc<Turns>,
    /// What such sessions usually report; kept once for all of them.
    pub protection: Arc<[Report]>,
    /// Where executions can be asked for, also when the session is gone.
    pub results: Arc<Results>,
    /// The tenant's part of what the daemon may hold for them.
    pub account: Account,
    pub quotas: Arc<TenantQuotas>,
    /// Where executions are asked for that need approval.
    pub approvals: Arc<Approvals>,
    pub observer: Observer,
}

impl LaunchContext {
    /// These reports, shared with others that have the same.
    pub(super) fn usual(&self, protection: Vec<Report>) -> Arc<[Report]> {
        if *self.protection == *protection {
            Arc::clone(&self.protection)
        } else {
            Arc::from(protection)
        }
    }
}

/// Which session is launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewSession<'a> {
    pub(super) tenant: &'a str,
    /// Unique among the tenant's, for instance in the cgroup tree.
    pub(super) name: &'a str,
    /// Whether nobody has asked for it yet.
    pub(super) is_ahead: bool,
}

/// What belongs to a session until it is gone.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) name: String,
    pub(super) launched: Launched,
    /// Its scope, also for those who read its usage.
    pub(super) scope: Option<Arc<Scope>>,
    lease: Option<Lease>,
    stores: Option<Arc<StoreLease>>,
    environment: Option<Held>,
    /// Its workdir on the host.
    workdir: Option<PathBuf>,
    /// The template that its kernels are to be forked from, unless that has failed once.
    template: Option<Arc<Template>>,
    /// What its kernels share with that.
    pub(super) memory: Option<Arc<TemplateMemory>>,
}

impl Resources {
    /// Kills its processes, without waiting for them.
    pub(super) fn kill(&self) {
        if let Some(scope) = &self.scope
            && let Err(error) = scope.kill()
        {
            tracing::warn!(session = self.name, %error, "cgroup.kill");
        }
    }

    /// A kernel came about: one that was executed though there is a template tells that this may
    /// hang.
    pub(super) fn kernel_came(&mut self, origin: Origin) {
        if origin == Origin::Executed
            && let Some(template) = self.template.take()
        {
            template.suspect();
        }
    }

    /// Returns when nothing of it is left.
    pub(super) async fn tear_down(self, backend: &dyn Backend) {
        let Self { name, launched, scope, lease, stores, environment, workdir, .. } = self;
        let mut is_gone = backend.kill(launched).await;
        if let Some(scope) = scope {
            match scope.remove().await {
                // It could not be removed with a process in it.
                Ok(()) => is_gone = true,
                Err(error) => {
                    let source = &error.source;
                    tracing::error!(session = name, %error, ?source, "a scope is left behind");
                    is_gone = false;
                }
            }
        }
        if let Some(workdir) = workdir {
            remove_workdir(one_python::beside_workdir(&workdir)).await;
            remove_workdir(workdir).await;
        }
        if !is_gone {
            // A process may still write to them.
            std::mem::forget((stores, environment));
        }
        match lease {
            Some(lease) if !is_gone => {
                tracing::warn!(session = name, "its ids stay taken: a process may still have them");
                lease.keep();
            }
            // Its ids may be given to the next session only now, when no process has them any more.
            lease => drop(lease),
        }
    }
}

/// Starts the processes and sends the policy.
pub(super) async fn launch(
    new: NewSession<'_>,
    policy: Policy,
    context: &LaunchContext,
) -> Result<(Channel, Resources), Failure> {
    for _ in 0..FORKS_TRIED {
        let (channel, mut resources) = try_launch(new, policy.clone(), context).await?;
        if resources.launched.begun().await {
            return Ok((channel, resources));
        }
        tracing::warn!(session = new.name, "no launcher was forked: trying once more");
        resources.tear_down(&*context.backend).await;
    }
    // Whatever is wrong, the launcher's socket says it.
    try_launch(new, policy, context).await
}

/// How often a launch is repeated whose launcher was not forked: what was wrong with its fork server
/// is not with the next.
const FORKS_TRIED: u32 = 1;

async fn try_launch(
    new: NewSession<'_>,
    policy: Policy,
    context: &LaunchContext,
) -> Result<(Channel, Resources), Failure> {
    let LaunchContext { stores, environment, .. } = context;
    let mut mounts = stores.as_ref().map(|stores| stores.mounts()).unwrap_or_default();
    mounts.extend(environment.as_ref().map(Held::mount));
    let policy = Policy { stores: mounts, ..policy };
    // The launcher starts while its session is prepared, and then waits for the policy.
    let spec = LaunchSpec {
        session_id: new.name.to_owned(),
        policy: policy.clone(),
        ids: context.ids.clone(),
    };
    let launched = context.backend.launch(spec).await;
    let launched = launched.map_err(|error| failure(None, "start the launcher", &error))?;
    let (name, stores) = (new.name.to_owned(), context.stores.clone());
    let mut resources = Resources {
        name,
        launched,
        scope: None,
        lease: None,
        stores,
        environment: context.environment.clone(),
        workdir: None,
        template: None,
        memory: None,
    };
    match equip(new, policy, context, &mut resources).await {
        Ok(channel) => Ok((channel, resources)),
        Err(failure) => {
            resources.tear_down(&*context.backend).await;
            Err(failure)
        }
    }
}

async fn equip(
    new: NewSession<'_>,
    policy: Policy,
    context: &LaunchContext,
    resources: &mut Resources,
) -> Result<Channel, Failure> {
    let lease = resources.launched.lease.take();
    let env = policy.env.clone();
    let making = make_host_parts(new, policy, lease, context);
    // While the scope is made.
    let shared = async { SharedDescriptors::of(context, &env) };
    let (made, shared) = tokio::join!(making, shared);
    let (mut host, policy) = made?;
    resources.scope = host.scope.take();
    resources.lease = host.lease.take();
    resources.workdir = host.workdir.take();
    let (policy, SharedDescriptors { program, namespace, template }) = (policy?, shared?);
    policy.validate().map_err(|error| failure(None, "check the policy", &error))?;
    let Some(stream) = resources.launched.stream.take() else {
        return Err(internal("the backend gave no stream"));
    };
    let mut channel = Channel::new(stream)
        .map_err(|error| failure(None, "wait for the launcher's socket", &error))?;
    let mut alongside = vec![program];
    alongside.extend(namespace);
    if let Some(LeafFiles { kill, events }) = host.leaf.take() {
        alongside.extend([OwnedFd::from(kill), events.into()]);
    }
    if let Some(Connected { socket, memory }) = template {
        resources.template = Some(Arc::clone(&context.template));
        resources.memory = memory;
        alongside.push(socket);
    }
    let launch = LaunchOrder::Start(Launch {
        protocol_version: PROTOCOL_VERSION,
        policy,
        is_ahead: new.is_ahead,
    });
    channel
        .send_with(&launch, alongside)
        .map_err(|error| failure(None, "send the policy", &error))?;
    Ok(channel)
}

/// What goes to the launcher with the policy, but for what is made for the session.
struct SharedDescriptors {
    program: OwnedFd,
    namespace: Option<OwnedFd>,
    template: Option<Connected>,
}

impl SharedDescriptors {
    fn of(context: &LaunchContext, env: &[(String, String)]) -> Result<Self, Failure> {
        let failed =
            |layer| move |error: io::Error| failure(layer, "duplicate a descriptor", &error);
        let program = context.program.descriptor().map_err(failed(None))?;
        let namespace = match &context.ids {
            Some(pool) => pool.namespace().map_err(failed(Some(Layer::Credentials)))?,
            None => None,
        };
        Ok(Self { program, namespace, template: context.template.connect(env) })
    }
}

/// Makes what a session has of the host alone, and names it in the policy.
async fn make_host_parts(
    new: NewSession<'_>,
    policy: Policy,
    lease: Option<Lease>,
    context: &LaunchContext,
) -> Result<(HostParts, Result<Policy, Failure>), Failure> {
    let mut host = HostParts { lease, ..HostParts::default() };
    let LaunchContext { tree, ids, workdirs, .. } = context;
    if tree.is_none() && ids.is_none() && workdirs.is_none() {
        return Ok((host, Ok(policy)));
    }
    let (tenant, name) = (new.tenant.to_owned(), new.name.to_owned());
    let context = context.clone();
    let making = spawn_blocking(move || {
        let policy = host.make(&tenant, &name, policy, &context);
        (host, policy)
    });
    making.await.map_err(|error| internal(&error.to_string()))
}

/// What a session has of the host alone.
#[derive(Default)]
struct HostParts {
    scope: Option<Arc<Scope>>,
    /// Of the first context.
    leaf: Option<LeafFiles>,
    lease: Option<Lease>,
    workdir: Option<PathBuf>,
}

impl HostParts {
    /// Makes scope, lease and workdir, and names them in the policy; what was made before an error
    /// stays here. Blocks: it writes files of cgroupfs, reads /proc, and where a tenant's ceiling was
    /// lowered waits until the kernel has reclaimed memory ([`Tree::hold`]).
    fn make(
        &mut self,
        tenant: &str,
        name: &str,
        mut policy: Policy,
        context: &LaunchContext,
    ) -> Result<Policy, Failure> {
        if policy.plan.applies(Layer::Cgroup)
            && let Some(tree) = &context.tree
        {
            let scope = tree.make_scope(tenant, name, &policy.limits).map_err(|error| {
                failure(Some(Layer::Cgroup), "make the session's scope", &error)
            })?;
            policy.cgroup = Some(scope.placement());
            let scope = self.scope.insert(Arc::new(scope));
            let leaf = scope.leaf_files(Leaf::FIRST);
            self.leaf = Some(leaf.map_err(|error| {
                failure(Some(Layer::Cgroup), "open the files of the session's leaf", &error)
            })?);
        }
        let kept = context.stores.as_ref().and_then(|stores| stores.ids);
        let kept = kept.or_else(|| context.environment.as_ref().and_then(Held::ids));
        if let (Some(pool), None, None) = (&context.ids, kept, &self.lease) {
            self.lease = Some(pool.lease().ok_or_else(|| Failure {
                layer: Some(Layer::Credentials),
                fix: "grant more in /etc/subuid and /etc/subgid".to_owned(),
                ..Failure::new("take subordinate ids", "all of them are in use")
            })?);
        }
        policy.ids = kept.or_else(|| self.lease.as_ref().map(Lease::ids));
        if !policy.plan.applies(Layer::Mounts)
            && let Some(workdirs) = &context.workdirs
        {
            let made = workdirs
                .make_for_session(&policy.interpreter)
                .map_err(|error| failure(None, "make a workdir", &error))?;
            policy.host_workdir = Some(made.clone());
            self.workdir = Some(made);
        }
        Ok(policy)
    }
}

/// A failure with its whole chain of causes.
fn failure(
    layer: Option<Layer>,
    operation: &str,
    error: &(dyn std::error::Error + 'static),
) -> Failure {
    let transient = descriptors::errno(error).and_then(|errno| Transient::of(errno as i32));
    Failure { layer, transient, ..Failure::new(operation, error_chain(error)) }
}

pub(super) fn internal(reason: &str) -> Failure {
    let fix = "report this as a defect".to_owned();
    Failure { fix, ..Failure::new("start a session", reason) }
}

/// Removes a workdir, in which tenant code may have left any number of files: not on the runtime's
/// threads.
async fn remove_workdir(dir: PathBuf) {
    let path = dir.clone();
    let removed = spawn_blocking(move || crate::recover::remove_tree(&path)).await;
    match removed.unwrap_or_else(|error| Err(error.into())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, workdir = %dir.display(), "a workdir is left behind");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
