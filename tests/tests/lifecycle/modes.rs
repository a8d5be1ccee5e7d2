//! Modes auto, on and off, and what the doctor says of this host.

use serde_json::{Value, json};
use vivarium_protocol::layer::Layer;
use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Daemon, Setup};

/// What `vivarium doctor --json` says, and its exit code.
fn doctor() -> (Value, i32) {
    doctor_of(&Runner::Self_, "")
}

/// The same, of somebody's host and with this configuration.
#[expect(clippy::print_stderr, reason = "shown where a test fails")]
fn doctor_of(runner: &Runner, configured: &str) -> (Value, i32) {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), configured);
    let arguments = ["doctor", "--json", "--config", &config];
    let finished = program::run_as(runner, dir.path(), &arguments, "");
    eprintln!("{}", finished.stderr());
    let diagnosis = serde_json::from_str(&finished.stdout());
    (diagnosis.unwrap_or_else(|error| panic!("{error}: {finished:?}")), finished.code())
}

fn missing(layers: &Value) -> Vec<&Value> {
    layers.as_array().unwrap().iter().filter(|layer| layer["status"] != "enforced").collect()
}

#[test]
fn the_doctor_and_mode_on_agree() {
    let (diagnosis, code) = doctor();
    let names: Vec<_> =
        diagnosis["layers"].as_array().unwrap().iter().map(|l| l["layer"].clone()).collect();
    assert_eq!(names, Layer::ALL.map(|layer| json!(layer.name())));
    let missing = missing(&diagnosis["layers"]);
    assert_eq!(diagnosis["ok"], missing.is_empty());
    assert_eq!(code, i32::from(!missing.is_empty()));
    match Setup::default().config("sandbox", "mode = \"on\"").try_start() {
        Ok(daemon) => {
            assert!(missing.is_empty(), "it started without {missing:?}");
            daemon.stop_and_check();
        }
        Err((status, log)) => {
            assert_eq!(status.code(), Some(3), "{log}");
            assert!(!missing.is_empty(), "{log}");
            for layer in missing {
                for part in ["layer", "fix"] {
                    assert!(log.contains(layer[part].as_str().unwrap()), "{layer} in {log}");
                }
                assert!(!layer["fix"].as_str().unwrap().is_empty(), "{layer}");
            }
        }
    }
}

