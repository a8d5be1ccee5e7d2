//! What is said to the fork server of launchers, and by it.

use serde::{Deserialize, Serialize};

/// Supervisor to fork server: fork a launcher. With it go (`SCM_RIGHTS`), in this order, the
/// launcher's end of the socket on which [`super::Launch`] follows, its standard error, and the
/// socket for [`LauncherForked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkLauncher {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
}

/// Launcher to supervisor: it is there, a child of the supervisor's, who has to wait for it. The socket ends when launcher and agent have. If it ends before this, there is none; why, the
/// launcher's own socket tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LauncherForked {
    /// Its pid, as the supervisor sees it.
    pub pid: i32,
}
