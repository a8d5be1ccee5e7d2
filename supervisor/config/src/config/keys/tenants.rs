//! `[tenants]`

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

fn texts(value: &Value) -> Result<Vec<String>, ValueError> {
    Ok(value.texts()?.into_iter().map(str::to_owned).collect())
}

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "directory",
        kind: Kind::Path,
        default: DefaultValue::Unset("no directory"),
        flag: None,
        reloads: true,
        doc: "A directory in which each file `NAME.toml` is the tenant NAME, with the keys of a \
              `[[tenant]]` (`[sandbox]`, `[session]`, `[[token]]` and `[[secret]]` for its tables). \
              Changes apply by themselves. It, its files and what it lies in must belong to root or \
              the daemon's user, and nobody else may write there.",
        set: Setter::TenantSources(|sources, value| {
            put(&mut sources.directory, value.path().map(Some))
        }),
    },
    Key {
        name: "command",
        kind: Kind::Texts,
        default: DefaultValue::Unset("no command"),
        flag: None,
        reloads: true,
        doc: "A program and its arguments that prints tenants: TOML with `[[tenant]]` alone, or JSON \
              `{\"tenant\": [{\"name\": …}]}`, at most 8 MiB. It runs at the start, on a reload and \
              every `interval`, as the daemon's user, without a shell. The program must be trusted as \
              `directory` is.",
        set: Setter::TenantSources(|sources, value| put(&mut sources.command, texts(value))),
    },
    Key {
        name: "interval",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"1m\""),
        flag: None,
        reloads: true,
        doc: "How often the command runs, and the directory is read although nothing told of a change.",
        set: Setter::TenantSources(|sources, value| put(&mut sources.interval, value.duration())),
    },
    Key {
        name: "timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"10s\""),
        flag: None,
        reloads: true,
        doc: "How long the command may take. It is killed then, and the tenants stay as they are.",
        set: Setter::TenantSources(|sources, value| put(&mut sources.timeout, value.duration())),
    },
];