#[test]
fn the_doctor_says_what_a_session_reports() {
    let (diagnosis, _) = doctor();
    let daemon = Daemon::start();
    let info = daemon.session().info();
    let statuses = |layers: &Value| {
        layers.as_array().unwrap().iter().map(|l| l["status"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(statuses(&diagnosis["layers"]), statuses(&info["protection"]));
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let arguments = ["doctor", "--config", &config];
    let text = program::run_as(&Runner::Self_, dir.path(), &arguments, "").stdout();
    for layer in Layer::ALL {
        assert!(text.contains(layer.name()), "{layer} in {text}");
    }
    for layer in missing(&diagnosis["layers"]) {
        assert!(text.contains(layer["fix"].as_str().unwrap()), "{layer} in {text}");
    }
}

#[test]
fn auto_warns_once_for_each_missing_layer() {
    let daemon = Daemon::start();
    let (_one, _other) = (daemon.session(), daemon.session());
    let log = daemon.log();
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    for layer in missing(&host["layers"]) {
        let field = format!("layer={}", layer["layer"].as_str().unwrap());
        assert_eq!(log.matches(&field).count(), 1, "{field} in {log}");
    }
}

#[test]
fn off_is_said_loudly_and_by_every_session() {
    let daemon = Setup::default().config("sandbox", "mode = \"off\"").start();
    assert!(daemon.log().contains("SANDBOX IS OFF"), "{}", daemon.log());
    let session = daemon.session();
    for layer in Layer::ALL {
        assert_eq!(session.layer(layer.name())["status"], "off");
    }
    // Everything else works as ever.
    let _state = session.execute("x = 41").ok();
    assert_eq!(session.value("x + 1"), "42");
    let killed = session.execute("import os; os._exit(1)").ended("killed", "exited", "lost");
    assert!(killed.detail().contains("code 1"));
    let child =
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True) and None";
    let _left = session.execute(child).ok();
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn off_and_listeners_that_others_can_reach_do_not_go_together() {
    for (mode, words) in [("off", "no sandbox"), ("auto", "no tenants")] {
        for listen in ["0.0.0.0:0", "[::]:0"] {
            let started = Setup::default()
                .config("sandbox", &format!("mode = {mode:?}"))
                .config("server", &format!("listen = [{listen:?}]"))
                .try_start();
            let (status, log) = started.err().unwrap();
            assert_eq!(status.code(), Some(2), "{log}");
            assert!(log.contains("server.listen") && log.contains(words), "{log}");
        }
    }
}

#[test]
fn layers_are_switched_off_one_by_one_but_not_in_mode_on() {
    for layer in Layer::ALL {
        let daemon = Setup::default().without(&[layer.name()]).start();
        let session = daemon.session();
        assert_eq!(session.layer(layer.name())["status"], "off");
        // What is built on it goes with it, and nothing else does.
        for other in Layer::ALL.into_iter().filter(|other| *other != layer) {
            let report = session.layer(other.name());
            assert_eq!(report["status"] == "off", other.needs().contains(&layer), "{report}");
        }
        assert_eq!(session.value("6 * 7"), "42", "without {layer}");
        daemon.stop_and_check();
    }
    let started = Setup::default()
        .config("sandbox", "mode = \"on\"\nrequire = []\ndisable_layers = [\"seccomp\"]")
        .try_start();
    let (status, log) = started.err().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(log.contains("sandbox.disable_layers") && log.contains("seccomp"), "{log}");
}

/// What an operator is to read where the mounts layer is missing: the layer, the cause, the fix and
/// the way out.
const FLOOR: [&str; 4] = ["the mounts layer", "mount proc", "fix: ", "--sandbox-require none"];

#[test]
fn without_a_required_layer_nothing_starts() {
    let setup = || Setup::default().runner(Runner::InContainer);
    let refused = |setup: Setup| {
        let (status, log) = setup.try_start().err().unwrap();
        assert_eq!(status.code(), Some(3), "{log}");
        log
    };
    let log = refused(setup());
    assert!(FLOOR.iter().all(|part| log.contains(part)), "{log}");
    let log = refused(setup().config("sandbox", "require = [\"mounts\", \"seccomp\"]"));
    assert!(log.contains("--sandbox-require seccomp"), "{log}");
    // An embedded sandbox has the same floor.
    let dir = program::temp_dir();
    let run = |arguments: &[&str]| {
        let arguments = [arguments, &["-c", "print(6 * 7)"]].concat();
        program::embedded(&Runner::InContainer, dir.path(), &arguments, "")
    };
    let ran = run(&[]).expect_code(3);
    assert!(FLOOR.iter().all(|part| ran.stderr().contains(part)), "{ran:?}");
    assert_eq!(run(&["--sandbox-require", "none"]).expect_code(0).stdout(), "42\n");
    // It starts once the operator says that it is to, and tells the truth.
    for allowed in [
        setup().config("sandbox", "require = []"),
        setup().config("sandbox", "require = [\"seccomp\", \"credentials\"]"),
        setup().env("VIVARIUM_SANDBOX_REQUIRE", "none"),
        setup().argument("--sandbox-require=none"),
        setup().config("sandbox", "mode = \"off\""),
    ] {
        let daemon = allowed.start();
        let session = daemon.session();
        assert_ne!(session.layer("mounts")["status"], "enforced");
        assert_eq!(session.value("6 * 7"), "42");
        daemon.stop_and_check();
    }
}

#[test]
fn a_required_layer_can_not_be_switched_off() {
    for (configured, names) in [
        ("disable_layers = [\"mounts\"]", ["mounts", "sandbox.disable_layers"]),
        ("mode = \"off\"\nrequire = [\"seccomp\"]", ["seccomp", "sandbox.mode"]),
    ] {
        let started = Setup::default().config("sandbox", configured).try_start();
        let (status, log) = started.err().unwrap();
        assert_eq!(status.code(), Some(2), "{log}");
        let names = [&names[..], &["sandbox.require"]].concat();
        assert!(names.iter().all(|name| log.contains(name)), "{log}");
    }
}

#[test]
fn a_required_network_is_not_given_up_by_a_request() {
    let open = "allowed_networks = [\"none\", \"loopback\", \"full\"]";
    let strict = format!("{open}\nrequire = [\"network\"]");
    for (configured, status) in [(open, 201), (&strict, 422)] {
        let egress = "passt = \"off\"";
        let setup = Setup::default().config("sandbox", configured).config("egress", egress);
        let daemon = setup.start();
        let made = daemon.request("POST", "/v1/sessions", Some(&json!({"network": "full"})));
        assert_eq!(made.status, status, "{configured}");
        daemon.stop_and_check();
    }
}

#[test]
fn the_doctor_says_what_a_configuration_makes_of_the_host() {
    let of = |configured: &str| {
        let (diagnosis, code) = doctor_of(&Runner::Self_, configured);
        let layers = diagnosis["layers"].as_array().unwrap();
        let disabled = layers.iter().filter(|layer| !layer["disabled_by"].is_null());
        let disabled: Vec<_> =
            disabled.map(|layer| layer["layer"].as_str().unwrap().to_owned()).collect();
        // What the host offers is the same whatever is configured.
        assert!(layers.iter().all(|layer| layer["status"] != "off"), "{layers:?}");
        (disabled, diagnosis["starts"].as_bool().unwrap(), code)
    };
    let nothing: Vec<String> = vec![];
    let complete = missing(&doctor().0["layers"]).is_empty();
    assert_eq!(of(""), (nothing.clone(), true, i32::from(!complete)));
    let strict = of("[sandbox]\nmode = \"on\"\n");
    assert_eq!(strict, (nothing, complete, if complete { 0 } else { 3 }));
    let without = of("[sandbox]\ndisable_layers = [\"seccomp\"]\n");
    assert_eq!(without, (vec!["seccomp".to_owned()], true, 1));
    let built_on = of("[sandbox]\ndisable_layers = [\"namespaces\"]\nrequire = []\n");
    let names = ["namespaces", "mounts", "network"].map(str::to_owned);
    assert_eq!(built_on, (names.to_vec(), true, 1));
    let all = Layer::ALL.map(|layer| layer.name().to_owned());
    assert_eq!(of("[sandbox]\nmode = \"off\"\n"), (all.to_vec(), true, 1));

    let dir = program::temp_dir();
    let config = program::config(dir.path(), "[sandbox]\ndisable_layers = [\"seccomp\"]\n");
    let arguments = ["doctor", "--config", &config];
    let text = program::run_as(&Runner::Self_, dir.path(), &arguments, "").stdout();
    let said = "offered, but disabled by sandbox.disable_layers";
    assert_eq!(text.matches(said).count(), 1, "{text}");
}

#[test]
fn the_doctor_says_that_the_floor_is_missing() {
    let (diagnosis, code) = doctor_of(&Runner::InContainer, "");
    assert_eq!((&diagnosis["starts"], code), (&json!(false), 3));
    let (diagnosis, code) = doctor_of(&Runner::InContainer, "[sandbox]\nrequire = []\n");
    assert_eq!((&diagnosis["starts"], code), (&json!(true), 1));
}
