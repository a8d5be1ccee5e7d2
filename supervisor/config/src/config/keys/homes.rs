//! `[homes]`

use super::{no_such, put};
use crate::config::key::{DefaultValue, Key, Kind, Setter};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "allowed",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: false,
        doc: "What requests may ask for: `session` (homes kept by session id), `tenant` (a home that the \
              tenant's sessions share) and `volumes`. They need the mounts layer, and take disk of \
              `server.state_dir`.",
        set: Setter::Homes(|homes, value| {
            (homes.session, homes.tenant, homes.volumes) = (false, false, false);
            for name in value.texts()? {
                match name {
                    "session" => homes.session = true,
                    "tenant" => homes.tenant = true,
                    "volumes" => homes.volumes = true,
                    other => return Err(no_such(other, &["session", "tenant", "volumes"])),
                }
            }
            Ok(())
        }),
    },
    Key {
        name: "max_mb",
        kind: Kind::Limit,
        default: DefaultValue::Toml("1024"),
        flag: None,
        reloads: true,
        doc: "Disk of each home and volume, in MiB, by accounting: see \
              [what the quota guarantees](homes.md#quota). `[[tenant]]` has `home_max_mb`.",
        set: Setter::Homes(|homes, value| put(&mut homes.max_mb, value.limit())),
    },
    Key {
        name: "max_inodes",
        kind: Kind::Limit,
        default: DefaultValue::Toml("100000"),
        flag: None,
        reloads: true,
        doc: "Files, directories and links in each home and volume, by accounting.",
        set: Setter::Homes(|homes, value| put(&mut homes.max_inodes, value.limit())),
    },
    Key {
        name: "max_per_tenant",
        kind: Kind::Limit,
        default: DefaultValue::Toml("20"),
        flag: None,
        reloads: true,
        doc: "Homes and volumes of each tenant. One more is refused with 429.",
        set: Setter::Homes(|homes, value| put(&mut homes.max_per_tenant, value.limit())),
    },
    Key {
        name: "expire_after",
        kind: Kind::DurationOrUnlimited,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Time without a session after which a home is removed with all its files. Volumes stay \
              until they are deleted.",
        set: Setter::Homes(|homes, value| {
            put(&mut homes.expire_after, value.duration_or_unlimited())
        }),
    },
];
