//! The ids of a session: user_namespaces(7), newuidmap(1).
//!
//! With subordinate ids, two of them are mapped, one for the agent and one for the kernel, by
//! the set-user-id helpers of package `uidmap`, which check /etc/subuid and /etc/subgid. The
//! daemon's own id is then not in the session at all. Without, the daemon's own id is the only
//! one mapped, which needs no privilege. Host id 0 is never mapped: the policy's validation
//! refuses it, and the daemon never runs as root.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::Pid;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::Failure;

use crate::launch::failure;
use crate::sandbox::Context;

/// Writes the id maps of the user namespace that `agent` is in.
///
/// # Errors
/// If they are refused; with subordinate ids the failure is the credentials layer's.
pub(super) fn write(context: &Context, agent: Pid) -> Result<(), Failure> {
    match context.policy.ids {
        Some(ids) => {
            let map = |helper| {
                let inner = [Context::AGENT_ID, Context::KERNEL_ID];
                let arguments: Vec<String> = inner
                    .into_iter()
                    .zip([ids.agent, ids.kernel])
                    .flat_map(|(inside, outside)| [inside, outside, 1])
                    .map(|number| number.to_string())
                    .collect();
                // The whole path, so that there is no search and no fork to search in.
                Command::new(Path::new("/usr/bin").join(helper))
                    .arg(agent.to_string())
                    .args(arguments)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .spawn()
                    .map_err(|error| ids_refused(helper, error))
            };
            // Side by side: each takes a millisecond, most of it starting.
            let children = [("newuidmap", map("newuidmap")?), ("newgidmap", map("newgidmap")?)];
            for (helper, mut child) in children {
                let status = child.wait().map_err(|error| ids_refused(helper, error))?;
                if !status.success() {
                    return Err(ids_refused(helper, status));
                }
            }
            Ok(())
        }
        None => {
            let file = |name: &str, text: String| {
                let path = format!("/proc/{agent}/{name}");
                fs::write(&path, text)
                    .map_err(|error| failure(&format!("write {path}"), error))
                    .map_err(|failed| Failure { layer: Some(Layer::Namespaces), ..failed })
            };
            let inside = Context::KERNEL_ID;
            // The kernel demands this before an unprivileged gid_map: user_namespaces(7).
            file("setgroups", "deny".to_owned())?;
            file("uid_map", format!("{inside} {} 1", context.outside.uid))?;
            file("gid_map", format!("{inside} {} 1", context.outside.gid))
        }
    }
}

/// Subordinate ids that were promised and are not given.
fn ids_refused(helper: &str, error: impl std::fmt::Display) -> Failure {
    Failure {
        layer: Some(Layer::Credentials),
        fix: "check that package uidmap is installed and that /etc/subuid and /etc/subgid grant \
              the daemon's user the range it is configured with"
            .to_owned(),
        ..failure(helper, error)
    }
}
