//! `[tenant.sandbox]`, `[tenant.session]` and `[tenant.approval]`: values of a tenant's own, in place
//! of those of `[sandbox]`, `[session]` and `[approval]`.

use std::collections::BTreeSet;

use vivarium_protocol::policy::Network;

use super::{Approval, Sandbox, Session, Settings};

type Copy<T> = fn(to: &mut T, from: &T);

/// A key that a tenant may have a value of its own for, and how that is taken over.
type Overridable<T> = (&'static str, Copy<T>);

macro_rules! limits {
    ($($name:ident),+) => { [$((stringify!($name), |to: &mut Sandbox, from: &Sandbox| {
        to.limits.$name = from.limits.$name;
    })),+] };
}

const LIMITS: [Overridable<Sandbox>; 10] = limits![
    max_memory_mb,
    max_cpu_secs,
    max_procs,
    max_open_fds,
    max_file_size_mb,
    max_disk_mb,
    max_inodes,
    cpu_cores,
    max_output_bytes,
    max_result_bytes
];

const NETWORKS: [Overridable<Sandbox>; 2] = [
    ("network", |to, from| to.network = from.network),
    ("allowed_networks", |to, from| to.allowed_networks.clone_from(&from.allowed_networks)),
];

const CODE_POLICY: [Overridable<Sandbox>; 6] = [
    ("policy", |to, from| to.code_policy.policy = from.code_policy.policy),
    ("max_work", |to, from| to.code_policy.max_work = from.code_policy.max_work),
    ("imports", |to, from| to.code_policy.imports.clone_from(&from.code_policy.imports)),
    ("audit_events", |to, from| {
        to.code_policy.audit_events.clone_from(&from.code_policy.audit_events);
    }),
    ("echo", |to, from| to.code_policy.echo = from.code_policy.echo),
    ("prints", |to, from| to.code_policy.prints = from.code_policy.prints),
];

const SESSION: [Overridable<Session>; 13] = [
    ("exec_timeout", |to, from| to.exec_timeout = from.exec_timeout),
    ("max_exec_timeout", |to, from| to.max_exec_timeout = from.max_exec_timeout),
    ("interrupt_grace", |to, from| to.interrupt_grace = from.interrupt_grace),
    ("idle_timeout", |to, from| to.idle_timeout = from.idle_timeout),
    ("max_lifetime", |to, from| to.max_lifetime = from.max_lifetime),
    ("queue_depth", |to, from| to.queue_depth = from.queue_depth),
    ("results_kept", |to, from| to.results_kept = from.results_kept),
    ("tools", |to, from| to.tools = from.tools),
    ("call_timeout", |to, from| to.calls.timeout = from.calls.timeout),
    ("max_call_timeout", |to, from| to.calls.max_timeout = from.calls.max_timeout),
    ("max_call_wait", |to, from| to.calls.max_wait = from.calls.max_wait),
    ("max_calls", |to, from| to.calls.max_calls = from.calls.max_calls),
    ("tool_servers", |to, from| to.tool_servers.clone_from(&from.tool_servers)),
];

const APPROVAL: [Overridable<Approval>; 6] = [
    ("executions", |to, from| to.executions = from.executions),
    ("egress", |to, from| to.egress = from.egress),
    ("timeout", |to, from| to.timeout = from.timeout),
    ("remember", |to, from| to.remember = from.remember),
    ("remember_for", |to, from| to.remember_for = from.remember_for),
    ("max_waiting", |to, from| to.max_waiting = from.max_waiting),
];

fn of_sandbox() -> impl Iterator<Item = &'static Overridable<Sandbox>> {
    LIMITS.iter().chain(&NETWORKS).chain(&CODE_POLICY)
}

/// The keys of `[sandbox]` that a tenant may have values of its own for.
pub fn overridable_of_sandbox() -> impl Iterator<Item = &'static str> {
    of_sandbox().map(|(name, _)| *name)
}

/// The keys of `[session]` that a tenant may have values of its own for.
pub fn overridable_of_session() -> impl Iterator<Item = &'static str> {
    SESSION.iter().map(|(name, _)| *name)
}

/// The keys of `[approval]` that a tenant may have values of its own for.
pub fn overridable_of_approval() -> impl Iterator<Item = &'static str> {
    APPROVAL.iter().map(|(name, _)| *name)
}

/// A tenant's own values. Of these sections only the keys named mean anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Overrides {
    pub sandbox: Sandbox,
    pub sandbox_keys: BTreeSet<&'static str>,
    pub session: Session,
    pub session_keys: BTreeSet<&'static str>,
    pub approval: Approval,
    pub approval_keys: BTreeSet<&'static str>,
}

impl Overrides {
    fn apply(&self, settings: &mut Settings) {
        for (name, copy) in of_sandbox() {
            if self.sandbox_keys.contains(name) {
                copy(&mut settings.sandbox, &self.sandbox);
            }
        }
        for (name, copy) in &SESSION {
            if self.session_keys.contains(name) {
                copy(&mut settings.session, &self.session);
            }
        }
        for (name, copy) in &APPROVAL {
            if self.approval_keys.contains(name) {
                copy(&mut settings.approval, &self.approval);
            }
        }
    }
}

impl Settings {
    /// Whether a session of anybody may have this network.
    pub fn permits(&self, network: Network) -> bool {
        let has = |sandbox: &Sandbox| {
            sandbox.network == network || sandbox.allowed_networks.contains(&network)
        };
        let mut own = self.tenants.keys().filter_map(|name| self.of_tenant(name));
        has(&self.sandbox) || own.any(|own| has(&own.sandbox))
    }

    /// The settings that hold for a tenant; `None` if it has no values of its own, and these do. Of
    /// the tenants they have this one alone.
    pub fn of_tenant(&self, name: &str) -> Option<Self> {
        let (name, tenant) = self.tenants.get_key_value(name)?;
        let overrides = tenant.overrides.as_ref()?;
        let mut own = Self { tenants: [(name.clone(), tenant.clone())].into(), ..self.clone() };
        overrides.apply(&mut own);
        Some(own)
    }
}
