//! What of the sandbox works on this host, found out in the only way that does not guess: by
//! starting a session with all of it. A layer that fails is marked unavailable, with the reason
//! and the fix it gave, and the next trial goes without.

use std::sync::Arc;
use std::time::Duration;

use vivarium_protocol::layer::{Intent, Layer, Plan, Report, Status};
use vivarium_protocol::message::Failure;
use vivarium_protocol::outcome::Cause;
use vivarium_protocol::policy::Network;

use super::environment::{Prepared, passed_env};
use super::{Host, StartError};
use crate::backend::inspect::Inspected;
use crate::backend::program::ProgramFile;
use crate::cgroup::Support;
use crate::code_policy::{self, Refused};
use crate::observe::Observer;
use crate::passt::{NoPasta, Pasta};
use crate::session::{self, Adjustable, Identity, LaunchContext, LaunchPlan, Timing};
use crate::settings::{Mode, Sandbox, Settings};
use crate::template::Template;

/// The tenant of trial sessions: no name that a tenant can have.
pub(super) const TENANT: &str = "_trial";

/// How often a trial is made that does not fail twice in the same way.
const MAX_TRIALS: u32 = 4;

/// How long it is waited for what may pass, before the second try; before later ones as many times.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

fn first_plan(settings: &Settings, host: &Host) -> Plan {
    if settings.sandbox.mode == Mode::Off {
        return Plan::off();
    }
    let mut plan = Plan::full();
    for layer in &settings.sandbox.disable_layers {
        plan.set(*layer, &Intent::Off);
    }
    if plan.applies(Layer::Cgroup)
        && let Support::Unavailable(missing) = &host.cgroups
    {
        let (detail, fix) = (missing.why.clone(), missing.fix.clone());
        plan.set(Layer::Cgroup, &Intent::Unavailable { detail, fix });
    }
    plan
}

/// Finds the plan that holds for this environment, and what is then reported.
pub(super) async fn prepare(
    settings: &Settings,
    host: &Host,
    name: &str,
    Inspected { interpreter, hidden, missing }: Inspected,
    component: Option<ProgramFile>,
    passt: &Result<Pasta, NoPasta>,
) -> Result<Prepared, StartError> {
    let environment = settings.environments.get(name).cloned().unwrap_or_default();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        tracing::warn!(
            environment = name,
            missing,
            "distributions to hide are not installed, or do not tell which files are theirs"
        );
    }
    let rules = code_policy::configured(settings, name);
    if let Err(Refused { field, reason }) =
        rules.and_then(|rules| rules.check_python(name, &interpreter.version))
    {
        tracing::warn!(environment = name, field, reason, "no session can be made of it");
    }
    let plan = first_plan(settings, host);
    let program = component
        .map_or_else(|| ProgramFile::new(&interpreter.program), Ok)
        .map_err(|source| StartError::Program { environment: name.to_owned(), source })?;
    let mut prepared = Prepared {
        interpreter,
        program,
        env: passed_env(&environment, &plan),
        plan,
        protection: Arc::new([]),
        read_paths: environment.read_paths,
        hidden,
        template: Arc::new(Template::new(name)),
        ids: if settings.sandbox.mode == Mode::Off { None } else { host.ids.clone() },
        passt: Err(NoPasta::new("it was not tried", "")),
    };
    loop {
        let network = prepared.network(settings, settings.sandbox.network);
        let failure = match certain_trial(settings, host, name, &prepared, network).await {
            Ok(protection) => {
                prepared.protection = protection;
                try_full(settings, host, name, &mut prepared, passt).await?;
                return Ok(prepared);
            }
            Err(failure) => failure,
        };
        if failure.transient.is_some() {
            return Err(StartError::Trial { environment: name.to_owned(), failure });
        }
        let could_be_ids = matches!(failure.layer, None | Some(Layer::Credentials));
        if prepared.ids.is_some() && could_be_ids {
            // The interpreter may be one that only the daemon's own id can read.
            tracing::warn!(%failure, "no subordinate ids: a trial session with them failed");
            prepared.ids = None;
            continue;
        }
        let Some(layer) = failure.layer.filter(|layer| prepared.plan.applies(*layer)) else {
            return Err(StartError::Trial { environment: name.to_owned(), failure });
        };
        tracing::debug!(%layer, %failure, "layer not available");
        let detail = format!("{}: {}", failure.operation, failure.reason);
        prepared.plan.set(layer, &Intent::Unavailable { detail, fix: failure.fix });
    }
}

