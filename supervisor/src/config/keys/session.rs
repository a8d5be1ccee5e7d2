//! `[session]`

use crate::config::key::{Key, Kind, Preset, Section, Setter};
use crate::config::value::ValueError;

pub(super) const KEYS: &[Key] = &[
    Key {
        section: Section::Session,
        name: "exec_timeout",
        kind: Kind::Duration,
        preset: Preset::Toml("\"30s\""),
        flag: Some("--code-exec-timeout"),
        reloads: true,
        doc: "Time of one execution unless its request says otherwise. Then it is sent SIGINT. It is \
              also how long a stopping daemon waits for executions under way.",
        set: Setter::Settings(|settings, value| {
            settings.session.exec_timeout = value.duration()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "max_exec_timeout",
        kind: Kind::Duration,
        preset: Preset::Toml("\"1h\""),
        flag: None,
        reloads: true,
        doc: "The longest time that a request may ask for.",
        set: Setter::Settings(|settings, value| {
            settings.session.max_exec_timeout = value.duration()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "interrupt_grace",
        kind: Kind::Duration,
        preset: Preset::Toml("\"3s\""),
        flag: None,
        reloads: true,
        doc: "Time between SIGINT and the kernel's being killed and replaced.",
        set: Setter::Settings(|settings, value| {
            settings.session.interrupt_grace = value.duration()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "start_timeout",
        kind: Kind::Duration,
        preset: Preset::Toml("\"30s\""),
        flag: None,
        reloads: true,
        doc: "Time that a new session or a replaced kernel has to become ready.",
        set: Setter::Settings(|settings, value| {
            settings.session.start_timeout = value.duration()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "idle_timeout",
        kind: Kind::Duration,
        preset: Preset::Toml("\"1h\""),
        flag: None,
        reloads: true,
        doc: "Time without an execution or a keepalive after which a session is deleted.",
        set: Setter::Settings(|settings, value| {
            settings.session.idle_timeout = value.duration()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "reap_interval",
        kind: Kind::Duration,
        preset: Preset::Toml("\"5m\""),
        flag: None,
        reloads: false,
        doc: "How often idle and over-aged sessions are looked for.",
        set: Setter::Settings(|settings, value| {
            settings.session.reap_interval = value.duration()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "max_lifetime",
        kind: Kind::DurationOrUnlimited,
        preset: Preset::Toml("\"unlimited\""),
        flag: None,
        reloads: true,
        doc: "Time after which a session is deleted whatever it does.",
        set: Setter::Settings(|settings, value| {
            settings.session.max_lifetime = value.duration_or_unlimited()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "max_sessions",
        kind: Kind::Limit,
        preset: Preset::Toml("256"),
        flag: None,
        reloads: true,
        doc: "Sessions at one time. One more is refused with 429.",
        set: Setter::Settings(|settings, value| {
            settings.session.max_sessions = value.limit()?;
            Ok(())
        }),
    },
    Key {
        section: Section::Session,
        name: "queue_depth",
        kind: Kind::Count,
        preset: Preset::Toml("32"),
        flag: None,
        reloads: true,
        doc: "Executions that may wait in one session, the running one not counted. One more \
              is refused with 429.",
        set: Setter::Settings(|settings, value| {
            let depth = usize::try_from(value.count()?).ok().filter(|depth| *depth <= 10_000);
            settings.session.queue_depth =
                depth.ok_or_else(|| ValueError::Unfit("at most 10000 can wait".to_owned()))?;
            Ok(())
        }),
    },
];
