//! `[session]`

use super::put;
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::{Value, ValueError};

/// The bounds of an execution's event buffer, which must hold one message of the agent.
const EVENT_BUFFER_BYTES: std::ops::RangeInclusive<usize> = (64 << 10)..=(64 << 20);

fn percent(value: &Value) -> Result<u8, ValueError> {
    let percent = u8::try_from(value.count()?).ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| ValueError::Unfit("it is from 1 to 100".to_owned()))
}

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "exec_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"30s\""),
        flag: Some("--code-exec-timeout"),
        reloads: true,
        doc: "Time of one execution unless its request says otherwise; then the code gets \
              SIGINT. Also how long a stopping daemon waits for running executions.",
        set: Setter::Session(|session, value| put(&mut session.exec_timeout, value.duration())),
    },
    Key {
        name: "max_exec_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"1h\""),
        flag: None,
        reloads: true,
        doc: "The longest time that a request may ask for.",
        set: Setter::Session(|session, value| put(&mut session.max_exec_timeout, value.duration())),
    },
    Key {
        name: "interrupt_grace",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"3s\""),
        flag: None,
        reloads: true,
        doc: "Time between SIGINT and the moment the kernel is killed and replaced.",
        set: Setter::Session(|session, value| put(&mut session.interrupt_grace, value.duration())),
    },
    Key {
        name: "start_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"30s\""),
        flag: None,
        reloads: true,
        doc: "Time in which a new session or a replaced kernel must become ready.",
        set: Setter::Session(|session, value| put(&mut session.start_timeout, value.duration())),
    },
    Key {
        name: "idle_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"1h\""),
        flag: None,
        reloads: true,
        doc: "A session is deleted after this time without an execution or a keepalive.",
        set: Setter::Session(|session, value| put(&mut session.idle_timeout, value.duration())),
    },
    Key {
        name: "reap_interval",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"5m\""),
        flag: None,
        reloads: false,
        doc: "How often the daemon looks for idle sessions. Deadlines do not wait for it.",
        set: Setter::Session(|session, value| put(&mut session.reap_interval, value.duration())),
    },
    Key {
        name: "max_lifetime",
        kind: Kind::DurationOrUnlimited,
        default: DefaultValue::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "A session is deleted after this time, whatever it does. A client may ask for an earlier \
              `deadline`.",
        set: Setter::Session(|session, value| {
            put(&mut session.max_lifetime, value.duration_or_unlimited())
        }),
    },
    Key {
        name: "max_sessions",
        kind: Kind::Limit,
        default: DefaultValue::Toml("256"),
        flag: None,
        reloads: true,
        doc: "Sessions at one time, of all tenants. Another one is refused with 429.",
        set: Setter::Session(|session, value| put(&mut session.max_sessions, value.limit())),
    },
    Key {
        name: "queue_depth",
        kind: Kind::Count,
        default: DefaultValue::Toml("32"),
        flag: None,
        reloads: true,
        doc: "Executions that may wait in one session, not counting the running one. Another one \
              is refused with 429.",
        set: Setter::Session(|session, value| {
            let depth = usize::try_from(value.count()?).ok().filter(|depth| *depth <= 10_000);
            session.queue_depth =
                depth.ok_or_else(|| ValueError::Unfit("at most 10000 can wait".to_owned()))?;
            Ok(())
        }),
    },
    Key {
        name: "results_kept",
        kind: Kind::DurationOrZero,
        default: DefaultValue::Toml("\"10m\""),
        flag: None,
        reloads: true,
        doc: "How long the result of an execution, its last events and its Idempotency-Key are \
              kept, even after its session is gone; `0s` keeps nothing. Results of one tenant \
              take at most `tenant.max_results_mb`; beyond that the oldest go first.",
        set: Setter::Session(|session, value| {
            put(&mut session.results_kept, value.duration_or_zero())
        }),
    },
    Key {
        name: "event_buffer_bytes",
        kind: Kind::Count,
        default: DefaultValue::Toml("1048576"),
        flag: None,
        reloads: true,
        doc: "Bytes of each execution's events that are kept for clients that follow it, from \
              65536 to 67108864. A client that is further behind slows the execution down as \
              long as it reads that much in 2 s; otherwise it is cut off and may reconnect.",
        set: Setter::Session(|session, value| {
            let bytes = usize::try_from(value.count()?).ok();
            let bytes = bytes.filter(|bytes| EVENT_BUFFER_BYTES.contains(bytes));
            session.event_buffer_bytes = bytes.ok_or_else(|| {
                let (least, most) = (EVENT_BUFFER_BYTES.start(), EVENT_BUFFER_BYTES.end());
                ValueError::Unfit(format!("it is from {least} to {most}"))
            })?;
            Ok(())
        }),
    },
    Key {
        name: "tools",
        kind: Kind::Bool,
        default: DefaultValue::Toml("true"),
        flag: None,
        reloads: true,
        doc: "Whether code may call functions that its client provides: see [tools](tools.md). They run at \
              the client's, and reach what that lets them reach.",
        set: Setter::Session(|session, value| put(&mut session.tools, value.is_true())),
    },
    Key {
        name: "call_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"60s\""),
        flag: None,
        reloads: true,
        doc: "Time in which the client has to answer a call of a tool, unless the tool says otherwise. \
              The time of the execution stands still meanwhile.",
        set: Setter::Session(|session, value| put(&mut session.calls.timeout, value.duration())),
    },
    Key {
        name: "max_call_timeout",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"10m\""),
        flag: None,
        reloads: true,
        doc: "The longest time that a tool may say.",
        set: Setter::Session(|session, value| {
            put(&mut session.calls.max_timeout, value.duration())
        }),
    },
    Key {
        name: "max_call_wait",
        kind: Kind::Duration,
        default: DefaultValue::Toml("\"10m\""),
        flag: None,
        reloads: true,
        doc: "The longest time that one execution may wait for answers to all its calls. An execution thus ends \
              after `session.max_exec_timeout` and this at the latest.",
        set: Setter::Session(|session, value| put(&mut session.calls.max_wait, value.duration())),
    },
    Key {
        name: "max_calls",
        kind: Kind::Count,
        default: DefaultValue::Toml("10000"),
        flag: None,
        reloads: true,
        doc: "Calls of tools that one execution may make.",
        set: Setter::Session(|session, value| put(&mut session.calls.max_calls, value.count())),
    },
    Key {
        name: "tool_servers",
        kind: Kind::Texts,
        default: DefaultValue::Toml("[]"),
        flag: None,
        reloads: true,
        doc: "The [tool servers](tools.md#tool-servers) that a session or execution may ask for, by their \
              names.",
        set: Setter::Session(|session, value| {
            let names = value.texts()?;
            session.tool_servers = names.into_iter().map(str::to_owned).collect();
            Ok(())
        }),
    },
    Key {
        name: "memory_reserve_mb",
        kind: Kind::Count,
        default: DefaultValue::Toml("256"),
        flag: None,
        reloads: true,
        doc: "Memory, in MiB, that sessions leave free on the host, or below the limit of the \
              daemon's own cgroup. A new session that would use this reserve is refused with \
              503, `no_capacity`. Pools give up their sessions when twice as much is left.",
        set: Setter::Session(|session, value| put(&mut session.memory_reserve_mb, value.count())),
    },
    Key {
        name: "max_memory_pressure_percent",
        kind: Kind::Count,
        default: DefaultValue::Toml("40"),
        flag: None,
        reloads: true,
        doc: "New sessions are refused with 503, `no_capacity`, while processes of the host wait \
              for memory more than this share of the time (`some avg10` in \
              /proc/pressure/memory) and less than a quarter of the memory is free. 100 switches \
              this off.",
        set: Setter::Session(|session, value| {
            put(&mut session.max_memory_pressure_percent, percent(value))
        }),
    },
    Key {
        name: "pool_cpu_share",
        kind: Kind::Share,
        default: DefaultValue::Toml("0.5"),
        flag: None,
        reloads: true,
        doc: "The share of all CPUs that starting sessions for pools may take. It bounds how \
              many start at once and how long the pool rests between them.",
        set: Setter::Session(|session, value| put(&mut session.pool_cpu_share, value.share())),
    },
    Key {
        name: "pool_memory_pressure_percent",
        kind: Kind::Count,
        default: DefaultValue::Toml("10"),
        flag: None,
        reloads: true,
        doc: "While processes of the host wait for memory more than this share of the time \
              (`some avg10` in /proc/pressure/memory), pools start no sessions; if less than a \
              quarter of the memory is free as well, pools give up the sessions they have.",
        set: Setter::Session(|session, value| {
            put(&mut session.pool_memory_pressure_percent, percent(value))
        }),
    },
];
