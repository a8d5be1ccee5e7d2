//! What the session's processes use.
//!
//! Where there is a cgroup the supervisor knows better and asks it. This is for hosts without:
//! RLIMIT_CPU is per process and cumulative, so an execution's CPU time is added up here over
//! all processes, the living (clock_getcpuclockid(3)), those they waited for (`cutime`,
//! proc_pid_stat(5)) and those that came to the agent as orphans (getrusage(2)). What escapes is
//! the time of a dead child whose parent ignores SIGCHLD; RLIMIT_CPU ends such a child unless it
//! has raised its own soft limit.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, SysconfVar, getpid, getppid, sysconf};
use vivarium_protocol::discard;

/// The files that are read at each execution, opened once per kernel.
#[derive(Debug)]
pub(crate) struct Meter {
    pid: Pid,
    stat: Option<File>,
    status: Option<File>,
    tick_us: u64,
}

impl Meter {
    pub(crate) fn new(pid: Pid) -> Self {
        let open = |name: &str| {
            proc_is_ours().then(|| File::open(format!("/proc/{pid}/{name}")).ok()).flatten()
        };
        Self { pid, stat: open("stat"), status: open("status"), tick_us: tick_us() }
    }

    /// CPU time so far of the kernel, of children it waited for and of orphans, in
    /// microseconds. Cheap: children still running are not in it.
    pub(crate) fn cpu_us(&self) -> u64 {
        let waited = self.stat.as_ref().and_then(|file| waited_ticks(&read_at_start(file)?));
        process_us(self.pid)
            .saturating_add(waited.unwrap_or(0).saturating_mul(self.tick_us))
            .saturating_add(orphans_us())
    }

    /// As [`Meter::cpu_us`], with every running process included that does not descend from one of
    /// `others`.
    pub(crate) fn cpu_of_all_us(&self, others: &[Pid]) -> u64 {
        let excluded: BTreeSet<_> =
            others.iter().flat_map(|pid| [vec![*pid], descendants(*pid)].concat()).collect();
        let counted =
            processes().into_iter().filter(|pid| *pid != self.pid && !excluded.contains(pid));
        counted.fold(self.cpu_us(), |sum, pid| sum.saturating_add(cpu_with_waited_us(pid)))
    }

    /// The kernel's largest resident set so far (`VmHWM`), in bytes; 0 when it is gone.
    pub(crate) fn memory_peak_bytes(&self) -> u64 {
        let text = self.status.as_ref().and_then(read_at_start).unwrap_or_default();
        field_kib(&text, "VmHWM:").saturating_mul(1024)
    }
}

/// CPU time so far of a process, of its descendants, and of those that these waited for, in
/// microseconds.
pub(crate) fn cpu_of_tree_us(root: Pid) -> u64 {
    let tree = descendants(root).into_iter().chain([root]);
    tree.fold(0, |sum, pid| sum.saturating_add(cpu_with_waited_us(pid)))
}

fn cpu_with_waited_us(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let waited = stat.and_then(|text| waited_ticks(&text)).unwrap_or(0);
    process_us(pid).saturating_add(waited.saturating_mul(tick_us()))
}

/// The other processes of this pid namespace. Without a pid namespace, the descendants of the launcher,
/// whose children kernels and orphans are.
pub(crate) fn processes() -> Vec<Pid> {
    let own = getpid();
    if own.as_raw() != 1 {
        let mut found = descendants(getppid());
        found.retain(|pid| *pid != own);
        return found;
    }
    if !proc_is_ours() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(|pid| *pid != own)
        .collect()
}

/// How many of them have not ended: whoever is to wait for those that have may not have come to it.
pub(crate) fn running_processes() -> usize {
    let stat = |pid: &Pid| fs::read_to_string(format!("/proc/{pid}/stat"));
    processes().iter().filter(|pid| !stat(pid).is_ok_and(|stat| has_ended(&stat))).count()
}

/// A process whose first thread has ended goes on as long as it has others, which field 20 of its stat line counts.
fn has_ended(stat: &str) -> bool {
    let threads = field(stat, 20).and_then(|count| count.parse::<u64>().ok());
    is_zombie(stat) && threads.is_some_and(|count| count <= 1)
}

/// Whether `/proc` is that of our own pid namespace, so that our pids mean the same in it. In
/// a pid namespace without the mounts layer it is the host's, in which they are somebody else's.
fn proc_is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| {
        let seen = fs::read_link("/proc/self").unwrap_or_default();
        seen.as_os_str() == getpid().to_string().as_str()
    })
}

/// All descendants of `root`. While processes start and end some may be missed.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut found: Vec<Pid> = Vec::new();
    if proc_is_ours() {
        walk(root, &mut |pid| found.push(pid));
    }
    found
}

