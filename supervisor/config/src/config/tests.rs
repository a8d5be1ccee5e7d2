//! The declarations against what they promise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vivarium_api_types::{LimitsInfo, ListenAddr, TokenHash};
use vivarium_engine::settings::{Ceilings, LogFormat, Mode, Tenant};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::policy::{CpuCores, Network};
use vivarium_protocol::units::Limit;

use super::*;

mod overrides;

fn host() -> Host {
    Host { uid: 7, temp_dir: "/tmp".into(), ..Host::default() }
}

fn file(text: &str) -> Sources {
    let file = File { path: "/etc/v.toml".into(), text: text.to_owned() };
    Sources { host: host(), file: Some(file), ..Sources::default() }
}

fn variables(pairs: &[(&str, &str)]) -> Sources {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sources { host: host(), variables: pairs.iter().map(own).collect(), ..Sources::default() }
}

fn errors(sources: &Sources) -> Vec<String> {
    resolve(sources).unwrap_err().0.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused(text: &str, wanted: &str) {
    let errors = errors(&file(text));
    assert!(errors.iter().any(|error| error.contains(wanted)), "{text}: {errors:#?}");
}

#[test]
fn defaults_are_as_specified() {
    let settings = resolve(&Sources { host: host(), ..Sources::default() }).unwrap().settings;
    let at = |value| Limit::new(value).unwrap();
    let server = &settings.server;
    assert_eq!(server.listen, [ListenAddr::Tcp("127.0.0.1:8470".parse().unwrap())]);
    assert_eq!(server.user, "nobody");
    assert_eq!(server.log_format, LogFormat::Auto);
    assert_eq!(server.runtime_dir, Path::new("/tmp/vivarium-7-run"));
    let sandbox = &settings.sandbox;
    assert_eq!(sandbox.mode, Mode::Auto);
    assert_eq!(sandbox.network, Network::Loopback);
    assert_eq!(sandbox.allowed_networks, [Network::None, Network::Loopback]);
    assert_eq!(sandbox.workdir, Path::new("/workspace"));
    assert_eq!((&sandbox.cgroup_root, sandbox.disable_layers.len()), (&None, 0));
    let limits = &sandbox.limits;
    assert_eq!(limits.max_memory_mb, at(2048));
    assert_eq!(limits.max_cpu_secs, at(300));
    assert_eq!(limits.max_procs, at(64));
    assert_eq!(limits.max_open_fds, at(1024));
    assert_eq!(limits.max_file_size_mb, at(256));
    assert_eq!(limits.max_disk_mb, at(512));
    assert_eq!(limits.max_inodes, at(65_536));
    assert_eq!(limits.cpu_cores, CpuCores::ONE);
    assert_eq!(limits.max_output_bytes, at(10 << 20));
    assert_eq!(limits.max_result_bytes, at(32 << 20));
    let session = &settings.session;
    assert_eq!(session.exec_timeout, Duration::from_secs(30));
    assert_eq!(session.interrupt_grace, Duration::from_secs(3));
    assert_eq!(session.idle_timeout, Duration::from_secs(3600));
    assert_eq!(session.reap_interval, Duration::from_secs(300));
    assert_eq!(session.max_lifetime, None);
    assert_eq!(settings.environments.keys().collect::<Vec<_>>(), ["default"]);
}

#[test]
fn every_limit_has_a_key_of_its_name() {
    let settings = resolve(&Sources { host: host(), ..Sources::default() }).unwrap().settings;
    let limits = LimitsInfo::from(settings.sandbox.limits.clone());
    let limits = serde_json::to_value(limits).unwrap();
    let limits: BTreeMap<_, _> = limits.as_object().unwrap().iter().collect();
    let keys = keys::of(Section::Sandbox).iter();
    let keys: BTreeSet<_> = keys
        .filter(|key| matches!(key.kind, key::Kind::Limit | key::Kind::Cores))
        // Of the language, and not of the sandbox.
        .filter(|key| key.name != "max_work")
        .map(|key| key.name)
        .collect();
    assert!(limits.keys().eq(&keys), "{limits:?} {keys:?}");
    // Without a key it would have no default either.
    assert!(!limits.values().any(|limit| *limit == "unlimited"), "{limits:?}");
}

#[test]
fn mounts_are_required_by_default() {
    let required = |sources: Sources| {
        let settings = resolve(&sources).unwrap_or_else(|errors| panic!("{errors}")).settings;
        settings.sandbox.required().to_vec()
    };
    let given = |value: &str| required(variables(&[("VIVARIUM_SANDBOX_REQUIRE", value)]));
    let written = |lines: &str| required(file(&format!("[sandbox]\n{lines}\n")));
    let flag = |value: &str| {
        let flags = flag("--sandbox-require", &[value.to_owned()]).into_iter().collect();
        required(Sources { host: host(), flags, ..Sources::default() })
    };
    for mode in ["auto", "on"] {
        assert_eq!(written(&format!("mode = {mode:?}")), [Layer::Mounts]);
    }
    assert_eq!(written("mode = \"off\""), []);
    assert_eq!(written("mode = \"off\"\nrequire = []"), []);
    assert_eq!(written("disable_layers = [\"mounts\"]\nrequire = []"), []);
    assert_eq!(
        written("require = [\"landlock\"]\ndisable_layers = [\"mounts\"]"),
        [Layer::Landlock]
    );
    for from_text in [given("landlock, seccomp"), flag("landlock,seccomp")] {
        assert_eq!(from_text, [Layer::Landlock, Layer::Seccomp]);
    }
    for nothing in [given(""), given("none"), flag(""), flag("none")] {
        assert_eq!(nothing, []);
    }
}

#[test]
fn sample_file_equals_the_defaults_even_uncommented() {
    let plain = resolve(&Sources { host: host(), ..Sources::default() }).unwrap();
    let uncommented: String = sample()
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    for text in [sample(), uncommented] {
        let config = resolve(&file(&text)).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let shown = |config: &Config| -> Vec<_> {
            config.entries.iter().map(|entry| entry.value.clone()).collect()
        };
        assert_eq!(shown(&config), shown(&plain));
    }
    for key in keys::all() {
        assert!(sample().contains(&format!("{} = ", key.name)), "{}", key.name);
    }
}

#[test]
fn the_documentation_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, markdown(), "regenerate it: docs/generate");
}

