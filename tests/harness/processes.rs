//! Processes of the host, as /proc tells of them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;

/// One process. Start time and pid together are never used twice, and are all that is compared.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its command's name.
    pub name: String,
    /// `R`, `S`, `Z`, …
    pub state: char,
    /// When it was started, in clock ticks since boot.
    pub started: u64,
}

impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

impl Eq for Process {}

impl PartialOrd for Process {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Process {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.pid, self.started).cmp(&(other.pid, other.started))
    }
}

impl Process {
    /// Looks it up; `None` if there is none.
    #[must_use]
    pub fn find(pid: i32) -> Option<Self> {
        // proc_pid_stat(5): the name is in parentheses and can hold anything, spaces too.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (before, after) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            name: before.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether this very process still runs. One that is dead and not yet waited for does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.started == self.started && now.state != 'Z')
    }

    /// Whether it is in a process namespace other than ours: proc_pid_status(5), `NSpid`.
    #[must_use]
    pub fn is_in_session(&self) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"));
        line.is_some_and(|line| line.split_whitespace().count() > 1)
    }

    /// The number on a line of /proc/PID/status, such as `VmRSS`, in its own unit.
    #[must_use]
    pub fn status_number(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Whether this text is somewhere in its memory.
    #[must_use]
    #[track_caller]
    pub fn holds(&self, text: &str) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap();
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid)).unwrap();
        let mut looked = 0;
        let found = maps.lines().any(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let [from, to] = [from, to].map(|end| u64::from_str_radix(end, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
            if !rest.starts_with('r') || memory.read_exact_at(&mut bytes, from).is_err() {
                return false; // [vvar], for one
            }
            looked += bytes.len();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        });
        assert!(found || looked > 1 << 20, "only {looked} bytes were looked at");
        found
    }

    /// A set of capabilities on a line of /proc/PID/status, such as `CapEff`.
    #[must_use]
    pub fn capabilities(&self, set: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{set}:")))?;
        u64::from_str_radix(line.trim(), 16).ok()
    }

    /// Real, effective, saved and filesystem user id.
    #[must_use]
    pub fn user_ids(&self) -> Vec<u32> {
        let Ok(text) = fs::read_to_string(format!("/proc/{}/status", self.pid)) else {
            return Vec::new();
        };
        let line = text.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        line.split_whitespace().filter_map(|id| id.parse().ok()).collect()
    }
}

/// All processes.
#[must_use]
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::find)
        .collect()
}

/// The children of `pid`, and theirs. Dead ones that nobody has waited for are left out.
#[must_use]
pub fn descendants(pid: i32) -> Vec<Process> {
    let all = all();
    let mut family = BTreeSet::from([pid]);
    // Each round finds one generation more.
    loop {
        let before = family.len();
        family.extend(
            all.iter().filter(|p| family.contains(&p.parent)).map(|p| p.pid).collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    all.into_iter().filter(|p| p.pid != pid && p.state != 'Z' && family.contains(&p.pid)).collect()
}

/// The TCP port of 127.0.0.1 that a process listens on: proc_pid_net(5), `tcp`.
#[must_use]
pub fn listening_port(pid: i32) -> Option<u16> {
    let sockets: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
        .ok()?
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (*fields.get(1)?, *fields.get(3)?, *fields.get(9)?);
        let is_its = state == "0A" && sockets.contains(&format!("socket:[{inode}]"));
        let port = local.strip_prefix("0100007F:").filter(|_| is_its)?;
        u16::from_str_radix(port, 16).ok()
    })
}
