//! `[egress]`, and what tenants have of it

use vivarium_egress::allow::HostPattern;
use vivarium_egress::{Allow, Network};
use vivarium_engine::settings::{GateSource, PasstSource, SecretSource, TenantSecret};
use vivarium_protocol::units::Limit;

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

/// The gate that the daemon starts.
const PROCESS: &str = "process";

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "gate",
        kind: Kind::Text,
        default: DefaultValue::Toml("\"process\""),
        flag: None,
        reloads: false,
        doc: "The process that connects to the outside for sessions. `process`: the daemon starts \
              one when the first session needs it. `unix:/PATH`: a unit of its own behind this \
              socket, as the Debian package has it: `unix:/run/vivarium-gate/gate.sock`. The \
              daemon's unit then needs no access to the network.",
        set: Setter::Egress(|egress, value| put(&mut egress.gate, gate(value.text()?))),
    },
    Key {
        name: "allow",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: true,
        doc: "Where sessions may connect to: `HOST` (ports 80 and 443), `HOST:PORT`, and \
              `METHOD,… HOST:PORT` where the gate sees requests. `*.example.org` is every name \
              below `example.org`, and not that itself. Empty: nothing.",
        set: Setter::Egress(|egress, value| put(&mut egress.allow, entries(value))),
    },
    Key {
        name: "allow_addresses",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: true,
        doc: "Addresses and networks (`10.1.0.0/16`) that sessions may connect to although they are \
              private or the host's own, for names in `allow`. Whatever listens there sees \
              connections of the daemon's host.",
        set: Setter::Egress(|egress, value| put(&mut egress.allow_addresses, networks(value))),
    },
    Key {
        name: "passt",
        kind: Kind::Text,
        default: DefaultValue::Toml("\"auto\""),
        flag: None,
        reloads: false,
        doc: "What connects sessions of network `full`: `auto`, pasta (Debian's package `passt`) with a \
              network namespace of the session's own, and where pasta is not on PATH or does not work the \
              host's network, unrestricted; `on`, pasta, without which the daemon does not start; \
              `/PATH/TO/pasta`, that one; `off`, the host's network.",
        set: Setter::Egress(|egress, value| put(&mut egress.passt, passt(value))),
    },
    Key {
        name: "max_connections",
        kind: Kind::Count,
        default: DefaultValue::Toml("64"),
        flag: None,
        reloads: true,
        doc: "Connections of a session at one time. One more waits until another ends.",
        set: Setter::Egress(|egress, value| {
            let count = u32::try_from(value.count()?).ok().filter(|count| *count <= 4096);
            egress.limits.max_connections =
                count.ok_or_else(|| ValueError::Unfit("at most 4096".to_owned()))?;
            Ok(())
        }),
    },
    Key {
        name: "max_mb",
        kind: Kind::Limit,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "MiB that a session may transfer in its life, both directions together.",
        set: Setter::Egress(|egress, value| {
            egress.limits.max_bytes = Limit::times(value.limit()?, 1 << 20);
            Ok(())
        }),
    },
    Key {
        name: "connect_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"10s\""),
        flag: None,
        reloads: true,
        doc: "Time to resolve a name and connect.",
        set: Setter::Egress(|egress, value| put(&mut egress.limits.connect, value.duration())),
    },
    Key {
        name: "header_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"10s\""),
        flag: None,
        reloads: true,
        doc: "Time for code to say what it wants: the head of a request, or the first bytes of TLS.",
        set: Setter::Egress(|egress, value| put(&mut egress.limits.header, value.duration())),
    },
    Key {
        name: "idle_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"5m\""),
        flag: None,
        reloads: true,
        doc: "Time without a byte in either direction after which a connection ends.",
        set: Setter::Egress(|egress, value| put(&mut egress.limits.idle, value.duration())),
    },
    Key {
        name: "max_duration",
        kind: Kind::DurationOrUnlimited,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Time after which a connection ends whatever it does.",
        set: Setter::Egress(|egress, value| {
            put(&mut egress.limits.total, value.duration_or_unlimited())
        }),
    },
];

