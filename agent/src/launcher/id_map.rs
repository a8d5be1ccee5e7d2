//! The ids of a session: user_namespaces(7).
//!
//! With subordinate ids, two of them are mapped, one for the agent and one for the kernel, which
//! the launcher may do because it is in the namespace that holds them all ([`crate::id_namespace`]). The
//! daemon's own id is then not in the session at all. Without, the daemon's own id is the only
//! one mapped, which needs no privilege. Host id 0 is never mapped: the policy's validation
//! refuses it, and the daemon never runs as root.

use std::fs;

use nix::unistd::Pid;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::Failure;

use crate::failure::failure;
use crate::sandbox::Context;

pub(super) fn write(context: &Context, agent: Pid) -> Result<(), Failure> {
    let ids = context.policy.ids;
    let layer = if ids.is_some() { Layer::Credentials } else { Layer::Namespaces };
    let file = |name: &str, text: String| {
        let path = format!("/proc/{agent}/{name}");
        fs::write(&path, text)
            .map_err(|error| failure(&format!("write {path}"), error))
            .map_err(|failed| Failure { layer: Some(layer), ..failed })
    };
    if let Some(ids) = ids {
        let (agent, kernel) = (Context::AGENT_ID, Context::KERNEL_ID);
        let map = format!("{agent} {} 1\n{kernel} {} 1\n", ids.agent, ids.kernel);
        file("uid_map", map.clone())?;
        return file("gid_map", map);
    }
    let inside = Context::KERNEL_ID;
    // The kernel demands this before an unprivileged gid_map: user_namespaces(7).
    file("setgroups", "deny".to_owned())?;
    file("uid_map", format!("{inside} {} 1", context.host.uid))?;
    file("gid_map", format!("{inside} {} 1", context.host.gid))
}
