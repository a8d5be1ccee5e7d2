//! `[e2b]`

use super::put;
use super::server::listen;
use crate::config::key::{DefaultValue, Key, Kind, Setter};

pub(super) const KEYS: &[Key] = &[Key {
    name: "listen",
    kind: Kind::Texts,
    default: DefaultValue::Toml("[\"127.0.0.1:8471\"]"),
    flag: None,
    reloads: false,
    doc: "Addresses of E2B, as those of `server.listen`. Nothing listens there unless `dialects.e2b` is true.",
    set: Setter::E2b(|e2b, value| put(&mut e2b.listen, listen(value))),
}];
