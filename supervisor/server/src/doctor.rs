//! Examines the host: the layers as a trial session found them, and the facts behind them.
//!
//! It reports what a trial read back, never what should be there.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Uid, User};
use serde::Serialize;
use vivarium_api_types::EnvironmentInfo;
use vivarium_engine::cgroup::{Layout, Mounts};
use vivarium_engine::passt::NoPasta;
use vivarium_engine::settings::{Mode, Settings};
use vivarium_engine::{DEFAULT_TENANT, Engine, below_floor};
use vivarium_protocol::error_chain;
use vivarium_protocol::layer::{Report, Status};
use vivarium_protocol::policy::Network;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Whether mode `on` would start.
    pub ok: bool,
    /// Whether the daemon starts with this configuration.
    pub starts: bool,
    /// Why the trial session could not start; null if it did.
    pub error: Option<String>,
    /// Every layer, in order.
    pub layers: Vec<Offered>,
    /// The environments, with the state of their templates.
    pub environments: Vec<EnvironmentInfo>,
    pub facts: Vec<Fact>,
}

/// A layer that the host offers, or why it does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offered {
    /// As the trial session reported it.
    #[serde(flatten)]
    pub report: Report,
    /// The key of the configuration that keeps sessions from having it; null if none does.
    pub disabled_by: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// Tries a session with every layer, whatever is configured.
pub async fn examine(configured: &Settings) -> Diagnosis {
    let mut settings = configured.clone();
    settings.sandbox.mode = Mode::Auto;
    settings.sandbox.disable_layers.clear();
    settings.sandbox.require = Some(Vec::new());
    settings.keep_none_ready();
    // So that it is tried.
    settings.sandbox.allowed_networks.push(Network::Full);
    let mut facts = facts();
    match Engine::start(Arc::new(settings)).await {
        Err(error) => {
            let error = Some(error_chain(&error));
            let (ok, starts) = (false, false);
            Diagnosis { ok, starts, error, layers: vec![], environments: vec![], facts }
        }
        Ok(engine) => {
            engine.build_templates().await;
            let refused = engine.try_templates().await;
            let mut host = engine.host(DEFAULT_TENANT);
            for environment in &mut host.environments {
                if let Some(why) = refused.get(&environment.name) {
                    environment.template.state = "unavailable".to_owned();
                    environment.template.reason = Some(why.clone());
                }
            }
            facts.push(fact("network full", full_network(engine.shares_network())));
            engine.shutdown(Duration::ZERO).await;
            let ok = host.layers.iter().all(|report| report.status == Status::Enforced);
            let starts = match configured.sandbox.mode {
                Mode::On => ok,
                Mode::Auto | Mode::Off => below_floor(&configured.sandbox, &host.layers).is_empty(),
            };
            let offered = |report: Report| Offered {
                disabled_by: configured.sandbox.disabled_by(report.layer),
                report,
            };
            let layers = host.layers.into_iter().map(offered).collect();
            let environments = host.environments;
            Diagnosis { ok, starts, error: None, layers, environments, facts }
        }
    }
}

/// What the layers depend on, as far as it is readable.
fn facts() -> Vec<Fact> {
    let mut facts = vec![
        fact("kernel", kernel()),
        fact("user", user()),
        fact("security modules", security_modules()),
        fact("cgroups", cgroups()),
        fact("subordinate user ids", subordinate("/etc/subuid")),
        fact("subordinate group ids", subordinate("/etc/subgid")),
        fact("around us", around(&read("/proc/self/status"))),
    ];
    for name in [
        "kernel/core_pattern",
        "user/max_user_namespaces",
        "kernel/unprivileged_userns_clone",
        "kernel/apparmor_restrict_unprivileged_userns",
    ] {
        // The last two are of some distributions only.
        if let Ok(value) = fs::read_to_string(format!("/proc/sys/{name}")) {
            facts.push(fact(&name.replace('/', "."), value.trim().to_owned()));
        }
    }
    facts
}

/// What a session of network `full` has, if the operator permits that.
fn full_network(shares: Option<NoPasta>) -> String {
    match shares {
        None => "its own, through passt and a packet filter".to_owned(),
        Some(missing) => format!("the host's, unrestricted: {missing}"),
    }
}

fn fact(name: &str, value: String) -> Fact {
    Fact { name: name.to_owned(), value }
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .map_or_else(|error| format!("{path}: {error}"), |text| text.trim().to_owned())
}

fn security_modules() -> String {
    fs::read_to_string("/sys/kernel/security/lsm").map_or_else(
        |error| format!("unknown: securityfs can not be read ({error})"),
        |text| text.trim().to_owned(),
    )
}

fn kernel() -> String {
    nix::sys::utsname::uname().map_or_else(
        |errno| format!("unknown: {errno}"),
        |name| format!("{} {}", name.release().to_string_lossy(), name.machine().to_string_lossy()),
    )
}

fn user() -> String {
    let uid = Uid::effective();
    match User::from_uid(uid) {
        Ok(Some(user)) => format!("{} ({uid})", user.name),
        _ => uid.to_string(),
    }
}

fn cgroups() -> String {
    let mounts = Mounts::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let layout = match mounts.layout {
        Layout::Unified => "v2",
        Layout::Hybrid => "v2 beside v1 hierarchies",
        Layout::None => "no v2",
    };
    let Some(own) = mounts.own else { return layout.to_owned() };
    let controllers = read(&own.join("cgroup.controllers").to_string_lossy());
    let controllers = if controllers.is_empty() { "none" } else { &controllers };
    format!("{layout}; ours is {}, its controllers: {controllers}", own.display())
}

/// The ranges that a file grants to the daemon's user (`subuid(5)`).
fn subordinate(path: &str) -> String {
    let uid = Uid::effective();
    let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
    let Ok(text) = fs::read_to_string(path) else { return format!("none ({path} is not there)") };
    let ranges = ranges(&text, name.as_deref(), &uid.to_string());
    if ranges.is_empty() { format!("none in {path}") } else { ranges.join(", ") }
}

fn ranges(text: &str, name: Option<&str>, uid: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(owner, _)| Some(*owner) == name || *owner == uid)
        .filter_map(|(_, range)| range.split_once(':'))
        .map(|(first, count)| format!("{count} from {first}"))
        .collect()
}

/// Restrictions that this process inherited (`proc_pid_status(5)`).
fn around(status: &str) -> String {
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default()
    };
    let mut found = Vec::new();
    if field("Seccomp:") == "2" {
        found.push("a seccomp filter");
    }
    if field("NoNewPrivs:") == "1" {
        found.push("no_new_privs (newuidmap can not work)");
    }
    if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_restrictions_are_reported() {
        assert_eq!(around("NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"), "nothing");
        let both = around("NoNewPrivs:\t1\nSeccomp:\t2\n");
        assert_eq!(both, "a seccomp filter, no_new_privs (newuidmap can not work)");
    }

    #[test]
    fn the_network_of_full_sessions_is_told_with_the_fix() {
        assert!(full_network(None).starts_with("its own"));
        let missing = NoPasta { why: "no pasta".to_owned(), fix: "install passt".to_owned() };
        let told = full_network(Some(missing));
        assert_eq!(told, "the host's, unrestricted: no pasta (fix: install passt)");
    }

    #[test]
    fn only_ranges_of_our_user_count() {
        let text = "other:100000:65536\nme:165536:65536\n1000:5:6\nbroken\n";
        let found = ranges(text, Some("me"), "1000");
        assert_eq!(found, ["65536 from 165536", "6 from 5"]);
        assert!(ranges(text, None, "7").is_empty());
    }
}
