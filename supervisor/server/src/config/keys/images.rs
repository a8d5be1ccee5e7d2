//! `[images]`

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "suspend_after",
        kind: Kind::DurationOrUnlimited,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Time without use after which a session is suspended by itself, if its environment allows \
              images. Shorter than `session.idle_timeout`, or it is reaped first.",
        set: Setter::Images(|images, value| {
            put(&mut images.suspend_after, value.duration_or_unlimited())
        }),
    },
    Key {
        name: "max_mb",
        kind: Kind::Limit,
        default: DefaultValue::Toml("4096"),
        flag: None,
        reloads: true,
        doc: "Disk of each tenant's suspended sessions together, compressed, in MiB. One that needs more is \
              not suspended: 429.",
        set: Setter::Images(|images, value| put(&mut images.max_mb, value.limit())),
    },
    Key {
        name: "max_per_tenant",
        kind: Kind::Limit,
        default: DefaultValue::Toml("1000"),
        flag: None,
        reloads: true,
        doc: "Suspended sessions of each tenant. One more is not suspended: 429.",
        set: Setter::Images(|images, value| put(&mut images.max_per_tenant, value.limit())),
    },
    Key {
        name: "expire_after",
        kind: Kind::DurationOrUnlimited,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Time after which a suspended session that nobody resumed is deleted.",
        set: Setter::Images(|images, value| {
            put(&mut images.expire_after, value.duration_or_unlimited())
        }),
    },
];
