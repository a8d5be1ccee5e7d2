//! Which variables differ between two checkpoints. Nothing is woken for that.

use std::sync::Arc;

use vivarium_api_types::{CheckpointDiff, DiffParams};

use super::super::{Engine, EngineError};
use crate::images::Record;
use crate::images::names::{Difference, Names};

impl Engine {
    /// What of a session's variables is different at a checkpoint from what was at another, or at the one before.
    pub async fn diff_checkpoints(
        &self,
        tenant: &str,
        id: &str,
        to: &str,
        DiffParams { from }: DiffParams,
    ) -> Result<CheckpointDiff, EngineError> {
        self.exists(tenant, id)?;
        self.checkpoints_kept(tenant, id).await;
        let all = self.images()?.checkpoints.list(tenant, id);
        let place = |name: &str| {
            let found = all.iter().position(|record| record.name.as_deref() == Some(name));
            found.ok_or_else(|| EngineError::UnknownCheckpoint(name.to_owned()))
        };
        let at = place(to)?;
        let before = match &from {
            Some(name) => Some(place(name)?),
            None => at.checked_sub(1),
        };
        let before = before.and_then(|before| all.get(before));
        let names = all.get(at).map_or(Names::UNKNOWN, names_of);
        let Difference { added, removed, changed, more } =
            names.since(before.map_or(Names::NONE, names_of));
        let (from, to) = (before.and_then(|record| record.name.clone()), to.to_owned());
        Ok(CheckpointDiff { from, to, added, removed, changed, more })
    }
}

fn names_of(record: &Arc<Record>) -> &Names {
    record.names.as_ref().unwrap_or(Names::UNKNOWN)
}
