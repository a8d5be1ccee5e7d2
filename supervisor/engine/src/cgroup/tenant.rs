//! What all sessions of a tenant may use together: the limits of its cgroup.
//!
//! They are written and read back when the tenant's directory is made and when they change. It
//! must never let a session of a tenant begin whose ceilings do not hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::files::{self, CgroupError};
use super::limits::{self, Controller, Setting};
use super::tree::{TENANTS, Tree, enable};
use crate::settings::Ceilings;

/// What holds for tenants, by name. A tenant that is not here has no ceilings.
#[derive(Debug, Default)]
pub(super) struct States(Mutex<BTreeMap<String, State>>);

#[derive(Debug, Clone, Copy)]
struct State {
    ceilings: Ceilings,
    /// Whether they were written and read back.
    held: bool,
}

impl States {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    /// Says what is to hold for these tenants from now on. Those that are not named keep what
    /// they have. Nothing is written yet: [`Tree::hold`] does, or the tenant's next session.
    pub fn set_ceilings(&self, ceilings: &BTreeMap<String, Ceilings>) {
        let mut states = self.ceilings.lock();
        for (tenant, ceilings) in ceilings {
            let held =
                states.get(tenant).is_some_and(|state| state.held && state.ceilings == *ceilings);
            states.insert(tenant.clone(), State { ceilings: *ceilings, held });
        }
    }

    /// Makes a tenant's directory if it is not there, and has its ceilings hold. Lowering
    /// `memory.max` below what is used returns when the kernel has reclaimed or killed enough, and
    /// may end sessions.
    ///
    /// `tenant` has been checked to be a plain name.
    /// On an error the next call tries again.
    pub fn hold(&self, tenant: &str) -> Result<(), CgroupError> {
        let dir = self.root().join(TENANTS).join(tenant);
        let is_new = !dir.exists();
        files::make_dir(&dir)?;
        enable(&dir);
        let state = self.ceilings.lock().get(tenant).copied();
        let Some(State { ceilings, .. }) = state.filter(|state| is_new || !state.held) else {
            return Ok(());
        };
        self.write(&dir, &ceilings)?;
        if let Some(state) = self.ceilings.lock().get_mut(tenant) {
            // Unless they have changed meanwhile.
            state.held = state.ceilings == ceilings;
        }
        Ok(())
    }

    fn write(&self, dir: &Path, ceilings: &Ceilings) -> Result<(), CgroupError> {
        for Wanted { setting, .. } in wanted(ceilings) {
            if self.controllers().contains(&setting.controller) {
                limits::set(dir, &setting)?;
            }
        }
        Ok(())
    }
}

/// Of these ceilings, those that can not be held by these controllers: the key of each, and what
/// it would take.
pub fn missing(ceilings: &Ceilings, controllers: &[Controller]) -> Vec<(&'static str, Controller)> {
    let lacks = |wanted: &Wanted| !controllers.contains(&wanted.setting.controller);
    let missing = wanted(ceilings).into_iter().filter(lacks);
    missing.filter_map(|wanted| Some((wanted.key?, wanted.setting.controller))).collect()
}

struct Wanted {
    setting: Setting,
    /// The key it is for, unless it is what the kernel does anyway.
    key: Option<&'static str>,
}

/// What is written for a tenant (`Documentation/admin-guide/cgroup-v2.rst`).
fn wanted(ceilings: &Ceilings) -> [Wanted; 5] {
    let Ceilings { cpu_weight, cpu_cores, max_memory_mb, max_procs } = *ceilings;
    let usual = Ceilings::default();
    let of = |key: &'static str, is_usual: bool, setting: Setting| Wanted {
        setting,
        key: (!is_usual).then_some(key),
    };
    let no_swap = match max_memory_mb.get() {
        Some(_) => Setting::no_swap(),
        None => Setting { value: "max".to_owned(), ..Setting::no_swap() },
    };
    [
        of("cpu_weight", cpu_weight == usual.cpu_weight, limits::cpu_weight(cpu_weight)),
        of("cpu_cores", cpu_cores == usual.cpu_cores, limits::cpu_max(cpu_cores)),
        of("max_procs", max_procs == usual.max_procs, limits::pids_max(max_procs)),
        Wanted { setting: no_swap, key: None },
        // Last, since it may take its time.
        of(
            "max_memory_mb",
            max_memory_mb == usual.max_memory_mb,
            limits::memory_max(max_memory_mb),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_protocol::policy::CpuCores;
    use vivarium_protocol::units::Limit;

    fn low() -> Ceilings {
        Ceilings {
            cpu_weight: 300,
            cpu_cores: CpuCores { milli: Some(500) },
            max_memory_mb: Limit::new(3).unwrap(),
            max_procs: Limit::new(7).unwrap(),
        }
    }

    #[test]
    fn ceilings_become_the_kernels_words() {
        let written = |ceilings: &Ceilings| {
            wanted(ceilings).map(|wanted| (wanted.setting.file, wanted.setting.value))
        };
        let right = [
            ("cpu.weight", "300"),
            ("cpu.max", "50000 100000"),
            ("pids.max", "7"),
            ("memory.swap.max", "0"),
            ("memory.max", "3145728"),
        ];
        assert_eq!(written(&low()), right.map(|(file, value)| (file, value.to_owned())));
        let usual = ["100", "max 100000", "max", "max", "max"];
        assert_eq!(written(&Ceilings::default()).map(|(_, value)| value), usual);
    }

    #[test]
    fn unenforceable_ceiling_is_named_only_if_configured() {
        let all = ["cpu_weight", "cpu_cores", "max_procs", "max_memory_mb"];
        let keys = |found: Vec<(&'static str, Controller)>| -> Vec<_> {
            found.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(missing(&low(), &[])), all);
        assert_eq!(keys(missing(&low(), &[Controller::Cpu, Controller::Pids])), ["max_memory_mb"]);
        assert_eq!(missing(&low(), &Controller::ALL), []);
        assert_eq!(missing(&Ceilings::default(), &[]), []);
    }
}