#[test]
fn every_key_is_documented_once_and_its_default_fits() {
    let mut seen = BTreeSet::new();
    for key in keys::all() {
        assert!(seen.insert(key.path(None)), "{} twice", key.path(None));
        assert!(key.doc.ends_with('.') && key.doc.len() > 20, "{}", key.path(None));
        assert!(keys::LATER.iter().all(|(later, _)| *later != key.path(None)));
        if let DefaultValue::Toml(text) = key.default {
            assert!(toml::de::DeValue::parse(text).is_ok(), "{}", key.path(None));
        }
    }
}

#[test]
fn all_errors_are_reported_at_once_in_the_order_of_their_lines() {
    let text = "[server]\nlisten = 5\nstate = \"/x\"\n[sandbox]\nmax_procs = 0\n\
                max_memory = 5\n[session]\nexec_timeout = \"soon\"\n[sesion]\n";
    let mut sources = file(text);
    sources.variables = vec![("VIVARIUM_SANDBOX".into(), "maybe".into())];
    sources.flags.extend(flag("--sb-max-memory-mb", &["lots".into()]));
    let errors = errors(&sources);
    let wanted = [
        "/etc/v.toml:2: server.listen: wants a list of strings, not the integer 5",
        "/etc/v.toml:3: server.state: no such key",
        "/etc/v.toml:5: sandbox.max_procs: 0 is not a limit",
        "/etc/v.toml:6: sandbox.max_memory: no such key (did you mean \"max_memory_mb\"?)",
        "/etc/v.toml:8: session.exec_timeout: \"soon\" is not a duration",
        "/etc/v.toml:9: sesion: no such section (did you mean \"session\"?)",
        "VIVARIUM_SANDBOX: sandbox.mode: \"maybe\" is not one of",
        "--sb-max-memory-mb: sandbox.max_memory_mb: \"lots\" is neither",
    ];
    assert_eq!(errors.len(), wanted.len(), "{errors:#?}");
    for (error, wanted) in errors.iter().zip(wanted) {
        assert!(error.starts_with(wanted), "{wanted}: {errors:#?}");
    }
}

