//! The secret that signs the webhook's requests. It is never part of an error.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::unistd::Uid;

use super::super::regular::open_regular;
use crate::settings::{SecretSource, Webhook};

/// Keys of Standard Webhooks have 24 to 64 bytes, in base64 after this.
const KEY_PREFIX: &str = "whsec_";
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A key's file is not longer.
const MAX_KEY_FILE_BYTES: u64 = 4096;

/// Why the secret that signs requests cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WebhookSecretError {
    #[error(
        "approval.webhook_secret_credential: the daemon was started without credential {name:?} (fix: add \
         LoadCredential={name}:/PATH to its unit and restart it)"
    )]
    NoCredential { name: String },
    #[error(
        "{key}: the daemon's user (uid {uid}) cannot read {path} (fix: {fix})",
        path = path.display(),
        fix = fix_of(.source)
    )]
    Read {
        key: &'static str,
        uid: Uid,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{key}: {path} does not have `whsec_` and 24 to 64 bytes in base64 (fix: make one with \
         `echo \"whsec_$(openssl rand -base64 32)\"`)",
        path = path.display()
    )]
    Malformed { key: &'static str, path: PathBuf },
}

fn fix_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "put the file there",
        io::ErrorKind::PermissionDenied => {
            "let that user read it and search the directories above, or hand it over by LoadCredential= \
             and webhook_secret_credential"
        }
        _ => "name a regular file with the secret",
    }
}

/// Whether requests could be signed now, if any are to be sent. Reads a file.
///
/// # Errors
/// [`WebhookSecretError`]
pub fn check_webhook_secret(webhook: &Webhook) -> Result<(), WebhookSecretError> {
    match (&webhook.url, &webhook.secret) {
        (Some(_), Some(secret)) => key(secret).map(drop),
        _ => Ok(()),
    }
}

/// The key, read anew for each request: a new one takes effect at once.
///
/// # Errors
/// [`WebhookSecretError`]
pub(super) fn key(source: &SecretSource) -> Result<Vec<u8>, WebhookSecretError> {
    let (key, path) = match source {
        SecretSource::File(path) => ("approval.webhook_secret_file", path.clone()),
        SecretSource::Credential(name) => {
            let missing = || WebhookSecretError::NoCredential { name: name.clone() };
            ("approval.webhook_secret_credential", source.path().ok_or_else(missing)?)
        }
    };
    let text = match read_key_file(&path) {
        Ok(text) => text,
        Err(source) => {
            return Err(WebhookSecretError::Read { key, uid: Uid::effective(), path, source });
        }
    };
    let decoded = text.trim().strip_prefix(KEY_PREFIX).and_then(|text| STANDARD.decode(text).ok());
    let fitting = decoded.filter(|decoded| KEY_BYTES.contains(&decoded.len()));
    fitting.ok_or(WebhookSecretError::Malformed { key, path })
}

fn read_key_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.take(MAX_KEY_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_whole_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            let path = dir.path().join("key");
            std::fs::write(&path, text).unwrap();
            key(&SecretSource::File(path))
        };
        assert_eq!(of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap().len(), 24);
        for bad in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_!"] {
            let error = of(bad).unwrap_err();
            assert!(matches!(error, WebhookSecretError::Malformed { .. }), "{bad}");
            assert!(bad.is_empty() || bad == KEY_PREFIX || !error.to_string().contains(bad));
        }
        nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (name, fix) in [("none", "put the file there"), ("fifo", "regular"), (".", "regular")] {
            let path = dir.path().join(name);
            let error = key(&SecretSource::File(path.clone())).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(fix) && said.contains(path.to_str().unwrap()), "{said}");
            let url = Some("https://a.example".to_owned());
            let secret = Some(SecretSource::File(path));
            let webhook = Webhook { url, secret, ..Webhook::default() };
            check_webhook_secret(&webhook).unwrap_err();
            check_webhook_secret(&Webhook { url: None, ..webhook }).unwrap();
        }
    }
}
