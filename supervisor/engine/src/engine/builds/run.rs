//! A build: a session of its own, a command in it, and what is made of its directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::sleep;
use vivarium_api_types::{BuildRequest, CommandRequest, Outcome};
use vivarium_protocol::outcome::{Cause, Status};
use vivarium_protocol::places;
use vivarium_protocol::policy::Network;

use super::super::environment::Prepared;
use super::super::{Engine, EngineError, egress, is_valid_id, request, trial};
use super::{Build, OPERATOR_TENANT, hash_lock};
use crate::artefacts::{ArtefactError, Artefacts, BuildRecord, Held, Owner, Plan, Staging};
use crate::engine::execute::ResponseMode;
use crate::observe::Observer;
use crate::session::{self, Adjustable, Identity, Session};
use crate::settings::{ApprovalRule, Settings};
use crate::template::Template;

/// What runs inside.
const PROGRAM: &str = include_str!("build_environment.py");

/// How often a build's directory is measured.
const MEASURE_EVERY: Duration = Duration::from_secs(2);

/// The longest text of each part of a request, in bytes.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// What the program is told, but for where things are.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Order {
    root: &'static str,
    uv: PathBuf,
    requirements: Option<String>,
    pyproject: Option<String>,
    lock: Option<String>,
    require_hashes: bool,
    /// Nothing of a package is built, which would run it.
    wheels_only: bool,
    /// Finds out whether it can be built, and leaves nothing.
    is_trial: bool,
}

/// A build that is to be carried out.
#[derive(Debug)]
pub(super) struct BuildPlan {
    pub(super) owner: Owner,
    pub(super) name: String,
    /// Whose session builds.
    pub(super) tenant: String,
    pub(super) base: String,
    pub(super) prepared: Prepared,
    pub(super) uv: PathBuf,
    pub(super) order: Order,
}

/// Why there is no new environment, for whoever wanted it.
struct Failed {
    reason: String,
    log: String,
}

impl Failed {
    fn because(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), log: String::new() }
    }
}

impl From<ArtefactError> for Failed {
    fn from(error: ArtefactError) -> Self {
        Self::because(vivarium_protocol::error_chain(&error))
    }
}

/// Checks what is asked for.
pub(super) fn order(request: &BuildRequest) -> Result<Order, EngineError> {
    if !is_valid_id(&request.name) {
        let reason = "a name is 1 to 64 of A-Z, a-z, 0-9, '_' and '-'";
        return Err(EngineError::invalid("name", reason));
    }
    let BuildRequest { requirements, pyproject, lock, .. } = request;
    for (field, text) in [("requirements", requirements), ("pyproject", pyproject), ("lock", lock)]
    {
        if text.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES || text.contains('\0')) {
            let reason = format!("it is at most {MAX_TEXT_BYTES} bytes of text, without NUL");
            return Err(EngineError::invalid(field, reason));
        }
    }
    match (requirements, pyproject, lock) {
        (Some(_), None, None) | (None, Some(_), _) => {}
        (Some(_), ..) => {
            let reason = "give requirements, or pyproject with or without lock, and not both";
            return Err(EngineError::invalid("requirements", reason));
        }
        (None, None, Some(_)) => {
            let reason = "a lock goes with the pyproject.toml that it was made for";
            return Err(EngineError::Missing { field: "pyproject", reason });
        }
        (None, None, None) => {
            let reason = "give requirements, or pyproject with or without lock";
            return Err(EngineError::Missing { field: "requirements", reason });
        }
    }
    // As pip has it: one hash, and every requirement needs one. A lock has them, unless its packages
    // came from a directory.
    let has_hash = requirements.as_ref().is_some_and(|text| text.contains("--hash"));
    Ok(Order {
        root: places::ENVIRONMENT,
        uv: PathBuf::new(),
        requirements: requirements.clone(),
        pyproject: pyproject.clone(),
        lock: lock.clone(),
        require_hashes: has_hash || lock.as_ref().is_some_and(|lock| lock.contains("hash = \"")),
        wheels_only: hash_lock::is_locked(request),
        is_trial: false,
    })
}

impl Engine {
    /// Builds, and has the name stand for what came of it.
    pub(super) async fn carry_out(&self, artefacts: &Artefacts, build: &Build, plan: BuildPlan) {
        let (owner, name) = (plan.owner.clone(), plan.name.clone());
        let mut record = BuildRecord {
            started_at: build.started_at,
            ended_at: None,
            error: None,
            artefact: None,
        };
        self.keep(artefacts, &owner, &name, &record, None).await;
        let log = match self.build(artefacts, build, plan).await {
            Ok((hash, log)) => {
                record.artefact = Some(hash);
                log
            }
            Err(Failed { reason, log }) => {
                tracing::info!(name, owner = owner.tenant(), reason, "a build failed");
                record.error = Some(reason);
                log
            }
        };
        record.ended_at = Some(Timestamp::now());
        self.keep(artefacts, &owner, &name, &record, Some(&log)).await;
        self.note_build(&owner, &name, &record);
        self.arrange_built_templates().await;
        build.state().ended = Some(record);
        build.over.send_replace(true);
        artefacts.collect().await;
    }

