//! The layers of the sandbox: their names, their order, and what is reported of each.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantNames};

/// One mechanism of the sandbox. The variants are declared in the order of application.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Layer {
    /// No inherited variable reaches the kernel but a short list.
    EnvScrub,
    /// The session's own scope in the delegated cgroup v2 tree.
    Cgroup,
    /// user, pid, mount, net, ipc, uts and cgroup namespaces.
    Namespaces,
    /// A new root made of read-only binds, its own /proc, /dev, /tmp and workdir.
    Mounts,
    /// What the session can reach over the network.
    Network,
    /// No capabilities, no groups, no new privileges, an id of its own.
    Credentials,
    /// Per-process resource limits.
    Rlimits,
    /// The filesystem allow-list.
    Landlock,
    /// The system call allow-list.
    Seccomp,
    /// The WebAssembly engine that a kernel of runtime `wasm` is an instance in. No layer of the host:
    /// not in [`Layer::ALL`], and in no [`Plan`].
    Wasm,
}

impl Layer {
    /// Every layer of the host, in the order of application.
    pub const ALL: [Self; 9] = [
        Self::EnvScrub,
        Self::Cgroup,
        Self::Namespaces,
        Self::Mounts,
        Self::Network,
        Self::Credentials,
        Self::Rlimits,
        Self::Landlock,
        Self::Seccomp,
    ];

    /// The name used in code, API, documentation and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The layers this one is built on: without them it can not be applied either.
    #[must_use]
    pub const fn needs(self) -> &'static [Self] {
        match self {
            Self::Mounts | Self::Network => &[Self::Namespaces],
            _ => &[],
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = Self::ALL.into_iter().chain([Self::Wasm]);
        all.clone().find(|layer| layer.name() == text).ok_or_else(|| {
            let names: Vec<_> = all.map(Self::name).collect();
            format!("unknown layer {text:?}: one of {}", names.join(", "))
        })
    }
}

/// How much of a layer holds, as read back after it was applied.
#[derive(
    Debug,
    Clone,
    Copy,
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
pub enum Status {
    /// All of it, read back from inside.
    Enforced,
    /// Some of it; the report's detail says what is missing.
    Partial,
    /// None of it; the report's detail says why.
    Unavailable,
    /// None of it, because the operator said so.
    Off,
}

/// What is true of one layer in one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which layer.
    pub layer: Layer,
    /// How much of it holds.
    pub status: Status,
    /// What holds, what is missing, or why there is nothing.
    pub detail: String,
    /// What an operator can do about what is missing. Empty when nothing is.
    pub fix: String,
}

impl Report {
    /// All of the layer holds; `detail` says what was read back.
    #[must_use]
    pub fn enforced(layer: Layer, detail: impl Into<String>) -> Self {
        Self { layer, status: Status::Enforced, detail: detail.into(), fix: String::new() }
    }

    /// Part of the layer holds; `detail` says what does not.
    #[must_use]
    pub fn partial(layer: Layer, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { layer, status: Status::Partial, detail: detail.into(), fix: fix.into() }
    }

    /// Nothing of the layer holds on this host.
    #[must_use]
    pub fn unavailable(layer: Layer, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { layer, status: Status::Unavailable, detail: detail.into(), fix: fix.into() }
    }

    /// The operator switched the layer off.
    #[must_use]
    pub fn off(layer: Layer) -> Self {
        Self {
            layer,
            status: Status::Off,
            detail: "switched off by configuration".to_owned(),
            fix: "remove it from sandbox.disable_layers, or set sandbox.mode to auto or on"
                .to_owned(),
        }
    }
}

/// What a session is to do about one layer. Decided once per host, at start-up, by a trial
/// session; a session whose plan says [`Intent::Apply`] fails if the layer then does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Intent {
    /// Apply it, verify it, and fail the session if either does not work.
    Apply,
    /// The host does not offer it: report it so.
    Unavailable {
        /// Why not.
        detail: String,
        /// What an operator can do.
        fix: String,
    },
    /// The operator switched it off.
    Off,
}

/// The intent for every layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    intents: [Intent; Layer::ALL.len()],
}

impl Plan {
    /// Apply every layer.
    #[must_use]
    pub fn full() -> Self {
        Self { intents: std::array::from_fn(|_| Intent::Apply) }
    }

    /// Apply none (sandbox mode `off`).
    #[must_use]
    pub fn off() -> Self {
        Self { intents: std::array::from_fn(|_| Intent::Off) }
    }

    /// What to do about `layer`. The engine of a runtime is no layer to leave out.
    #[must_use]
    pub fn intent(&self, layer: Layer) -> &Intent {
        let [env, cgroup, namespaces, mounts, network, credentials, rlimits, landlock, seccomp] =
            &self.intents;
        match layer {
            Layer::EnvScrub => env,
            Layer::Cgroup => cgroup,
            Layer::Namespaces => namespaces,
            Layer::Mounts => mounts,
            Layer::Network => network,
            Layer::Credentials => credentials,
            Layer::Rlimits => rlimits,
            Layer::Landlock => landlock,
            Layer::Seccomp => seccomp,
            Layer::Wasm => &Intent::Apply,
        }
    }

    /// Whether `layer` is to be applied.
    #[must_use]
    pub fn applies(&self, layer: Layer) -> bool {
        matches!(self.intent(layer), Intent::Apply)
    }

    /// Changes what to do about `layer`, and about what is built on it where that can no
    /// longer be applied.
    pub fn set(&mut self, layer: Layer, intent: &Intent) {
        for (other, slot) in Layer::ALL.iter().zip(self.intents.iter_mut()) {
            if *other == layer {
                *slot = intent.clone();
            } else if other.needs().contains(&layer) && *slot == Intent::Apply {
                *slot = match intent {
                    Intent::Apply => Intent::Apply,
                    Intent::Off => Intent::Off,
                    Intent::Unavailable { fix, .. } => Intent::Unavailable {
                        detail: format!("needs the {layer} layer, which is not available"),
                        fix: fix.clone(),
                    },
                };
            }
        }
    }

    /// The report of a layer that is not applied; `None` for one that is, which has to be
    /// verified instead.
    #[must_use]
    pub fn report_unapplied(&self, layer: Layer) -> Option<Report> {
        match self.intent(layer) {
            Intent::Apply => None,
            Intent::Off => Some(Report::off(layer)),
            Intent::Unavailable { detail, fix } => Some(Report::unavailable(layer, detail, fix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_order_is_the_order_of_all() {
        assert!(Layer::ALL.is_sorted());
        for layer in Layer::ALL {
            assert_eq!(layer.name().parse::<Layer>().unwrap(), layer);
            assert_eq!(serde_json::to_string(&layer).unwrap(), format!("\"{layer}\""));
        }
    }

    #[test]
    fn a_plan_sets_each_layer_alone() {
        for layer in Layer::ALL {
            let mut plan = Plan::full();
            plan.set(layer, &Intent::Off);
            for other in Layer::ALL {
                let expected = other != layer && !other.needs().contains(&layer);
                assert_eq!(plan.applies(other), expected, "{layer} off, asking {other}");
            }
        }
    }

    #[test]
    fn layer_names_the_missing_layer_it_needs() {
        let mut plan = Plan::full();
        let intent = Intent::Unavailable { detail: "no".into(), fix: "sysctl".into() };
        plan.set(Layer::Namespaces, &intent);
        let report = plan.report_unapplied(Layer::Mounts).unwrap();
        assert_eq!(report.status, Status::Unavailable);
        assert!(report.detail.contains("namespaces"));
        assert_eq!(report.fix, "sysctl");
    }
}
