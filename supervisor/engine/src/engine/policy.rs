//! What holds for a session and its tenant, and where each value came from.
//!
//! A session keeps the limits and times that it was made with. What a request tightened is known by
//! its difference from them. The tenant's quotas, and the times of its next executions, are as they
//! are now.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use vivarium_api_types::duration;
use vivarium_api_types::{LimitsInfo, PolicyEntry, PolicySource, PolicyValue};
use vivarium_protocol::policy::Network;
use vivarium_protocol::units::{Limit, UNLIMITED};

use crate::code_policy::HeldTo;
use crate::session::{Adjustable, Session};
use crate::settings::{Approval, ApprovalRule, Overrides, Rate, Settings, Tenant};

/// The sources of a tenant's values.
struct Sources<'a> {
    settings: &'a Settings,
    overrides: Option<&'a Overrides>,
    tenant: &'a str,
}

impl<'a> Sources<'a> {
    fn new(settings: &'a Settings, tenant: &'a str) -> Self {
        let overrides = settings.tenants.get(tenant).and_then(|it| it.overrides.as_deref());
        Self { settings, overrides, tenant }
    }

    fn of(&self, path: &str) -> PolicySource {
        self.settings.sources.get(path).copied().unwrap_or_default()
    }

    fn sandbox(&self, key: &str) -> PolicySource {
        match self.overrides {
            Some(own) if own.sandbox_keys.contains(key) => PolicySource::Tenant,
            _ => self.of(&format!("sandbox.{key}")),
        }
    }

    fn session(&self, key: &str) -> PolicySource {
        match self.overrides {
            Some(own) if own.session_keys.contains(key) => PolicySource::Tenant,
            _ => self.of(&format!("session.{key}")),
        }
    }

    fn approval(&self, key: &str) -> PolicySource {
        match self.overrides {
            Some(own) if own.approval_keys.contains(key) => PolicySource::Tenant,
            _ => self.of(&format!("approval.{key}")),
        }
    }

    fn tenant(&self, key: &str) -> PolicySource {
        match self.of(&format!("tenant.{}.{key}", self.tenant)) {
            PolicySource::Default => PolicySource::Default,
            _ => PolicySource::Tenant,
        }
    }
}

/// The policy of a session. `now` are the settings that hold for its tenant.
pub(super) fn of(now: &Settings, session: &Session) -> Vec<PolicyEntry> {
    let tenant = session.identity.tenant.as_str();
    let made = session.settings().map_or(now, |made| made);
    let mut entries = kept(made, tenant, session);
    entries.extend(code_policy(made, session));
    entries.extend(approval(now, session));
    entries.extend(current(now, tenant));
    entries
}

/// What the session was made with.
fn kept(made: &Settings, tenant: &str, session: &Session) -> Vec<PolicyEntry> {
    let sources = Sources::new(made, tenant);
    let Adjustable { limits, idle_timeout, deadline, .. } = session.adjustable();
    let mut entries = Vec::new();
    let mut add = |path: &str, value: PolicyValue, source| {
        entries.push(PolicyEntry { key: path.to_owned(), value, source });
    };
    let has = members(LimitsInfo::from((*limits).clone()));
    let configured = members(LimitsInfo::from(made.sandbox.limits.clone()));
    for ((name, value), (_, own)) in has.iter().zip(&configured) {
        let source = if value == own {
            sources.sandbox(name)
        } else if name == "max_disk_mb"
            && limits.max_memory_mb == made.sandbox.limits.max_memory_mb
            && half_of(limits.max_memory_mb) == limits.max_disk_mb
        {
            // Files may take half of the memory.
            sources.sandbox("max_memory_mb")
        } else {
            PolicySource::Request
        };
        add(&format!("sandbox.{name}"), value.clone(), source);
    }
    let network = session.identity.network;
    let wanted = made.sandbox.network;
    let source = if network == wanted {
        sources.sandbox("network")
    } else if wanted == Network::Loopback && network == made.sandbox.network_fallback {
        sources.sandbox("network_fallback")
    } else {
        PolicySource::Request
    };
    add("sandbox.network", text(<&str>::from(network)), source);
    let times = &made.session;
    let source = if idle_timeout == times.idle_timeout {
        sources.session("idle_timeout")
    } else {
        PolicySource::Request
    };
    add("session.idle_timeout", time(idle_timeout), source);
    let latest = times.max_lifetime.and_then(|max| session.created_at().checked_add(max).ok());
    let at = deadline.map(|deadline| deadline.timestamp);
    match at {
        // To the millisecond: the session's own clock was read a moment later.
        Some(at) if latest.is_none_or(|latest| latest.duration_since(at).as_millis() > 100) => {
            add("session.max_lifetime", text(&format!("until {at:.0}")), PolicySource::Request);
        }
        _ => {
            let value = times.max_lifetime.map_or_else(|| text(UNLIMITED), time);
            add("session.max_lifetime", value, sources.session("max_lifetime"));
        }
    }
    let depth = PolicyValue::from(times.queue_depth as u64);
    add("session.interrupt_grace", time(times.interrupt_grace), sources.session("interrupt_grace"));
    add("session.queue_depth", depth, sources.session("queue_depth"));
    add("session.results_kept", time(times.results_kept), sources.session("results_kept"));
    entries
}

