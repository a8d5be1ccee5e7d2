//! `[environments.<name>]`

use crate::config::key::{Key, Kind, Preset, Section, Setter};
use crate::config::value::ValueError;

pub(super) const KEYS: &[Key] = &[
    Key {
        section: Section::Environments,
        name: "interpreter",
        kind: Kind::Path,
        preset: Preset::Unset("the first `python3` on PATH that a session can read"),
        flag: Some("--code-exec-python"),
        reloads: false,
        doc: "The Python to run, 3.9 or later; a virtual environment's `bin/python` is fine. \
              Its prefix, and a virtual environment's base prefix, are bound into the \
              session read-only.",
        set: Setter::Environment(|environment, value| {
            environment.interpreter = Some(value.path()?);
            Ok(())
        }),
    },
    Key {
        section: Section::Environments,
        name: "read_paths",
        kind: Kind::Paths,
        preset: Preset::Toml("[]"),
        flag: None,
        reloads: false,
        doc: "Further host directories that sessions can read, each at its own path. \
              Directories that hold more than they seem to (`/`, `/home`, a home directory, \
              `/etc`, `/var`, …) are refused.",
        set: Setter::Environment(|environment, value| {
            environment.read_paths = value.paths()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Environments,
        name: "extra_env",
        kind: Kind::Texts,
        preset: Preset::Toml("[]"),
        flag: None,
        reloads: false,
        doc: "Names of variables of the daemon's environment that kernels get too. Whatever \
              they hold, all code in all sessions of the environment can read.",
        set: Setter::Environment(|environment, value| {
            let names = value.texts()?;
            if let Some(bad) =
                names.iter().find(|name| name.is_empty() || name.contains(['=', '\0']))
            {
                return Err(ValueError::Unfit(format!("{bad:?} is not a variable's name")));
            }
            environment.extra_env = names.into_iter().map(str::to_owned).collect();
            Ok(())
        }),
    },
];
