//! User id, group id and groups of the agent and the kernel.
//!
//! Never becomes an id that is the host's root.

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, getegid, geteuid, getgid, getuid, setgroups, setresgid, setresuid};
use vivarium_protocol::layer::Layer;

use super::super::{Context, LayerError, proc_file};
use super::own_status::OwnStatus;

const GRANT_IDS: &str = "grant the daemon's user a range of subordinate ids: install uidmap \
    (newuidmap), then usermod --add-subuids FIRST-LAST --add-subgids FIRST-LAST USER";

pub(super) fn become_agent(context: &Context) -> Result<(), LayerError> {
    let shared = context.policy.ids.is_none();
    become_id(context, if shared { Context::KERNEL_ID } else { Context::AGENT_ID })
}

pub(super) fn become_kernel(context: &Context) -> Result<(), LayerError> {
    become_id(context, Context::KERNEL_ID)
}

fn become_id(context: &Context, id: u32) -> Result<(), LayerError> {
    refuse_host_root(context)?;
    clear_groups(context)?;
    // The group first: after the user id has changed there may be no right to.
    let gid = Gid::from_raw(id);
    setresgid(gid, gid, gid)
        .map_err(|errno| LayerError::new(format!("setresgid({id}, {id}, {id})"), errno))?;
    let uid = Uid::from_raw(id);
    setresuid(uid, uid, uid)
        .map_err(|errno| LayerError::new(format!("setresuid({id}, {id}, {id})"), errno))
}

/// Where there is no user namespace, the id stays what it is; only the saved ids, by which it
/// could become another, follow it.
pub(super) fn stay(context: &Context) -> Result<(), LayerError> {
    refuse_host_root(context)?;
    clear_groups(context)?;
    let (uid, gid) = (getuid(), getgid());
    if uid != geteuid() || gid != getegid() {
        return Err(LayerError::new(
            "keep the daemon's ids",
            format!(
                "real ids {uid} and {gid} differ from effective ids {}, {}",
                geteuid(),
                getegid()
            ),
        ));
    }
    setresgid(gid, gid, gid)
        .map_err(|errno| LayerError::new(format!("setresgid({gid}, {gid}, {gid})"), errno))?;
    setresuid(uid, uid, uid)
        .map_err(|errno| LayerError::new(format!("setresuid({uid}, {uid}, {uid})"), errno))
}

/// Some 200 sysctls stay writable to the host's root id, even without capabilities.
fn refuse_host_root(context: &Context) -> Result<(), LayerError> {
    if context.policy.ids.is_some() || context.host.uid != 0 {
        return Ok(());
    }
    Err(LayerError::new("choose the session's host id", "the launcher's user id is 0")
        .with_fix("run vivarium as an ordinary user, or let it drop to one"))
}

/// Where one id is mapped without a privileged helper, setgroups(2) is denied for good
/// (user_namespaces(7)), as it is without CAP_SETGID. The report names the groups that are left.
fn clear_groups(context: &Context) -> Result<(), LayerError> {
    match setgroups(&[]) {
        Ok(()) => Ok(()),
        Err(Errno::EPERM) if context.policy.ids.is_none() => Ok(()),
        Err(errno) => Err(LayerError::new("setgroups([])", errno)),
    }
}

/// Checks that all ids are the kernel's, and that there is no way back from them.
pub(super) fn verify(context: &Context, status: &OwnStatus) -> Result<(), LayerError> {
    let (uid, gid) = expected(context);
    all_are("Uid", &status.uids, uid)?;
    all_are("Gid", &status.gids, gid)?;
    if let Some(ids) = context.policy.ids.filter(|_| context.applies(Layer::Namespaces)) {
        maps_to("/proc/self/uid_map", ids.kernel)?;
        maps_to("/proc/self/gid_map", ids.kernel)?;
    }
    let root = Uid::from_raw(0);
    // EINVAL where no id 0 is mapped.
    match setresuid(root, root, root) {
        Err(Errno::EPERM | Errno::EINVAL) => Ok(()),
        other => Err(LayerError::not_in_force("setresuid(0, 0, 0)", format!("{other:?}"))),
    }
}

