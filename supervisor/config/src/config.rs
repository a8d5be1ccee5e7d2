//! The configuration: its sources, their values and all errors in them. The result is
//! [`vivarium_engine::settings`].
//!
//! For each key a flag overrides a variable, which overrides the file, which overrides the default.
//! Resolving must never stop at the first error, and never ignore an unknown word.

mod bounded;
mod check;
pub mod environment;
mod error;
mod file;
mod host;
mod key;
pub mod keys;
mod of_tenant;
mod raw_setting;
mod reload;
mod render;
mod tenant_sources;
mod token_file;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vivarium_api_types::PolicySource;
pub use vivarium_api_types::duration;

pub use error::{ConfigError, ConfigErrors, Origin};
pub use file::{DEFAULT_PATH, File, ReadError, load};
pub use host::Host;
pub use key::{DefaultValue, Key, Kind, Section, Setter};
pub use of_tenant::of_tenant;
pub use raw_setting::RawSetting;
pub use reload::{Reloaded, reload};
pub use render::{markdown, sample, show, show_json};
pub use value::{Value, ValueError};

use vivarium_engine::settings::Settings;
use vivarium_protocol::error_chain;

use raw_setting::{DEFAULT_ENVIRONMENT, ParsedSource};

#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// What the defaults depend on.
    pub host: Host,
    pub file: Option<File>,
    /// The service's credentials (`$CREDENTIALS_DIRECTORY`, `systemd.exec(5)`).
    pub credentials: Option<PathBuf>,
    pub variables: Vec<(String, String)>,
    pub flags: Vec<RawSetting>,
    /// Whether tenants are read from where `[tenants]` says, too: a daemon's matter.
    pub all_tenants: bool,
}

/// Values from a repeated or single flag, for [`Sources::flags`].
///
/// Nothing if `texts` is empty or no key has this flag.
#[must_use]
pub fn flag(flag: &'static str, texts: &[String]) -> Option<RawSetting> {
    let key = keys::all().find(|key| key.flag == Some(flag))?;
    raw_setting::from_flag(key, flag, texts)
}

/// A key's value in effect.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: &'static Key,
    /// The name of the environment, tool server or tenant.
    pub of: Option<String>,
    /// `None` if no source sets the key and it has no default value.
    pub value: Option<Value>,
    pub origin: Origin,
}

impl Entry {
    #[must_use]
    pub fn path(&self) -> String {
        self.key.path(self.of.as_deref())
    }
}

/// A configuration without errors.
#[derive(Debug, Clone)]
pub struct Config {
    pub settings: Settings,
    /// Every key, in the order of the file.
    pub entries: Vec<Entry>,
    /// What is most likely a mistake, and changes nothing.
    pub warnings: Vec<ConfigError>,
}

/// Merges the sources and checks everything.
///
/// # Errors
/// Everything wrong in every source, also in values that another source overrides.
pub fn resolve(sources: &Sources) -> Result<Config, ConfigErrors> {
    let mut parsed: Vec<ParsedSource> = vec![];
    parsed.extend(sources.file.as_ref().map(file::read));
    parsed.push(environment::read(&sources.variables));
    parsed.push(ParsedSource { settings: sources.flags.clone(), ..ParsedSource::default() });
    let is_all = sources.all_tenants && add_tenants(sources, &mut parsed);

    let mut merge = Merge::new(&sources.host, &parsed);
    for source in parsed {
        merge.errors.extend(source.errors);
        merge.warnings.extend(source.warnings);
        for given in source.settings {
            merge.apply(given);
        }
    }
    if is_all && merge.settings.tenants.is_empty() && merge.errors.is_empty() {
        let why = "tenants: there is no tenant, in the file or elsewhere: anybody could connect";
        merge.errors.push(ConfigError { origin: Origin::Default, message: why.to_owned() });
    }
    merge.read_token_files(sources.credentials.as_deref());
    merge.finish()
}

