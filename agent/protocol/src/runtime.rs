//! Runtimes: the program that is the kernel of a session. A backend isolates it, whichever it is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantNames};

use crate::layer::{Layer, Report};

/// The runtime of an environment.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    IntoStaticStr,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Runtime {
    /// An interpreter of the host.
    #[default]
    Cpython,
    /// CPython compiled to WebAssembly, in the program `vivarium-wasm`.
    Wasm,
}

/// What an instance of the engine, tried before there were sessions, was found to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmEngine {
    /// Its name and version, such as `wasmtime 48.0.1`.
    pub name: String,
    /// What was tried from inside and holds.
    pub holds: String,
    /// What does not; empty if all does.
    pub missing: String,
    /// The program that compiles and runs a command's WebAssembly file, if it is installed.
    pub runner: Option<PathBuf>,
}

impl WasmEngine {
    /// What runs this command, if anything does.
    #[must_use]
    pub fn runner_of(&self, argv: &[String]) -> Option<&PathBuf> {
        let is_wasm = argv.first().is_some_and(|name| name.ends_with(".wasm"));
        self.runner.as_ref().filter(|_| is_wasm)
    }

    /// The entry of a session's protection.
    #[must_use]
    pub fn report(&self) -> Report {
        let Self { name, holds, missing, .. } = self;
        let detail = format!("{name}: {holds}");
        if missing.is_empty() {
            Report::enforced(Layer::Wasm, detail)
        } else {
            let fix = "install the vivarium-wasm of this Vivarium's release";
            Report::partial(Layer::Wasm, format!("{detail}; not in force: {missing}"), fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Status;

    #[test]
    fn an_engine_that_lacks_something_is_reported_as_partial() {
        let engine = |missing: &str| WasmEngine {
            name: "wasmtime 48.0.1".into(),
            holds: "no sockets".into(),
            missing: missing.into(),
            runner: None,
        };
        let whole = engine("").report();
        assert_eq!((whole.layer, whole.status), (Layer::Wasm, Status::Enforced));
        assert_eq!(whole.detail, "wasmtime 48.0.1: no sockets");
        let part = engine("memory is not limited").report();
        assert_eq!(part.status, Status::Partial);
        assert!(part.detail.ends_with("memory is not limited") && !part.fix.is_empty());
    }
    #[test]
    fn webassembly_files_are_what_it_runs() {
        let engine = |runner| WasmEngine {
            name: String::new(),
            holds: String::new(),
            missing: String::new(),
            runner,
        };
        let of = |name: &str| vec![name.to_owned(), "a.wasm".to_owned()];
        let installed = engine(Some("/run".into()));
        assert!(installed.runner_of(&of("bin/a.wasm")).is_some());
        for other in ["/bin/sh", "a.wasm/b", "wasm", ""] {
            assert!(installed.runner_of(&of(other)).is_none(), "{other}");
        }
        assert!(installed.runner_of(&[]).is_none());
        assert!(engine(None).runner_of(&of("a.wasm")).is_none());
    }
}
