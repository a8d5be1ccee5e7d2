//! What administrators see, for people.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vivarium_api_types::{
    AdminStatus, AdminTenant, AdminTenantList, FailedReload, PauseInfo, TokenInfo, UsageReport,
};

use crate::exit::Failure;
use crate::terminal::escape;
use crate::{human, print};

pub(super) fn status(status: &AdminStatus) -> Result<(), Failure> {
    let now = Timestamp::now();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    row("version", status.version.clone());
    row("started", format!("{:.0} ({})", status.started_at, human::when(status.started_at, now)));
    row("mode", status.mode.clone());
    if let Some(FailedReload { at, error }) = &status.failed_reload {
        let (when, why) = (human::when(*at, now), one_line(error));
        let text = format!("failed {at:.0} ({when}), the configuration before it holds: {why}");
        row("reload", text);
    }
    if status.draining {
        row("draining", "yes: no new work is taken".to_owned());
    }
    if let Some(paused) = &status.paused {
        row("paused", pause(paused, now));
    }
    for (tenant, paused) in &status.paused_tenants {
        row("paused", format!("{tenant}: {}", pause(paused, now)));
    }
    row("sessions", counts(&status.sessions));
    row("queued", status.queued.to_string());
    row("tenants", status.tenants.to_string());
    if let Some(sources) = &status.tenant_sources {
        let why = sources.error.as_ref().map(|why| format!(": {}", one_line(why)));
        let when = human::when(sources.read_at, now);
        row("other tenants", format!("{}, read {when}{}", sources.state, why.unwrap_or_default()));
    }
    row("memory left", human::size_or_dash(status.memory.available_bytes));
    for environment in &status.environments {
        let layers = environment.layers.iter().map(|(of, names)| match of.as_str() {
            "enforced" => format!("{} enforced", names.len()),
            of => format!("{of}: {}", names.join(" ")),
        });
        let layers: Vec<_> = layers.collect();
        let (template, pooled) = (&environment.template.state, environment.pooled);
        let text = format!("template {template}, {pooled} pooled; layers {}", layers.join(", "));
        row(&environment.name, text);
    }
    let usage = &status.usage;
    let why = usage.error.as_ref().map(|why| format!(": {}", escape(why))).unwrap_or_default();
    row("usage ledger", format!("{}{why}", usage.state));
    print::out(print::table(&rows, &[]).as_bytes())
}

/// What is wrong with a configuration, for a cell of a table: each error has a line of its own.
fn one_line(errors: &str) -> String {
    escape(errors).replace('\n', "; ")
}

fn pause(paused: &PauseInfo, now: Timestamp) -> String {
    let reason = paused.reason.as_ref().map(|why| format!(": {}", escape(why))).unwrap_or_default();
    format!("{}{reason}", human::when(paused.since, now))
}

fn counts(of: &BTreeMap<String, u64>) -> String {
    if of.is_empty() {
        return "0".to_owned();
    }
    let counts: Vec<_> = of.iter().map(|(state, count)| format!("{count} {state}")).collect();
    counts.join(", ")
}

pub(super) fn tenants(list: &AdminTenantList) -> Result<(), Failure> {
    let heading =
        ["NAME", "SESSIONS", "MAX", "RUNNING", "QUEUED", "MEMORY", "CPU S", "STATE", "TOKENS"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for tenant in &list.tenants {
        let cpu = tenant.cpu_seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
        let tokens: Vec<_> = tenant.tokens.iter().map(token).collect();
        rows.push(vec![
            tenant.name.clone(),
            tenant.sessions.to_string(),
            tenant.max_sessions.to_string(),
            tenant.running.to_string(),
            tenant.queued.to_string(),
            human::size_or_dash(tenant.memory_bytes),
            cpu,
            state(tenant).to_owned(),
            if tokens.is_empty() { "-".to_owned() } else { tokens.join(" ") },
        ]);
    }
    print::out(print::table(&rows, &[1, 2, 3, 4, 5, 6]).as_bytes())
}

const fn state(tenant: &AdminTenant) -> &'static str {
    match (tenant.configured, tenant.paused.is_some()) {
        (false, _) => "removed",
        (true, true) => "paused",
        (true, false) => "active",
    }
}

/// A token as `name[run]`, with `!` if it has expired.
fn token(token: &TokenInfo) -> String {
    let name = token.name.as_deref().unwrap_or(&token.hash_prefix);
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.name()).collect();
    let mark = if token.expired { "!" } else { "" };
    format!("{}[{}]{mark}", escape(name), scopes.join(","))
}

pub(super) fn usage(report: &UsageReport) -> Result<(), Failure> {
    let heading = ["START", "TENANT", "CPU S", "MEMORY GIB H", "EXECUTIONS", "SESSIONS", "EGRESS"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for row in &report.rows {
        // For people: what is billed is in the JSON and the CSV.
        let mib_seconds = u32::try_from(row.memory_byte_seconds >> 20).unwrap_or(u32::MAX);
        rows.push(vec![
            format!("{:.0}", row.start),
            row.tenant.clone(),
            format!("{:.3}", row.cpu_seconds),
            format!("{:.3}", f64::from(mib_seconds) / 1024.0 / 3600.0),
            row.executions.to_string(),
            row.sessions.to_string(),
            human::size_or_dash(Some(row.egress_bytes)),
        ]);
    }
    print::out(print::table(&rows, &[2, 3, 4, 5, 6]).as_bytes())
}