/// Adds the tenants of `[tenants]`, if it has any source.
fn add_tenants(sources: &Sources, parsed: &mut Vec<ParsedSource>) -> bool {
    let mut merge = Merge::new(&sources.host, parsed);
    for given in parsed.iter().flat_map(|source| &source.settings) {
        merge.apply(given.clone());
    }
    let Merge { settings, entries, .. } = merge;
    if !settings.tenant_sources.is_configured() {
        return false;
    }
    let origin = |path: &str| {
        let entry = entries.iter().find(|entry| entry.path() == path);
        entry.map_or(Origin::Default, |entry| entry.origin.clone())
    };
    parsed.extend(tenant_sources::read(&settings.tenant_sources, &settings.server.user, origin));
    tenant_sources::refuse_twins(parsed);
    true
}

struct Merge {
    settings: Settings,
    entries: Vec<Entry>,
    errors: Vec<ConfigError>,
    warnings: Vec<ConfigError>,
}

impl Merge {
    /// Every key of every section, tool server, environment and tenant, with its default.
    fn new(host: &Host, parsed: &[ParsedSource]) -> Self {
        let environments =
            parsed.iter().flat_map(|source| &source.environments).map(String::as_str);
        let environments: BTreeSet<_> = environments.chain([DEFAULT_ENVIRONMENT]).collect();
        let tool_servers: BTreeSet<_> =
            parsed.iter().flat_map(|source| &source.tool_servers).collect();
        let tenants: BTreeSet<_> = parsed.iter().flat_map(|source| &source.tenants).collect();
        let (entries, errors, warnings) = (vec![], vec![], vec![]);
        let mut merge = Self { settings: keys::blank(), entries, errors, warnings };
        for key in keys::all() {
            if !key.section().is_named() && !key.section().is_of_tenant() {
                merge.set_default(host, key, None);
            }
        }
        for name in tool_servers {
            merge.settings.tool_servers.insert(name.clone(), Default::default());
            for key in keys::of(Section::Tools) {
                merge.set_default(host, key, Some(name));
            }
        }
        for name in environments {
            merge.settings.environments.insert(name.to_owned(), Default::default());
            for key in keys::of(Section::Environments) {
                merge.set_default(host, key, Some(name));
            }
        }
        for name in tenants {
            merge.settings.tenants.insert(name.clone(), Default::default());
            for key in keys::all().filter(|key| key.section().is_of_tenant()) {
                merge.set_default(host, key, Some(name));
            }
        }
        merge
    }

    fn set_default(&mut self, host: &Host, key: &'static Key, of: Option<&str>) {
        let value = match key.default {
            DefaultValue::Toml(text) => {
                toml::de::DeValue::parse(text).ok().map(|value| Value::from_toml(value.get_ref()))
            }
            DefaultValue::Unset(_) | DefaultValue::Required(_) => None,
            DefaultValue::Host { value, .. } => Some(value(host)),
        };
        self.entries.push(Entry {
            key,
            of: of.map(str::to_owned),
            value: None,
            origin: Origin::Default,
        });
        if let Some(value) = value {
            let of = of.map(str::to_owned);
            self.apply(RawSetting { key, of, value, origin: Origin::Default });
        }
    }