#[test]
fn text_that_is_not_toml_is_an_error_with_its_line() {
    refused("[server]\nlisten = [\n", "/etc/v.toml:");
    refused("a = = 1\n", "/etc/v.toml:1: not TOML");
}

#[test]
fn flags_win_over_variables_over_the_file() {
    let mut sources = file("[sandbox]\nmax_procs = 1\nmax_inodes = 1\nmax_open_fds = 100\n");
    sources.variables = vec![
        ("VIVARIUM_SANDBOX_MAX_PROCS".into(), "2".into()),
        ("VIVARIUM_SANDBOX_MAX_INODES".into(), "unlimited".into()),
    ];
    sources.flags.extend(flag("--sb-max-procs", &["3".into()]));
    let config = resolve(&sources).unwrap();
    let limits = &config.settings.sandbox.limits;
    assert_eq!(limits.max_procs.get(), Some(3));
    assert_eq!(limits.max_inodes, Limit::Unlimited);
    assert_eq!(limits.max_open_fds.get(), Some(100));
    let json = show_json(&config);
    assert_eq!(json["sandbox.max_procs"]["origin"], "--sb-max-procs");
    assert_eq!(json["sandbox.max_inodes"]["origin"], "VIVARIUM_SANDBOX_MAX_INODES");
    assert_eq!(json["sandbox.max_open_fds"]["origin"], "/etc/v.toml:4");
    assert_eq!(json["sandbox.max_disk_mb"]["value"], 512);
}

#[test]
fn every_key_has_its_variable_and_the_others_are_known() {
    for key in keys::all().filter(|key| key.section().has_variables()) {
        let environment = (key.section() == Section::Environments).then_some("default");
        let name = key.variable(environment);
        assert!(name.starts_with("VIVARIUM_"), "{name}");
        if let Ok(config) = resolve(&variables(&[(&name, "?")])) {
            assert!(config.warnings.is_empty(), "{name}: {:?}", config.warnings);
        }
    }
    let known = variables(&[("VIVARIUM_URL", "x"), ("VIVARIUM_LOG", "debug"), ("PATH", "/")]);
    assert!(resolve(&known).is_ok());
}

#[test]
fn unknown_variables_are_warned_of() {
    assert_eq!(
        warnings(&variables(&[("VIVARIUM_SANDBOX_MAX_PROC", "5"), ("PATH", "/")])),
        ["VIVARIUM_SANDBOX_MAX_PROC: no such variable (did you mean \
             \"VIVARIUM_SANDBOX_MAX_PROCS\"?)"]
    );
}

