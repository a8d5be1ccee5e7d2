//! Applies the part of a new configuration that can take effect in a running daemon.

use std::collections::BTreeSet;

use vivarium_engine::settings::Settings;

use crate::config::{Config, ConfigErrors, Entry, Merge, RawSetting, Section, Value};

/// The configuration after a reload.
#[derive(Debug)]
pub struct Reloaded {
    pub config: Config,
    /// Keys whose new value is in effect now.
    pub changed: Vec<String>,
    /// Keys whose new value needs a restart.
    pub kept: Vec<String>,
}

/// Applies what can be applied of `new`. `running` are the settings in use, which hold more than any
/// configuration (the agent, the delegated cgroup); `old` is the configuration they came from.
///
/// # Errors
/// [`ConfigErrors`] if old and new values do not fit together; nothing is to be changed then.
pub fn reload(running: &Settings, old: &Config, new: &Config) -> Result<Reloaded, ConfigErrors> {
    let mut merge = Merge {
        settings: running.clone(),
        entries: old.entries.clone(),
        errors: Vec::new(),
        warnings: new.warnings.clone(),
    };
    let (mut changed, mut kept) = (Vec::new(), Vec::new());
    for entry in new.entries.iter().filter(|entry| !is_whole(entry)) {
        let path = entry.path();
        if value(old, &path) == entry.value.as_ref() {
            continue;
        }
        match &entry.value {
            Some(value) if entry.key.reloads && is_there(running, entry) => {
                merge.apply(RawSetting {
                    key: entry.key,
                    of: entry.of.clone(),
                    value: value.clone(),
                    origin: entry.origin.clone(),
                });
                changed.push(path);
            }
            _ => kept.push(path),
        }
    }
    changed.extend(take_tool_servers(&mut merge, old, new));
    changed.extend(take_tenants(&mut merge, old, new));
    changed.extend(take_pools(&mut merge, old, new));
    // The keys of an environment that is gone from the file.
    kept.extend(
        old.entries
            .iter()
            .filter(|entry| !is_whole(entry))
            .map(Entry::path)
            .filter(|path| !new.entries.iter().any(|entry| entry.path() == *path)),
    );
    Ok(Reloaded { config: merge.finish()?, changed, kept })
}

/// Takes over the tool servers as a whole, and names those that are new, changed or gone.
fn take_tool_servers(merge: &mut Merge, old: &Config, new: &Config) -> Vec<String> {
    let is_of_one = |entry: &Entry| entry.key.section() == Section::Tools;
    merge.entries.retain(|entry| !is_of_one(entry));
    merge.entries.extend(new.entries.iter().filter(|entry| is_of_one(entry)).cloned());
    merge.settings.tool_servers.clone_from(&new.settings.tool_servers);
    let (old, new) = (&old.settings.tool_servers, &new.settings.tool_servers);
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let differ = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    differ.map(|name| format!("tools.{name}")).collect()
}

/// Takes over the tenants as a whole, and names those that are new, changed or gone.
fn take_tenants(merge: &mut Merge, old: &Config, new: &Config) -> Vec<String> {
    merge.entries.retain(|entry| !is_tenants(entry));
    merge.entries.extend(new.entries.iter().filter(|entry| is_tenants(entry)).cloned());
    merge.settings.tenants.clone_from(&new.settings.tenants);
    let (old, new) = (&old.settings.tenants, &new.settings.tenants);
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let differ = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    differ.map(|name| format!("tenant.{name}")).collect()
}

/// Takes over both watermarks of each existing environment's pool together, since one may fit only
/// with the other's new value. Names those that changed.
fn take_pools(merge: &mut Merge, old: &Config, new: &Config) -> Vec<String> {
    let mut changed = Vec::new();
    for (name, environment) in &mut merge.settings.environments {
        if let Some(new) = new.settings.environments.get(name) {
            environment.pool_size = new.pool_size;
            environment.pool_low = new.pool_low;
        }
    }
    for entry in merge.entries.iter_mut().filter(|entry| is_pools(entry)) {
        let path = entry.path();
        let Some(now) = new.entries.iter().find(|now| now.path() == path) else { continue };
        if value(old, &path) != now.value.as_ref() {
            changed.push(path);
        }
        *entry = now.clone();
    }
    changed
}

/// False for a new environment, which needs a restart.
fn is_there(running: &Settings, entry: &Entry) -> bool {
    let environment = entry.of.as_deref().filter(|_| entry.key.section() == Section::Environments);
    environment.is_none_or(|name| running.environments.contains_key(name))
}

/// Whether [`take_tool_servers`], [`take_tenants`] or [`take_pools`] takes the entry over.
fn is_whole(entry: &Entry) -> bool {
    entry.key.section() == Section::Tools || is_tenants(entry) || is_pools(entry)
}

fn is_pools(entry: &Entry) -> bool {
    entry.key.section() == Section::Environments && entry.key.name.starts_with("pool_")
}

fn is_tenants(entry: &Entry) -> bool {
    entry.key.section().is_of_tenant()
}

