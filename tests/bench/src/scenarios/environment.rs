//! What the environment of a measured daemon is configured to be.

use std::process::Stdio;

use tokio::process::Command;

/// Kernels are executed, not forked.
pub(super) const COLD: &str = "environments.default.template = \"off\"\n";

/// Sessions can be suspended.
pub(super) const IMAGES: &str = "environments.default.images = true\n";

/// What the scientific environment has imported beforehand, and its sessions use.
pub(super) const MODULES: [&str; 3] = ["numpy", "pandas", "matplotlib.pyplot"];

/// Where Python and its scientific libraries usually are, if not in the default environment.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// An environment with [`MODULES`] imported beforehand.
pub(super) fn scientific(interpreter: &str) -> String {
    let modules = MODULES.map(|module| format!("{module:?}")).join(", ");
    format!(
        "environments.default.interpreter = {interpreter:?}\n\
         environments.default.preimport = [{modules}]\n"
    )
}

/// A pool of so many sessions, which is refilled when fewer than `low` are left. If that is 1 then
/// no series that takes fewer than there are is measured beside starts of others.
pub(super) fn pool(sessions: usize, low: usize) -> String {
    format!("environments.default.pool_size = {sessions}\nenvironments.default.pool_low = {low}\n")
}

/// Code that imports [`MODULES`], and gives 2.
pub(super) fn import_and_add() -> String {
    format!("import {}; 1+1", MODULES.join(", "))
}

/// An interpreter that has [`MODULES`]: the default environment's, else the system's, if either.
pub(super) async fn scientific_interpreter(default: &str) -> Option<String> {
    for interpreter in [default, SYSTEM_PYTHON] {
        let imports = Command::new(interpreter)
            .args(["-c", &import_and_add()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await;
        if imports.is_ok_and(|status| status.success()) {
            return Some(interpreter.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configurations_of_scenarios_are_valid_toml() {
        let text = scientific("/opt/a \"b\"/python3") + COLD + IMAGES + &pool(3, 1);
        let table: toml::Table = text.parse().unwrap();
        let default = &table["environments"]["default"];
        assert_eq!(default["interpreter"].as_str(), Some("/opt/a \"b\"/python3"));
        assert_eq!(default["preimport"][2].as_str(), Some("matplotlib.pyplot"));
        assert_eq!(default["pool_size"].as_integer(), Some(3));
        assert_eq!(default["template"].as_str(), Some("off"));
        assert_eq!(default["images"].as_bool(), Some(true));
        assert_eq!(import_and_add(), "import numpy, pandas, matplotlib.pyplot; 1+1");
    }
}
