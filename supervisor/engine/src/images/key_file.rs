//! The operator's own key of images, looked at before the daemon starts.

use std::io;
use std::path::PathBuf;

use nix::unistd::Uid;

use super::seal::SealKey;
use crate::settings;

/// Why the operator's key of images cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "images.key_file: the daemon's user (uid {uid}) cannot use {path} (fix: put 32 random bytes there that this \
     user can read, as of `head -c 32 /dev/urandom`)",
    path = path.display()
)]
pub struct ImageKeyError {
    uid: Uid,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Whether images could be sealed with the operator's key, if there is one. Reads a file.
///
/// # Errors
/// [`ImageKeyError`]
pub fn check_image_key(images: &settings::Images) -> Result<(), ImageKeyError> {
    let Some(path) = &images.key_file else { return Ok(()) };
    let unusable = |source| ImageKeyError { uid: Uid::effective(), path: path.clone(), source };
    SealKey::read(path).map(drop).map_err(unusable)
}
