//! Runtimes: the program that is the kernel of a session. A backend isolates it, whichever it is.

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
}

impl WasmEngine {
    /// The entry of a session's protection.
    #[must_use]
    pub fn report(&self) -> Report {
        let Self { name, holds, missing } = self;
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
        };
        let whole = engine("").report();
        assert_eq!((whole.layer, whole.status), (Layer::Wasm, Status::Enforced));
        assert_eq!(whole.detail, "wasmtime 48.0.1: no sockets");
        let part = engine("memory is not limited").report();
        assert_eq!(part.status, Status::Partial);
        assert!(part.detail.ends_with("memory is not limited") && !part.fix.is_empty());
    }
}