    async fn keep(
        &self,
        artefacts: &Artefacts,
        owner: &Owner,
        name: &str,
        record: &BuildRecord,
        log: Option<&str>,
    ) {
        if let Err(error) = artefacts.write_build(owner, name, record, log).await {
            tracing::warn!(%error, name, "a build is not recorded");
        }
    }

    async fn build(
        &self,
        artefacts: &Artefacts,
        build: &Build,
        plan: BuildPlan,
    ) -> Result<(String, String), Failed> {
        let settings = self.settings_of(&plan.tenant);
        let staging = artefacts.stage(plan.prepared.session_ids().as_ref()).await?;
        let built = self.run_session(artefacts, build, &plan, &staging, &settings).await;
        let (log, hash_locked) = match built {
            Ok(built) => built,
            Err(failed) => {
                match Arc::into_inner(staging) {
                    Some(staging) => artefacts.discard(staging).await,
                    None => tracing::error!("a process of a failed build is left"),
                }
                return Err(failed);
            }
        };
        // What is left of the tenant's quota.
        let quota = settings.builds_of(&plan.tenant).max_mb.get();
        let used = artefacts.bytes_of(&plan.owner);
        let quota_bytes = quota.map_or(u64::MAX, |mb| mb.saturating_mul(1 << 20));
        let left = quota_bytes.saturating_sub(used);
        let made = Plan {
            base: plan.base,
            interpreter: plan.prepared.interpreter.path.clone(),
            python_version: plan.prepared.interpreter.version.clone(),
            hash_locked,
            max_bytes: settings.builds.max_mb.saturating_mul(1 << 20).min(left),
            quota_bytes,
            max_inodes: settings.builds.max_inodes,
        };
        match artefacts.publish(staging, &plan.owner, &plan.name, made).await {
            Ok(record) => Ok((record.hash, log)),
            Err(error) => Err(Failed { log, ..error.into() }),
        }
    }

    /// Has a session build, and returns what it printed, and whether that is hash-locked, when nothing of
    /// it is left.
    async fn run_session(
        &self,
        artefacts: &Artefacts,
        build: &Build,
        plan: &BuildPlan,
        staging: &Arc<Staging>,
        settings: &Arc<Settings>,
    ) -> Result<(String, bool), Failed> {
        let session = self.start_builder(plan, staging, settings).await?;
        let order = Order { uv: plan.uv.clone(), ..plan.order.clone() };
        let run = |order, on| self.run_command(artefacts, on, order, staging, settings, &session);
        let ran = async {
            let mut order = order;
            if order.wheels_only {
                // There may be packages of which there is no wheel. Nothing of any package has run in this
                // session yet, nor does anything if this succeeds: it is believed.
                let trial = run(Order { is_trial: true, ..order.clone() }, None).await?;
                order.wheels_only = trial.status == Status::Ok && trial.exit_code == Some(0);
            }
            let wheels_only = order.wheels_only;
            Ok((run(order, Some(build)).await?, wheels_only))
        };
        let ran: Result<(Arc<Outcome>, bool), Failed> = ran.await;
        session.close(Cause::Deleted).await;
        drop(session);
        let (outcome, hash_locked) = ran?;
        let log = outcome.stdout.clone() + &outcome.stderr;
        match (outcome.status, outcome.exit_code) {
            (Status::Ok, Some(0)) => Ok((log, hash_locked)),
            (Status::TimedOut, _) => {
                let time = vivarium_api_types::duration::show(settings.builds.timeout);
                Err(Failed { reason: format!("it took longer than {time} (builds.timeout)"), log })
            }
            (_, code) => {
                let mut reason = match code {
                    Some(code) => format!("the build ended with {code}"),
                    None => format!("the build was ended: {}", outcome.detail),
                };
                if let Some(last) = log.lines().rev().find(|line| !line.trim().is_empty()) {
                    let last: String = last.chars().take(300).collect();
                    reason.push_str(&format!("; its log ends: {last}"));
                }
                Err(Failed { reason, log })
            }
        }
    }