fn expected(context: &Context) -> (u32, u32) {
    if context.applies(Layer::Namespaces) {
        (Context::KERNEL_ID, Context::KERNEL_ID)
    } else {
        (context.host.uid, context.host.gid)
    }
}

fn all_are(what: &str, found: &[u32], expected: u32) -> Result<(), LayerError> {
    if found.len() == 4 && found.iter().all(|id| *id == expected) {
        return Ok(());
    }
    let wanted = format!("{what} {expected} in all four places");
    Err(LayerError::not_in_force(wanted, format!("{found:?}")))
}

/// Checks that the kernel's id is `host_id` outside: user_namespaces(7), "uid_map".
fn maps_to(path: &str, host_id: u32) -> Result<(), LayerError> {
    let text = proc_file::read(path)?;
    if host_id_of(&text, Context::KERNEL_ID) == Some(host_id) {
        return Ok(());
    }
    let wanted = format!("{} mapped to {host_id} in {path}", Context::KERNEL_ID);
    Err(LayerError::not_in_force(wanted, format!("{text:?}")))
}

/// What `id` is outside, by a map's lines of first id inside, first id outside, and count.
fn host_id_of(map: &str, id: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (inside, outside, count) =
            (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        let offset = id.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    })
}

/// Says so if the kernel's host id is the daemon's own.
pub(super) fn shared_id(context: &Context) -> Option<(String, &'static str)> {
    let own = context.applies(Layer::Namespaces) && context.policy.ids.is_some();
    (!own).then(|| {
        let what = "the host id is the daemon's own, so what the host's kernel counts per user \
            (keys, pipe buffers) is shared with other sessions";
        (what.to_owned(), GRANT_IDS)
    })
}

