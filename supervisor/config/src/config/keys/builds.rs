//! `[builds]`

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "uv",
        kind: Kind::Path,
        default: DefaultValue::Unset("the first `uv` on the daemon's PATH"),
        flag: None,
        reloads: true,
        doc: "The uv that builds environments; `pip install uv` has it. It runs inside the sessions \
              that build, and nowhere else.",
        set: Setter::Builds(|builds, value| put(&mut builds.uv, value.path().map(Some))),
    },
    Key {
        name: "timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"10m\""),
        flag: None,
        reloads: true,
        doc: "The most time that one build may take.",
        set: Setter::Builds(|builds, value| put(&mut builds.timeout, value.duration())),
    },
    Key {
        name: "max_mb",
        kind: Kind::Count,
        default: DefaultValue::Toml("2048"),
        flag: None,
        reloads: true,
        doc: "Disk of each environment, in MiB. While it is built, downloads and unpacked packages \
              may take as much again. One file of it has at most `sandbox.max_file_size_mb`.",
        set: Setter::Builds(|builds, value| put(&mut builds.max_mb, value.count())),
    },
    Key {
        name: "max_inodes",
        kind: Kind::Count,
        default: DefaultValue::Toml("200000"),
        flag: None,
        reloads: true,
        doc: "Files, directories and links of each environment.",
        set: Setter::Builds(|builds, value| put(&mut builds.max_inodes, value.count())),
    },
    Key {
        name: "max_at_once",
        kind: Kind::Count,
        default: DefaultValue::Toml("2"),
        flag: None,
        reloads: true,
        doc: "Builds at one time, of all tenants. One more is refused with 429.",
        set: Setter::Builds(|builds, value| put(&mut builds.max_at_once, value.count())),
    },
];
