//! What holds for one tenant.

use crate::config::{Config, Entry, keys};

/// The configuration of one tenant, with its own values and those of all for the keys that it has
/// none of; `None` if there is no such tenant.
#[must_use]
pub fn of_tenant(mut config: Config, name: &str) -> Option<Config> {
    config.settings.tenants.contains_key(name).then_some(())?;
    let of_all = |entry: &Entry| {
        let section = entry.key.section().overridden()?;
        let path = keys::find(section, entry.key.name)?.path(None);
        config.entries.iter().find(|other| other.path() == path)
    };
    let is_own =
        |entry: &&Entry| entry.of.as_deref() == Some(name) && entry.key.section().is_of_tenant();
    let held = |entry: &Entry| {
        let mut held = entry.clone();
        if let (None, Some(of_all)) = (&entry.value, of_all(entry)) {
            (held.value, held.origin) = (of_all.value.clone(), of_all.origin.clone());
        }
        held
    };
    let entries = config.entries.iter().filter(is_own).map(held).collect();
    config.entries = entries;
    Some(config)
}
