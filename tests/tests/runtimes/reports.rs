//! Where the runtime is named.

use super::*;
use vivarium_protocol::layer::Layer;
use vivarium_tests::program::Runner;

#[test]
fn protection_has_an_entry_for_the_engine_after_the_layers() {
    let Some(probe) = Probe::get() else { return };
    let daemon = probe.setup().start();
    let session = light(&daemon);
    let protection = session.info()["protection"].clone();
    let names: Vec<_> =
        protection.as_array().unwrap().iter().map(|it| it["layer"].as_str().unwrap()).collect();
    assert_eq!(names, [&Layer::ALL.map(Layer::name)[..], &["wasm"]].concat());
    let engine = session.layer("wasm");
    assert_eq!(engine["status"], "enforced");
    assert_eq!(engine["detail"], "probe 1: what a probe has");
    let filter = session.layer("seccomp")["detail"].as_str().unwrap().to_owned();
    assert!(filter.starts_with("a filter of runtime wasm that allows"), "{filter}");

    let other = daemon.any_session(&json!({}));
    assert_eq!(other.info()["protection"].as_array().unwrap().len(), Layer::ALL.len());
}

#[test]
fn host_metrics_and_doctor_name_runtimes() {
    let Some(probe) = Probe::get() else { return };
    let daemon = probe.setup().start();
    for (environment, runtime, python) in [("default", "cpython", ""), ("light", "wasm", "3.14.0")]
    {
        let info = daemon.environment_of(environment);
        assert_eq!(info["runtime"], runtime);
        assert!(info["python_version"].as_str().unwrap().starts_with(python), "{info}");
        let labels = format!("{{environment=\"{environment}\",runtime=\"{runtime}\"}}");
        assert_eq!(daemon.metric(&format!("vivarium_environment_runtime{labels}")), Some(1));
    }
    let engine = "{environment=\"light\",layer=\"wasm\",status=\"enforced\"}";
    assert_eq!(daemon.metric(&format!("vivarium_layer_status{engine}")), Some(1));
    // A probe forks no kernels.
    wait::until_true("no template", || {
        daemon.environment_of("light")["template"]["state"] == "unavailable"
    });

    let dir = program::temp_dir();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let section = format!("[environments.light]\n{}\n", probe.section());
    let arguments = ["doctor", "--config", &program::config(dir.path(), &section)];
    let said = program::run_as(&Runner::Self_, dir.path(), &arguments, "").stdout();
    let line = said.lines().find(|line| line.contains("environment light")).unwrap();
    assert!(line.ends_with(&format!("wasm {} (Python 3.14.0)", probe.path().display())), "{line}");
}

/// Where there are no namespaces the engine is what is left, and can be required by its name.
#[test]
fn the_engine_can_be_required_where_there_is_no_root_of_the_sessions_own() {
    let Some(probe) = Probe::get() else { return };
    let setup = || Setup::default().runner(Runner::InContainer);
    let default = ("environments.default", probe.section());
    let require = ("sandbox", "require = [\"wasm\"]");

    let (_, log) = setup().config(require.0, require.1).try_start().unwrap_err();
    assert!(log.contains("the wasm layer, which is unavailable"), "{log}");
    let (_, log) = setup().config(default.0, &default.1).try_start().unwrap_err();
    assert!(log.contains("the mounts layer, which is unavailable"), "control: {log}");

    let daemon = setup().config(default.0, &default.1).config(require.0, require.1).start();
    let session = daemon.any_session(&json!({}));
    assert_eq!(session.layer("mounts")["status"], "unavailable");
    assert_eq!(session.layer("wasm")["status"], "enforced");
    assert_eq!(attempt(&session, "component"), "code");
}
