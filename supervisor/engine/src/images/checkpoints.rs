//! Checkpoints: what sessions were at moments of their lives, to go back to. They end with their session.
//!
//! ```text
//! images/.checkpoints/TENANT/SESSION/UUID/{record,kernel}  as those of an image
//! images/.checkpoints/TENANT/SESSION/UUID/kernel           of one that is no more, whose parts others have
//! images/.checkpoints/TENANT/.new-…                        of a session that has ended
//! ```
//!
//! Of one whose file has only parts (parts.rs), UUID is its image's; of others it is any.

mod kept;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use uuid::Uuid;

use self::kept::Kept;
use super::parts::KnownParts;
use super::record::{Image, Record, Unfinished, sync};
use super::seal::{SealKey, What};
use super::{KERNEL, Key, RECORD, UNFINISHED_PREFIX, lock, put_aside, subdirectories};
use crate::private_dir;
use crate::recover::remove_tree;

#[derive(Debug)]
pub(crate) struct Checkpoints {
    root: PathBuf,
    key: SealKey,
    kept: Mutex<BTreeMap<Key, Kept>>,
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
                } else {
                    all_read &= self.find_of(&tenant, &id, &session_dir)?;
                }
            }
        }
        Ok(all_read)
    }

    fn find_of(&self, tenant: &str, id: &str, session_dir: &Path) -> io::Result<bool> {
        let (mut kept, mut all_read, mut without_record) = (Kept::default(), true, Vec::new());
        for (name, dir) in subdirectories(session_dir)? {
            if !dir.join(RECORD).exists() {
                without_record.push((name, dir));
                continue;
            }
            match Record::read(&dir, &self.key, What::Checkpoint { tenant, session: id }) {
                Ok(record) => {
                    if !kept.add(Image::new(dir.clone(), self.key.clone(), Arc::new(record))) {
                        remove_tree(&dir)?;
                    }
                }
                Err(error) => {
                    all_read = false;
                    tracing::warn!(tenant, session = id, %error, "a checkpoint that can not be read");
                }
            }
        }
        for (name, dir) in without_record {
            match name.parse::<Uuid>() {
                Ok(image) if kept.needs(image) => {
                    kept.leave(image, fs::metadata(dir.join(KERNEL))?.len());
                }
                // What can not be read may need it.
                _ if !all_read => {}
                _ => remove_tree(&dir)?,
            }
        }
        lock(&self.kept).insert((tenant.to_owned(), id.to_owned()), kept);
        Ok(all_read)
    }

    /// Those of a session, the oldest first.
    pub(crate) fn list(&self, tenant: &str, id: &str) -> Vec<Arc<Record>> {
        let kept = lock(&self.kept);
        let of_session = kept.get(&(tenant.to_owned(), id.to_owned()));
        let mut records: Vec<_> = of_session.into_iter().flat_map(Kept::records).collect();
        // Clocks go back.
        records.sort_by_key(|record| (record.executions, record.suspended_at));
        records
    }

    pub(crate) fn get(&self, tenant: &str, id: &str, name: &str) -> Option<Image> {
        lock(&self.kept).get(&(tenant.to_owned(), id.to_owned()))?.get(name).cloned()
    }

    /// Whether all files of a session's are there that have these parts.
    pub(crate) fn has_files(&self, tenant: &str, id: &str, parts: &KnownParts) -> bool {
        let kept = lock(&self.kept);
        let of_session = kept.get(&(tenant.to_owned(), id.to_owned()));
        parts.files().is_empty() || of_session.is_some_and(|kept| kept.has_files(parts.files()))
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
        let image = if record.parts.is_some() { record.image } else { Uuid::new_v4() };
        let dir = parent.join(image.to_string());
        // Those after executions are, once the session is suspended.
        let is_synced = record.parts.is_none();
        if is_synced {
            sync(unfinished.dir.path())?;
        }
        unfinished.move_to(&dir)?;
        let record = Arc::new(record);
        if is_synced && let Err(error) = sync(&dir) {
            remove_tree(&dir)?;
            return Err(error);
        }
        let image = Image::new(dir.clone(), self.key.clone(), Arc::clone(&record));
        let key = (tenant.to_owned(), id.to_owned());
        let (is_new, is_whole) = {
            let mut all = lock(&self.kept);
            let kept = all.entry(key).or_default();
            let files = record.parts.as_ref().map_or(&[][..], |parts| parts.files());
            (kept.add(image), kept.has_files(files))
        };
        if is_new && !is_whole {
            self.remove(tenant, id, record.name.as_deref().unwrap_or_default())?;
            return Err(io::Error::other("one whose parts it has was removed meanwhile"));
        }
        if !is_new {
            remove_tree(&dir)?;
        }
        Ok(is_new.then_some(record))
    }

    /// Has those of a session on disk for good, which those after executions are not: a crash of the host ends a session
    /// that is awake. Blocks.
    pub(crate) fn sync(&self, tenant: &str, id: &str) -> io::Result<()> {
        let of_session = self.root.join(tenant).join(id);
        let dirs = lock(&self.kept).get(&(tenant.to_owned(), id.to_owned())).map(Kept::unsynced);
        dirs.into_iter().flatten().try_for_each(|image| sync(&of_session.join(image.to_string())))
    }

    /// What it was, if there was one. Blocks.
    pub(crate) fn remove(
        &self,
        tenant: &str,
        id: &str,
        name: &str,
    ) -> io::Result<Option<Arc<Record>>> {
        let key = (tenant.to_owned(), id.to_owned());
        let removed = lock(&self.kept).get_mut(&key).and_then(|kept| kept.remove(name));
        let Some((image, stays, gone)) = removed else { return Ok(None) };
        let of_tenant = self.root.join(tenant);
        if stays {
            fs::remove_file(image.dir.join(RECORD))?;
        } else {
            remove_tree(&put_aside(&image.dir, &of_tenant)?)?;
        }
        for image in gone {
            remove_tree(&put_aside(&of_tenant.join(id).join(image.to_string()), &of_tenant)?)?;
        }
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

    /// How many a tenant has, and their bytes.
    pub(super) fn used_by(&self, tenant: &str) -> (u64, u64) {
        let kept = lock(&self.kept);
        let from = (tenant.to_owned(), String::new());
        let of_tenant = kept.range(from..).take_while(|((owner, _), _)| owner == tenant);
        of_tenant.fold((0, 0), |(count, bytes), (_, kept)| {
            let (more, more_bytes) = kept.used();
            (count + more, bytes + more_bytes)
        })
    }

    /// The tenants that have any.
    pub(super) fn tenants(&self) -> Vec<String> {
        let mut tenants: Vec<_> =
            lock(&self.kept).keys().map(|(tenant, _)| tenant.clone()).collect();
        tenants.dedup();
        tenants
    }

    /// All that there are.
    pub(super) fn records(&self) -> Vec<Arc<Record>> {
        lock(&self.kept).values().flat_map(Kept::records).collect()
    }
}
