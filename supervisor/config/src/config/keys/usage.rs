//! `[usage]`

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "flush_interval",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"30s\""),
        flag: None,
        reloads: true,
        doc: "How often the ledger of what tenants use is written. A daemon that is killed \
              (`kill -9`, a crash) loses what was used since, and nothing else.",
        set: Setter::Usage(|usage, value| put(&mut usage.flush_interval, value.duration())),
    },
    Key {
        name: "keep",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"400d\""),
        flag: None,
        reloads: true,
        doc: "How long the ledger is kept. There is a file for each day, with a row for each hour \
              and tenant that used something, some 200 bytes.",
        set: Setter::Usage(|usage, value| put(&mut usage.keep, value.duration())),
    },
];