    fn apply(&mut self, given: RawSetting) {
        let RawSetting { key, of, value, origin } = given;
        let name = || of.clone().unwrap_or_else(|| DEFAULT_ENVIRONMENT.to_owned());
        let set = match key.set {
            Setter::Server(set) => set(&mut self.settings.server, &value),
            Setter::Sandbox(set) => set(&mut self.settings.sandbox, &value),
            Setter::Session(set) => set(&mut self.settings.session, &value),
            Setter::Homes(set) => set(&mut self.settings.homes, &value),
            Setter::Images(set) => set(&mut self.settings.images, &value),
            Setter::Approval(set) => set(&mut self.settings.approval, &value),
            Setter::Audit(set) => set(&mut self.settings.audit, &value),
            Setter::Preview(set) => set(&mut self.settings.preview, &value),
            Setter::Dialects(set) => set(&mut self.settings.dialects, &value),
            Setter::E2b(set) => set(&mut self.settings.e2b, &value),
            Setter::Builds(set) => set(&mut self.settings.builds, &value),
            Setter::Egress(set) => set(&mut self.settings.egress, &value),
            Setter::Packages(set) => set(&mut self.settings.packages, &value),
            Setter::Usage(set) => set(&mut self.settings.usage, &value),
            Setter::ToolServer(set) => {
                set(self.settings.tool_servers.entry(name()).or_default(), &value)
            }
            Setter::Environment(set) => {
                set(self.settings.environments.entry(name()).or_default(), &value)
            }
            Setter::TenantSources(set) => set(&mut self.settings.tenant_sources, &value),
            Setter::Tenant(set) => set(self.settings.tenants.entry(name()).or_default(), &value),
            Setter::TenantSandbox(_) | Setter::TenantSession(_) | Setter::TenantApproval(_) => {
                let tenant = self.settings.tenants.entry(name()).or_default();
                let overrides = tenant.overrides.get_or_insert_with(keys::no_overrides);
                key::set_override(overrides, key, &value)
            }
        };
        let path = key.path(of.as_deref());
        if let Err(error) = set {
            let message = format!("{path}: {error}");
            self.errors.push(ConfigError { origin, message });
            return;
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.path() == path) {
            entry.value = Some(value);
            entry.origin = origin;
        }
    }

    /// Adds the tokens that are in files of their own.
    fn read_token_files(&mut self, credentials: Option<&Path>) {
        let entries = self.entries.iter();
        let origins: BTreeMap<_, _> =
            entries.map(|entry| (entry.path(), entry.origin.clone())).collect();
        for (name, tenant) in &mut self.settings.tenants {
            let Some(file) = &tenant.token_hashes_file else { continue };
            let path = format!("tenant.{name}.token_hashes_file");
            match token_file::read(file, credentials) {
                Ok(tokens) => tenant.tokens.extend(tokens),
                Err(error) => {
                    let origin = origins.get(&path).cloned().unwrap_or(Origin::Default);
                    let message = format!("{path}: {}", error_chain(&error));
                    self.errors.push(ConfigError { origin, message });
                }
            }
        }
    }

    fn finish(mut self) -> Result<Config, ConfigErrors> {
        // A refused value is not in the settings, so checks across keys could report nonsense.
        if self.errors.is_empty() {
            let origins: BTreeMap<_, _> =
                self.entries.iter().map(|entry| (entry.path(), &entry.origin)).collect();
            for (path, message) in check::check(&self.settings) {
                let origin = origins.get(&path).map_or(Origin::Default, |origin| (*origin).clone());
                let message = format!("{path}: {message}");
                self.errors.push(ConfigError { origin, message });
            }
        }
        // What is wrong with a line is found in several passes, and a table of TOML has no order.
        self.errors.sort_by_key(|error| match &error.origin {
            Origin::File { path, line } => (false, path.clone(), *line),
            _ => (true, PathBuf::new(), 0),
        });
        if self.errors.is_empty() {
            self.settings.sources = Arc::new(sources(&self.entries));
            Ok(Config { settings: self.settings, entries: self.entries, warnings: self.warnings })
        } else {
            Err(ConfigErrors(self.errors))
        }
    }
}

/// Where values came from that are not the defaults, without what only the operator may know.
fn sources(entries: &[Entry]) -> BTreeMap<String, PolicySource> {
    let source = |entry: &Entry| match entry.origin {
        Origin::Default => None,
        Origin::File { .. } => Some((entry.path(), PolicySource::File)),
        Origin::Variable(_) => Some((entry.path(), PolicySource::Environment)),
        Origin::Flag(_) => Some((entry.path(), PolicySource::CommandLine)),
    };
    entries.iter().filter_map(source).collect()
}

#[cfg(test)]
mod tests;