/// Finds out whether sessions of network `full` have one of their own here, if there are to be any, and
/// refuses to start without where the operator demands it.
async fn try_full(
    settings: &Settings,
    host: &Host,
    name: &str,
    prepared: &mut Prepared,
    passt: &Result<Pasta, NoPasta>,
) -> Result<(), StartError> {
    prepared.passt.clone_from(passt);
    if prepared.passt.is_ok() && !prepared.isolates_full() {
        let why = "sessions have no network namespace of their own";
        let fix = "make the namespaces and network layers available";
        prepared.passt = Err(NoPasta::new(why, fix));
    }
    if prepared.passt.is_ok() && settings.permits(Network::Full) {
        match certain_trial(settings, host, name, prepared, Network::Full).await {
            Ok(protection) if settings.sandbox.network == Network::Full => {
                prepared.protection = protection;
            }
            Ok(_) => {}
            Err(failure) if failure.transient.is_some() => {
                return Err(StartError::Trial { environment: name.to_owned(), failure });
            }
            Err(failure) => {
                let why = format!("{}: {}", failure.operation, failure.reason);
                prepared.passt = Err(NoPasta::new(why, failure.fix));
            }
        }
    }
    match &prepared.passt {
        Err(missing) if settings.egress.passt.is_required() => {
            Err(StartError::Passt { environment: name.to_owned(), source: missing.clone() })
        }
        Err(NoPasta { why, fix }) if settings.permits(Network::Full) => {
            tracing::warn!(
                environment = name,
                reason = why,
                fix,
                "sessions of network full share the host's network"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The required layers of which nothing holds. The engine is there or not, by the environment's runtime.
pub fn below_floor(sandbox: &Sandbox, protection: &[Report]) -> Vec<Report> {
    let required = sandbox.required();
    let has_engine = protection.iter().any(|report| report.layer == Layer::Wasm);
    let engine = (required.contains(&Layer::Wasm) && !has_engine).then(|| {
        let fix = "set its runtime to \"wasm\", or take wasm out of sandbox.require";
        Report::unavailable(Layer::Wasm, "the environment's runtime is cpython", fix)
    });
    let missing = protection.iter().filter(|report| {
        required.contains(&report.layer)
            && matches!(report.status, Status::Unavailable | Status::Off)
    });
    missing.cloned().chain(engine).collect()
}

/// The same again where it fails, until it fails twice in the same way: what is concluded from it
/// holds for as long as the daemon lives, and a host may be short of something for a moment.
async fn certain_trial(
    settings: &Settings,
    host: &Host,
    environment: &str,
    prepared: &Prepared,
    network: Network,
) -> Result<Arc<[Report]>, Failure> {
    let mut result = trial(settings, host, environment, prepared, network).await;
    for trials in 1..MAX_TRIALS {
        let Err(failure) = &result else { break };
        tracing::debug!(environment, %failure, "a trial session failed");
        if failure.transient.is_some() {
            tokio::time::sleep(PAUSE * trials).await;
        }
        let again = trial(settings, host, environment, prepared, network).await;
        let is_certain = failure.transient.is_none() && again.as_ref().err() == Some(failure);
        result = again;
        if is_certain {
            break;
        }
    }
    result
}

async fn trial(
    settings: &Settings,
    host: &Host,
    environment: &str,
    prepared: &Prepared,
    network: Network,
) -> Result<Arc<[Report]>, Failure> {
    let limits = settings.sandbox.limits.clone();
    let identity = Identity {
        id: uuid::Uuid::new_v4().to_string(),
        tenant: TENANT.to_owned(),
        environment: environment.to_owned(),
        network,
        approval: Default::default(),
    };
    let adjustable = Adjustable {
        limits: Arc::new(limits.clone()),
        metadata: std::collections::BTreeMap::new(),
        idle_timeout: settings.session.idle_timeout,
        deadline: None,
    };
    let policy = prepared.policy(settings, limits, network, std::collections::BTreeMap::new());
    let plan =
        launch_plan(host, prepared, policy, TENANT, Observer::default()).map_err(|error| {
            Failure {
                layer: Some(Layer::Mounts).filter(|layer| prepared.plan.applies(*layer)),
                operation: error.to_string(),
                reason: std::error::Error::source(&error)
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                fix: "set server.runtime_dir to a directory that can be written".to_owned(),
                transient: None,
            }
        })?;
    let session = session::spawn(identity, adjustable, timing(settings), plan, |_| ());
    let started = session.started().await;
    let protection: Arc<[Report]> = session.status().protection.clone();
    session.close(Cause::Deleted).await;
    started.map(|()| protection)
}

pub(super) fn launch_plan(
    host: &Host,
    prepared: &Prepared,
    policy: vivarium_protocol::policy::Policy,
    tenant: &str,
    observer: Observer,
) -> Result<LaunchPlan, crate::recover::WorkdirError> {
    let account = host.budget.of(tenant);
    // What a template has imported is in the memory of its forks.
    let template = match policy.hidden_paths.is_empty() {
        true => Arc::clone(&prepared.template),
        false => Arc::new(prepared.template.none()),
    };
    let needs_workdir = !policy.plan.applies(Layer::Mounts);
    let context = LaunchContext {
        backend: Arc::clone(&host.backend),
        tree: match &host.cgroups {
            Support::Available(tree) => Some(Arc::clone(tree)),
            Support::Unavailable(_) => None,
        },
        ids: prepared.session_ids(),
        stores: None,
        environment: None,
        workdirs: if needs_workdir { Some(host.workdirs()?) } else { None },
        turns: Arc::clone(&host.turns),
        protection: Arc::clone(&prepared.protection),
        program: prepared.program.clone(),
        template,
        results: Arc::clone(&host.results),
        account,
        quotas: host.quotas.of(tenant),
        approvals: Arc::clone(&host.approvals),
        observer,
    };
    Ok(LaunchPlan { policy, context })
}

/// The times of a session as they are configured now.
pub(super) const fn timing(settings: &Settings) -> Timing {
    Timing {
        interrupt_grace: settings.session.interrupt_grace,
        start_timeout: settings.session.start_timeout,
        queue_depth: settings.session.queue_depth,
        results_kept: settings.session.results_kept,
    }
}

/// What the configuration says about these reports: the floor has to be there, `on` wants every one
/// enforced, `auto` warns.
pub(super) fn judge(
    sandbox: &Sandbox,
    environment: &str,
    protection: &[Report],
) -> Result<(), StartError> {
    let mode = sandbox.mode;
    let missing = || protection.iter().filter(|report| report.status != Status::Enforced);
    if mode == Mode::On && missing().next().is_some() {
        return Err(StartError::LayersMissing(missing().cloned().collect()));
    }
    let absent = below_floor(sandbox, protection);
    if !absent.is_empty() {
        let is_there = |layer: &&Layer| absent.iter().all(|report| report.layer != **layer);
        let rest: Vec<_> =
            sandbox.required().iter().filter(is_there).map(|layer| layer.name()).collect();
        let rest = if rest.is_empty() { "none".to_owned() } else { rest.join(",") };
        let environment = environment.to_owned();
        return Err(StartError::RequiredMissing { environment, missing: absent, rest });
    }
    match mode {
        Mode::On => Ok(()),
        Mode::Auto => {
            for Report { layer, status, detail, fix } in missing() {
                tracing::warn!(%layer, %status, detail, fix, "sandbox layer is not fully enforced");
            }
            Ok(())
        }
        Mode::Off => {
            tracing::warn!(
                "SANDBOX IS OFF: code runs with all the rights of this process \
                 (set sandbox.mode to auto or on)"
            );
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
