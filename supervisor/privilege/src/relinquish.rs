//! Giving up root for good.

use nix::errno::Errno;
use nix::unistd::{
    Uid, chdir, getgroups, getresgid, getresuid, seteuid, setgroups, setresgid, setresuid,
};

use crate::{Account, PrivilegeError};

/// Becomes `account`, and verifies that root can not be regained.
pub(super) fn root(account: &Account) -> Result<(), PrivilegeError> {
    let failed = |operation, why: String| PrivilegeError::Drop {
        user: account.name.clone(),
        operation,
        why,
    };
    let call = |operation, result: Result<(), Errno>| {
        result.map_err(|errno| failed(operation, errno.to_string()))
    };
    let Account { uid, gid, .. } = *account;
    // Groups first: without root they can not be changed any more.
    call("setgroups", setgroups(&[]))?;
    call("setresgid", setresgid(gid, gid, gid))?;
    // Takes all capabilities with it (capabilities(7), "Effect of user ID changes").
    call("setresuid", setresuid(uid, uid, uid))?;
    // Once more, since a change of ids resets it to fs.suid_dumpable.
    call("prctl(PR_SET_DUMPABLE)", nix::sys::prctl::set_dumpable(false))?;
    // The old working directory may not be readable any more.
    call("chdir", chdir("/"))?;
    verify(account).map_err(|why| failed("verification", why))
}

fn verify(account: &Account) -> Result<(), String> {
    let uids = getresuid().map_err(|errno| errno.to_string())?;
    if [uids.real, uids.effective, uids.saved] != [account.uid; 3] {
        return Err(format!("the user ids are {uids:?}"));
    }
    let gids = getresgid().map_err(|errno| errno.to_string())?;
    if [gids.real, gids.effective, gids.saved] != [account.gid; 3] {
        return Err(format!("the group ids are {gids:?}"));
    }
    if !getgroups().map_err(|errno| errno.to_string())?.is_empty() {
        return Err("there are groups left".to_owned());
    }
    if seteuid(Uid::from_raw(0)).is_ok() {
        return Err("root can be had back".to_owned());
    }
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    match left_capabilities(&status) {
        None => Ok(()),
        Some(line) => Err(format!("there are capabilities left: {line}")),
    }
}

/// The line of a capability set that is not empty, bounding set excepted: it gives nothing
/// without a program that has file capabilities, and newuidmap needs it.
fn left_capabilities(status: &str) -> Option<&str> {
    status.lines().find(|line| {
        let is_set = ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"];
        is_set.iter().any(|name| line.starts_with(name))
            && line.split_whitespace().nth(1).is_none_or(|set| set.bytes().any(|b| b != b'0'))
    })
}

#[cfg(test)]
mod tests {
    use nix::unistd::Gid;

    use super::*;

    #[test]
    fn all_capability_sets_but_bounding_must_be_empty() {
        let empty = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
                     CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n";
        assert_eq!(left_capabilities(empty), None);
        let left = "CapPrm:\t0000000000200000\n";
        assert_eq!(left_capabilities(left), Some("CapPrm:\t0000000000200000"));
        assert_eq!(left_capabilities("CapEff:\n"), Some("CapEff:"));
    }

    #[test]
    fn account_that_was_not_taken_is_refused() {
        let account = |uid, gid| Account { name: "another".to_owned(), uid, gid };
        let (uid, gid) = (Uid::effective(), Gid::effective());
        let another_user = account(Uid::from_raw(uid.as_raw() + 1), gid);
        assert!(verify(&another_user).is_err_and(|why| why.contains("user ids are")));
        let another_group = account(uid, Gid::from_raw(gid.as_raw() + 1));
        assert!(verify(&another_group).is_err_and(|why| why.contains("group ids are")));
        if uid.is_root() {
            assert!(verify(&account(uid, gid)).is_err());
        }
    }
}
