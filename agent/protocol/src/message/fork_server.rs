//! Messages to the fork server of launchers, and from a forked launcher.

use serde::{Deserialize, Serialize};

/// Supervisor to fork server: fork a launcher. With it go (`SCM_RIGHTS`), in this order, the
/// launcher's end of the socket on which [`super::LaunchOrder`] follows, its standard error, and the
/// socket for [`LauncherForked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkLauncher {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
}

/// Launcher to supervisor: it runs, as a child of the supervisor, which has to wait for it. The socket
/// closes when launcher and agent have ended. If it closes before this message, there is no launcher; the
/// launcher's own socket has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LauncherForked {
    /// Its pid, as the supervisor sees it.
    pub pid: i32,
}
