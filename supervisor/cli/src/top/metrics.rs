//! The tenants, from a daemon's metrics: the only route that shows more than the caller's own
//! tenant.
//!
//! Prometheus' text format ("Exposition formats" of its documentation). A line that is not
//! understood is skipped: a newer daemon may have more.

use std::collections::BTreeMap;

use serde::Serialize;

const NAMES: [&str; 5] = [
    "vivarium_sessions",
    "vivarium_queue_depth",
    "vivarium_tenant_cpu_seconds_total",
    "vivarium_tenant_memory_bytes",
    "vivarium_tenant_processes",
];

/// A tenant; a figure is none where the daemon cannot tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) sessions: u64,
    pub(super) running: u64,
    pub(super) queued: u64,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) processes: Option<u64>,
}

/// A sample: its name, its labels and its value.
type Sample<'a> = (&'a str, BTreeMap<&'a str, String>, f64);

/// The tenants, by name.
pub(super) fn tenants(text: &str) -> Vec<Tenant> {
    let mut tenants: BTreeMap<String, Tenant> = BTreeMap::new();
    for (name, labels, value) in text.lines().filter_map(sample) {
        let Some(tenant) = labels.get("tenant") else { continue };
        if !NAMES.contains(&name) {
            continue;
        }
        let of = tenants.entry(tenant.clone()).or_default();
        match name {
            "vivarium_sessions" => {
                of.sessions += whole(value);
                if labels.get("state").is_some_and(|state| state == "running") {
                    of.running += whole(value);
                }
            }
            "vivarium_queue_depth" => of.queued += whole(value),
            "vivarium_tenant_cpu_seconds_total" => of.cpu_seconds = Some(value),
            "vivarium_tenant_memory_bytes" => of.memory_bytes = Some(whole(value)),
            _ => of.processes = Some(whole(value)),
        }
    }
    tenants.into_iter().map(|(name, tenant)| Tenant { name, ..tenant }).collect()
}

/// Counts and bytes are whole, and never below nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            if let Some(after) = inner.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = inner.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label, value);
            inner = after.strip_prefix(',').unwrap_or(after);
        }
    }
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some((name, labels, value))
}

/// The text up to the quote that ends it, and what comes after.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c => c,
            }),
            (_, c) => value.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_samples_become_one_row() {
        let text = "# HELP vivarium_sessions Sessions.\n# TYPE vivarium_sessions gauge\n\
            vivarium_sessions{state=\"idle\",tenant=\"a\"} 2\n\
            vivarium_sessions{state=\"running\",tenant=\"a\"} 1\n\
            vivarium_sessions{tenant=\"b,\\\"}\\n\",state=\"idle\"} 4 1700000000\n\
            vivarium_queue_depth{tenant=\"a\"} 3\n\
            vivarium_tenant_cpu_seconds_total{tenant=\"a\"} 1.5\n\
            vivarium_tenant_memory_bytes{tenant=\"a\"} 1.048576e+06\n\
            vivarium_build_info{version=\"1\"} 1\nnonsense\nbroken{tenant=\"a 1\n";
        let found = tenants(text);
        let a = Tenant {
            name: "a".into(),
            sessions: 3,
            running: 1,
            queued: 3,
            cpu_seconds: Some(1.5),
            memory_bytes: Some(1 << 20),
            processes: None,
        };
        let b = Tenant { name: "b,\"}\n".into(), sessions: 4, ..Tenant::default() };
        assert_eq!(found, [a, b]);
    }
}