    async fn start_builder(
        &self,
        plan: &BuildPlan,
        staging: &Arc<Staging>,
        settings: &Arc<Settings>,
    ) -> Result<Arc<Session>, Failed> {
        let BuildPlan { tenant, base, prepared, uv, .. } = plan;
        let network = self.network_of_builds(settings, prepared).await;
        let of_network = (network, network);
        let egress = self
            .egress_of(settings, tenant, of_network, None, ApprovalRule::Allow)
            .map_err(Failed::because)?;
        let limits = request::limits(&settings.sandbox.limits, None).map_err(Failed::because)?;
        let mut policy = prepared.policy(settings, limits.clone(), network, BTreeMap::new());
        if !policy.read_paths.iter().any(|path| uv.starts_with(path)) {
            policy.read_paths.push(uv.clone());
        }
        if let Some(egress) = &egress {
            egress::equip(&mut policy, prepared, egress).map_err(Failed::because)?;
        }
        let observer = match tenant.as_str() {
            OPERATOR_TENANT => Observer::default(),
            tenant => self.observer(tenant),
        };
        let mut launch = trial::launch_plan(&self.inner.host, prepared, policy, tenant, observer)
            .map_err(Failed::because)?;
        launch.context.environment = Some(Held::Building(Arc::clone(staging)));
        launch.context.template = Arc::new(Template::new(base));
        let identity = Identity {
            id: format!("build-{}", uuid::Uuid::new_v4().simple()),
            tenant: tenant.clone(),
            environment: base.clone(),
            network,
            approval: Default::default(),
        };
        let adjustable = Adjustable {
            limits: Arc::new(limits),
            metadata: BTreeMap::new(),
            idle_timeout: settings.session.idle_timeout,
            deadline: None,
        };
        let policy = super::super::admission::memory_policy(settings);
        let reservation = self.inner.memory.admit(base, policy).map_err(Failed::because)?;
        let timing = trial::timing(settings);
        let session = session::spawn(identity, adjustable, timing, launch, |_| ());
        session.was_made_under(settings);
        if let Some(egress) = egress {
            self.serve_egress(&session, egress);
        }
        let started = session.started().await;
        drop(reservation);
        match started {
            Ok(()) => Ok(session),
            Err(failure) => {
                session.gone().await;
                Err(Failed::because(format!("its session did not start: {failure}")))
            }
        }
    }

    /// `trusted` where the operator allows that and there is a gate, else what sessions have.
    async fn network_of_builds(&self, settings: &Settings, prepared: &Prepared) -> Network {
        let own = settings.sandbox.network;
        let may_be_trusted = own == Network::Trusted
            || settings.sandbox.allowed_networks.contains(&Network::Trusted);
        let wanted = if may_be_trusted { Network::Trusted } else { own };
        match prepared.network(settings, wanted) {
            Network::Trusted if self.gate_ready().await.is_err() => Network::Loopback,
            network => network,
        }
    }

    /// Runs the program, whose output is the log of a build if it is one's.
    async fn run_command(
        &self,
        artefacts: &Artefacts,
        build: Option<&Build>,
        order: Order,
        staging: &Staging,
        settings: &Arc<Settings>,
        session: &Arc<Session>,
    ) -> Result<Arc<Outcome>, Failed> {
        let order = serde_json::to_string(&order).map_err(Failed::because)?;
        let argv = ["python", "-s", "-c", PROGRAM].map(str::to_owned).to_vec();
        let command =
            CommandRequest { argv: Some(argv), stdin: Some(order), ..CommandRequest::default() };
        let mut spec = request::command(settings, command).map_err(Failed::because)?;
        spec.timeout = settings.builds.timeout;
        let handle = self.hand_over(session, (spec, None), ResponseMode::Outcome, true, None);
        let handle = handle.await.map_err(Failed::because)?;
        if let Some(build) = build {
            build.state().log = Some(handle.log());
            // Who waits for it looks again.
            build.over.send_modify(|_| ());
        }
        let outcome = handle.outcome();
        tokio::pin!(outcome);
        let max_bytes = settings.builds.max_mb.saturating_mul(1 << 20);
        let max_inodes = settings.builds.max_inodes;
        loop {
            tokio::select! {
                outcome = &mut outcome => return outcome.map_err(Failed::because),
                () = sleep(MEASURE_EVERY) => {}
            }
            if self.is_draining() {
                return Err(Failed::because("the daemon is draining"));
            }
            // What uv unpacks and downloads is there too until the end: as much again.
            let (bytes, inodes) = artefacts.measure(staging, max_inodes.saturating_mul(2)).await?;
            if bytes > max_bytes.saturating_mul(2) || inodes > max_inodes.saturating_mul(2) {
                return Err(Failed::because(format!(
                    "it takes more than {} MiB (builds.max_mb) or {max_inodes} files \
                     (builds.max_inodes), with as much again for the build itself",
                    settings.builds.max_mb
                )));
            }
        }
    }
}
