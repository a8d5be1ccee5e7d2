//! `token_hashes_file` of a tenant.

use std::path::Path;

use vivarium_engine::settings::TenantToken;

use super::bounded::{self, Links, ReadError};
use super::keys::token;
use super::value::ValueError;

const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenFileError {
    #[error("{path} is relative, and there is no $CREDENTIALS_DIRECTORY")]
    NoCredentials { path: String },
    #[error("{path} is no plain name of a credential")]
    NotACredential { path: String },
    #[error("{path}")]
    Read { path: String, source: ReadError },
    #[error("{path}")]
    Content { path: String, source: ValueError },
}

/// The tokens of a file, or of a credential if the name is relative.
pub(crate) fn read(
    name: &str,
    credentials: Option<&Path>,
) -> Result<Vec<TenantToken>, TokenFileError> {
    let path = || name.to_owned();
    let file = if Path::new(name).is_absolute() {
        name.into()
    } else if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(TokenFileError::NotACredential { path: path() });
    } else {
        let dir = credentials.ok_or_else(|| TokenFileError::NoCredentials { path: path() })?;
        dir.join(name)
    };
    let (text, _) = bounded::read(&file, Links::Follow, MAX_BYTES)
        .map_err(|source| TokenFileError::Read { path: path(), source })?;
    token::lines(&text).map_err(|source| TokenFileError::Content { path: path(), source })
}
