//! `[[tenant]]`

use vivarium_engine::settings::Rate;

use vivarium_protocol::units::UNLIMITED;

use super::{egress, packages, put, token};
use crate::config::duration;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

/// The kernel's maximum (`CGROUP_WEIGHT_MAX`).
const MAX_WEIGHT: u16 = 10_000;

/// More of anything than a daemon does in a day.
const MAX_RATE_COUNT: u64 = 1 << 50;

/// A response that is no content has room in it.
const MIN_TRANSFER_BYTES: u64 = 64 << 10;

/// Bytes a second, as clients are to send and read them.
const MIN_TRANSFER_RATE: u32 = 8 << 10;

/// Bytes a second through the egress gate: some 160 MB in a month.
const MIN_EGRESS_RATE: u32 = 64;

macro_rules! quota {
    ($name:ident, $read:ident) => {
        Setter::Tenant(|tenant, value| put(&mut tenant.quotas.$name, $read(value)))
    };
}

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
        default: DefaultValue::Unset("no tokens but those of `token` and `token_hashes_file`"),
        flag: None,
        reloads: true,
        doc: "SHA-256 hashes, 64 hexadecimal digits each, of the tenant's tokens, which may `run` and \
              do not expire. Create tokens with `vivarium tenant token` or `vivarium admin token new`, \
              which print token and hash: the hash of a guessable token can be guessed. A tenant has \
              at least one token, here or in one of the next two.",
        set: Setter::Tenant(|tenant, value| {
            tenant.tokens.extend(token::hashes(value)?);
            Ok(())
        }),
    },
    Key {
        name: "token",
        kind: Kind::Tables,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "Tokens with more said about them, each an entry `[[tenant.token]]` of `hash` (as in \
              `token_sha256`), `scopes` (of `read`, `run`, which includes `read`, `approve`, which \
              includes `read`, and `admin`, which is for the whole daemon and includes nothing else; `[\"run\"]` if not given), `expires` (a \
              time with its offset, such as `2027-01-31T00:00:00Z`) and `name` (for people, logs and \
              `vivarium admin tenants`).",
        set: Setter::Tenant(|tenant, value| {
            tenant.tokens.extend(token::entries(value)?);
            Ok(())
        }),
    },
    Key {
        name: "token_hashes_file",
        kind: Kind::Text,
        default: DefaultValue::Unset("no file"),
        flag: None,
        reloads: true,
        doc: "A file with more tokens, read at start and on a reload: a line each, of a hash and, \
              where they are not the usual, `scopes=read,run`, `expires=TIME` and `name=NAME`. A \
              relative name is one of the service's credentials (`LoadCredential=`, \
              `$CREDENTIALS_DIRECTORY`).",
        set: Setter::Tenant(|tenant, value| {
            put(&mut tenant.token_hashes_file, value.text().map(|path| Some(path.to_owned())))
        }),
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
        name: "session_rate",
        kind: Kind::Rate,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "New sessions, those of runs included. Sessions that a pool starts do not count before \
              the tenant gets them.",
        set: quota!(session_rate, rate),
    },
    Key {
        name: "execution_rate",
        kind: Kind::Rate,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Executions that begin: code, commands and runs. A request that is refused, or sent \
              again with the same Idempotency-Key, does not count.",
        set: quota!(execution_rate, rate),
    },
    Key {
        name: "max_executions",
        kind: Kind::Limit,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Executions that run or wait at one time in all the tenant's sessions together, \
              commands in the background included.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.quotas.max_executions, value.limit())),
    },
    Key {
        name: "max_queued",
        kind: Kind::Limit,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Executions that wait for others of their session, in all the tenant's sessions \
              together. `session.queue_depth` bounds those of one session.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.quotas.max_queued, value.limit())),
    },
    Key {
        name: "transfer_rate",
        kind: Kind::Rate,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Bytes of the bodies of the tenant's requests and responses, at least 65536 at once \
              and 8192 a second. While none are left, uploads, downloads and large requests are \
              refused; what is under way is slowed down. Connections to ports of sessions do not count.",
        set: quota!(transfer_rate, byte_rate),
    },
    Key {
        name: "egress_rate",
        kind: Kind::Rate,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Bytes of all the tenant's sessions through the egress gate, both ways together, at least \
              65536 at once and 64 a second: `\"10737418240/1d\"` is 10 GiB at once, and as much in \
              a day. When they are used up, new connections are refused and open ones slowed down.",
        set: quota!(egress_rate, egress_rate),
    },
    Key {
        name: "max_results_mb",
        kind: Kind::Count,
        default: DefaultValue::Toml("64"),
        flag: None,
        reloads: true,
        doc: "Results of executions that are kept for the tenant, in MiB; beyond that the oldest \
              go first. They take part of `server.max_tenant_buffered_mb`.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.quotas.max_results_mb, value.count())),
    },
    Key {
        name: "allowed_environments",
        kind: Kind::Texts,
        default: DefaultValue::Unset("all of them"),
        flag: None,
        reloads: true,
        doc: "Names of the environments that the tenant's sessions may be in. Others are refused \
              and not shown to it.",
        set: Setter::Tenant(|tenant, value| {
            let names = value.texts()?.into_iter().map(str::to_owned).collect::<Vec<_>>();
            if names.is_empty() {
                let why = "an empty list: the tenant could have no session".to_owned();
                return Err(ValueError::Unfit(why));
            }
            tenant.allowed_environments = Some(names);
            Ok(())
        }),
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
    Key {
        name: "max_homes_mb",
        kind: Kind::Limit,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Disk of all the tenant's homes and volumes together, in MiB, as they were last measured. \
              While they take more, no session is made that writes to one, and no execution begins in \
              those that there are.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.max_homes_mb, value.limit())),
    },
    Key {
        name: "may_build",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: true,
        doc: "Whether the tenant may build [environments](packages.md#environments) of its own, for \
              its own sessions.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.builds.allowed, value.is_true())),
    },
    Key {
        name: "max_environments",
        kind: Kind::Limit,
        default: DefaultValue::Toml("10"),
        flag: None,
        reloads: true,
        doc: "Environments of the tenant's own. One more is refused with 429, `too_many_environments`.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.builds.max, value.limit())),
    },
    Key {
        name: "max_environments_mb",
        kind: Kind::Limit,
        default: DefaultValue::Toml("4096"),
        flag: None,
        reloads: true,
        doc: "Disk of the tenant's environments together, in MiB, those that only sessions still have \
              included. A build that does not fit is refused with 507, `environments_full`, or fails.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.builds.max_mb, value.limit())),
    },
    Key {
        name: "max_builds",
        kind: Kind::Limit,
        default: DefaultValue::Toml("1"),
        flag: None,
        reloads: true,
        doc: "Builds of the tenant's at one time. One more is refused with 429, `too_many_builds`.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.builds.max_at_once, value.limit())),
    },
    Key {
        name: "egress_allow",
        kind: Kind::Texts,
        default: DefaultValue::Unset("`egress.allow`"),
        flag: None,
        reloads: true,
        doc: "Where the tenant's sessions of network `trusted` may connect to, in the form of \
              `egress.allow` and in its place. A request may only name less.",
        set: Setter::Tenant(|tenant, value| {
            put(&mut tenant.egress_allow, egress::entries(value).map(Some))
        }),
    },
    Key {
        name: "packages_index_url",
        kind: Kind::Text,
        default: DefaultValue::Unset("`packages.index_url`"),
        flag: None,
        reloads: true,
        doc: "The index that the tenant's sessions install from, in place of `packages.index_url`; \
              `none` for no index.",
        set: Setter::Tenant(|tenant, value| {
            put(&mut tenant.packages.index, packages::tenant_index(value).map(Some))
        }),
    },
    Key {
        name: "packages_login_file",
        kind: Kind::Path,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "A file with `USER:PASSWORD` for `packages_index_url`, as `packages.login_file`.",
        set: Setter::Tenant(|tenant, value| {
            put(&mut tenant.packages.login_file, value.path().map(Some))
        }),
    },
    Key {
        name: "packages_find_links",
        kind: Kind::Paths,
        default: DefaultValue::Unset("`packages.find_links`"),
        flag: None,
        reloads: true,
        doc: "Directories of wheels for the tenant's sessions, in place of `packages.find_links`.",
        set: Setter::Tenant(|tenant, value| {
            put(&mut tenant.packages.find_links, value.paths().map(Some))
        }),
    },
    Key {
        name: "secret",
        kind: Kind::Tables,
        default: DefaultValue::Unset("none"),
        flag: None,
        reloads: true,
        doc: "What the egress gate puts into the tenant's requests, so that code never has it: one \
              `[[tenant.secret]]` each, after the tenant's other keys, with `name` (the variable \
              that has a placeholder inside), `hosts` (to whom the value goes, over TLS only), \
              `header` (where the placeholder is replaced; `authorization` if not given) and \
              `value_file` or `value_credential` (of `LoadCredential=`). The value is read when a \
              session starts, and on a reload.",
        set: Setter::Tenant(|tenant, value| put(&mut tenant.secrets, egress::secrets(value))),
    },
];

