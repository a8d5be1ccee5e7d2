//! `[packages]`, and what tenants have of it

use vivarium_engine::settings::PackageIndex;
use vivarium_packages::Url;

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

/// A tenant's word for no index, where all others have one.
const NO_INDEX: &str = "none";

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "index_url",
        kind: Kind::Text,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "The index that sessions of network `trusted` install from, through the gate: what \
              `/<project>/` follows on, as `https://pypi.org/simple`. It needs no entry in \
              `egress.allow`. If it is at a private address, that has to be in \
              `egress.allow_addresses`; it is then reached at the index's own host and port alone.",
        set: Setter::Packages(|packages, value| put(&mut packages.index, index(value).map(Some))),
    },
    Key {
        name: "login_file",
        kind: Kind::Path,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "A file with `USER:PASSWORD` for `index_url`, which has to be `https` then. The daemon \
              reads it when a session starts and on a reload; of a unit's `LoadCredential=index:…` \
              it is `/run/credentials/vivarium.service/index`. Only the gate gets it, and only the \
              index's own host does from the gate.",
        set: Setter::Packages(|packages, value| {
            put(&mut packages.login_file, value.path().map(Some))
        }),
    },
    Key {
        name: "find_links",
        kind: Kind::Paths,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: true,
        doc: "Directories of wheels and source archives that the gate serves. A project that is \
              there is never asked for at `index_url`. The gate's user has to be able to read them: \
              [packages](packages.md#a-directory-of-wheels-through-the-gate).",
        set: Setter::Packages(|packages, value| put(&mut packages.find_links, value.paths())),
    },
    Key {
        name: "cache_dir",
        kind: Kind::Path,
        default: DefaultValue::Unset("`packages` below `server.state_dir`"),
        flag: None,
        reloads: false,
        doc: "Where the gate keeps what came from an index, each tenant's by itself. A gate that is \
              a unit of its own has its cache from its unit: `CacheDirectory=`.",
        set: Setter::Packages(|packages, value| {
            put(&mut packages.cache_dir, value.path().map(Some))
        }),
    },
    Key {
        name: "max_cache_mb",
        kind: Kind::Count,
        default: DefaultValue::Toml("10240"),
        flag: None,
        reloads: false,
        doc: "What is kept there, in MiB, of all tenants together. Of the tenant that has most, what \
              it asked for least recently goes first. One file may take half of it.",
        set: Setter::Packages(|packages, value| put(&mut packages.max_cache_mb, value.count())),
    },
];

/// The URL of an index.
pub(super) fn index(value: &Value) -> Result<PackageIndex, ValueError> {
    let text = value.text()?;
    // A password that was written here is not repeated.
    let url = Url::parse(text).map_err(|error| ValueError::Unfit(error.to_string()))?;
    if url.place().is_none() {
        return Err(ValueError::Unfit("its port is none".to_owned()));
    }
    Ok(PackageIndex::At(url))
}

/// The URL of a tenant's index, or that it has none.
pub(super) fn tenant_index(value: &Value) -> Result<PackageIndex, ValueError> {
    if value.text()? == NO_INDEX { Ok(PackageIndex::None) } else { index(value) }
}
