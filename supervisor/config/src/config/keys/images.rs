//! `[images]`

use vivarium_engine::settings::CheckpointMode;

use super::{no_such, put};
use crate::config::key::{DefaultValue, Key, Kind, Setter};

const CHECKPOINTS: &[&str] = &["off", "named", "each"];

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
        name: "suspend_for_room",
        kind: Kind::DurationOrUnlimited,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Time without use after which a session is suspended where there is no memory for another, the \
              one used least recently first, instead of refusing that.",
        set: Setter::Images(|images, value| {
            put(&mut images.suspend_for_room, value.duration_or_unlimited())
        }),
    },
    Key {
        name: "suspend_expired",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: true,
        doc: "Whether a session that nobody used for its `session.idle_timeout` is suspended, if it can be, \
              and not ended. Its deadline ends it all the same.",
        set: Setter::Images(|images, value| put(&mut images.suspend_expired, value.is_true())),
    },
    Key {
        name: "max_mb",
        kind: Kind::Limit,
        default: DefaultValue::Toml("4096"),
        flag: None,
        reloads: true,
        doc: "Disk of each tenant's suspended sessions and checkpoints together, compressed, in MiB. What \
              needs more is not made: 429.",
        set: Setter::Images(|images, value| put(&mut images.max_mb, value.limit())),
    },
    Key {
        name: "max_per_tenant",
        kind: Kind::Limit,
        default: DefaultValue::Toml("1000"),
        flag: None,
        reloads: true,
        doc: "Suspended sessions and checkpoints of each tenant together. One more is not made: 429.",
        set: Setter::Images(|images, value| put(&mut images.max_per_tenant, value.limit())),
    },
    Key {
        name: "checkpoint",
        kind: Kind::Choice(CHECKPOINTS),
        default: DefaultValue::Toml("\"named\""),
        flag: None,
        reloads: true,
        doc: "Which checkpoints a session has that does not say. `off`: none. `named`: those that requests \
              make. `each`: and one after every execution.",
        set: Setter::Images(|images, value| {
            images.checkpoint = match value.text()? {
                "off" => CheckpointMode::Off,
                "named" => CheckpointMode::Named,
                "each" => CheckpointMode::Each,
                other => return Err(no_such(other, CHECKPOINTS)),
            };
            Ok(())
        }),
    },
    Key {
        name: "checkpoints_kept",
        kind: Kind::Limit,
        default: DefaultValue::Toml("100"),
        flag: None,
        reloads: true,
        doc: "How many of the checkpoints after executions each session keeps: the last ones.",
        set: Setter::Images(|images, value| put(&mut images.checkpoints_kept, value.limit())),
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
    Key {
        name: "keep_programs",
        kind: Kind::Bool,
        default: DefaultValue::Toml("true"),
        flag: None,
        reloads: false,
        doc: "Whether the agent's library and kernel program are kept with the images that were taken under \
              them, and used to resume those after an upgrade of Vivarium. With `false` such images are \
              refused, and no code of an earlier release runs.",
        set: Setter::Images(|images, value| put(&mut images.keep_programs, value.is_true())),
    },
    Key {
        name: "key_file",
        kind: Kind::Path,
        default: DefaultValue::Unset(
            "`images/.key` below `server.state_dir`, made at the first start",
        ),
        flag: None,
        reloads: false,
        doc: "A file of 32 random bytes that encrypts and authenticates images; of a unit's \
              `LoadCredential=images:…` it is `/run/credentials/vivarium.service/images`. A daemon \
              that cannot read it does not start, and with another none that is suspended is there.",
        set: Setter::Images(|images, value| put(&mut images.key_file, value.path().map(Some))),
    },
];