/// Says so if the daemon's supplementary groups are still the kernel's. The own group may
/// stand there as well: that gives nothing.
pub(super) fn left_groups(context: &Context, status: &OwnStatus) -> Option<(String, &'static str)> {
    let (_, own) = expected(context);
    let left = status.groups.iter().filter(|group| **group != own).count();
    (left > 0).then(|| {
        (format!("{left} supplementary groups of the daemon could not be dropped"), GRANT_IDS)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vivarium_protocol::policy::{Network, SubordinateIds};

    use super::super::super::landlock::fixture;
    use super::*;

    fn context(layers: &[Layer], ids: Option<SubordinateIds>) -> Context {
        let mut context = fixture::context(layers, Network::None, Path::new("/"));
        context.policy.ids = ids;
        context
    }

    const IDS: SubordinateIds = SubordinateIds { agent: 200_000, kernel: 200_001 };

    #[test]
    fn the_hosts_root_is_refused_where_the_id_is_the_daemons() {
        for (uid, ids, refused) in
            [(0, None, true), (0, Some(IDS), false), (7, None, false), (7, Some(IDS), false)]
        {
            let mut context = context(&[Layer::Namespaces], ids);
            context.host.uid = uid;
            assert_eq!(refuse_host_root(&context).is_err(), refused, "{uid}, {ids:?}");
        }
    }

    #[test]
    fn a_host_id_of_its_own_takes_ids_and_a_namespace() {
        for (layers, ids, shared) in [
            (&[Layer::Namespaces][..], Some(IDS), false),
            (&[Layer::Namespaces], None, true),
            (&[], Some(IDS), true),
            (&[], None, true),
        ] {
            let reported = shared_id(&context(layers, ids));
            assert_eq!(reported.is_some(), shared, "{layers:?}, {ids:?}");
            assert!(reported.is_none_or(|(what, fix)| {
                what.contains("daemon's own") && fix.contains("subordinate ids")
            }));
        }
    }

    #[test]
    fn groups_of_the_daemons_are_counted_and_its_own_is_not() {
        let mut status = OwnStatus::read().unwrap();
        let mut context = context(&[], None);
        context.host.gid = 5;
        for (groups, reported) in
            [(vec![], None), (vec![5], None), (vec![4, 5, 6], Some("2 suppl"))]
        {
            status.groups = groups;
            let left = left_groups(&context, &status).map(|(what, _)| what);
            assert_eq!(left.is_some(), reported.is_some(), "{left:?}");
            assert!(left.is_none_or(|what| what.starts_with(reported.unwrap())));
        }
        assert_eq!(expected(&context), (context.host.uid, 5));
    }

    #[test]
    fn verification_fails_with_the_launchers_id() {
        let context = context(&[], None);
        let failed = |context: &Context| {
            let checked = verify(context, &OwnStatus::read().unwrap());
            checked.map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        let mut another = context;
        another.host.uid += 1;
        assert!(failed(&another).contains("Uid"), "the user id");
        another.host.uid -= 1;
        another.host.gid += 1;
        assert!(failed(&another).contains("Gid"), "the group id");
        let mapped = maps_to("/proc/self/uid_map", u32::MAX).map_err(|error| error.to_string());
        assert!(mapped.is_err_and(|text| text.contains("not in force")));
    }

    /// Root's can be told apart, so it takes root.
    #[test]
    fn where_ids_stay_the_saved_ones_follow_and_others_are_refused() {
        let name = "::where_ids_stay_the_saved_ones_follow_and_others_are_refused";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            if !getuid().is_root() {
                return;
            }
            let (user, group) = (|id| Uid::from_raw(id), |id| Gid::from_raw(id));
            let mut context = context(&[], None);
            assert!(stay(&context).is_err(), "the launcher is root");
            context.host.uid = 7;
            setgroups(&[group(3), group(4)]).unwrap();
            setresgid(group(0), group(5), group(0)).unwrap();
            let differs = |context: &Context| {
                let failed = stay(context).map_err(|error| error.to_string());
                failed.is_err_and(|text| text.contains("differ from effective"))
            };
            assert!(differs(&context), "the group id");
            setresgid(group(0), group(0), group(6)).unwrap();
            setresuid(user(0), user(6), user(0)).unwrap();
            assert!(differs(&context), "the user id");
            setresuid(user(0), user(0), user(6)).unwrap();
            stay(&context).unwrap();
            let (users, groups) =
                (nix::unistd::getresuid().unwrap(), nix::unistd::getresgid().unwrap());
            assert_eq!((users.saved, groups.saved), (user(0), group(0)));
            assert_eq!(nix::unistd::getgroups().unwrap(), []);
        });
    }

    #[test]
    fn groups_may_stay_only_where_nothing_could_drop_them() {
        let name = "::groups_may_stay_only_where_nothing_could_drop_them";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            if getuid().is_root() {
                let user = Uid::from_raw(7);
                setresuid(user, user, user).unwrap();
            }
            clear_groups(&context(&[], None)).unwrap();
            assert!(clear_groups(&context(&[], Some(IDS))).is_err());
        });
    }

    #[test]
    fn the_host_id_is_found_in_a_map() {
        let map = "         0     100000          1\n      1000     100001          1\n";
        assert_eq!(host_id_of(map, 0), Some(100_000));
        assert_eq!(host_id_of(map, 1000), Some(100_001));
        assert_eq!(host_id_of(map, 1001), None);
        assert_eq!(host_id_of("0 0 4294967295", 1000), Some(1000));
        assert_eq!(host_id_of("garbled", 0), None);
    }

    #[test]
    fn real_effective_saved_and_filesystem_ids_are_checked() {
        assert!(all_are("Uid", &[1000; 4], 1000).is_ok());
        assert!(all_are("Uid", &[1000, 1000, 0, 1000], 1000).is_err());
        assert!(all_are("Uid", &[1000], 1000).is_err());
    }
}
