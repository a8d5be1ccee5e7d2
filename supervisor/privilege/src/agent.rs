//! Finding and opening the agent's program.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use vivarium_engine::settings::AgentBinary;

use crate::PrivilegeError;

const NAME: &str = "vivarium-agent";

const LIBRARY: &str = "libvivarium_agent.so";

/// Names another agent, for tests.
const VARIABLE: &str = "VIVARIUM_AGENT";

/// Opens the agent beside this program, or the one that `VIVARIUM_AGENT` names.
pub(super) fn open() -> Result<AgentBinary, PrivilegeError> {
    let path = path()?;
    let library = library(&path);
    // O_PATH needs no permission on the file itself; execve(2) checks it later, as the user that the
    // daemon is by then. Descriptors of the standard library are close-on-exec.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_PATH.bits())
        .open(&path)
        .map_err(|source| PrivilegeError::Agent { path: path.clone(), source })?;
    Ok(AgentBinary { path, file: Some(Arc::new(file.into())), library })
}

/// Opens the agent's library, beside the agent as built or where packages install it. It is searched
/// for only relative to the agent, so that both are of one release. Without it there are no templates,
/// and a template's state says so.
fn library(agent: &Path) -> Option<Arc<OwnedFd>> {
    let installed = Path::new("../lib/vivarium").join(LIBRARY);
    [PathBuf::from(LIBRARY), installed].into_iter().find_map(|place| {
        let path = agent.parent()?.join(place);
        let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(path);
        opened.ok().map(|file| Arc::new(file.into()))
    })
}

fn path() -> Result<PathBuf, PrivilegeError> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe()
        .map_err(|source| PrivilegeError::Agent { path: PathBuf::from(NAME), source })?;
    Ok(own.with_file_name(NAME))
}
