//! What an artefact is, whose, and what a session has of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vivarium_protocol::places;
use vivarium_protocol::policy::{Policy, StoreMount, SubordinateIds};

use super::{Staging, disk};
use crate::storage_helper::HelperError;

/// An environment's interpreter in it.
const PYTHON: &str = "bin/python";

/// The name of the operator's directory, which no tenant can have.
pub(super) const OPERATOR: &str = "@all";

/// Whose an environment is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The operator's: every tenant may use it that may use its base.
    Operator,
    Tenant(String),
}

impl Owner {
    pub fn of(tenant: Option<&str>) -> Self {
        tenant.map_or(Self::Operator, |tenant| Self::Tenant(tenant.to_owned()))
    }

    pub fn tenant(&self) -> Option<&str> {
        match self {
            Self::Operator => None,
            Self::Tenant(tenant) => Some(tenant),
        }
    }

    pub(super) fn dir(&self) -> &str {
        self.tenant().unwrap_or(OPERATOR)
    }
}

/// Why something about a built environment could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtefactError {
    #[error("another daemon uses the built environments of server.state_dir")]
    Locked,
    #[error("{operation} {}: {source}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Helper(#[from] HelperError),
    #[error("all subordinate ids are in use")]
    NoIds,
    #[error("an answer to something else")]
    OutOfTurn,
    /// What was built is no environment, in the words of who looked.
    #[error("what was built is refused: {0}")]
    Refused(String),
    #[error("a process of the build is left; its directory is kept aside")]
    StillUsed,
}

/// What is known of an artefact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArtefactRecord {
    pub(crate) hash: String,
    /// The configured environment whose interpreter it needs.
    pub(crate) base: String,
    /// That interpreter, and its version.
    pub(crate) interpreter: PathBuf,
    pub(crate) python_version: String,
    /// Whether it has the files of wheels that were given by their hashes, and nothing else: nothing of
    /// a package has run to make it.
    pub(crate) hash_locked: bool,
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
    pub(crate) distributions: Vec<String>,
}

/// A directory that sessions see. Whoever holds it keeps it from being removed.
#[derive(Debug)]
pub(crate) struct Artefact {
    pub(crate) record: ArtefactRecord,
    pub(super) dir: PathBuf,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameRecord {
    pub(crate) hash: String,
    pub(crate) built_at: Timestamp,
}

/// An environment as it is asked for: a name and what it stands for now.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) built_at: Timestamp,
    pub(crate) artefact: Arc<Artefact>,
}

/// What a session has at the environment's place.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    /// To read.
    Built(Arc<Artefact>),
    /// To write: this session builds it.
    Building(Arc<Staging>),
}

impl Held {
    pub(crate) fn mount(&self) -> StoreMount {
        let (dir, read_only) = match self {
            Self::Built(artefact) => (&artefact.dir, true),
            Self::Building(staging) => (&staging.dir, false),
        };
        StoreMount { source: dir.join(disk::DATA), target: places::ENVIRONMENT.into(), read_only }
    }

    /// The ids that the session has to have.
    pub(crate) fn ids(&self) -> Option<SubordinateIds> {
        match self {
            Self::Built(_) => None,
            Self::Building(staging) => staging.ids(),
        }
    }
}

impl Artefact {
    /// What sessions see of it, on the host.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join(disk::DATA)
    }

    /// Its interpreter on the host.
    pub(crate) fn interpreter(&self) -> PathBuf {
        self.data().join(PYTHON)
    }

    /// Has the session's kernels run in it. Those that a template forks have the names of files that
    /// the template has, so where there is one all kernels have these, which lead to the session's own
    /// place for the environment (`mounts` layer).
    pub(crate) fn equip(&self, policy: &mut Policy, has_template: bool) {
        let inside = || Path::new(places::ENVIRONMENT).join(PYTHON);
        policy.interpreter.path = if has_template { self.interpreter() } else { inside() };
    }

    /// Why it can not be used on top of its base as that is now.
    pub(crate) fn check(&self, path: &Path, version: &str) -> Result<(), String> {
        let minor = |version: &str| version.rsplit_once('.').map(|(minor, _)| minor.to_owned());
        let built = &self.record;
        if built.interpreter == path && minor(&built.python_version) == minor(version) {
            return Ok(());
        }
        Err(format!(
            "it was built for Python {} at {}, and environment {:?} has {version} at {} now: build it \
             again",
            built.python_version,
            built.interpreter.display(),
            built.base,
            path.display()
        ))
    }
}
