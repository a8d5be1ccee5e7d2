//! Settings of each source, before they are merged.

use crate::config::error::{ConfigError, Origin};
use crate::config::key::{Key, Kind, Section};
use crate::config::value::Value;

/// One value for one key, from one source.
#[derive(Debug, Clone)]
pub struct RawSetting {
    pub key: &'static Key,
    /// The name of the environment, tool server or tenant, for their keys.
    pub of: Option<String>,
    pub value: Value,
    pub origin: Origin,
}

/// All settings of one source, and all its errors.
#[derive(Debug, Default)]
pub(crate) struct ParsedSource {
    pub(crate) settings: Vec<RawSetting>,
    /// All environments named, also by an empty table.
    pub(crate) environments: Vec<String>,
    /// All tool servers named, also by an empty table.
    pub(crate) tool_servers: Vec<String>,
    pub(crate) tenants: Vec<String>,
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) warnings: Vec<ConfigError>,
}

impl ParsedSource {
    pub(crate) fn error(&mut self, origin: &Origin, message: impl Into<String>) {
        self.errors.push(ConfigError { origin: origin.clone(), message: message.into() });
    }
}

/// The environment that is always there.
pub(crate) const DEFAULT_ENVIRONMENT: &str = "default";

/// Whether a name fits an environment: it becomes part of variables and metrics.
pub(crate) fn is_environment_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    (1..=32).contains(&name.len()) && name.chars().all(fits)
}

/// Whether a name fits a tool server: it becomes part of the names that code calls.
pub(crate) fn is_tool_server_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.len() <= 32 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(fits)
}

/// A value given by text, unquoted, in a variable or after a flag.
#[must_use]
pub(crate) fn from_text(
    key: &'static Key,
    of: Option<&str>,
    text: &str,
    origin: Origin,
) -> RawSetting {
    let value = key.kind.read(text);
    RawSetting { key, of: of.map(str::to_owned), value, origin }
}

/// A value given by a flag, which for lists can be repeated.
#[must_use]
pub(crate) fn from_flag(
    key: &'static Key,
    flag: &'static str,
    texts: &[String],
) -> Option<RawSetting> {
    let last = texts.last()?;
    let environment = (key.section() == Section::Environments).then_some(DEFAULT_ENVIRONMENT);
    let mut given = from_text(key, environment, last, Origin::Flag(flag));
    if key.kind == Kind::Texts {
        given.value = Value::List(texts.iter().map(|text| Value::Text(text.clone())).collect());
    }
    Some(given)
}
