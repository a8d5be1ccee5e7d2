//! `[tenant.sandbox]`, `[tenant.session]` and `[tenant.approval]`: the keys of `[sandbox]`,
//! `[session]` and `[approval]` that a tenant may have values of its own for. The engine says which.

use std::sync::LazyLock;

use vivarium_engine::settings::{
    overridable_of_approval, overridable_of_sandbox, overridable_of_session,
};

use super::{approval, sandbox, session};
use crate::config::key::{DefaultValue, Key, Setter};

pub(super) static SANDBOX: LazyLock<Vec<Key>> =
    LazyLock::new(|| of(sandbox::KEYS, overridable_of_sandbox(), "what `[sandbox]` says"));

pub(super) static SESSION: LazyLock<Vec<Key>> =
    LazyLock::new(|| of(session::KEYS, overridable_of_session(), "what `[session]` says"));

pub(super) static APPROVAL: LazyLock<Vec<Key>> =
    LazyLock::new(|| of(approval::KEYS, overridable_of_approval(), "what `[approval]` says"));

fn of(
    keys: &[Key],
    names: impl Iterator<Item = &'static str>,
    otherwise: &'static str,
) -> Vec<Key> {
    let names: Vec<_> = names.collect();
    let own = |key: &Key| {
        let set = match key.set {
            Setter::Sandbox(set) => Setter::TenantSandbox(set),
            Setter::Session(set) => Setter::TenantSession(set),
            Setter::Approval(set) => Setter::TenantApproval(set),
            other => other,
        };
        let default = DefaultValue::Unset(otherwise);
        Key { set, default, flag: None, reloads: true, ..*key }
    };
    keys.iter().filter(|key| names.contains(&key.name)).map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_key_that_reloads() {
        assert_eq!(SANDBOX.len(), overridable_of_sandbox().count());
        assert_eq!(SESSION.len(), overridable_of_session().count());
        assert_eq!(APPROVAL.len(), overridable_of_approval().count());
        let of_all = sandbox::KEYS.iter().chain(session::KEYS);
        for key in
            of_all.filter(|key| SANDBOX.iter().chain(&*SESSION).any(|it| it.name == key.name))
        {
            assert!(key.reloads, "{}: a tenant's values change at a reload", key.name);
        }
    }
}