/// A rate of bytes that clients of the API wait for.
fn byte_rate(value: &Value) -> Result<Option<Rate>, ValueError> {
    rate_of_bytes(value, MIN_TRANSFER_RATE)
}

/// A rate of bytes that may be a budget for a day or a month.
fn egress_rate(value: &Value) -> Result<Option<Rate>, ValueError> {
    rate_of_bytes(value, MIN_EGRESS_RATE)
}

fn rate_of_bytes(value: &Value, a_second: u32) -> Result<Option<Rate>, ValueError> {
    let rate = rate(value)?;
    let is_slow = |Rate { count, per }: Rate| {
        let least = per.as_millis().saturating_mul(a_second.into()) / 1000;
        count < MIN_TRANSFER_BYTES || u128::from(count) < least
    };
    if rate.is_some_and(is_slow) {
        let why = format!(
            "a rate of bytes is at least {MIN_TRANSFER_BYTES} at once, and {a_second} a second"
        );
        return Err(ValueError::Unfit(why));
    }
    Ok(rate)
}

/// A number and a time, as `600/1m`, or `unlimited`.
fn rate(value: &Value) -> Result<Option<Rate>, ValueError> {
    let text = value.text()?;
    if text == UNLIMITED {
        return Ok(None);
    }
    let unfit = || {
        let why = "is not a rate: give a number and a time, such as \"600/1m\", or \"unlimited\"";
        ValueError::Unfit(format!("{text:?} {why}"))
    };
    let (count, per) = text.split_once('/').ok_or_else(unfit)?;
    let count = count.parse().ok().filter(|count| (1..=MAX_RATE_COUNT).contains(count));
    let per = duration::parse(per)?;
    Ok(Some(Rate { count: count.ok_or_else(unfit)?, per }))
}
