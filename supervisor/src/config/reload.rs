//! What of a new configuration can take effect in a running daemon.

use crate::config::{Config, ConfigErrors, Entry, Given, Merge, Value};
use crate::settings::Settings;

/// The configuration after a reload.
#[derive(Debug)]
pub struct Reloaded {
    /// Its settings and entries.
    pub config: Config,
    /// Keys whose new value is in effect now.
    pub changed: Vec<String>,
    /// Keys whose new value needs a restart.
    pub kept: Vec<String>,
}

/// Takes over from `new` what can be. `running` are the settings in use, which know more than
/// any configuration (the agent, the delegated cgroup); `old` is what they came from.
///
/// # Errors
/// [`ConfigErrors`] if old and new values do not fit together; nothing is to be changed then.
pub fn reload(running: &Settings, old: &Config, new: &Config) -> Result<Reloaded, ConfigErrors> {
    let mut merge =
        Merge { settings: running.clone(), entries: old.entries.clone(), errors: Vec::new() };
    let (mut changed, mut kept) = (Vec::new(), Vec::new());
    for entry in &new.entries {
        let path = path(entry);
        if value(old, &path) == entry.value.as_ref() {
            continue;
        }
        match &entry.value {
            Some(value) if entry.key.reloads => {
                merge.apply(Given {
                    key: entry.key,
                    environment: entry.environment.clone(),
                    value: value.clone(),
                    origin: entry.origin.clone(),
                });
                changed.push(path);
            }
            _ => kept.push(path),
        }
    }
    // An environment that is gone from the file, too.
    kept.extend(
        old.entries
            .iter()
            .map(path)
            .filter(|path| !new.entries.iter().any(|entry| self::path(entry) == **path)),
    );
    Ok(Reloaded { config: merge.finish()?, changed, kept })
}

fn path(entry: &Entry) -> String {
    entry.key.path(entry.environment.as_deref())
}

fn value<'a>(config: &'a Config, wanted: &str) -> Option<&'a Value> {
    let entry = config.entries.iter().find(|entry| path(entry) == wanted)?;
    entry.value.as_ref()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::{File, Sources, resolve};
    use std::time::Duration;

    fn config(text: &str) -> Config {
        let file = Some(File { path: "/etc/v.toml".into(), text: text.to_owned() });
        resolve(&Sources { file, ..Sources::default() }).unwrap()
    }

    #[test]
    fn what_can_be_reloaded_is_and_the_rest_is_named() {
        let old = config("[sandbox]\nmax_procs = 5\n[environments.a]\nread_paths = [\"/x\"]\n");
        let new = config(
            "[server]\nlisten = [\"127.0.0.1:1\"]\n[sandbox]\nmax_procs = 6\n\
             [session]\nidle_timeout = \"5m\"\n",
        );
        let mut running = old.settings.clone();
        running.sandbox.cgroup_root = Some("/delegated".into());
        let reloaded = reload(&running, &old, &new).unwrap();
        assert_eq!(reloaded.changed, ["sandbox.max_procs", "session.idle_timeout"]);
        assert!(reloaded.kept.contains(&"server.listen".to_owned()), "{:?}", reloaded.kept);
        assert!(reloaded.kept.contains(&"environments.a.read_paths".to_owned()));
        let settings = &reloaded.config.settings;
        assert_eq!(settings.sandbox.limits.max_procs.get(), Some(6));
        assert_eq!(settings.session.idle_timeout, Duration::from_secs(300));
        assert_eq!(settings.server, old.settings.server);
        assert_eq!(settings.sandbox.cgroup_root, running.sandbox.cgroup_root);
    }

    #[test]
    fn nothing_changes_twice() {
        let old = config("[sandbox]\nmax_procs = 5\n");
        let new = config("[sandbox]\nmax_procs = 6\n");
        let first = reload(&old.settings, &old, &new).unwrap().config;
        let second = reload(&first.settings, &first, &new).unwrap();
        assert_eq!((second.changed.len(), second.kept.len()), (0, 0));
    }
}