fn gate(text: &str) -> Result<GateSource, ValueError> {
    if text == PROCESS {
        return Ok(GateSource::Process);
    }
    let path = text.strip_prefix("unix:").map(|path| Value::Text(path.to_owned()).path());
    match path {
        Some(path) => Ok(GateSource::Socket(path?)),
        None => Err(ValueError::Unfit(format!("{text:?} is not \"{PROCESS}\" or \"unix:/PATH\""))),
    }
}

fn passt(value: &Value) -> Result<PasstSource, ValueError> {
    match value.text()? {
        "auto" => Ok(PasstSource::Auto),
        "on" => Ok(PasstSource::On),
        "off" => Ok(PasstSource::Off),
        path if path.starts_with('/') => value.path().map(PasstSource::Path),
        other => {
            let why = format!("{other:?} is not \"auto\", \"on\", \"off\" or an absolute path");
            Err(ValueError::Unfit(why))
        }
    }
}

fn unfit(text: &str, error: &dyn std::fmt::Display) -> ValueError {
    ValueError::Unfit(format!("{text:?}: {error}"))
}

/// The entries of an allow-list.
pub(super) fn entries(value: &Value) -> Result<Vec<Allow>, ValueError> {
    let texts = value.texts()?.into_iter();
    texts.map(|text| text.parse().map_err(|error| unfit(text, &error))).collect()
}

/// Addresses and networks.
pub(super) fn networks(value: &Value) -> Result<Vec<Network>, ValueError> {
    let texts = value.texts()?.into_iter();
    texts.map(|text| text.parse::<Network>().map_err(|error| unfit(text, &error))).collect()
}

/// `[[tenant.secret]]`
pub(super) fn secrets(value: &Value) -> Result<Vec<TenantSecret>, ValueError> {
    value.tables()?.into_iter().map(secret).collect()
}

const SECRET_KEYS: [&str; 5] = ["name", "hosts", "header", "value_file", "value_credential"];

fn secret(table: &[(String, Value)]) -> Result<TenantSecret, ValueError> {
    let unknown = table.iter().find(|(key, _)| !SECRET_KEYS.contains(&key.as_str()));
    if let Some((key, _)) = unknown {
        // A value that was written here is not repeated.
        let keys = SECRET_KEYS.join(", ");
        return Err(ValueError::Unfit(format!("no such key {key:?}: there is {keys}")));
    }
    let get = |name: &str| table.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let missing = |name: &str| ValueError::Unfit(format!("{name} is missing in an entry"));
    let name = get("name").ok_or_else(|| missing("name"))?.text()?;
    let is_variable = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    if !is_variable(name) || name.len() > 128 {
        let why = format!("{name:?} is not the name of a variable: letters, digits and _");
        return Err(ValueError::Unfit(why));
    }
    let hosts = get("hosts").ok_or_else(|| missing("hosts"))?.texts()?.into_iter();
    let hosts: Vec<HostPattern> = hosts
        .map(|text| text.parse().map_err(|error| unfit(text, &error)))
        .collect::<Result<_, _>>()?;
    let header = get("header").map_or(Ok("authorization"), Value::text)?.to_ascii_lowercase();
    let source = match (get("value_file"), get("value_credential")) {
        (Some(file), None) => SecretSource::File(file.path()?),
        (None, Some(credential)) => SecretSource::Credential(credential_name(credential.text()?)?),
        _ => {
            let why = format!("secret {name:?}: give either value_file or value_credential");
            return Err(ValueError::Unfit(why));
        }
    };
    Ok(TenantSecret { name: name.to_owned(), hosts, header, source })
}

/// As systemd names them: systemd.exec(5), `LoadCredential=`.
pub(super) fn credential_name(text: &str) -> Result<String, ValueError> {
    let is_name = !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0']);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(ValueError::Unfit(format!("{text:?} is not the name of a credential")))
    }
}
