//! Images by themselves: listed, deleted, and taken to another host.

use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::task::spawn_blocking;
use vivarium_api_types::{ExportParams, ImagePage, ImportParams, Page, SessionInfo, StoredImage};

use super::super::page::{cut_page, page_size};
use super::super::{Engine, EngineError, request};
use super::checkpoints::known;
use super::transfer::failed;
use super::{blocked, finished};
use crate::images::portable::{self, ImportError, Portable};

/// What a tenant's import holds a place by, so that there is one at a time; no session has this id.
const IMPORTS: &str = ".imports";

impl Engine {
    /// The images of a tenant's suspended sessions.
    pub fn list_images(&self, tenant: &str, page: &Page) -> Result<ImagePage, EngineError> {
        let limit = page_size(page)?;
        let Ok(images) = self.images() else {
            return Ok(ImagePage { images: Vec::new(), next: None });
        };
        let after = page.after.as_deref().unwrap_or_default();
        let found = images.page(tenant, after, limit + 1, |_| true);
        let mut images: Vec<_> =
            found.iter().map(|record| record.stored(self.expire_after())).collect();
        let next = cut_page(&mut images, limit, |image| &image.session_id);
        Ok(ImagePage { images, next })
    }

    pub fn image(&self, tenant: &str, id: &str) -> Result<StoredImage, EngineError> {
        self.exists(tenant, id)?;
        let record = self.images()?.record(tenant, id);
        let record = record.ok_or_else(|| self.no_image(tenant, id))?;
        Ok(record.stored(self.expire_after()))
    }

    /// Deletes the image of a suspended session, and so the session.
    pub async fn remove_image(&self, tenant: &str, id: &str) -> Result<(), EngineError> {
        if self.delete_image(tenant, id, "deleted").await {
            Ok(())
        } else {
            Err(self.no_image(tenant, id))
        }
    }

    /// The image of a suspended session, or a checkpoint of any, to be imported by a host that has the same key.
    pub async fn export_image(
        &self,
        tenant: &str,
        id: &str,
        ExportParams { checkpoint }: ExportParams,
    ) -> Result<Portable, EngineError> {
        self.exists(tenant, id)?;
        self.admit_audit().await?;
        let images = self.images()?;
        let (place, image) = match checkpoint {
            Some(name) => {
                self.checkpoints_kept(tenant, id).await;
                (None, known(&images, tenant, id, &name)?)
            }
            None => {
                let place = images.hold(tenant, id).await;
                let image = place.image().cloned().ok_or_else(|| self.no_image(tenant, id))?;
                (Some(place), image)
            }
        };
        let record = Arc::clone(&image.record);
        // What is open is read to its end, though the session is resumed meanwhile.
        let opening = spawn_blocking(move || portable::export(&images, &image));
        let opened = blocked(opening.await)?.map_err(failed)?;
        self.audit_image(&record, "exported");
        drop(place);
        Ok(opened)
    }

    /// Makes a suspended session of an image that a host with the same key has exported for this tenant.
    pub async fn import_image(
        &self,
        tenant: &str,
        ImportParams { id }: ImportParams,
        from: &mut (impl AsyncRead + Unpin + Send),
    ) -> Result<SessionInfo, EngineError> {
        let id = id.map(|id| request::id(Some(id))).transpose()?;
        self.check_open(tenant)?;
        self.admit_audit().await?;
        let images = self.images()?;
        let turn = images.hold(tenant, IMPORTS).await;
        let room = self.image_room(&images, tenant)?;
        let imported = portable::import(&images, tenant, room, from).await;
        let imported = imported.map_err(|error| match error {
            ImportError::Full => self.no_image_bytes(),
            ImportError::Io(error) => {
                EngineError::Image(format!("the image was not imported: {error}"))
            }
        })?;
        let chosen = self.choose(tenant, Some(&imported.record.info.environment)).await?;
        self.environment(&chosen.base)?;
        let (engine, owner) = (self.clone(), tenant.to_owned());
        finished(async move {
            let id = id.unwrap_or_else(|| imported.record.info.id.clone());
            let mut place = images.hold(&owner, &id).await;
            if engine.exists(&owner, &id).is_ok() {
                return Err(EngineError::Conflict(id));
            }
            // Sessions may have been suspended meanwhile.
            if imported.record.size_bytes > engine.image_room(&images, &owner)? {
                return Err(engine.no_image_bytes());
            }
            let exported = imported.record.clone();
            let (store, tenant, of) = (Arc::clone(&images), owner.clone(), id.clone());
            let keeping = spawn_blocking(move || {
                let (unfinished, record) = imported.keep_template()?;
                store.keep((&tenant, &of), unfinished, record.of_session(of.clone()))
            });
            let image = blocked(keeping.await)?.map_err(failed)?;
            let info = engine.info_of(&image.record);
            place.put(image);
            // Whoever makes a session from now on sees the image; before, it is seen here.
            if engine.inner.registry.get(&owner, &id).is_some() {
                place.remove();
                return Err(EngineError::Conflict(id));
            }
            images.checkpoints.end(&owner, &id);
            engine.audit_image_for(&id, &exported, "imported");
            drop(turn);
            Ok(info)
        })
        .await
    }

    /// Why there is no image.
    fn no_image(&self, tenant: &str, id: &str) -> EngineError {
        match self.find(tenant, id) {
            Ok(_) => EngineError::NotSuspended(id.to_owned()),
            Err(error) => error,
        }
    }
}