/// What its code is held to, with what presets stand for; lists only where there is one.
fn code_policy(made: &Settings, session: &Session) -> Vec<PolicyEntry> {
    let Some(HeldTo { rules, configured, environment, .. }) = session.held_to() else {
        return Vec::new();
    };
    let sources = Sources::new(made, &session.identity.tenant);
    let source = |key: &str, is_configured: bool| {
        let of = |key: &str| match sources.of(&format!("environments.{environment}.{key}")) {
            PolicySource::Default => sources.sandbox(key),
            own => own,
        };
        match of(key) {
            _ if !is_configured => PolicySource::Request,
            PolicySource::Default => of("policy"),
            own => own,
        }
    };
    let list = |names: &BTreeSet<String>| PolicyValue::List(names.iter().cloned().collect());
    let mut entries = Vec::new();
    let mut add = |path: &str, value: PolicyValue, is_configured: bool| {
        let key = path.split('.').next().unwrap_or(path);
        let (key, source) = (format!("sandbox.{path}"), source(key, is_configured));
        entries.push(PolicyEntry { key, value, source });
    };
    let work = rules.max_work.map_or_else(|| text(UNLIMITED), PolicyValue::from);
    add("max_work", work, rules.max_work == configured.max_work);
    if let Some(names) = &rules.allow {
        add("imports.allow", list(names), rules.allow == configured.allow);
    } else if !rules.deny.is_empty() {
        add("imports.deny", list(&rules.deny), rules.deny == configured.deny);
    }
    if let Some(names) = &rules.events {
        add("audit_events.deny", list(names), rules.events == configured.events);
    }
    add("echo", text(rules.echo.into()), rules.echo == configured.echo);
    let prints = if rules.prints { "true" } else { "false" };
    add("prints", text(prints), rules.prints == configured.prints);
    let of_environment = made.environments.get(environment).map_or(&[][..], |it| &it.hidden);
    let of_session = session.asked_spec().map_or(&[][..], |spec| &spec.hidden);
    let hidden: BTreeSet<_> = of_environment.iter().chain(of_session).cloned().collect();
    if !hidden.is_empty() {
        add("hidden", list(&hidden), of_session.is_empty());
    }
    entries
}

/// What somebody has to allow first: as it is now, or as the session's request tightened it.
fn approval(now: &Settings, session: &Session) -> Vec<PolicyEntry> {
    let sources = Sources::new(now, &session.identity.tenant);
    let entry = |key: &str, value: PolicyValue, source| PolicyEntry {
        key: format!("approval.{key}"),
        value,
        source,
    };
    let rule = |key: &str, rule: ApprovalRule, at_least: ApprovalRule| {
        let tighter = rule.max(at_least);
        let source = if tighter > rule { PolicySource::Request } else { sources.approval(key) };
        entry(key, text(tighter.into()), source)
    };
    let (Approval { executions, egress, .. }, own) = (&now.approval, session.identity.approval);
    let unlisted = session.egress().map(|egress| egress.unlisted());
    let mut entries = vec![
        rule("executions", *executions, own.executions.unwrap_or_default()),
        rule("egress", *egress, unlisted.or(own.egress).unwrap_or_default()),
    ];
    let Approval { timeout, remember, remember_for, max_waiting, .. } = now.approval;
    for (key, value) in [
        ("timeout", time(timeout)),
        ("remember", text(remember.into())),
        ("remember_for", time(remember_for)),
        ("max_waiting", max_waiting.into()),
    ] {
        entries.push(entry(key, value, sources.approval(key)));
    }
    entries
}

