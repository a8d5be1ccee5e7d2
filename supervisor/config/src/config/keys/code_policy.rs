//! Policies of the language: keys that `[sandbox]` and `[environments.<name>]` both have.

use vivarium_api_types::{AuditEventsSpec, Echo, ImportsSpec, Preset};

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

const PRESETS: &[&str] = &["compute", "files", "network", "full"];
const ECHOES: &[&str] = &["last", "all", "none"];

macro_rules! keys {
    ($setter:ident, $echo:expr, $prints:expr) => {
        [
            Key {
                name: "policy",
                kind: Kind::Choice(PRESETS),
                default: DefaultValue::Toml("\"full\""),
                flag: None,
                reloads: true,
                doc: "Policies of the language for code, by one name: see \
                      [policies](policies.md#presets). `imports` and `audit_events` beside it replace \
                      its own. They help code that means well, and are no wall.",
                set: Setter::$setter(|of, value| {
                    put(&mut of.code_policy.policy, preset(value).map(Some))
                }),
            },
            Key {
                name: "max_work",
                kind: Kind::Limit,
                default: DefaultValue::Toml("\"unlimited\""),
                flag: None,
                reloads: true,
                doc: "Work of one execution of code, in ticks: backward jumps, function starts and \
                      generator resumes. Needs Python 3.12: with an older one, no session starts. The least of \
                      `[sandbox]` and the environment holds.",
                set: Setter::$setter(|of, value| {
                    put(&mut of.code_policy.max_work, value.limit().map(|limit| limit.get()))
                }),
            },
            Key {
                name: "imports",
                kind: Kind::Table,
                default: DefaultValue::Unset("all modules"),
                flag: None,
                reloads: true,
                doc: "Modules that code may import itself: `{ allow = [\"math\", \"json\"] }`, or all but \
                      some: `{ deny = [\"socket\"] }`. A name covers its submodules. Not held to what \
                      libraries import.",
                set: Setter::$setter(|of, value| {
                    put(&mut of.code_policy.imports, imports(value).map(Some))
                }),
            },
            Key {
                name: "audit_events",
                kind: Kind::Table,
                default: DefaultValue::Unset("they are not counted"),
                flag: None,
                reloads: true,
                doc: "Counts Python's audit events (PEP 578) in answers and the audit log, and raises \
                      an error in code for those of `{ deny = [\"socket.connect\"] }`. `{}` only counts.",
                set: Setter::$setter(|of, value| {
                    put(&mut of.code_policy.audit_events, audit_events(value).map(Some))
                }),
            },
            Key {
                name: "echo",
                kind: Kind::Choice(ECHOES),
                default: $echo,
                flag: None,
                reloads: true,
                doc: "Whose values answers show: of the `last` expression, of `all` statements that are \
                      expressions, or `none`. A request may say otherwise.",
                set: Setter::$setter(|of, value| {
                    put(&mut of.code_policy.echo, echo(value).map(Some))
                }),
            },
            Key {
                name: "prints",
                kind: Kind::Bool,
                default: $prints,
                flag: None,
                reloads: true,
                doc: "Whether answers have the values that code prints, besides the text. A request may \
                      say otherwise.",
                set: Setter::$setter(|of, value| {
                    put(&mut of.code_policy.prints, value.is_true().map(Some))
                }),
            },
        ]
    };
}

const OF_SANDBOX: DefaultValue = DefaultValue::Unset("what `[sandbox]` says");

pub(super) const SANDBOX: [Key; 6] =
    keys!(Sandbox, DefaultValue::Toml("\"last\""), DefaultValue::Toml("false"));

pub(super) const ENVIRONMENTS: [Key; 6] = keys!(Environment, OF_SANDBOX, OF_SANDBOX);

fn preset(value: &Value) -> Result<Preset, ValueError> {
    Ok(match value.text()? {
        "compute" => Preset::Compute,
        "files" => Preset::Files,
        "network" => Preset::Network,
        "full" => Preset::Full,
        other => return Err(super::no_such(other, PRESETS)),
    })
}

fn echo(value: &Value) -> Result<Echo, ValueError> {
    Ok(match value.text()? {
        "last" => Echo::Last,
        "all" => Echo::All,
        "none" => Echo::None,
        other => return Err(super::no_such(other, ECHOES)),
    })
}

fn imports(value: &Value) -> Result<ImportsSpec, ValueError> {
    let [allow, deny] = lists(value, ["allow", "deny"])?;
    let imports = ImportsSpec { allow, deny };
    imports.check().map_err(ValueError::Unfit)?;
    Ok(imports)
}

fn audit_events(value: &Value) -> Result<AuditEventsSpec, ValueError> {
    let [deny] = lists(value, ["deny"])?;
    let events = AuditEventsSpec { deny: deny.unwrap_or_default() };
    events.check().map_err(ValueError::Unfit)?;
    Ok(events)
}

/// The lists of a table that has no others.
fn lists<const N: usize>(
    value: &Value,
    names: [&'static str; N],
) -> Result<[Option<Vec<String>>; N], ValueError> {
    let table = value.table()?;
    if let Some((other, _)) = table.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        return Err(super::no_such(other, &names));
    }
    let mut found = [const { None }; N];
    for (name, list) in names.into_iter().zip(&mut found) {
        if let Some((_, value)) = table.iter().find(|(it, _)| it == name) {
            *list = Some(value.texts()?.into_iter().map(str::to_owned).collect());
        }
    }
    Ok(found)
}
