//! Checkpoints: what sessions were at moments of their lives, to go back to. They end with their session.
//!
//! ```text
//! images/.checkpoints/TENANT/SESSION/UUID/{record,kernel}  as those of an image
//! images/.checkpoints/TENANT/.new-…                        of a session that has ended
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use uuid::Uuid;

use super::record::{Image, Record, Unfinished};
use super::seal::{SealKey, What};
use super::{Key, UNFINISHED_PREFIX, lock, put_aside, subdirectories};
use crate::private_dir;
use crate::recover::remove_tree;

#[derive(Debug)]
pub(crate) struct Checkpoints {
    root: PathBuf,
    key: SealKey,
    /// Of each session, by name.
    kept: Mutex<BTreeMap<Key, BTreeMap<String, Image>>>,
}

impl Checkpoints {
    pub(super) const fn new(root: PathBuf, key: SealKey) -> Self {
        Self { root, key, kept: Mutex::new(BTreeMap::new()) }
    }

    /// Finds what an earlier daemon left, and removes those of sessions that have ended. Whether all could be read.
    pub(super) fn find_kept(&self, has_ended: impl Fn(&str, &str) -> bool) -> io::Result<bool> {
        let mut all_read = true;
        private_dir::make(&self.root)?;
        for (tenant, tenant_dir) in subdirectories(&self.root)? {
            for (id, session_dir) in subdirectories(&tenant_dir)? {
                if id.starts_with(UNFINISHED_PREFIX) || has_ended(&tenant, &id) {
                    remove_tree(&session_dir)?;
                    continue;
                }
                for (_, dir) in subdirectories(&session_dir)? {
                    let what = What::Checkpoint { tenant: &tenant, session: &id };
                    match Record::read(&dir, &self.key, what) {
                        Ok(record) => {
                            if !self.insert((&tenant, &id), &dir, Arc::new(record)) {
                                remove_tree(&dir)?;
                            }
                        }
                        Err(error) => {
                            all_read = false;
                            tracing::warn!(
                                tenant, session = id, %error, "a checkpoint that can not be read"
                            );
                        }
                    }
                }
            }
        }
        Ok(all_read)
    }

    /// Whether it is the only one of its name.
    fn insert(&self, (tenant, id): (&str, &str), dir: &Path, record: Arc<Record>) -> bool {
        let key = (tenant.to_owned(), id.to_owned());
        let name = record.name.clone().unwrap_or_default();
        match lock(&self.kept).entry(key).or_default().entry(name) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Image::new(dir.to_owned(), self.key.clone(), record));
                true
            }
        }
    }

    /// Those of a session, the oldest first.
    pub(crate) fn list(&self, tenant: &str, id: &str) -> Vec<Arc<Record>> {
        let kept = lock(&self.kept);
        let of_session = kept.get(&(tenant.to_owned(), id.to_owned()));
        let mut records: Vec<_> =
            of_session.into_iter().flatten().map(|(_, image)| Arc::clone(&image.record)).collect();
        records.sort_by_key(|record| record.suspended_at);
        records
    }

    pub(crate) fn get(&self, tenant: &str, id: &str, name: &str) -> Option<Image> {
        lock(&self.kept).get(&(tenant.to_owned(), id.to_owned()))?.get(name).cloned()
    }

    /// Keeps an image as one, by the name that its record has; `None` if there is one of that name. Blocks.
    pub(crate) fn keep(
        &self,
        (tenant, id): (&str, &str),
        unfinished: Unfinished,
        record: Record,
    ) -> io::Result<Option<Arc<Record>>> {
        unfinished.finish(What::Checkpoint { tenant, session: id }, &record)?;
        let parent = self.root.join(tenant).join(id);
        private_dir::make(&parent)?;
        let dir = parent.join(Uuid::new_v4().to_string());
        unfinished.move_to(&dir)?;
        let record = Arc::new(record);
        if !self.insert((tenant, id), &dir, Arc::clone(&record)) {
            remove_tree(&dir)?;
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// What it was, if there was one. Blocks.
    pub(crate) fn remove(
        &self,
        tenant: &str,
        id: &str,
        name: &str,
    ) -> io::Result<Option<Arc<Record>>> {
        let key = (tenant.to_owned(), id.to_owned());
        let removed = lock(&self.kept).get_mut(&key).and_then(|all| all.remove(name));
        let Some(image) = removed else { return Ok(None) };
        remove_tree(&put_aside(&image.dir, &self.root.join(tenant))?)?;
        Ok(Some(image.record))
    }

    /// The session has ended. Another of its id begins without any at once; the files go when they can.
    pub(crate) fn end(&self, tenant: &str, id: &str) {
        if lock(&self.kept).remove(&(tenant.to_owned(), id.to_owned())).is_none() {
            return;
        }
        let of_tenant = self.root.join(tenant);
        match put_aside(&of_tenant.join(id), &of_tenant) {
            Err(error) => {
                tracing::warn!(%error, session = id, "checkpoints of a session that has ended stay");
            }
            Ok(aside) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    drop(runtime.spawn_blocking(move || remove_tree(&aside)));
                }
            }
        }
    }

    /// The tenants and ids of sessions that have any.
    pub(crate) fn sessions(&self) -> Vec<(String, String)> {
        lock(&self.kept).keys().cloned().collect()
    }

    pub(super) fn records_of(&self, tenant: &str) -> Vec<Arc<Record>> {
        let kept = lock(&self.kept);
        let from = (tenant.to_owned(), String::new());
        let of_tenant = kept.range(from..).take_while(|((owner, _), _)| owner == tenant);
        of_tenant.flat_map(|(_, all)| all.values()).map(|image| Arc::clone(&image.record)).collect()
    }

    /// All that there are.
    pub(super) fn records(&self) -> Vec<Arc<Record>> {
        let kept = lock(&self.kept);
        kept.values().flat_map(BTreeMap::values).map(|image| Arc::clone(&image.record)).collect()
    }
}
