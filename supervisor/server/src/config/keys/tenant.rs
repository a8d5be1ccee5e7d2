//! `[[tenant]]`

use vivarium_api_types::TokenHash;

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

/// The kernel's maximum (`CGROUP_WEIGHT_MAX`).
const MAX_WEIGHT: u16 = 10_000;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "name",
        kind: Kind::Text,
        default: DefaultValue::Required("\"team\""),
        flag: None,
        reloads: true,
        doc: "Name of the tenant: 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `_`. It names \
              the tenant's cgroup and labels its metrics. `default` is a name like any other.",
        // The file parser has used it already.
        set: Setter::Tenant(|_, _| Ok(())),
    },
    Key {
        name: "token_sha256",
        kind: Kind::Texts,
        default: DefaultValue::Required("[\"64 hexadecimal digits\"]"),
        flag: None,
        reloads: true,
        doc: "SHA-256 hashes, 64 hexadecimal digits each, of the tenant's tokens. Give several \
              to replace a token without a gap. Create tokens with `vivarium tenant token`, \
              which prints token and hash: the hash of a guessable token can be guessed.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.tokens, token_hashes(value))),
    },
    Key {
        name: "max_sessions",
        kind: Kind::Limit,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Sessions of the tenant at one time, within `session.max_sessions` of all tenants. \
              Another one is refused with 429.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.max_sessions, value.limit())),
    },
    Key {
        name: "cpu_weight",
        kind: Kind::Count,
        default: DefaultValue::Toml("100"),
        flag: None,
        reloads: true,
        doc: "The tenant's share of the CPU when tenants together want more than there is, 1 to \
              10000 (`cpu.weight`). A tenant with 300 gets three times as much as one with 100, \
              however many sessions each has.",
        set: Setter::Tenant(|tenant, value| {
            let weight = u16::try_from(value.count()?).ok().filter(|weight| *weight <= MAX_WEIGHT);
            tenant.ceilings.cpu_weight = weight
                .ok_or_else(|| ValueError::Unfit(format!("a weight is at most {MAX_WEIGHT}")))?;
            Ok(())
        }),
    },
    Key {
        name: "cpu_cores",
        kind: Kind::Cores,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "CPU cores of all the tenant's sessions together (`cpu.max`).",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.ceilings.cpu_cores, value.cores())),
    },
    Key {
        name: "max_memory_mb",
        kind: Kind::Limit,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Memory of all the tenant's sessions together, in MiB (`memory.max`). There is no \
              swap. When it is used up, the host's kernel kills one of the tenant's sessions, \
              and the response says so.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.ceilings.max_memory_mb, value.limit())),
    },
    Key {
        name: "max_procs",
        kind: Kind::Limit,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Processes and threads of all the tenant's sessions together, including one agent \
              per session (`pids.max`).",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.ceilings.max_procs, value.limit())),
    },
    Key {
        name: "home_max_mb",
        kind: Kind::Limit,
        default: DefaultValue::Unset("`homes.max_mb`"),
        flag: None,
        reloads: true,
        doc: "Disk of each of the tenant's homes and volumes, in MiB.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.home_max_mb, value.limit().map(Some))),
    },
];

fn token_hashes(value: &Value) -> Result<Vec<TokenHash>, ValueError> {
    // The message must not repeat the value, which may be a token.
    let not = |what: &str| ValueError::Unfit(format!("{what}: give SHA-256 hashes, never tokens"));
    let Value::List(items) = value else { return Err(not("not a list of strings")) };
    let mut hashes = Vec::new();
    for item in items {
        let Value::Text(text) = item else { return Err(not("an item is no string")) };
        let hash = TokenHash::from_hex(text)
            .ok_or_else(|| not("an item is not of 64 hexadecimal digits"))?;
        if hashes.contains(&hash) {
            return Err(ValueError::Unfit(format!("{hash} is there twice")));
        }
        hashes.push(hash);
    }
    if hashes.is_empty() {
        return Err(ValueError::Unfit("an empty list: nobody could be this tenant".to_owned()));
    }
    Ok(hashes)
}
