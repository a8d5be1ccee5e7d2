//! `[server]`

use std::net::SocketAddr;
use std::path::Path;

use vivarium_api_types::ListenAddr;
use vivarium_engine::settings::LogFormat;

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

const UNIX: &str = "unix:";

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "listen",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[\"127.0.0.1:8470\"]"),
        flag: Some("--listen"),
        reloads: false,
        doc: "Addresses of the API: `ADDRESS:PORT`, or `unix:/path/of/socket` (created with mode \
              0660, owned by `server.user`). Listen on addresses that other hosts can reach only \
              with tenants configured, since without them anyone who can connect can run code, \
              and with TLS in front, since tokens travel in clear text. Sockets passed by \
              systemd replace these.",
        set: Setter::Server(|server, value| put(&mut server.listen, listen(value))),
    },
    Key {
        name: "state_dir",
        kind: Kind::Path,
        default: DefaultValue::Host {
            doc: "`$STATE_DIRECTORY`; else `/var/lib/vivarium` for root, `vivarium` in the \
                  user's state directory for others",
            value: super::super::host::Host::state_dir,
        },
        flag: None,
        reloads: false,
        doc: "Directory for data that outlives the daemon. Created if missing, with mode 0700.",
        set: Setter::Server(|server, value| put(&mut server.state_dir, value.path())),
    },
    Key {
        name: "runtime_dir",
        kind: Kind::Path,
        default: DefaultValue::Host {
            doc: "`$RUNTIME_DIRECTORY`; else `/run/vivarium` for root, `vivarium` in \
                  `$XDG_RUNTIME_DIR` or a private directory in the temporary one for others",
            value: super::super::host::Host::runtime_dir,
        },
        flag: None,
        reloads: false,
        doc: "Directory for data that does not outlive the daemon. Created if missing, with mode \
              0711, so that clients can reach a Unix socket in it.",
        set: Setter::Server(|server, value| put(&mut server.runtime_dir, value.path())),
    },
    Key {
        name: "user",
        kind: Kind::Text,
        default: DefaultValue::Host {
            doc: "`vivarium` if there is such a user, else `nobody`",
            value: super::super::host::Host::user,
        },
        flag: None,
        reloads: false,
        doc: "The user to switch to when started as root; no part of Vivarium stays root. \
              Ignored otherwise.",
        set: Setter::Server(|server, value| put(&mut server.user, value.text().map(str::to_owned))),
    },
    Key {
        name: "max_body_bytes",
        kind: Kind::Count,
        default: DefaultValue::Toml("33554432"),
        flag: None,
        reloads: false,
        doc: "Largest request body, in bytes, at most 41943040. A larger one is refused with 413 \
              before it is read. File uploads are bounded by `sandbox.max_file_size_mb` instead.",
        set: Setter::Server(|server, value| put(&mut server.max_body_bytes, value.count())),
    },
    Key {
        name: "max_connections",
        kind: Kind::Count,
        default: DefaultValue::Toml("1024"),
        flag: None,
        reloads: false,
        doc: "Open connections per listener. When the listener is full, the connection that has \
              been silent for longest is closed. If all of them have a request under way, a few \
              more are accepted for health checks and metrics, and everything else gets 503, \
              `too_many_connections`. One address, or one user of a Unix socket, may hold three \
              quarters of the connections; one of several tenants may keep half of them busy.",
        set: Setter::Server(|server, value| put(&mut server.max_connections, value.count())),
    },
    Key {
        name: "max_buffered_mb",
        kind: Kind::Count,
        default: DefaultValue::Toml("512"),
        flag: None,
        reloads: false,
        doc: "Memory, in MiB, that the daemon itself may hold for all tenants together: request \
              bodies, queued and running executions, kept results and events, and responses \
              under way. A request that does not fit is refused with 503, `overloaded`, before \
              its body is read; an execution that does not fit is paused, and then loses further \
              output. At least 192.",
        set: Setter::Server(|server, value| put(&mut server.max_buffered_mb, value.count())),
    },
    Key {
        name: "max_tenant_buffered_mb",
        kind: Kind::Count,
        default: DefaultValue::Toml("256"),
        flag: None,
        reloads: false,
        doc: "The same for one tenant, whose requests are then refused with 429, `no_room`. The \
              tenant's own kept results are dropped first. At least 160, so that the largest \
              body and the largest result fit, and less than `server.max_buffered_mb`, so that \
              one tenant cannot hold everything.",
        set: Setter::Server(|server, value| put(&mut server.max_tenant_buffered_mb, value.count())),
    },
    Key {
        name: "log_format",
        kind: Kind::Choice(&["auto", "json", "text"]),
        default: DefaultValue::Toml("\"auto\""),
        flag: None,
        reloads: false,
        doc: "Format of log lines: `json`, one object per line; `text`, for people; `auto`, \
              journald fields if standard error is the journal, else `text`. `VIVARIUM_LOG` sets \
              the level (`error`, `warn`, `info`, `debug`, or `module=level,…`).",
        set: Setter::Server(|server, value| {
            server.log_format = match value.text()? {
                "auto" => LogFormat::Auto,
                "json" => LogFormat::Json,
                "text" => LogFormat::Text,
                other => return Err(super::no_such(other, &["auto", "json", "text"])),
            };
            Ok(())
        }),
    },
];

pub(super) fn listen(value: &Value) -> Result<Vec<ListenAddr>, ValueError> {
    let addresses: Vec<_> = value.texts()?.into_iter().map(address).collect::<Result<_, _>>()?;
    if addresses.is_empty() {
        return Err(ValueError::Unfit("an empty list: nothing could reach the API".to_owned()));
    }
    Ok(addresses)
}

fn address(text: &str) -> Result<ListenAddr, ValueError> {
    if let Some(path) = text.strip_prefix(UNIX) {
        // sun_path holds 108 bytes, the last one NUL (`unix(7)`).
        return match Path::new(path).is_absolute() && path.len() < 108 && !path.contains('\0') {
            true => Ok(ListenAddr::Unix(path.into())),
            false => Err(ValueError::Unfit(format!(
                "{text:?}: a socket's path is absolute and at most 107 bytes long"
            ))),
        };
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return address(&format!("127.0.0.1:{port}"));
    }
    text.parse::<SocketAddr>().map(ListenAddr::Tcp).map_err(|_| {
        ValueError::Unfit(format!(
            "{text:?} is not an address: ADDRESS:PORT, such as 127.0.0.1:8470, or unix:/PATH"
        ))
    })
}
