//! `[audit]`

use vivarium_engine::settings::{Fsync, OnFull};

use super::{no_such, put};
use crate::config::key::{DefaultValue, Key, Kind, Setter};
use crate::config::value::ValueError;

const FSYNC: &[&str] = &["each", "1s", "off"];

const ON_FULL: &[&str] = &["stop", "go_on"];

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "dir",
        kind: Kind::Path,
        default: DefaultValue::Unset("no audit log"),
        flag: None,
        reloads: false,
        doc: "Directory of the log, made if it is not there, such as `/var/lib/vivarium/audit`. One \
              daemon writes there; nobody else may be able to.",
        set: Setter::Audit(|audit, value| put(&mut audit.dir, value.path().map(Some))),
    },
    Key {
        name: "fsync",
        kind: Kind::Choice(FSYNC),
        default: DefaultValue::Toml("\"each\""),
        flag: None,
        reloads: true,
        doc: "When lines are synchronised to the disk. `each`: an execution is answered only when its \
              line is on the disk; executions that end together share one synchronisation. `1s`: \
              once a second, so that a crash of the host loses up to a second. `off`: when a file is \
              complete.",
        set: Setter::Audit(|audit, value| {
            audit.fsync = match value.text()? {
                "each" => Fsync::Each,
                "1s" => Fsync::Second,
                "off" => Fsync::Off,
                other => return Err(no_such(other, FSYNC)),
            };
            Ok(())
        }),
    },
    Key {
        name: "rotate_mb",
        kind: Kind::Count,
        default: DefaultValue::Toml("100"),
        flag: None,
        reloads: true,
        doc: "Size of a file, in MiB, above which the next is begun; from 1 to 10240.",
        set: Setter::Audit(|audit, value| {
            let size = value.count()?;
            if size > 10_240 {
                return Err(ValueError::Unfit("it is from 1 to 10240".to_owned()));
            }
            audit.rotate_mb = size;
            Ok(())
        }),
    },
    Key {
        name: "keep",
        kind: Kind::Count,
        default: DefaultValue::Toml("10"),
        flag: None,
        reloads: true,
        doc: "How many files are kept. The oldest is removed when there are more, and a line says so: \
              copy files elsewhere before that if they are to stay.",
        set: Setter::Audit(|audit, value| put(&mut audit.keep, value.count())),
    },
    Key {
        name: "capture_code",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: true,
        doc: "Whether the log has the code of each execution, up to 64 KiB, and not only its hash. \
              Code may hold what its author keeps secret.",
        set: Setter::Audit(|audit, value| put(&mut audit.capture_code, value.is_true())),
    },
    Key {
        name: "capture_output",
        kind: Kind::Bool,
        default: DefaultValue::Toml("false"),
        flag: None,
        reloads: true,
        doc: "Whether the log has what each execution printed, up to 64 KiB of stdout and of stderr; \
              of one whose client follows its events, nothing.",
        set: Setter::Audit(|audit, value| put(&mut audit.capture_output, value.is_true())),
    },
    Key {
        name: "on_full",
        kind: Kind::Choice(ON_FULL),
        default: DefaultValue::Toml("\"stop\""),
        flag: None,
        reloads: true,
        doc: "What happens while the log cannot be written, such as on a full disk. `stop`: new \
              sessions and executions are refused with 503, `audit_unavailable`; the ends of those \
              that run are written as soon as there is room. `go_on`: executions go on, and the log \
              says afterwards how many events it lacks.",
        set: Setter::Audit(|audit, value| {
            audit.on_full = match value.text()? {
                "stop" => OnFull::Stop,
                "go_on" => OnFull::GoOn,
                other => return Err(no_such(other, ON_FULL)),
            };
            Ok(())
        }),
    },
];
