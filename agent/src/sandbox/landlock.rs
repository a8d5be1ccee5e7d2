//! The Landlock layer: which files a kernel can open, run and change, and which processes and
//! abstract sockets it can reach, whatever its id and the mounts would let it do.
//!
//! Everything that the running kernel's ABI knows is handled, so it is denied unless a rule
//! allows it. Rules only ever allow: landlock(7) has no way to say "but not this".

mod abi;
mod rules;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, RestrictSelfAttr, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::policy::Network;

use super::{Context, LayerCode, LayerError, system_paths};

/// The newest ABI whose rights we know and have thought about. The library leaves out what the
/// running kernel does not have.
const NEWEST: ABI = ABI::V9;

pub(crate) struct Landlock;

impl LayerCode for Landlock {
    fn layer(&self) -> Layer {
        Layer::Landlock
    }

    fn restrict(&self, context: &Context) -> Result<(), LayerError> {
        abi::running()?;
        let rules = rules::of(context)?;
        let status = enforce(context, rules)?;
        match status.ruleset {
            RulesetStatus::NotEnforced => {
                Err(LayerError::not_in_force("landlock_restrict_self", "no rule was enforced"))
            }
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        // In no rule: a file of the session's own root, or else the root of the host.
        let mounts = context.applies(Layer::Mounts);
        let denied = if mounts { system_paths::UNLISTED } else { "/" };
        match File::open(denied) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {}
            other => {
                let found = other.map_or_else(|error| error.to_string(), |_| "opened".to_owned());
                let what = format!("EACCES on opening {denied}");
                return Err(LayerError::not_in_force(what, found));
            }
        }
        let workdir = context.policy.inner_workdir();
        open_directory(workdir)
            .map_err(|error| LayerError::new(format!("open {}", workdir.display()), error))?;
        let abi = abi::running()?;
        Ok(if mounts { abi::report(abi) } else { abi::report_alone(abi) })
    }
}

/// Handles everything, allows `rules`, and restricts the calling thread for good.
///
/// Denials are not logged (ABI 7): tenant code causes as many as it likes, and each one would be a
/// record in the host's audit log. `log_subdomains` covers domains that tenant code adds itself.
fn enforce(context: &Context, rules: Vec<rules::Rule>) -> Result<RestrictionStatus, LayerError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        // Signals to, and abstract sockets of, whoever is not in this domain, which is this
        // kernel with its children.
        .scope(Scope::from_all(NEWEST))?;
    if let Some(rights) = denied_network(context.policy.network) {
        ruleset = ruleset.handle_access(rights)?;
    }
    let mut created = ruleset.create()?;
    for rule in rules {
        if let Some(allow) = rule.open()? {
            created = created.add_rule(allow)?;
        }
    }
    Ok(created.log_same_exec(false)?.log_new_exec(false)?.log_subdomains(false)?.restrict_self()?)
}

/// Confines the calling thread to the files beneath `directory`, and to no network. Where the kernel
/// has no Landlock, what it opens is beneath that all the same.
pub(super) fn confine_to(directory: &OwnedFd, writes: bool) -> Result<(), LayerError> {
    let allowed = PathBeneath::new(directory, rules::of_storage(writes));
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rule(allowed)?
        .restrict_self()?;
    Ok(())
}

impl From<RulesetError> for LayerError {
    fn from(error: RulesetError) -> Self {
        Self::new("restrict this process by Landlock", with_cause(&error))
    }
}

/// TCP under `none`. Landlock's rules name ports and not addresses, so under `loopback`,
/// `trusted` and `full` a rule would have to allow them all: there the network namespace is the boundary.
fn denied_network(network: Network) -> Option<BitFlags<AccessNet>> {
    match network {
        Network::None => Some(AccessNet::from_all(NEWEST)),
        Network::Loopback | Network::Trusted | Network::Full => None,
    }
}

fn open_directory(path: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path).map(drop)
}

/// The library's errors keep the system's own in their source.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