fn value<'a>(config: &'a Config, wanted: &str) -> Option<&'a Value> {
    let entry = config.entries.iter().find(|entry| entry.path() == wanted)?;
    entry.value.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Sources, resolve};
    use std::time::Duration;
    use vivarium_api_types::ListenAddr;

    fn config(text: &str) -> Config {
        let file = Some(File { path: "/etc/v.toml".into(), text: text.to_owned() });
        resolve(&Sources { file, ..Sources::default() }).unwrap()
    }

    #[test]
    fn reload_names_the_keys_that_need_a_restart() {
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

    /// Sessions are started with what the trial session had, whatever the file says by then.
    #[test]
    fn reload_does_not_weaken_the_sandbox_of_a_running_daemon() {
        let old = config("[sandbox]\nmode = \"auto\"\nrequire = [\"mounts\"]\n");
        let new = config(
            "[server]\nuser = \"other\"\n\
             [sandbox]\nmode = \"off\"\nrequire = []\ndisable_layers = [\"seccomp\"]\n\
             workdir = \"/elsewhere\"\ncgroup_root = \"/sys/fs/cgroup/other\"\nmax_procs = 3\n\
             [session]\nqueue_depth = 99\n",
        );
        let reloaded = reload(&old.settings, &old, &new).unwrap();
        let mut kept = reloaded.kept;
        kept.sort();
        let names = ["cgroup_root", "disable_layers", "mode", "require", "workdir"];
        let sandbox = names.map(|name| format!("sandbox.{name}"));
        assert_eq!(kept, [&sandbox[..], &["server.user".to_owned()]].concat());
        // What may change has changed, and nothing else of it.
        assert_eq!(reloaded.changed, ["sandbox.max_procs", "session.queue_depth"]);
        let mut expected = old.settings.sandbox.clone();
        expected.limits.max_procs = new.settings.sandbox.limits.max_procs;
        assert_eq!(reloaded.config.settings.sandbox, expected);
        assert_eq!(reloaded.config.settings.server, old.settings.server);
        assert_eq!(reloaded.config.settings.session.queue_depth, 99);
    }

    #[test]
    fn watermarks_of_pools_change_together_in_existing_environments() {
        let old = config("[environments.default]\npool_size = 4\npool_low = 3\n");
        let new =
            config("[environments.default]\npool_size = 2\n[environments.b]\npool_size = 1\n");
        let reloaded = reload(&old.settings, &old, &new).unwrap();
        let paths = ["environments.default.pool_size", "environments.default.pool_low"];
        assert_eq!(reloaded.changed, paths);
        let environments = &reloaded.config.settings.environments;
        assert_eq!(environments.keys().collect::<Vec<_>>(), ["default"]);
        let marks = (environments["default"].pool_size, environments["default"].pool_low);
        assert_eq!(marks, (2, None));
        assert!(reloaded.kept.iter().all(|path| path.starts_with("environments.b.")));
        let again = reload(&reloaded.config.settings, &reloaded.config, &new).unwrap();
        assert!(again.changed.is_empty(), "{:?}", again.changed);
    }

    fn tenant(name: &str, token: &str, more: &str) -> String {
        let hash = vivarium_api_types::TokenHash::of(token);
        format!("[[tenant]]\nname = \"{name}\"\ntoken_sha256 = [\"{hash}\"]\n{more}\n")
    }

    #[test]
    fn reload_adds_changes_and_removes_tenants() {
        let text = |tenants: &[String]| format!("[sandbox]\nmax_procs = 5\n{}", tenants.concat());
        let old = config(&text(&[
            tenant("same", "1", ""),
            tenant("changed", "2", ""),
            tenant("gone", "3", ""),
        ]));
        let new = config(&text(&[
            tenant("new", "4", "max_procs = 9"),
            tenant("changed", "5", ""),
            tenant("same", "1", ""),
        ]));
        let reloaded = reload(&old.settings, &old, &new).unwrap();
        assert_eq!(reloaded.changed, ["tenant.changed", "tenant.gone", "tenant.new"]);
        assert!(reloaded.kept.is_empty(), "{:?}", reloaded.kept);
        assert_eq!(reloaded.config.settings.tenants, new.settings.tenants);
        let shown = crate::config::show(&reloaded.config);
        assert!(shown.contains("name = \"new\"") && !shown.contains("name = \"gone\""), "{shown}");
        let again = reload(&reloaded.config.settings, &reloaded.config, &new).unwrap();
        assert!(again.changed.is_empty(), "{:?}", again.changed);
    }

    #[test]
    fn last_tenant_can_not_be_removed_while_other_hosts_can_connect() {
        let old = config(&format!("[server]\nlisten = [\"0.0.0.0:1\"]\n{}", tenant("a", "1", "")));
        let errors = reload(&old.settings, &old, &config("")).unwrap_err().to_string();
        assert!(errors.contains("there are no tenants"), "{errors}");
        // Nor while systemd has it listen there, of which the configuration says nothing.
        let old = config(&tenant("a", "1", ""));
        let mut running = old.settings.clone();
        running.server.listen = vec![ListenAddr::Tcp("192.0.2.1:80".parse().unwrap())];
        assert!(reload(&running, &old, &config("")).is_err());
        assert!(reload(&old.settings, &old, &config("")).is_ok());
    }

    #[test]
    fn second_reload_of_the_same_file_changes_nothing() {
        let old = config("[sandbox]\nmax_procs = 5\n");
        let new = config("[sandbox]\nmax_procs = 6\n");
        let first = reload(&old.settings, &old, &new).unwrap().config;
        let second = reload(&first.settings, &first, &new).unwrap();
        assert_eq!((second.changed.len(), second.kept.len()), (0, 0));
    }
}
