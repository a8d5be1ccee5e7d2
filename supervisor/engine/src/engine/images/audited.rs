//! What the audit log says of images.

use vivarium_audit::{Event, ImageChange};

use super::super::Engine;
use crate::images::Record;

impl Engine {
    /// Notes what was done with an image of a session's own.
    pub(super) fn audit_image(&self, record: &Record, change: &'static str) {
        self.audit_image_for(&record.info.id, record, change);
    }

    /// Notes what was done with an image, for this session.
    pub(super) fn audit_image_for(&self, session: &str, record: &Record, change: &'static str) {
        self.audit().record(|| {
            let of = &record.info.id;
            Event::Image(Box::new(ImageChange {
                tenant: record.info.tenant.clone(),
                session: session.to_owned(),
                change,
                image: record.image.to_string(),
                checkpoint: record.name.clone(),
                from: (of != session).then(|| of.clone()),
            }))
        });
    }
}
