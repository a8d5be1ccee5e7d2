//! What the runtime lacks, refused by its name; in an environment of an interpreter each is accepted.

use super::*;
use serde_json::Value;
use vivarium_tests::program::Runner;

#[track_caller]
fn refused(response: &vivarium_tests::http::Response, what: &str) {
    let problem = response.expect_problem(409, "not_in_runtime");
    let detail = problem["detail"].as_str().unwrap();
    let right =
        format!("{what} not available in runtime wasm: use an environment with runtime cpython");
    assert_eq!(detail, right);
}

#[test]
fn what_a_session_cannot_have_is_refused_when_it_is_made() {
    let Some(probe) = Probe::get() else { return };
    let daemon = probe
        .setup()
        .config("homes", "allowed = [\"tenant\", \"volumes\"]")
        .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"full\"]")
        .start();
    let tool = json!([{"name": "f", "description": "", "parameters": {"type": "object"}}]);
    for (field, value, what) in [
        ("home", json!("tenant"), "homes are"),
        ("volumes", json!([{"name": "data"}]), "volumes are"),
        ("tools", tool, "tools are"),
        ("network", json!("full"), "a network is"),
        ("hidden", json!(["torch"]), "hidden distributions are"),
    ] {
        let asked = |environment: &str| {
            let mut spec = json!({"environment": environment});
            spec[field] = value.clone();
            daemon.request("POST", "/v1/sessions", Some(&spec))
        };
        refused(&asked("light"), what);
        let control = asked("default");
        // Of what is asked for in it, only the volume is not there, and perhaps what is to be hidden.
        let may_lack = ["volumes", "hidden"].contains(&field);
        assert!(control.status == 201 || may_lack, "{field}: {}", control.status);
        assert_ne!(control.json()["code"], "not_in_runtime", "{field}");
    }
}

#[test]
fn a_configured_network_is_refused_unless_the_session_asks_for_less() {
    let Some(probe) = Probe::get() else { return };
    let sandbox = "network = \"full\"\nallowed_networks = [\"none\", \"loopback\", \"full\"]";
    let daemon = probe.setup().config("sandbox", sandbox).start();
    let make = |spec| daemon.request("POST", "/v1/sessions", Some(&spec));
    refused(
        &make(json!({"environment": "light"})),
        "the configured network (\"network\": \"none\" asks for none) is",
    );
    assert_eq!(make(json!({})).status, 201, "control");
    for network in ["none", "loopback"] {
        let made = make(json!({"environment": "light", "network": network}));
        assert_eq!(made.status, 201, "{network}: {}", made.json());
    }
}

#[test]
fn commands_ports_and_images_are_refused() {
    let Some(probe) = Probe::get() else { return };
    let daemon = probe.setup().start();
    let session = light(&daemon);
    let other = daemon.any_session(&json!({}));
    let command: Value = json!({"argv": ["/bin/true"]});
    refused(&session.request("POST", "/commands", Some(&command)), "commands are");
    let _ran = other.command(&command).ok();
    let of_wasm = json!({"argv": ["./program.wasm"]});
    refused(&session.request("POST", "/commands", Some(&of_wasm)), "commands are");
    let run = |environment: &str| {
        let body = json!({"argv": ["/bin/true"], "environment": environment});
        daemon.request("POST", "/v1/run", Some(&body))
    };
    refused(&run("light"), "commands are");
    assert_eq!(run("default").status, 200);
    refused(&session.request("GET", "/ports/8000/", None), "ports are");
    assert_eq!(other.request("GET", "/ports/8000/", None).status, 502, "nothing listens");
    // The session is as it was.
    assert_eq!(attempt(&session, "component"), "code");
}

#[test]
fn nothing_makes_an_image_of_a_session() {
    let Some(probe) = Probe::get() else { return };
    let daemon =
        probe.setup().config("environments.default", "template = \"auto\"\nimages = true").start();
    let _ready = daemon.until_template("ready");
    let session = light(&daemon);
    let other = daemon.any_session(&json!({}));
    for (path, body) in [
        ("/checkpoints", json!({"name": "a"})),
        ("/branch", json!({"count": 1})),
        ("/suspend", json!({})),
    ] {
        refused(&session.request("POST", path, Some(&body)), "images are");
        let made = other.request("POST", path, Some(&body));
        assert!(made.status < 300, "control: {path}: {}", made.json());
    }
    assert_eq!(session.value("component"), "code");
}

#[test]
fn a_program_that_is_not_there_is_named_at_the_start() {
    let section = "runtime = \"wasm\"\ninterpreter = \"/nonexistent/vivarium-wasm\"";
    let (_, log) = Setup::default().config("environments.light", section).try_start().unwrap_err();
    assert!(log.contains("install the package vivarium-wasm"), "{log}");
}

#[test]
fn a_component_that_others_can_write_to_keeps_the_daemon_from_starting() {
    let Some(probe) = Probe::get() else { return };
    let daemon = probe.setup().start();
    let path = component(&daemon.dir().join("state"));
    // The probe truncates it, and leaves its mode.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let dir = daemon.stop_and_keep();
    let (_, log) = probe.setup().in_place_of(dir).try_start().unwrap_err();
    assert!(log.contains("others than its owner can write to it"), "{log}");
}

#[test]
fn run_has_the_environment_too() {
    let Some(probe) = Probe::get() else { return };
    let dir = program::temp_dir();
    // The program makes its component in the state directory, as the user that root becomes.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let section = probe.section();
    let config = format!("[environments.light]\n{section}\n");
    let arguments = ["--environment", "light", "--value", "-c", "component"];
    let ran = program::embedded_with(&Runner::Self_, dir.path(), &config, &arguments, "");
    assert!(ran.expect_code(0).stdout().starts_with("code\n"));
}
