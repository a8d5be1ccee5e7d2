//! Secrets of tenants: a placeholder that the session has, and the value, which only the gate gets.
//!
//! A value is read from its file each time it is needed, held no longer than it takes to hand it
//! over, and never logged.

use std::io::{self, Read};
use std::path::PathBuf;

use vivarium_egress::Secret;

use super::regular::open_regular;
use super::{AuthorityError, SessionEgress};
use crate::settings::{SecretSource, Settings, TenantSecret};

/// Of a value: what fits a header.
const MAX_BYTES: u64 = 8192;

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret {name}: read {path}", path = path.display())]
    Read {
        name: String,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("secret {name}: the daemon was started without systemd's credential {credential:?}")]
    NoCredentials { name: String, credential: String },
    #[error("secret {name}: its value is empty, over {MAX_BYTES} bytes or not printable ASCII")]
    Value { name: String },
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

pub(super) fn value(secret: &TenantSecret) -> Result<String, SecretError> {
    read(&secret.name, &secret.source)
}

/// Reads a value for a header. A line feed at its end is no part of it.
///
/// # Errors
/// [`SecretError`], without anything of the value.
pub(crate) fn read(name: &str, source: &SecretSource) -> Result<String, SecretError> {
    let name = || name.to_owned();
    let path = source.path().ok_or_else(|| SecretError::NoCredentials {
        name: name(),
        credential: match source {
            SecretSource::Credential(credential) => credential.clone(),
            SecretSource::File(_) => String::new(),
        },
    })?;
    let mut text = String::new();
    open_regular(&path)
        .and_then(|file| file.take(MAX_BYTES + 2).read_to_string(&mut text))
        .map_err(|source| SecretError::Read { name: name(), path, source })?;
    let value = text.trim_end_matches(['\r', '\n']);
    let is_printable = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if value.is_empty() || value.len() as u64 > MAX_BYTES || !is_printable || value != value.trim()
    {
        return Err(SecretError::Value { name: name() });
    }
    Ok(value.to_owned())
}

/// Whether the secrets of all tool servers could be read now. Reads files.
///
/// # Errors
/// [`SecretError`]
pub fn check_tool_server_secrets(settings: &Settings) -> Result<(), SecretError> {
    for (name, server) in &settings.tool_servers {
        if let Some(secret) = &server.secret {
            read(&format!("tools.{name}"), secret)?;
        }
    }
    Ok(())
}

/// A secret's name, and a new placeholder: 128 random bits.
pub(super) fn placeholder(secret: &TenantSecret) -> (String, String) {
    (secret.name.clone(), format!("vivarium-secret-{}", uuid::Uuid::new_v4().simple()))
}

/// The secrets of a session as the gate gets them. One that can not be read any more, or that is new
/// since the session was made, is left out: its placeholder then goes out as it is.
pub(super) fn of_session(secrets: &[TenantSecret], session: &SessionEgress) -> Vec<Secret> {
    let known = secrets.iter().filter_map(|secret| {
        let placeholder = session.placeholders.get(&secret.name)?;
        match value(secret) {
            Ok(value) => Some(Secret {
                placeholder: placeholder.clone(),
                value,
                hosts: secret.hosts.clone(),
                header: secret.header.clone(),
            }),
            Err(error) => {
                let why = vivarium_protocol::error_chain(&error);
                tracing::error!(tenant = %session.tenant, why, "a secret is left out");
                None
            }
        }
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(source: SecretSource) -> TenantSecret {
        let hosts = vec!["a.example".parse().unwrap()];
        TenantSecret { name: "KEY".into(), hosts, header: "authorization".into(), source }
    }

    #[test]
    fn value_is_the_content_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let of = |content: &str| {
            let path = dir.path().join("value");
            std::fs::write(&path, content).unwrap();
            value(&secret(SecretSource::File(path)))
        };
        assert_eq!(of("s3cret\n").unwrap(), "s3cret");
        assert_eq!(of("Bearer a b").unwrap(), "Bearer a b");
        for bad in ["", "\n", "a\nb", "é", " a", &"x".repeat(8193)] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.contains("KEY") && (bad.len() < 2 || !error.contains(bad)), "{error}");
        }
        let missing = secret(SecretSource::File(dir.path().join("none")));
        assert!(matches!(value(&missing), Err(SecretError::Read { .. })));
    }

    #[test]
    fn placeholders_are_random() {
        let secret = secret(SecretSource::Credential("x".into()));
        let (one, other) = (placeholder(&secret), placeholder(&secret));
        assert_eq!(one.0, "KEY");
        assert!(one.1.len() > 32 && one.1 != other.1);
    }
}
