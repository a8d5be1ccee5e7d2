//! Tenants' quotas, and their own values for keys of other sections.

use vivarium_engine::settings::{Quotas, Rate};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn own(lines: &str) -> Config {
    resolve(&file(&tenant("a", "1", lines))).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn quotas_are_rates_and_numbers() {
    let config = own("session_rate = \"10/1m\"\nexecution_rate = \"600/1h30m\"\n\
                      max_executions = 8\nmax_queued = 4\nmax_results_mb = 7\n");
    let at = |value| Limit::new(value).unwrap();
    let expected = Quotas {
        session_rate: Some(Rate { count: 10, per: 60 * SECOND }),
        execution_rate: Some(Rate { count: 600, per: 5400 * SECOND }),
        transfer_rate: None,
        egress_rate: None,
        max_executions: at(8),
        max_queued: at(4),
        max_results_mb: 7,
    };
    assert_eq!(config.settings.tenants["a"].quotas, expected);
    for bad in
        ["5", "\"5\"", "\"5/\"", "\"0/1s\"", "\"5/0s\"", "\"5/1y\"", "\"-1/1s\"", "\"1.5/1s\""]
    {
        refused(&tenant("a", "1", &format!("session_rate = {bad}")), "tenant.a.session_rate: ");
    }
    let bytes = |rate: &str| tenant("a", "1", &format!("transfer_rate = {rate:?}"));
    for good in ["65536/8s", "1000000/1s", "1073741824/1d", "unlimited"] {
        assert!(resolve(&file(&bytes(good))).is_ok(), "{good}");
    }
    for bad in ["65535/1s", "65536/9s", "1000000000/2d"] {
        refused(&bytes(bad), "at least 65536 at once, and 8192 a second");
    }
    refused(&tenant("a", "1", "max_executions = 0"), "tenant.a.max_executions: 0 is not a limit");
    refused(&tenant("a", "1", "max_results_mb = 1000000"), "at most server.max_tenant_buffered_mb");
}

#[test]
fn environments_of_a_tenant_are_there() {
    let config = own("allowed_environments = [\"default\"]");
    assert!(config.settings.allows_environment("a", "default"));
    assert!(!config.settings.allows_environment("a", "other"));
    assert!(config.settings.allows_environment("b", "other"), "nothing is said of it");
    refused(
        &tenant("a", "1", "allowed_environments = [\"other\"]"),
        "tenant.a.allowed_environments: there is no environment \"other\"",
    );
    refused(&tenant("a", "1", "allowed_environments = []"), "could have no session");
}

#[test]
fn values_of_a_tenant_replace_those_of_all() {
    let config = own("[tenant.sandbox]\nmax_procs = 5\nmax_memory_mb = 4096\nnetwork = \"none\"\n\
                      [tenant.session]\nexec_timeout = \"5s\"\nmax_lifetime = \"1h\"\n");
    let settings = config.settings.of_tenant("a").unwrap();
    let of_all = &config.settings;
    assert_eq!(settings.sandbox.limits.max_procs.get(), Some(5));
    assert_eq!(settings.sandbox.limits.max_memory_mb.get(), Some(4096), "an operator may widen");
    assert_eq!(settings.sandbox.network, Network::None);
    assert_eq!(settings.session.exec_timeout, 5 * SECOND);
    assert_eq!(settings.session.max_lifetime, Some(3600 * SECOND));
    assert_eq!(settings.sandbox.limits.max_disk_mb, of_all.sandbox.limits.max_disk_mb);
    assert_eq!(settings.session.idle_timeout, of_all.session.idle_timeout);
    assert_eq!(of_all.sandbox.limits.max_procs.get(), Some(64));
    assert!(of_all.of_tenant("b").is_none());
    let json = show_json(&config);
    assert_eq!(json["tenant.a.sandbox.max_procs"]["origin"], "/etc/v.toml:5");
    assert_eq!(json["tenant.a.sandbox.max_disk_mb"]["value"], serde_json::Value::Null);
    let shown = show(&config);
    assert_eq!(resolve(&file(&shown)).unwrap().settings.tenants, of_all.tenants, "{shown}");
}

#[test]
fn what_holds_for_a_tenant_is_shown_with_its_origin() {
    let text = tenant("a", "1", "max_sessions = 3\n[tenant.sandbox]\nmax_procs = 5")
        + &tenant("b", "2", "")
        + "[sandbox]\nmax_procs = 7\nmax_inodes = 99\n";
    let config = || resolve(&file(&text)).unwrap();
    let shown = show_json(&of_tenant(config(), "a").unwrap());
    for (path, value, origin) in [
        ("tenant.a.max_sessions", serde_json::json!(3), "/etc/v.toml:4"),
        ("tenant.a.sandbox.max_procs", 5.into(), "/etc/v.toml:6"),
        ("tenant.a.sandbox.max_inodes", 99.into(), "/etc/v.toml:13"),
        ("tenant.a.session.exec_timeout", "30s".into(), "default"),
    ] {
        assert_eq!(shown[path], serde_json::json!({"value": value, "origin": origin}), "{path}");
    }
    let text = show(&of_tenant(config(), "b").unwrap());
    assert!(text.contains("[tenant.sandbox]\nmax_memory_mb = 2048"), "{text}");
    assert!(text.contains("max_procs = 7") && !text.contains("\"a\""), "{text}");
    assert!(of_tenant(config(), "c").is_none());
}

/// The two tables stand below the tenant that they are of.
#[test]
fn each_tenant_has_tables_of_its_own() {
    let text = tenant("a", "1", "[tenant.sandbox]\nmax_procs = 5")
        + &tenant("b", "2", "[tenant.sandbox]\nmax_procs = 6")
        + &tenant("c", "3", "");
    let settings = resolve(&file(&text)).unwrap().settings;
    let procs = |name: &str| Some(settings.of_tenant(name)?.sandbox.limits.max_procs.get());
    assert_eq!((procs("a"), procs("b"), procs("c")), (Some(Some(5)), Some(Some(6)), None));
}

#[test]
fn values_of_a_tenant_are_checked_like_those_of_all() {
    for (lines, wanted) in [
        ("[tenant.sandbox]\nmax_procs = 0", "tenant.a.sandbox.max_procs: 0 is not a limit"),
        ("[tenant.sandbox]\nmax_memory_mb = 5", "tenant.a.sandbox.max_memory_mb: 5 is too low"),
        (
            "[tenant.sandbox]\nnetwork = \"full\"",
            "/etc/v.toml:5: tenant.a.sandbox.network: is not one",
        ),
        ("[tenant.session]\nexec_timeout = \"2h\"", "tenant.a.session.exec_timeout: is longer"),
        ("[tenant.sandbox]\nmode = \"off\"", "tenant.sandbox.mode: it holds for all tenants"),
        ("[tenant.sandbox]\nrequire = []", "tenant.sandbox.require: it holds for all tenants"),
        ("[tenant.session]\nmax_sessions = 5", "tenant.session.max_sessions: it holds for all"),
        ("[tenant.sandbox]\nmax_prox = 5", "tenant.sandbox.max_prox: no such key (did you mean"),
        (
            "[tenant.sandbax]\nmax_procs = 5",
            "tenant.sandbax: no such key (did you mean \"sandbox\"?)",
        ),
        ("sandbox = 5", "tenant.sandbox: is the table [tenant.sandbox]"),
        ("allowed_networks = []", "tenant.allowed_networks: it belongs into [tenant.sandbox]"),
        ("idle_timeout = \"5s\"", "tenant.idle_timeout: it belongs into [tenant.session]"),
    ] {
        refused(&tenant("a", "1", lines), wanted);
    }
    // What is wrong for all is told once.
    let all =
        tenant("a", "1", "[tenant.sandbox]\nmax_procs = 5") + "[sandbox]\nnetwork = \"full\"\n";
    assert_eq!(errors(&file(&all)).len(), 1);
}

/// A tenant's values stand on those of all that are in use, not on those that wait for a restart.
#[test]
fn a_reload_changes_values_of_tenants_and_weakens_no_sandbox() {
    let old = own("[tenant.sandbox]\nmax_procs = 5");
    let new = resolve(&file(
        &(tenant("a", "1", "[tenant.sandbox]\nmax_procs = 6")
            + "[sandbox]\nmode = \"off\"\nrequire = []\nmax_inodes = 99\n"),
    ))
    .unwrap();
    let reloaded = reload(&old.settings, &old, &new).unwrap();
    assert_eq!(reloaded.changed, ["sandbox.max_inodes", "tenant.a"]);
    let own = reloaded.config.settings.of_tenant("a").unwrap();
    assert_eq!(own.sandbox.mode, Mode::Auto);
    assert_eq!(own.sandbox.required(), [Layer::Mounts]);
    assert_eq!(own.sandbox.limits.max_procs.get(), Some(6));
    assert_eq!(own.sandbox.limits.max_inodes.get(), Some(99));
}

#[test]
fn sources_are_known_without_the_operators_paths() {
    let mut sources =
        file(&("[sandbox]\nmax_procs = 1\n".to_owned() + &tenant("a", "1", "max_procs = 9")));
    sources.variables = vec![("VIVARIUM_SANDBOX_MAX_INODES".into(), "99".into())];
    sources.flags.extend(flag("--sb-max-cpu-secs", &["3".into()]));
    let known = resolve(&sources).unwrap().settings.sources;
    assert_eq!(known.get("sandbox.max_procs"), Some(&PolicySource::File));
    assert_eq!(known.get("sandbox.max_inodes"), Some(&PolicySource::Environment));
    assert_eq!(known.get("sandbox.max_cpu_secs"), Some(&PolicySource::CommandLine));
    assert_eq!(known.get("tenant.a.max_procs"), Some(&PolicySource::File));
    assert_eq!(known.get("sandbox.max_disk_mb"), None, "the default");
}