/// What holds for whatever the tenant does next.
fn current(now: &Settings, tenant: &str) -> Vec<PolicyEntry> {
    let sources = Sources::new(now, tenant);
    let mut entries = Vec::new();
    let mut add = |path: &str, value: PolicyValue, source| {
        entries.push(PolicyEntry { key: path.to_owned(), value, source });
    };
    let names = now.sandbox.allowed_networks.iter().map(|it| <&str>::from(*it).to_owned());
    let source = sources.sandbox("allowed_networks");
    add("sandbox.allowed_networks", PolicyValue::List(names.collect()), source);
    let session = &now.session;
    for (key, value) in
        [("exec_timeout", session.exec_timeout), ("max_exec_timeout", session.max_exec_timeout)]
    {
        add(&format!("session.{key}"), time(value), sources.session(key));
    }
    let none = Tenant::default();
    let Tenant { max_sessions, quotas, allowed_environments, ceilings, max_homes_mb, .. } =
        now.tenants.get(tenant).unwrap_or(&none);
    let environments = match allowed_environments {
        Some(names) => PolicyValue::List(names.clone()),
        None => PolicyValue::List(now.environments.keys().cloned().collect()),
    };
    let cores = members(LimitsInfo::from(vivarium_protocol::policy::Limits {
        cpu_cores: ceilings.cpu_cores,
        ..now.sandbox.limits.clone()
    }));
    let cores = cores.into_iter().find(|(name, _)| name == "cpu_cores");
    let cores = cores.map_or_else(|| text(UNLIMITED), |(_, value)| value);
    for (key, value) in [
        ("max_sessions", limit(*max_sessions)),
        ("session_rate", rate(quotas.session_rate)),
        ("execution_rate", rate(quotas.execution_rate)),
        ("max_executions", limit(quotas.max_executions)),
        ("max_queued", limit(quotas.max_queued)),
        ("transfer_rate", rate(quotas.transfer_rate)),
        ("egress_rate", rate(quotas.egress_rate)),
        ("max_results_mb", quotas.max_results_mb.into()),
        ("max_homes_mb", limit(*max_homes_mb)),
        ("allowed_environments", environments),
        ("cpu_weight", u64::from(ceilings.cpu_weight).into()),
        ("cpu_cores", cores),
        ("max_memory_mb", limit(ceilings.max_memory_mb)),
        ("max_procs", limit(ceilings.max_procs)),
    ] {
        add(&format!("tenant.{key}"), value, sources.tenant(key));
    }
    let source = match sources.tenant("home_max_mb") {
        PolicySource::Default => sources.of("homes.max_mb"),
        own => own,
    };
    add("tenant.home_max_mb", limit(now.home_quota(tenant).max_mb), source);
    entries
}

/// The limits by their names, as they are shown.
fn members(limits: LimitsInfo) -> Vec<(String, PolicyValue)> {
    let value = |value: Value| serde_json::from_value(value).unwrap_or_else(|_| text("?"));
    match serde_json::to_value(limits) {
        Ok(Value::Object(members)) => {
            members.into_iter().map(|(name, it)| (name, value(it))).collect()
        }
        _ => Vec::new(),
    }
}

fn half_of(limit: Limit) -> Limit {
    limit.get().and_then(|limit| Limit::new((limit / 2).max(1)).ok()).unwrap_or(limit)
}

fn text(text: &str) -> PolicyValue {
    PolicyValue::Text(text.to_owned())
}

fn time(time: Duration) -> PolicyValue {
    PolicyValue::Text(duration::show(time))
}

fn limit(limit: Limit) -> PolicyValue {
    limit.get().map_or_else(|| text(UNLIMITED), PolicyValue::from)
}

fn rate(rate: Option<Rate>) -> PolicyValue {
    rate.map_or_else(
        || text(UNLIMITED),
        |Rate { count, per }| PolicyValue::Text(format!("{count}/{}", duration::show(per))),
    )
}

#[cfg(test)]
mod tests;
