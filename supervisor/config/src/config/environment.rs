//! The configuration's variables: `VIVARIUM_<SECTION>_<KEY>`.

use crate::config::error::{ConfigError, Origin};
use crate::config::key::Section;
use crate::config::keys;
use crate::config::raw_setting::{self, DEFAULT_ENVIRONMENT, ParsedSource};
use crate::suggest;

pub const PREFIX: &str = "VIVARIUM_";

/// The short form of `VIVARIUM_SANDBOX_MODE`.
const SANDBOX: &str = "VIVARIUM_SANDBOX";

/// Variables with our prefix that are no configuration keys.
pub(crate) const OTHERS: [(&str, &str); 5] = [
    ("VIVARIUM_URL", "the daemon that the command line connects to"),
    ("VIVARIUM_TOKEN", "the tenant token that the command line sends"),
    ("VIVARIUM_CONFIG", "the configuration file, like `--config`"),
    ("VIVARIUM_LOG", "the log level (see `log_format`)"),
    ("VIVARIUM_AGENT", "the `vivarium-agent` to use instead of the one next to `vivarium`"),
];

/// Reads the variables. An unknown one with our prefix is a warning: it may be a misspelt limit, or
/// belong to another program of this family.
pub(crate) fn read(variables: &[(String, String)]) -> ParsedSource {
    let mut parsed = ParsedSource::default();
    for (name, text) in variables {
        if !name.starts_with(PREFIX) || OTHERS.iter().any(|(other, _)| other == name) {
            continue;
        }
        let origin = Origin::Variable(name.clone());
        if let Some((key, environment)) = find(name) {
            parsed.settings.push(raw_setting::from_text(key, environment.as_deref(), text, origin));
            parsed.environments.extend(environment);
        } else {
            let message = format!("no such variable{}", suggest::hint(name, known()));
            parsed.warnings.push(ConfigError { origin, message });
        }
    }
    // The short form first, so that the full name overrides it.
    parsed.settings.sort_by_key(|given| given.origin != Origin::Variable(SANDBOX.to_owned()));
    parsed
}

/// The key a variable sets, and of which environment.
fn find(name: &str) -> Option<(&'static crate::config::key::Key, Option<String>)> {
    if name == SANDBOX {
        return Some((keys::find(Section::Sandbox, "mode")?, None));
    }
    for key in keys::all().filter(|key| key.section().has_variables()) {
        if key.section() != Section::Environments {
            if key.variable(None) == name {
                return Some((key, None));
            }
            continue;
        }
        let environment = name
            .strip_prefix("VIVARIUM_ENVIRONMENTS_")
            .and_then(|rest| rest.strip_suffix(&format!("_{}", key.name.to_uppercase())))
            .map(str::to_lowercase);
        if let Some(environment) = environment.filter(|name| raw_setting::is_environment_name(name))
        {
            return Some((key, Some(environment)));
        }
    }
    None
}

/// Every name to suggest from. Leaked once per process, and only to report an error.
fn known() -> impl Iterator<Item = &'static str> {
    keys::all()
        .filter(|key| key.section().has_variables())
        .map(|key| {
            let environment =
                (key.section() == Section::Environments).then_some(DEFAULT_ENVIRONMENT);
            let name: &'static str = key.variable(environment).leak();
            name
        })
        .chain([SANDBOX])
        .chain(OTHERS.map(|(name, _)| name))
}
