//! The place of a session among those that are suspended, which one caller holds at a time.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::record::Image;
use super::{Images, Key, lock, put_aside};
use crate::recover::remove_tree;

/// A session that is being suspended or resumed, or is suspended. Whoever moves it holds the lock; there is
/// nothing in it while it is awake.
pub(super) type Slot = Arc<tokio::sync::Mutex<Option<Image>>>;

/// The place of a session, held: nobody else suspends, resumes, branches or deletes it meanwhile.
pub(crate) struct Place {
    pub(super) images: Arc<Images>,
    pub(super) key: Key,
    pub(super) slot: Option<OwnedMutexGuard<Option<Image>>>,
}

impl Place {
    /// Its image; `None` while the session is awake.
    pub(crate) fn image(&self) -> Option<&Image> {
        self.slot.as_ref()?.as_ref()
    }

    /// The session is suspended from now on.
    pub(crate) fn put(&mut self, image: Image) {
        if let Some(slot) = &mut self.slot {
            **slot = Some(image);
        }
    }

    /// Removes the image, if there is one: its session is awake, or to be no more. What it was.
    pub(crate) fn remove(&mut self) -> Option<Image> {
        let image = self.slot.as_mut()?.take()?;
        lock(&self.images.suspended).remove(&self.key);
        let of_tenant = self.images.root.join(&self.key.0);
        let removed = put_aside(&image.dir, &of_tenant).and_then(|aside| remove_tree(&aside));
        if let Err(error) = removed {
            tracing::warn!(%error, session = self.key.1, "an image that is not needed stays");
        }
        Some(image)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.slot = None;
        self.images.forget(&self.key);
    }
}
