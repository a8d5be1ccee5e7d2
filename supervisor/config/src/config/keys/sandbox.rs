//! `[sandbox]`

use vivarium_engine::settings::Mode;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::policy::Network;

use super::{code_policy, put};
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::ValueError;

const MODES: &[&str] = &["auto", "on", "off"];
const NETWORKS: &[&str] = &["none", "loopback", "trusted", "full"];
const FALLBACKS: &[&str] = &["none", "full"];

/// The key of a limit, which has the limit's name.
macro_rules! limit {
    ($name:ident, $default:literal, $flag:expr, $doc:literal) => {
        Key {
            name: stringify!($name),
            kind: Kind::Limit,
            default: DefaultValue::Toml($default),
            flag: $flag,
            reloads: true,
            doc: $doc,
            set: Setter::Sandbox(|sandbox, value| put(&mut sandbox.limits.$name, value.limit())),
        }
    };
}

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "mode",
        kind: Kind::Choice(MODES),
        default: DefaultValue::Toml("\"auto\""),
        flag: Some("--sandbox"),
        reloads: false,
        doc: "How much of the sandbox is mandatory. `auto`: use every layer that the host offers \
              and warn about each that it does not. `on`: refuse to start unless every layer is \
              enforced. `off`: no sandbox; refused unless every listener is a Unix socket or on \
              loopback.",
        set: Setter::Sandbox(|sandbox, value| {
            sandbox.mode = match value.text()? {
                "auto" => Mode::Auto,
                "on" => Mode::On,
                "off" => Mode::Off,
                other => return Err(super::no_such(other, MODES)),
            };
            Ok(())
        }),
    },
    Key {
        name: "disable_layers",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: false,
        doc: "Layers to switch off, by their names in docs/sandbox-layers.md. For finding out \
              which layer is in the way; refused in mode `on`.",
        set: Setter::Sandbox(|sandbox, value| {
            let layers = layers(&value.texts()?)?;
            if layers.contains(&Layer::Wasm) {
                let why = "wasm is no layer of the host: choose the environment's runtime";
                return Err(ValueError::Unfit(why.to_owned()));
            }
            sandbox.disable_layers = layers;
            Ok(())
        }),
    },
    Key {
        name: "require",
        kind: Kind::Texts,
        default: DefaultValue::Unset("`[\"mounts\"]`, and `[]` in mode `off`"),
        flag: Some("--sandbox-require"),
        reloads: false,
        doc: "Layers without which nothing starts, whatever the mode. `partial` is enough here; \
              `sandbox.mode = \"on\"` demands all of every layer. `wasm` stands for the engine of \
              [runtime wasm](runtimes.md): with it every environment has that runtime. `[]`, or `none` in a variable \
              or flag, requires no layer. Without `mounts`, tenant code sees the host's files, \
              and Landlock does not stop everything it can do to them.",
        set: Setter::Sandbox(|sandbox, value| {
            let names = value.texts()?;
            let is_none = names == ["none"];
            sandbox.require = Some(if is_none { Vec::new() } else { layers(&names)? });
            Ok(())
        }),
    },
    limit!(
        max_memory_mb,
        "2048",
        Some("--sb-max-memory-mb"),
        "Memory of the whole session, in MiB. There is no swap."
    ),
    limit!(
        max_cpu_secs,
        "300",
        Some("--sb-max-cpu-secs"),
        "CPU time of one execution, in seconds, summed over all its processes."
    ),
    limit!(max_procs, "64", Some("--sb-max-procs"), "Processes and threads of the session's code."),
    limit!(max_open_fds, "1024", None, "Open file descriptors per process."),
    limit!(max_file_size_mb, "256", None, "Largest file, in MiB."),
    limit!(
        max_disk_mb,
        "512",
        None,
        "Size of workdir, /tmp and /dev/shm of a session together, in MiB."
    ),
    limit!(
        max_inodes,
        "65536",
        None,
        "Files, directories and links in workdir, /tmp and /dev/shm together."
    ),
    Key {
        name: "cpu_cores",
        kind: Kind::Cores,
        default: DefaultValue::Toml("1.0"),
        flag: None,
        reloads: true,
        doc: "CPU cores of the session: 0.5 is half of one.",
        set: Setter::Sandbox(|sandbox, value| put(&mut sandbox.limits.cpu_cores, value.cores())),
    },
    limit!(
        max_output_bytes,
        "10485760",
        None,
        "Bytes kept of each of stdout and stderr, per execution. The rest is counted and dropped."
    ),
    limit!(
        max_result_bytes,
        "33554432",
        None,
        "Bytes of results, displays and files, per execution."
    ),
    Key {
        name: "network",
        kind: Kind::Choice(NETWORKS),
        default: DefaultValue::Toml("\"loopback\""),
        flag: Some("--sandbox-network"),
        reloads: true,
        doc: "What a session can reach unless its request says otherwise. `none`: nothing. \
              `loopback`: itself, through its own `lo`. `trusted`: that, and what `egress.allow` \
              lists, through the egress gate. `full`: whatever the host can reach, including \
              metadata services and the host's own loopback.",
        set: Setter::Sandbox(|sandbox, value| put(&mut sandbox.network, network(value.text()?))),
    },
    Key {
        name: "allowed_networks",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[\"none\", \"loopback\"]"),
        flag: None,
        reloads: true,
        doc: "Networks that a request may ask for. Must include `sandbox.network`.",
        set: Setter::Sandbox(|sandbox, value| {
            sandbox.allowed_networks =
                value.texts()?.into_iter().map(network).collect::<Result<_, _>>()?;
            Ok(())
        }),
    },
    Key {
        name: "network_fallback",
        kind: Kind::Choice(FALLBACKS),
        default: DefaultValue::Toml("\"none\""),
        flag: None,
        reloads: true,
        doc: "Replaces `loopback` where the `network` layer is missing and the only loopback is \
              the host's, with everything that listens on it. `none`: only Unix sockets, \
              enforced by the `seccomp` layer. `full`: the host's network. Sessions show the \
              network that they have. In place of `trusted` there is `none`.",
        set: Setter::Sandbox(|sandbox, value| {
            sandbox.network_fallback = match value.text()? {
                "none" => Network::None,
                "full" => Network::Full,
                other => return Err(super::no_such(other, FALLBACKS)),
            };
            Ok(())
        }),
    },
    code_policy::SANDBOX[0],
    code_policy::SANDBOX[1],
    code_policy::SANDBOX[2],
    code_policy::SANDBOX[3],
    code_policy::SANDBOX[4],
    code_policy::SANDBOX[5],
    Key {
        name: "workdir",
        kind: Kind::Path,
        default: DefaultValue::Toml("\"/workspace\""),
        flag: Some("--code-exec-workdir"),
        reloads: false,
        doc: "Where the working directory appears inside a session. It is an in-memory file \
              system of the session's own, and is gone with the session.",
        set: Setter::Sandbox(|sandbox, value| put(&mut sandbox.workdir, value.path())),
    },
    Key {
        name: "cgroup_root",
        kind: Kind::Path,
        default: DefaultValue::Unset("the cgroup the daemon is started in"),
        flag: None,
        reloads: false,
        doc: "The cgroup v2 directory for the sessions' scopes. It must be delegated to the \
              daemon's user, and the daemon must be started inside it.",
        set: Setter::Sandbox(|sandbox, value| {
            put(&mut sandbox.cgroup_root, value.path().map(Some))
        }),
    },
];

fn layers(names: &[&str]) -> Result<Vec<Layer>, ValueError> {
    // After a flag, a list is one text.
    let names = names.iter().flat_map(|names| names.split(',')).map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(|name| name.parse().map_err(ValueError::Unfit)).collect()
}

fn network(text: &str) -> Result<Network, ValueError> {
    match text {
        "none" => Ok(Network::None),
        "loopback" => Ok(Network::Loopback),
        "trusted" => Ok(Network::Trusted),
        "full" => Ok(Network::Full),
        other => Err(super::no_such(other, NETWORKS)),
    }
}
