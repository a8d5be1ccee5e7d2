//! The checkpoints of one session.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use uuid::Uuid;

use crate::images::record::{Image, Record};

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By name.
    images: BTreeMap<String, Image>,
    /// Images of those that are no more, whose files stay because others have parts there, and their bytes.
    left: BTreeMap<Uuid, u64>,
}

impl Kept {
    /// Whether it is the only one of its name.
    pub(super) fn add(&mut self, image: Image) -> bool {
        let name = image.record.name.clone().unwrap_or_default();
        match self.images.entry(name) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(image);
                true
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Image> {
        self.images.get(name)
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Arc<Record>> {
        self.images.values().map(|image| Arc::clone(&image.record))
    }

    /// Whether an image has parts in this one's file.
    pub(super) fn needs(&self, image: Uuid) -> bool {
        let parts = self.images.values().filter_map(|it| it.record.parts.as_ref());
        parts.flat_map(|parts| parts.files()).any(|file| *file == image)
    }

    /// Whether the files of all these images are there.
    pub(super) fn has_files(&self, images: &[Uuid]) -> bool {
        images.iter().all(|image| {
            self.left.contains_key(image)
                || self.images.values().any(|it| it.record.image == *image)
        })
    }

    /// The images whose files have parts, which are not synced when they are written.
    pub(super) fn unsynced(&self) -> Vec<Uuid> {
        let of_parts = self.images.values().filter(|image| image.record.parts.is_some());
        of_parts.map(|image| image.record.image).chain(self.left.keys().copied()).collect()
    }

    pub(super) fn leave(&mut self, image: Uuid, bytes: u64) {
        self.left.insert(image, bytes);
    }

    /// What it was, whether its file stays for others, and the files that stayed and are needed no more.
    pub(super) fn remove(&mut self, name: &str) -> Option<(Image, bool, Vec<Uuid>)> {
        let image = self.images.remove(name)?;
        let Record { image: id, size_bytes, .. } = *image.record;
        let stays = self.needs(id);
        if stays {
            self.left.insert(id, size_bytes);
        }
        let gone: Vec<_> = self.left.keys().copied().filter(|file| !self.needs(*file)).collect();
        for file in &gone {
            self.left.remove(file);
        }
        Some((image, stays, gone))
    }

    /// How many there are, and the bytes of all files.
    pub(super) fn used(&self) -> (u64, u64) {
        let sizes = self.images.values().map(|image| image.record.size_bytes);
        (self.images.len() as u64, sizes.chain(self.left.values().copied()).sum())
    }
}
