//! The directory of a build: written to by one session, and then sealed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::{Gid, Uid};
use vivarium_protocol::message::{SealRequest, SealedInfo, StorageOperation, StorageReply};
use vivarium_protocol::policy::SubordinateIds;

use super::{ArtefactError, disk};
use crate::backend::ids::{IdPool, Lease};
use crate::storage_helper::StorageHelper;

#[derive(Debug)]
pub(crate) struct Staging {
    pub(super) dir: PathBuf,
    /// Of the session that builds. Its files belong to them until they are sealed or gone.
    lease: Option<Lease>,
}

/// What an artefact is made by.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) base: String,
    pub(crate) interpreter: PathBuf,
    pub(crate) python_version: String,
    pub(crate) hash_locked: bool,
    pub(crate) max_bytes: u64,
    /// Of all the owner's artefacts together.
    pub(crate) quota_bytes: u64,
    pub(crate) max_inodes: u64,
}

impl Staging {
    pub(super) fn ids(&self) -> Option<SubordinateIds> {
        self.lease.as_ref().map(Lease::ids)
    }

    /// Never gives its ids to anybody else: files of theirs are left.
    pub(super) fn keep_ids(self) {
        if let Some(lease) = self.lease {
            lease.keep();
        }
    }
}

pub(super) async fn make(
    root: &Path,
    helper: &StorageHelper,
    ids: Option<&Arc<IdPool>>,
) -> Result<Arc<Staging>, ArtefactError> {
    let lease = match ids {
        Some(pool) => Some(pool.lease().ok_or(ArtefactError::NoIds)?),
        None => None,
    };
    let dir = disk::make_staging(root)?;
    if let Some(lease) = &lease {
        let id = lease.ids().kernel;
        let prepare = StorageOperation::Prepare { uid: id, gid: id };
        helper.operate(&dir.join(disk::DATA), prepare).await?;
    }
    Ok(Arc::new(Staging { dir, lease }))
}

pub(super) async fn measure(
    helper: &StorageHelper,
    staging: &Staging,
    max_inodes: u64,
) -> Result<(u64, u64), ArtefactError> {
    let measure = StorageOperation::Measure { max_inodes };
    match helper.operate(&staging.dir.join(disk::DATA), measure).await? {
        // A tree that is too deep counts as too large.
        StorageReply::Measured(usage) if usage.is_cut => Ok((u64::MAX, u64::MAX)),
        StorageReply::Measured(usage) => Ok((usage.bytes, usage.inodes)),
        _ => Err(ArtefactError::OutOfTurn),
    }
}

pub(super) async fn seal(
    helper: &StorageHelper,
    staging: &Staging,
    plan: &Plan,
) -> Result<SealedInfo, ArtefactError> {
    let request = SealRequest {
        uid: Uid::effective().as_raw(),
        gid: Gid::effective().as_raw(),
        interpreter: plan.interpreter.clone(),
        max_bytes: plan.max_bytes,
        max_inodes: plan.max_inodes,
    };
    let data = staging.dir.join(disk::DATA);
    match helper.operate(&data, StorageOperation::Seal(request)).await? {
        StorageReply::Sealed(Ok(sealed)) if disk::is_hash(&sealed.hash) => Ok(sealed),
        StorageReply::Sealed(Err(refusal)) => Err(ArtefactError::Refused(refusal)),
        _ => Err(ArtefactError::OutOfTurn),
    }
}
