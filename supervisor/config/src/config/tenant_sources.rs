//! Tenants that are not in the configuration file: `[tenants]`.
//!
//! A source is read whole or refused whole: a tenant that is left out for an error would be one that
//! is removed.

mod command;
mod directory;
mod ownership;

use std::collections::BTreeMap;

use vivarium_engine::settings::TenantSources;

use crate::config::error::Origin;
use crate::config::file;
use crate::config::raw_setting::ParsedSource;

use ownership::Owners;

/// The name under which errors in the output of the command are told.
const OUTPUT: &str = "tenants.command";

/// The tenants of both sources, with all that is wrong. `origin` says where a key was set.
pub(crate) fn read(
    sources: &TenantSources,
    user: &str,
    origin: impl Fn(&str) -> Origin,
) -> Vec<ParsedSource> {
    let owners = Owners::with(user);
    let mut found = Vec::new();
    if let Some(directory) = &sources.directory {
        found.extend(directory::read(directory, &owners, &origin("tenants.directory")));
    }
    if !sources.command.is_empty() {
        let origin = origin("tenants.command");
        let mut parsed = ParsedSource::default();
        match command::output(&sources.command, sources.timeout, &owners) {
            Ok(output) => match command::as_toml(output) {
                Ok(text) => {
                    parsed = file::read_tenants(&file::File { path: OUTPUT.into(), text });
                }
                Err(why) => parsed.error(&origin, format!("tenants.command: {why}")),
            },
            Err(error) => {
                let why = vivarium_protocol::error_chain(&error);
                parsed.error(&origin, format!("tenants.command: {why}"));
            }
        }
        found.push(parsed);
    }
    found
}

/// Refuses a name that several sources have; the later one has the error.
pub(crate) fn refuse_twins(parsed: &mut [ParsedSource]) {
    let mut seen: BTreeMap<String, Origin> = BTreeMap::new();
    for source in parsed {
        for name in source.tenants.clone() {
            let own = |it: &&_| source_of(it) == Some(name.as_str());
            let origin = source.settings.iter().find(own).map(|it| it.origin.clone());
            let origin = origin.unwrap_or(Origin::Default);
            if let Some(first) = seen.get(&name) {
                let why = format!("tenant.name: there already is a tenant {name:?} ({first})");
                source.error(&origin, why);
            } else {
                seen.insert(name, origin);
            }
        }
    }
}

fn source_of(setting: &crate::config::RawSetting) -> Option<&str> {
    setting.key.section().is_of_tenant().then_some(setting.of.as_deref()).flatten()
}

#[cfg(test)]
mod tests;
