//! Layer: the session's scope in the delegated cgroup v2 tree.
//!
//! The supervisor makes the scope, writes its limits and reads them back: it is the only
//! writer of cgroupfs. The launcher starts agent and kernels in their leaves
//! (`CLONE_INTO_CGROUP`, clone(2)). What is left to do here is to check that it did, and to
//! hide the rest of the tree behind a cgroup namespace (cgroup_namespaces(7)).
//!
//! The namespace is not part of the clone: with `CLONE_INTO_CGROUP` it would be rooted at the
//! launcher's cgroup. Agent and kernel each unshare it in their own leaf.

use std::path::Path;

use nix::sched::{CloneFlags, unshare};
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::policy::CgroupPlacement;

use super::{Context, LayerCode, LayerError, proc_file};

pub(super) struct Cgroup;

impl LayerCode for Cgroup {
    fn layer(&self) -> Layer {
        Layer::Cgroup
    }

    fn enter(&self, context: &Context) -> Result<(), LayerError> {
        settle(context, &placement(context)?.agent)
    }

    fn restrict(&self, context: &Context) -> Result<(), LayerError> {
        settle(context, &placement(context)?.kernel.join(context.leaf.name()))
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        let placement = placement(context)?;
        let mut missing = placement.missing.clone();
        if context.applies(Layer::Namespaces) {
            let seen = own_cgroup()?;
            if seen != "/" {
                return Err(LayerError::not_in_force("a cgroup namespace", seen));
            }
        } else {
            missing.push_str(" (and without namespaces, the path of the scope is visible)");
        }
        Ok(if missing.trim().is_empty() {
            Report::enforced(Layer::Cgroup, "born in the session's scope, every limit read back")
        } else {
            let detail = format!("born in the session's scope; missing: {}", missing.trim());
            Report::partial(Layer::Cgroup, detail, placement.fix.clone())
        })
    }
}

/// The scope, which the policy's validation promised.
fn placement(context: &Context) -> Result<&CgroupPlacement, LayerError> {
    let missing = || LayerError::new("find the scope", "the policy names none");
    context.policy.cgroup.as_ref().ok_or_else(missing)
}

/// Checks that this process started in `leaf`, and makes it the root of what it can see.
fn settle(context: &Context, leaf: &Path) -> Result<(), LayerError> {
    let seen = own_cgroup()?;
    if !is_leaf(&seen, leaf) {
        return Err(LayerError::not_in_force(
            format!("birth in {}", leaf.display()),
            format!("the process is in {seen}"),
        ));
    }
    if !context.applies(Layer::Namespaces) {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWCGROUP)
        .map_err(|error| LayerError::new("unshare(CLONE_NEWCGROUP)", error))
}

/// Whether the cgroup that is `seen` is this one. The root of what can be seen may be any.
fn is_leaf(seen: &str, leaf: &Path) -> bool {
    seen != "/" && leaf.ends_with(seen.trim_start_matches('/'))
}

/// This process's cgroup in the v2 hierarchy, as it can see it: the line `0::PATH` of
/// cgroups(7).
fn own_cgroup() -> Result<String, LayerError> {
    let path = "/proc/self/cgroup";
    let text = proc_file::read(path)?;
    in_v2(&text)
        .map(str::to_owned)
        .ok_or_else(|| LayerError::new(format!("read {path}"), "there is no cgroup v2 hierarchy"))
}

fn in_v2(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use vivarium_protocol::policy::Network;

    use super::super::landlock::fixture;
    use super::*;

    /// A session whose agent and kernel belong into these leaves.
    fn context(layers: &[Layer], agent: &str, kernel: &str) -> Context {
        let mut context = fixture::context(layers, Network::None, Path::new("/"));
        context.policy.cgroup = Some(fixture::placement(agent, kernel));
        context
    }

    #[test]
    fn a_process_in_another_cgroup_is_an_error() {
        let leaf = Path::new("/sys/fs/cgroup/vivarium/t/s/kernel/context-0-0");
        assert!(is_leaf("/vivarium/t/s/kernel/context-0-0", leaf));
        for other in [
            "/",
            "/vivarium/t/s/agent",
            "/vivarium/t/s/kernel",
            "/vivarium/t/s/kernel/context-0-1",
            "/vivarium/t/s/kernel/context-0-01",
            "/vivarium/t/other/kernel/context-0-0",
        ] {
            assert!(!is_leaf(other, leaf), "{other}");
        }
        assert_eq!(in_v2("2:cpu:/a\n0::/b/c\n"), Some("/b/c"));
        assert_eq!(in_v2("2:cpu:/a\n"), None);
    }

    /// Each of the two in its own leaf, by this process, which is in neither.
    #[test]
    fn agent_and_kernel_are_held_against_their_leaves() {
        let elsewhere = "/sys/fs/cgroup/not/here";
        let context = context(&[Layer::Cgroup], elsewhere, elsewhere);
        let expected = [elsewhere.to_owned(), format!("{elsewhere}/context-0-0")];
        for (settled, leaf) in
            [Cgroup.enter(&context), Cgroup.restrict(&context)].into_iter().zip(expected)
        {
            let birth = format!("birth in {leaf}:");
            assert!(settled.is_err_and(|error| error.to_string().contains(&birth)), "{birth}");
        }
    }

    #[test]
    fn without_a_cgroup_namespace_the_path_is_visible() {
        let report = Cgroup.verify(&context(&[Layer::Cgroup], "/", "/")).unwrap();
        assert!(report.detail.contains("is visible"), "{}", report.detail);
    }
}
