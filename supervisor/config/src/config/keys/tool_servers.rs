//! `[tools.<name>]`

use vivarium_engine::settings::SecretSource;

use super::{egress, put, url};
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::ValueError;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "mcp",
        kind: Kind::Text,
        default: DefaultValue::Required("\"https://tools.example.com/mcp\""),
        flag: None,
        reloads: true,
        doc: "The URL of a server of MCP, by streamable HTTP. The daemon asks it through the egress gate.",
        set: Setter::ToolServer(|server, value| put(&mut server.mcp, url(value.text()?))),
    },
    Key {
        name: "header",
        kind: Kind::Text,
        default: DefaultValue::Toml("\"authorization\""),
        flag: None,
        reloads: true,
        doc: "The header that has the secret, where there is one.",
        set: Setter::ToolServer(|server, value| {
            let name = value.text()?.to_ascii_lowercase();
            let is_own = OWN_HEADERS.contains(&name.as_str()) || name.starts_with("mcp-");
            if is_own || http::HeaderName::try_from(&*name).is_err() {
                return Err(ValueError::Unfit(format!("{name:?} cannot be set")));
            }
            server.header = name;
            Ok(())
        }),
    },
    Key {
        name: "value_file",
        kind: Kind::Path,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "A file with the whole value of that header, such as `Bearer …`. It is read for each request. \
              Sessions never have it. The daemon does not start, nor reload, with one that it cannot read.",
        set: Setter::ToolServer(|server, value| {
            put(&mut server.secret, value.path().map(|path| Some(SecretSource::File(path))))
        }),
    },
    Key {
        name: "value_credential",
        kind: Kind::Text,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "The same as a credential of the unit (`LoadCredential=`), by its name.",
        set: Setter::ToolServer(|server, value| {
            let name = egress::credential_name(value.text()?)?;
            server.secret = Some(SecretSource::Credential(name));
            Ok(())
        }),
    },
    Key {
        name: "only",
        kind: Kind::Texts,
        default: DefaultValue::Unset("all of them"),
        flag: None,
        reloads: true,
        doc: "Which of its tools code may call, by the server's names for them.",
        set: Setter::ToolServer(|server, value| {
            let names = value.texts()?;
            server.only = Some(names.into_iter().map(str::to_owned).collect());
            Ok(())
        }),
    },
    Key {
        name: "timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"60s\""),
        flag: None,
        reloads: true,
        doc: "Time in which it has to answer a call; `session.max_call_timeout` if that is shorter.",
        set: Setter::ToolServer(|server, value| put(&mut server.timeout, value.duration())),
    },
    Key {
        name: "allow_addresses",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: true,
        doc: "Addresses and networks (`10.1.0.0/16`) in which it may be although they are private or the \
              host's own. Sessions do not reach them by this.",
        set: Setter::ToolServer(|server, value| {
            put(&mut server.allow_addresses, egress::networks(value))
        }),
    },
];

/// Headers that are the daemon's or the gate's.
const OWN_HEADERS: [&str; 7] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
];
