//! `[environments.<name>]`

use vivarium_api_types::is_module_name;
use vivarium_engine::settings::{Runtime, is_distribution_name};

use super::{code_policy, put};
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::ValueError;

const TEMPLATES: &[&str] = &["auto", "off"];

/// The longest code that goes to a template as an argument: execve(2), MAX_ARG_STRLEN.
const MAX_WARMUP_BYTES: usize = 64 << 10;

const MAX_POOL: usize = 10_000;

const RUNTIMES: &[&str] = &["cpython", "wasm"];

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "runtime",
        kind: Kind::Choice(RUNTIMES),
        default: DefaultValue::Toml("\"cpython\""),
        flag: None,
        reloads: false,
        doc: "What a kernel is: `cpython`, an interpreter of the host, or `wasm`, CPython in a \
              WebAssembly engine, from the package vivarium-wasm: see [runtimes](runtimes.md).",
        set: Setter::Environment(|environment, value| {
            environment.runtime = match value.text()? {
                "cpython" => Runtime::Cpython,
                "wasm" => Runtime::Wasm,
                other => return Err(super::no_such(other, RUNTIMES)),
            };
            Ok(())
        }),
    },
    Key {
        name: "interpreter",
        kind: Kind::Path,
        default: DefaultValue::Unset("the first `python3` on PATH that a session can read"),
        flag: Some("--code-exec-python"),
        reloads: false,
        doc: "The Python to run, 3.9 or later; a virtual environment's `bin/python` works. Its \
              prefix, and a virtual environment's base prefix, are bound into the session \
              read-only. With `runtime = \"wasm\"`: the program `vivarium-wasm`, by default the \
              one beside `vivarium-agent` or in /usr/lib/vivarium/wasm.",
        set: Setter::Environment(|environment, value| {
            put(&mut environment.interpreter, value.path().map(Some))
        }),
    },
    Key {
        name: "read_paths",
        kind: Kind::Paths,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: false,
        doc: "Further host directories that sessions can read, each at its own path. Sockets and \
              FIFOs in them cannot be reached. A running session may keep seeing a name as it \
              first found it (the old file, or none): replace files between sessions, or give \
              new files new names. Directories that hold more than they seem to (`/`, `/home`, a \
              home directory, `/etc`, `/var`, …) are refused.",
        set: Setter::Environment(|environment, value| {
            put(&mut environment.read_paths, value.paths())
        }),
    },
    Key {
        name: "extra_env",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: false,
        doc: "Names of the daemon's environment variables to pass to kernels. All code in all \
              sessions of the environment can read their values.",
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
    Key {
        name: "template",
        kind: Kind::Choice(TEMPLATES),
        default: DefaultValue::Toml("\"auto\""),
        flag: None,
        reloads: true,
        doc: "Whether kernels are forked from a template, a process in which Python has started \
              and imported the modules of `preimport`. `auto`: fork where possible; the log, \
              `vivarium doctor` and the metrics say why it is not. `off`: execute every kernel. \
              Both are confined alike.",
        set: Setter::Environment(|environment, value| {
            environment.template = match value.text()? {
                "auto" => true,
                "off" => false,
                other => return Err(super::no_such(other, TEMPLATES)),
            };
            Ok(())
        }),
    },
    Key {
        name: "images",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: false,
        doc: "Whether sessions can be suspended: see [images](images.md). Their template then has \
              addresses and hash seeds that do not vary.",
        set: Setter::Environment(|environment, value| {
            put(&mut environment.images, value.is_true())
        }),
    },
    Key {
        name: "tools",
        kind: Kind::Bool,
        default: DefaultValue::Toml("true"),
        flag: None,
        reloads: true,
        doc: "Whether code in its sessions may call functions that its client provides, where \
              `session.tools` lets it.",
        set: Setter::Environment(|environment, value| {
            put(&mut environment.refuses_tools, value.is_true().map(|tools| !tools))
        }),
    },
    code_policy::ENVIRONMENTS[0],
    code_policy::ENVIRONMENTS[1],
    code_policy::ENVIRONMENTS[2],
    code_policy::ENVIRONMENTS[3],
    code_policy::ENVIRONMENTS[4],
    code_policy::ENVIRONMENTS[5],
    Key {
        name: "hidden",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: false,
        doc: "Distributions, such as `torch`, whose files sessions of the environment do not have at all: \
              see [policies](policies.md#hidden). Needs the mounts layer. Kernels are executed then, and \
              not forked from a template, which may have imported them.",
        set: Setter::Environment(|environment, value| {
            let names = value.texts()?;
            if let Some(bad) = names.iter().find(|name| !is_distribution_name(name)) {
                return Err(ValueError::Unfit(format!("{bad:?} is not a distribution's name")));
            }
            environment.hidden = names.into_iter().map(str::to_owned).collect();
            Ok(())
        }),
    },
    Key {
        name: "preimport",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: true,
        doc: "Modules that the template imports, in this order, such as `[\"numpy\", \"pandas\", \
              \"matplotlib.pyplot\"]`. Code then imports them at no cost, and sessions share \
              their memory. The environment goes without a template if an import fails, or \
              leaves threads, open files or writable shared memory behind.",
        set: Setter::Environment(|environment, value| {
            let modules = value.texts()?;
            if let Some(bad) = modules.iter().find(|name| !is_module_name(name)) {
                return Err(ValueError::Unfit(format!("{bad:?} is not a module's name")));
            }
            environment.preimport = modules.into_iter().map(str::to_owned).collect();
            Ok(())
        }),
    },
    Key {
        name: "warmup",
        kind: Kind::Text,
        default: DefaultValue::Toml("\"\""),
        flag: None,
        reloads: true,
        doc: "Python code that the template runs once, after its imports, at most 65536 bytes. \
              Whatever it leaves in modules is in every session: keep secrets out of it.",
        set: Setter::Environment(|environment, value| {
            let code = value.text()?;
            if code.contains('\0') || code.len() > MAX_WARMUP_BYTES {
                return Err(ValueError::Unfit(format!(
                    "it is at most {MAX_WARMUP_BYTES} bytes, none of them NUL"
                )));
            }
            environment.warmup = code.to_owned();
            Ok(())
        }),
    },
    Key {
        name: "pool_size",
        kind: Kind::CountOrZero,
        default: DefaultValue::Toml("0"),
        flag: None,
        reloads: true,
        doc: "Sessions to start ahead of demand, for each tenant that uses the environment, at \
              most 10000; 0 for none. A request whose limits, network and variables are the configured ones \
              gets one of them at once. They do not count towards `max_sessions` and are in no \
              list, but they count towards the tenant's ceilings.",
        set: Setter::Environment(|environment, value| {
            let size = usize::try_from(value.count_or_zero()?).ok();
            environment.pool_size = size.filter(|size| *size <= MAX_POOL).ok_or_else(|| {
                ValueError::Unfit(format!("at most {MAX_POOL} can be kept ready"))
            })?;
            Ok(())
        }),
    },
    Key {
        name: "pool_low",
        kind: Kind::Count,
        default: DefaultValue::Unset("half of `pool_size`, rounded up"),
        flag: None,
        reloads: true,
        doc: "When fewer ready sessions than this are left, more are started until there are \
              `pool_size` again.",
        set: Setter::Environment(|environment, value| {
            environment.pool_low = Some(usize::try_from(value.count()?).unwrap_or(usize::MAX));
            Ok(())
        }),
    },
];
