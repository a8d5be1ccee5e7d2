//! The library and kernel program of templates, kept for images: after an upgrade that has brought others, a template of
//! these has to be there for an image to be resumed.
//!
//! ```text
//! images/.programs/SHA256   sealed, zstd: a header in one line of JSON, the kernel program, the library
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use vivarium_audit::Hash;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::policy::Interpreter;

use super::seal::{SealKey, What};
use crate::private_dir;

/// No library and kernel program have more together.
const BYTES_MAX: u64 = 256 << 20;

const LEVEL: i32 = 3;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramsError {
    #[error(
        "it was suspended under another Vivarium, whose library and kernel program are not kept here"
    )]
    Unknown,
    #[error(
        "it was suspended under another Vivarium, whose library and kernel program this one cannot use"
    )]
    Protocol,
    #[error("it was suspended under another Python: {0}")]
    Python(String),
    #[error("the library and kernel program that it was suspended under cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What a kept file begins with.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    protocol_version: u32,
    /// The version of the Python that has compiled the program.
    python: String,
    program_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Programs {
    root: PathBuf,
    key: SealKey,
    installed: Option<Arc<OwnedFd>>,
}

/// A library, in memory that nobody can change, and a kernel program.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) library: OwnedFd,
    pub(crate) program: Vec<u8>,
}

impl Programs {
    /// Those below a directory; none if the library that is installed is not to be kept.
    pub(super) fn new(root: PathBuf, key: SealKey, installed: Option<Arc<OwnedFd>>) -> Self {
        Self { root, key, installed }
    }

    /// Keeps the installed library with the kernel program of this interpreter. Returns by what they are found again;
    /// `None` if they are not to be kept. Blocks.
    pub(crate) fn keep(&self, interpreter: &Interpreter) -> io::Result<Option<Hash>> {
        let Some(installed) = &self.installed else { return Ok(None) };
        let header = Header {
            protocol_version: PROTOCOL_VERSION,
            python: interpreter.version.clone(),
            program_bytes: interpreter.program.len() as u64,
        };
        let mut content = serde_json::to_vec(&header)?;
        content.push(b'\n');
        content.extend_from_slice(&interpreter.program);
        // Opened with O_PATH.
        let mut library = File::open(format!("/proc/self/fd/{}", installed.as_raw_fd()))?;
        library.read_to_end(&mut content)?;
        let hash = Hash::of(&content);
        let (name, path) = (hash.to_string(), self.path(&hash));
        if !path.exists() {
            private_dir::make(&self.root)?;
            let new = NamedTempFile::new_in(&self.root)?;
            let sealing = self.key.seal(new, What::Programs { hash: &name })?;
            let mut writer = zstd::Encoder::new(sealing, LEVEL)?;
            writer.write_all(&content)?;
            let new = writer.finish()?.finish()?;
            new.as_file().sync_all()?;
            new.persist(path)?;
        }
        Ok(Some(hash))
    }

    /// Reads what was kept, for an interpreter of this version. Blocks.
    pub(crate) fn read(&self, hash: &Hash, python: &str) -> Result<Kept, ProgramsError> {
        let file = match File::open(self.path(hash)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProgramsError::Unknown);
            }
            file => file?,
        };
        let opened = self.key.open(file, What::Programs { hash: &hash.to_string() })?;
        let mut content = BufReader::new(zstd::Decoder::new(opened)?.take(BYTES_MAX));
        let mut header = Vec::new();
        content.read_until(b'\n', &mut header)?;
        let header: Header = serde_json::from_slice(&header).map_err(io::Error::from)?;
        if header.protocol_version != PROTOCOL_VERSION {
            return Err(ProgramsError::Protocol);
        }
        if header.python != python {
            return Err(ProgramsError::Python(header.python));
        }
        let mut program = Vec::new();
        content.by_ref().take(header.program_bytes).read_to_end(&mut program)?;
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut library =
            File::from(memfd_create(c"vivarium-library", flags).map_err(io::Error::from)?);
        io::copy(&mut content, &mut library)?;
        let seals = SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::F_SEAL_WRITE
            | SealFlag::F_SEAL_SEAL;
        fcntl(&library, FcntlArg::F_ADD_SEALS(seals)).map_err(io::Error::from)?;
        Ok(Kept { library: library.into(), program })
    }

    /// Removes those that no image needs.
    pub(super) fn keep_only(&self, used: &BTreeSet<Hash>) -> io::Result<()> {
        let wanted: BTreeSet<_> = used.iter().map(|hash| self.path(hash)).collect();
        let Ok(kept) = fs::read_dir(&self.root) else { return Ok(()) };
        for file in kept {
            let path = file?.path();
            if !wanted.contains(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        self.root.join(hash.to_string())
    }
}

#[cfg(test)]
mod tests;
