//! The declaration of a configuration key. The keys themselves are in [`crate::config::keys`].

use std::fmt;

use vivarium_engine::settings::{
    Approval, Audit, Builds, Dialects, E2b, Egress, Environment, Homes, Images, Overrides,
    Packages, Preview, Sandbox, Server, Session, Tenant, TenantSources, ToolServer, Usage,
};

use crate::config::host::Host;
use crate::config::value::{Value, ValueError};

mod section;

pub use section::Section;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Choice(&'static [&'static str]),
    Path,
    Count,
    /// `true` or `false`.
    Bool,
    /// A positive integer or 0.
    CountOrZero,
    /// A number above 0, up to 1.
    Share,
    /// A positive integer or `unlimited`.
    Limit,
    /// A number and a time, or `unlimited`.
    Rate,
    /// A number of cores or `unlimited`.
    Cores,
    Duration,
    /// A duration or `0s`.
    DurationOrZero,
    /// A duration or `unlimited`.
    DurationOrUnlimited,
    Texts,
    /// Several absolute paths.
    Paths,
    /// A table of lists.
    Table,
    /// Tables, each with its own keys.
    Tables,
}

impl Kind {
    /// Reads the value of a variable or flag: unquoted, with commas between the items of a list. Text
    /// that does not fit stays text, for the key to refuse.
    #[must_use]
    pub fn read(self, text: &str) -> Value {
        let as_text = || Value::Text(text.to_owned());
        match self {
            Self::Count | Self::CountOrZero | Self::Limit => {
                text.parse().map_or_else(|_| as_text(), Value::Integer)
            }
            Self::Bool => text.parse().map_or_else(|_| as_text(), Value::Bool),
            Self::Cores | Self::Share => text.parse().map_or_else(|_| as_text(), Value::Float),
            Self::Texts | Self::Paths => Value::List(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Value::Text(item.to_owned()))
                    .collect(),
            ),
            // As in the file.
            Self::Table => toml::de::DeValue::parse(text)
                .map_or_else(|_| as_text(), |value| Value::from_toml(value.get_ref())),
            _ => as_text(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "string",
            Self::Choice(choices) => return write!(f, "one of \"{}\"", choices.join("\", \"")),
            Self::Path => "absolute path",
            Self::Bool => "true or false",
            Self::Count => "positive integer",
            Self::CountOrZero => "positive integer or 0",
            Self::Share => "number above 0, up to 1",
            Self::Limit => "positive integer or \"unlimited\"",
            Self::Rate => "number/time or \"unlimited\"",
            Self::Cores => "number of cores or \"unlimited\"",
            Self::Duration => "duration",
            Self::DurationOrZero => "duration or \"0s\"",
            Self::DurationOrUnlimited => "duration or \"unlimited\"",
            Self::Texts => "list of strings",
            Self::Paths => "list of absolute paths",
            Self::Table => "table",
            Self::Tables => "list of tables",
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    Toml(&'static str),
    /// No value, which has the meaning described here.
    Unset(&'static str),
    /// The key is required; an example.
    Required(&'static str),
    /// A value that depends on the host and the user who started the daemon.
    Host {
        doc: &'static str,
        value: fn(&Host) -> Value,
    },
}

/// Writes a value into a part of the settings.
pub(crate) type Set<T> = fn(&mut T, &Value) -> Result<(), ValueError>;

/// How a key's value is written into the settings, by the key's section.
#[derive(Debug, Clone, Copy)]
pub enum Setter {
    Server(Set<Server>),
    Sandbox(Set<Sandbox>),
    Session(Set<Session>),
    Preview(Set<Preview>),
    Dialects(Set<Dialects>),
    E2b(Set<E2b>),
    Homes(Set<Homes>),
    Images(Set<Images>),
    Builds(Set<Builds>),
    Egress(Set<Egress>),
    Packages(Set<Packages>),
    Approval(Set<Approval>),
    Audit(Set<Audit>),
    Usage(Set<Usage>),
    ToolServer(Set<ToolServer>),
    Environment(Set<Environment>),
    TenantSources(Set<TenantSources>),
    Tenant(Set<Tenant>),
    /// A value of `[sandbox]` for one tenant.
    TenantSandbox(Set<Sandbox>),
    /// A value of `[session]` for one tenant.
    TenantSession(Set<Session>),
    /// A value of `[approval]` for one tenant.
    TenantApproval(Set<Approval>),
}

/// Writes a value that replaces another section's for a tenant.
pub(crate) fn set_override(
    overrides: &mut Overrides,
    key: &Key,
    value: &Value,
) -> Result<(), ValueError> {
    match key.set {
        Setter::TenantSandbox(set) => {
            set(&mut overrides.sandbox, value)?;
            overrides.sandbox_keys.insert(key.name);
        }
        Setter::TenantSession(set) => {
            set(&mut overrides.session, value)?;
            overrides.session_keys.insert(key.name);
        }
        Setter::TenantApproval(set) => {
            set(&mut overrides.approval, value)?;
            overrides.approval_keys.insert(key.name);
        }
        _ => {}
    }
    Ok(())
}

/// One key of the configuration: everything that parses, documents and shows it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub default: DefaultValue,
    pub flag: Option<&'static str>,
    /// Whether SIGHUP reloads it.
    pub reloads: bool,
    pub doc: &'static str,
    pub set: Setter,
}

impl Key {
    #[must_use]
    pub const fn section(&self) -> Section {
        match self.set {
            Setter::Server(_) => Section::Server,
            Setter::Sandbox(_) => Section::Sandbox,
            Setter::Session(_) => Section::Session,
            Setter::Preview(_) => Section::Preview,
            Setter::Dialects(_) => Section::Dialects,
            Setter::E2b(_) => Section::E2b,
            Setter::Homes(_) => Section::Homes,
            Setter::Images(_) => Section::Images,
            Setter::Builds(_) => Section::Builds,
            Setter::Egress(_) => Section::Egress,
            Setter::Packages(_) => Section::Packages,
            Setter::Approval(_) => Section::Approval,
            Setter::Audit(_) => Section::Audit,
            Setter::Usage(_) => Section::Usage,
            Setter::ToolServer(_) => Section::Tools,
            Setter::Environment(_) => Section::Environments,
            Setter::TenantSources(_) => Section::Tenants,
            Setter::Tenant(_) => Section::Tenant,
            Setter::TenantSandbox(_) => Section::TenantSandbox,
            Setter::TenantSession(_) => Section::TenantSession,
            Setter::TenantApproval(_) => Section::TenantApproval,
        }
    }

    /// `section.name`, or `section.of.name` for an environment, tool server or tenant, and
    /// `tenant.of.section.name` for what a tenant has in place of another section's.
    #[must_use]
    pub fn path(&self, of: Option<&str>) -> String {
        match (of, self.section().overridden()) {
            (Some(of), Some(section)) => format!("tenant.{of}.{}.{}", section.name(), self.name),
            (Some(of), None) => format!("{}.{of}.{}", self.section().name(), self.name),
            (None, _) => format!("{}.{}", self.section().name(), self.name),
        }
    }

    /// The variable that sets it, if [`Section::has_variables`].
    #[must_use]
    pub fn variable(&self, of: Option<&str>) -> String {
        let path = self.path(of).to_uppercase().replace(['.', '-'], "_");
        format!("{}{path}", crate::config::environment::PREFIX)
    }
}