/// Kills all descendants of `root` but this process. Returns whether there were any. While processes
/// start and end some may be missed, so repeat it until it finds none.
pub(crate) fn kill_descendants(root: Pid) -> bool {
    let mut found = false;
    if proc_is_ours() {
        // Killed when found, so that it starts no more.
        walk(root, &mut |pid| {
            if pid != getpid() {
                found = true;
                discard(kill(pid, Signal::SIGKILL), "it may have ended");
            }
        });
    }
    found
}

/// Calls `visit` for each descendant of `root`, parents before their children:
/// proc_pid_task_tid_children(5).
fn walk(root: Pid, visit: &mut impl FnMut(Pid)) {
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for pid in text.split_whitespace().filter_map(|word| word.parse().ok()) {
                visit(Pid::from_raw(pid));
                next.push(Pid::from_raw(pid));
            }
        }
    }
}

/// Proportional set size of a process, in bytes: proc_pid_smaps(5). 0 when it can not be read.
pub(crate) fn pss_bytes(pid: Pid) -> u64 {
    if !proc_is_ours() {
        return 0;
    }
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    field_kib(&text, "Pss:").saturating_mul(1024)
}

/// The number after `name` at the start of a line, as /proc gives sizes: in KiB.
fn field_kib(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Running,
    /// It has ended, and nobody has waited for it.
    Zombie(ExitStatus),
    Gone,
}

/// Whether a process has ended, and how: proc_pid_stat(5), readable by who may trace the process.
pub(crate) fn state(pid: Pid) -> ProcessState {
    if !proc_is_ours() {
        return ProcessState::Running;
    }
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => exit_status(&stat).map_or(ProcessState::Running, ProcessState::Zombie),
        Err(_) => ProcessState::Gone,
    }
}

/// `exit_code`, field 52 of a stat line, of a zombie.
fn exit_status(stat: &str) -> Option<ExitStatus> {
    let status = field(stat, 52).filter(|_| is_zombie(stat))?;
    status.parse().ok().map(ExitStatus::from_raw)
}

fn is_zombie(stat: &str) -> bool {
    field(stat, 3) == Some("Z")
}

/// A field of a stat line, from the third on, which follows the name: proc_pid_stat(5).
fn field(stat: &str, number: usize) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?)
}

fn process_us(pid: Pid) -> u64 {
    ClockId::pid_cpu_clock_id(pid)
        .and_then(clock_gettime)
        .map_or(0, |time| micros(Duration::from(time)))
}

/// CPU time of the children that the agent itself waited for, in microseconds.
pub(crate) fn orphans_us() -> u64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| {
        let part = |time: nix::sys::time::TimeVal| {
            let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
            let rest = u64::try_from(time.tv_usec()).unwrap_or(0);
            seconds.saturating_mul(1_000_000).saturating_add(rest)
        };
        part(usage.user_time()).saturating_add(part(usage.system_time()))
    })
}

/// `cutime` and `cstime`, fields 16 and 17 of a stat line: proc_pid_stat(5). The name in
/// field 2 may hold anything, so counting starts after its last parenthesis.
fn waited_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user.saturating_add(system))
}

fn read_at_start(file: &File) -> Option<String> {
    let mut buffer = [0; 4096];
    let count = file.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(buffer.get(..count)?).into_owned())
}

fn tick_us() -> u64 {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    1_000_000 / u64::try_from(per_second).unwrap_or(100).max(1)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_in_a_process_name_do_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 70 8 20 0 1 0";
        assert_eq!(waited_ticks(stat), Some(78));
    }

    #[test]
    fn a_process_has_ended_with_its_last_thread() {
        let stat = |state: &str, threads: u32| {
            format!("7 (a) Z) {state} 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0")
        };
        assert!(has_ended(&stat("Z", 1)));
        for runs in [stat("Z", 2), stat("S", 1), "7 (a) Z".to_owned(), String::new()] {
            assert!(!has_ended(&runs), "{runs}");
        }
    }

    #[test]
    fn the_exit_status_of_a_zombie_is_read() {
        let fields: Vec<_> = (4..52).map(|field| field.to_string()).collect();
        let stat = |state: &str| format!("7 (a) b) {state} {} 139", fields.join(" "));
        assert_eq!(exit_status(&stat("Z")).and_then(|status| status.signal()), Some(11));
        assert_eq!(exit_status(&stat("S")), None);
        assert_eq!(state(getpid()), ProcessState::Running);
        assert_eq!(state(Pid::from_raw(i32::MAX)), ProcessState::Gone);
    }

    #[test]
    fn cpu_time_and_memory_of_this_process_are_measured() {
        let meter = Meter::new(getpid());
        let before = meter.cpu_us();
        let mut sum = 0_u64;
        while meter.cpu_us() == before {
            sum = sum.wrapping_add(1);
        }
        assert!(meter.memory_peak_bytes() > 1 << 20);
        assert!(pss_bytes(getpid()) > 1 << 16);
    }
}