fn warnings(sources: &Sources) -> Vec<String> {
    let config = resolve(sources).unwrap_or_else(|errors| panic!("{errors}"));
    config.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn lists_in_variables_are_separated_by_commas() {
    let sources = variables(&[
        ("VIVARIUM_SERVER_LISTEN", "127.0.0.1:1, unix:/run/v.sock"),
        ("VIVARIUM_ENVIRONMENTS_DATA_INTERPRETER", "/opt/data/bin/python"),
        ("VIVARIUM_SANDBOX", "off"),
        ("VIVARIUM_SANDBOX_MODE", "on"),
    ]);
    let settings = resolve(&sources).unwrap().settings;
    assert_eq!(settings.server.listen.len(), 2);
    let data = settings.environments.get("data").unwrap();
    assert_eq!(data.interpreter.as_deref(), Some(Path::new("/opt/data/bin/python")));
    assert_eq!(settings.sandbox.mode, Mode::On, "the full name overrides the short form");
}

#[test]
fn planned_keys_are_refused_by_name() {}

#[test]
fn inconsistent_settings_are_refused() {
    refused("[server]\nlisten = [\"0.0.0.0:80\"]\n", "can be reached from other hosts");
    refused(
        "[server]\nlisten = [\"192.0.2.1:80\"]\n[sandbox]\nmode = \"off\"\n",
        "there is no sandbox",
    );
    refused("[sandbox]\nmode = \"on\"\ndisable_layers = [\"seccomp\"]\n", "means every layer");
    refused("[sandbox]\ndisable_layers = [\"seccom\"]\n", "unknown layer");
    refused("[sandbox]\nrequire = [\"seccom\"]\n", "unknown layer");
    for (lines, required) in [
        ("disable_layers = [\"mounts\"]", "mounts"),
        ("disable_layers = [\"namespaces\"]", "mounts"),
        ("require = [\"seccomp\"]\ndisable_layers = [\"seccomp\"]", "seccomp"),
    ] {
        let wanted = format!("has {required}, which sandbox.disable_layers switches off");
        refused(&format!("[sandbox]\n{lines}\n"), &wanted);
    }
    let explicit = "[sandbox]\nmode = \"off\"\nrequire = [\"mounts\"]\n";
    refused(explicit, "has mounts, which sandbox.mode switches off");
    refused("[sandbox]\nnetwork = \"full\"\n", "/etc/v.toml:2: sandbox.network: is not one of");
    refused("[session]\nmax_exec_timeout = \"1s\"\n", "is longer than session.max_exec_timeout");
    refused("[server]\nmax_body_bytes = 50000000\n", "at most");
    refused("[session]\nevent_buffer_bytes = 1000\n", "from 65536 to 67108864");
    refused("[session]\nresults_kept = \"0m\"\n", "is no time at all");
    refused("[session]\npool_cpu_share = 1.5\n", "is not above 0 and up to 1");
    refused("[session]\npool_memory_pressure_percent = 101\n", "from 1 to 100");
    refused("[environments.a]\npool_size = 2\npool_low = 3\n", "3 is more than the pool_size of 2");
    refused("[environments.a]\npool_low = 1\n", "1 is more than the pool_size of 0");
    for line in ["images = true", "preimport = [\"json\"]", "read_paths = [\"/srv/a\"]"] {
        let (key, _) = line.split_once(' ').unwrap();
        let of = |runtime| format!("[environments.a]\nruntime = \"{runtime}\"\n{line}\n");
        refused(&of("wasm"), &format!("environments.a.{key}: not available in runtime wasm"));
        resolve(&file(&of("cpython"))).unwrap();
    }
    refused("[environments.a]\nruntime = \"pypy\"\n", "cpython");
    refused("[sandbox]\ndisable_layers = [\"wasm\"]\n", "no layer of the host");
    refused("[server]\nruntime_dir = \"/a\"\nstate_dir = \"/a\"\n", "two directories");
}

#[test]
fn values_of_wrong_types_are_refused() {
    refused("server = 5\n", "server: a section, not the integer");
    refused("[environments]\ninterpreter = \"/x\"\n", "[environments.interpreter]");
    refused("[environments.\"Up Per\"]\n", "a name is 1 to 32 lower-case");
    refused("[server]\nlisten = []\n", "an empty list");
    let same = "[server]\nlisten = [\"127.0.0.1:1\"]\n[e2b]\nlisten = [\"127.0.0.1:1\"]\n";
    refused(&format!("{same}[dialects]\ne2b = true\n"), "is in server.listen too");
    refused("[server]\nlisten = [\"unix:relative\"]\n", "absolute");
    refused("[server]\nlisten = [\"8470\"]\n", "is not an address");
    refused("[server]\nmax_body_bytes = 99999999999999999999\n", "integer 99999999999999999999");
    refused("[sandbox]\nworkdir = \"../x\"\n", "absolute path");
    refused("[sandbox]\nmax_procs = true\n", "boolean true");
    refused("[session]\nexec_timeout = 30\n", "a duration with its unit");
}

fn tenant(name: &str, token: &str, more: &str) -> String {
    let hash = TokenHash::of(token);
    format!("[[tenant]]\nname = \"{name}\"\ntoken_sha256 = [\"{hash}\"]\n{more}\n")
}

#[test]
fn tenants_have_tokens_and_ceilings() {
    let ceilings = "max_sessions = 5\ncpu_weight = 300\ncpu_cores = 1.5\nmax_memory_mb = 64\n\
                    max_procs = 100\n";
    let text = tenant("b", "2", ceilings) + &tenant("default", "1", "");
    let config = resolve(&file(&text)).unwrap();
    let tenants = &config.settings.tenants;
    let at = |value| Limit::new(value).unwrap();
    let expected = Tenant {
        tokens: vec![TokenHash::of("2").into()],
        token_hashes_file: None,
        max_sessions: at(5),
        ceilings: Ceilings {
            cpu_weight: 300,
            cpu_cores: CpuCores { milli: Some(1500) },
            max_memory_mb: at(64),
            max_procs: at(100),
        },
        ..Tenant::default()
    };
    assert_eq!(tenants["b"], expected);
    let plain = Tenant { tokens: vec![TokenHash::of("1").into()], ..Tenant::default() };
    assert_eq!(tenants["default"], plain);
    assert_eq!(show_json(&config)["tenant.b.max_procs"]["origin"], "/etc/v.toml:8");
    // What is shown reads back as the same.
    let shown = show(&config);
    assert_eq!(resolve(&file(&shown)).unwrap().settings.tenants, *tenants, "{shown}");
}

#[test]
fn invalid_tenant_names_are_refused() {
    let names = ["", "_trial", "a/b", "..", "a b", "é", &"x".repeat(65)];
    for name in names {
        refused(&tenant(name, "1", ""), "/etc/v.toml:2: tenant.name:");
    }
    refused("[[tenant]]\ntoken_sha256 = []\n", "tenant.name: is missing");
    refused("[[tenant]]\nname = 5\n", "tenant.name: 5 is no name");
    refused("[[tenant]]\nname = \"a\"\n", "tenant.a.token_sha256: is missing");
    refused("[[tenant]]\nname = \"a\"\ntoken_sha256 = []\n", "nobody could be this tenant");
    refused("[tenant]\nname = \"a\"\n", "each begins with [[tenant]]");
    refused("tenant = [1]\n", "an entry is a table");
    refused(&tenant("a", "1", "max_session = 5"), "(did you mean \"max_sessions\"?)");
    refused(
        &tenant("a", "1", "cpu_weight = 10001"),
        "tenant.a.cpu_weight: a weight is at most 10000",
    );
    refused(&tenant("a", "1", "max_memory_mb = 0"), "tenant.a.max_memory_mb: 0 is not a limit");
    let twice = tenant("a", "1", "") + &tenant("a", "2", "");
    refused(&twice, "/etc/v.toml:6: tenant.name: there already is a tenant \"a\"");
    let shared = tenant("a", "1", "") + &tenant("b", "1", "");
    refused(&shared, "/etc/v.toml:7: tenant.b.token_sha256: 6b86b273ff34fce1");
    let variable = warnings(&variables(&[("VIVARIUM_TENANT_A_MAX_PROCS", "5")]));
    assert!(variable[0].contains("no such variable"), "{variable:?}");
}

#[test]
fn errors_do_not_repeat_a_misplaced_token() {
    let secret = "viv_secretsecretsecretsecretsecretsecretsecret";
    for value in [format!("{secret:?}"), format!("[{secret:?}]"), format!("[[{secret:?}]]")] {
        let text = format!("[[tenant]]\nname = \"a\"\ntoken_sha256 = {value}\n");
        let errors = errors(&file(&text));
        assert!(errors[0].contains("never tokens"), "{errors:?}");
        assert!(!errors.concat().contains("secretsecret"), "{errors:?}");
    }
}

#[test]
fn tenants_allow_non_local_addresses() {
    let open = "[server]\nlisten = [\"0.0.0.0:80\"]\n".to_owned();
    refused(&open, "there are no tenants");
    assert!(resolve(&file(&(open.clone() + &tenant("a", "1", "")))).is_ok());
    refused(&(open + "[sandbox]\nmode = \"off\"\n" + &tenant("a", "1", "")), "there is no sandbox");
}
