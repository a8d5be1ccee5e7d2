//! Claims on ids, which daemons and one-shot runs of the same user are all granted.
//!
//! A claim is a record lock (`F_SETLK`, fcntl(2)) on a memory file of our own, at offsets made of
//! the ids. `/proc/locks` shows it (proc_locks(5)), so nothing has to be shared with the others but
//! the kernel: no directory, and no mount or network namespace. It ends with its process, however
//! that ends. Who claims looks afterwards whether somebody else has locked the same; of two who do
//! so at one time each sees the other, and both let go.
//!
//! Locks of other users count for nothing, so that nobody else can keep our ids from us. A daemon
//! in another pid namespace is not seen.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use vivarium_protocol::policy::SubordinateIds;

/// The offset of id 0: "viva", far behind what programs lock in files.
const BASE: i64 = 0x7669_7661_0000_0000;

/// The locks of all processes that we can see.
const LOCKS: &str = "/proc/locks";

/// Our own claims. They are let go of when this is dropped, or the process ends.
#[derive(Debug)]
pub(super) struct Claims {
    file: File,
    inode: u64,
}

/// Ids that another daemon of our user has claimed: the first and the last.
type Range = (u32, u32);

impl Claims {
    /// None yet.
    /// Fails if there is no file for them, or claims of others can not be seen.
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"vivarium-ids", MFdFlags::MFD_CLOEXEC)?);
        let inode = file.metadata()?.ino();
        let claims = Self { file, inode };
        claims.of_others().map(|_| claims)
    }

    pub(super) fn of_others(&self) -> io::Result<Vec<Range>> {
        let locks = fs::read_to_string(LOCKS)?;
        let others = locks.lines().filter_map(parse).filter(|lock| lock.inode != self.inode);
        Ok(others.filter(|lock| is_of_a_daemon(lock.pid)).map(|lock| lock.ids).collect())
    }

    /// Claims these; whether nobody else has.
    /// On an error they are not claimed.
    pub(super) fn claim(&self, ids: &[SubordinateIds]) -> io::Result<bool> {
        let claimed = ids
            .iter()
            .try_for_each(|pair| self.lock(pair, libc::F_WRLCK))
            .and_then(|()| Ok(are_free(ids, &self.of_others()?)));
        if !matches!(claimed, Ok(true)) {
            ids.iter().try_for_each(|pair| self.lock(pair, libc::F_UNLCK))?;
        }
        claimed
    }

    fn lock(&self, ids: &SubordinateIds, how: libc::c_int) -> io::Result<()> {
        let (first, last) = ends(ids);
        let lock = libc::flock {
            l_type: libc::c_short::try_from(how).unwrap_or_default(),
            l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default(),
            l_start: BASE + i64::from(first),
            l_len: i64::from(last - first) + 1,
            l_pid: 0,
        };
        fcntl(&self.file, FcntlArg::F_SETLK(&lock))?;
        Ok(())
    }
}

/// Whether nothing of these is in any of the ranges.
pub(super) fn are_free(ids: &[SubordinateIds], ranges: &[Range]) -> bool {
    ids.iter()
        .map(ends)
        .all(|(first, last)| ranges.iter().all(|(from, to)| last < *from || *to < first))
}

fn ends(ids: &SubordinateIds) -> Range {
    (ids.agent.min(ids.kernel), ids.agent.max(ids.kernel))
}

/// A claim as /proc/locks has it.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    pid: i32,
    inode: u64,
    ids: Range,
}

/// Takes apart a line such as `7: POSIX  ADVISORY  WRITE 214 00:01:1032 8532481113 8532481240`; `None`
/// if it is no claim.
fn parse(line: &str) -> Option<Lock> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [_, "POSIX", _, "WRITE", pid, file, start, end] = *fields.as_slice() else { return None };
    let id = |offset: &str| u32::try_from(offset.parse::<i64>().ok()?.checked_sub(BASE)?).ok();
    let inode = file.rsplit(':').next()?.parse().ok()?;
    Some(Lock { pid: pid.parse().ok()?, inode, ids: (id(start)?, id(end).unwrap_or(u32::MAX)) })
}

/// Whether this is a process of our user, and not one in a session: kill(2) tells the first of any
/// process, and its status (proc_pid_status(5)) that it is in a pid namespace below ours.
fn is_of_a_daemon(pid: i32) -> bool {
    let status = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    pid > 0 && kill(Pid::from_raw(pid), None).is_ok() && !is_below(&status())
}

fn is_below(status: &str) -> bool {
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    pids.split_whitespace().count() > 1
}

#[cfg(test)]
mod tests;
