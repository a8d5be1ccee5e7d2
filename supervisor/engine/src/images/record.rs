//! What an image is of, and its file.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use vivarium_api_types::{ImageInfo, SessionInfo, SessionSpec};
use vivarium_audit::Hash;
use vivarium_protocol::message::ExecutionNumber;

use super::seal::{SealKey, What};
use super::{KERNEL, RECORD};

/// Of what is below the directory. What has another is not resumed.
const VERSION: u32 = 1;

/// What an image says of its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// What another session has to be asked for to be the same.
    pub(crate) spec: SessionSpec,
    /// As it was when it was suspended.
    pub(crate) info: SessionInfo,
    /// The number of its last execution.
    pub(crate) executions: ExecutionNumber,
    pub(crate) suspended_at: Timestamp,
    pub(crate) size_bytes: u64,
    /// The fingerprint of its kernel's template.
    pub(crate) template: Hash,
    /// Of a checkpoint.
    pub(crate) name: Option<String>,
    /// The name that its kernel's file is sealed with.
    pub(super) image: Uuid,
}

impl Record {
    pub(crate) fn new(
        spec: SessionSpec,
        info: SessionInfo,
        executions: ExecutionNumber,
        unfinished: &Unfinished,
        template: Hash,
    ) -> io::Result<Self> {
        let (version, suspended_at) = (VERSION, Timestamp::now());
        let (size_bytes, image) = (unfinished.size_bytes()?, unfinished.image);
        Ok(Self {
            version,
            spec,
            info,
            executions,
            suspended_at,
            size_bytes,
            template,
            name: None,
            image,
        })
    }

    pub(super) fn read(dir: &Path, key: &SealKey, what: What<'_>) -> io::Result<Self> {
        let mut text = Vec::new();
        key.open(File::open(dir.join(RECORD))?, what)?.read_to_end(&mut text)?;
        let record: Self = serde_json::from_slice(&text)?;
        if record.version != VERSION || !dir.join(KERNEL).exists() {
            return Err(io::Error::other("it is of another version, or not whole"));
        }
        Ok(record)
    }

    /// The same by this name.
    pub(crate) fn named(&self, name: String) -> Self {
        Self { name: Some(name), ..self.clone() }
    }

    /// The same image as that of a session that is this now.
    pub(crate) fn put_back(
        &self,
        spec: SessionSpec,
        info: SessionInfo,
        executions: ExecutionNumber,
    ) -> Self {
        let suspended_at = Timestamp::now();
        Self { spec, info, executions, suspended_at, name: None, ..self.clone() }
    }

    /// What lists show of the session.
    pub(crate) fn info(&self, expire_after: Option<Duration>) -> SessionInfo {
        let image = ImageInfo {
            size_bytes: self.size_bytes,
            suspended_at: self.suspended_at,
            expires_at: self.expires_at(expire_after),
        };
        SessionInfo { image: Some(image), ..self.info.clone() }
    }

    /// Whether it is to be deleted: nobody resumed it in time, or its session's deadline has passed.
    pub(crate) fn is_over(&self, expire_after: Option<Duration>) -> bool {
        let now = Timestamp::now();
        let ends = [self.expires_at(expire_after), self.spec.deadline];
        ends.into_iter().flatten().any(|end| end <= now)
    }

    fn expires_at(&self, expire_after: Option<Duration>) -> Option<Timestamp> {
        self.suspended_at.checked_add(expire_after?).ok()
    }
}

/// A session that is suspended.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(super) dir: PathBuf,
    pub(super) key: SealKey,
    pub(crate) record: Arc<Record>,
}

impl Image {
    /// The same with another record.
    pub(crate) fn with(&self, record: Record) -> Self {
        Self { record: Arc::new(record), ..self.clone() }
    }

    /// What its kernel wrote. Blocks.
    pub(crate) fn open(&self) -> io::Result<impl Read + Send + use<>> {
        let sealed = File::open(self.dir.join(KERNEL))?;
        let image = self.record.image.to_string();
        zstd::Decoder::new(self.key.open(sealed, What::Kernel { image: &image })?)
    }
}

/// An image that is being made, or that is needed for a while only.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(super) dir: tempfile::TempDir,
    pub(super) key: SealKey,
    pub(super) image: Uuid,
}

impl Unfinished {
    /// Takes what its kernel writes.
    pub(crate) fn create(&self) -> io::Result<KernelFile> {
        let path = self.dir.path().join(KERNEL);
        Ok(KernelFile { file: File::create_new(path)?, key: self.key.clone(), image: self.image })
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(fs::metadata(self.dir.path().join(KERNEL))?.len())
    }

    /// Writes what it is of, as the last of it. Blocks.
    pub(super) fn finish(&self, what: What<'_>, record: &Record) -> io::Result<()> {
        let file = File::create_new(self.dir.path().join(RECORD))?;
        let mut sealing = self.key.seal(file, what)?;
        sealing.write_all(&serde_json::to_vec(record)?)?;
        sealing.finish()?.sync_all()?;
        File::open(self.dir.path())?.sync_all()
    }

    /// Moves it, once it is whole, to `dir`, where nothing is. Blocks.
    pub(super) fn move_to(self, dir: &Path) -> io::Result<()> {
        fs::rename(self.dir.path(), dir)?;
        // It is not there any more under that name.
        drop(self.dir.keep());
        dir.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }

    /// The image that it is, as long as `self` is there.
    pub(crate) fn image(&self, record: Record) -> Image {
        let (dir, key) = (self.dir.path().to_owned(), self.key.clone());
        Image { dir, key, record: Arc::new(record) }
    }
}

/// An empty file for what a kernel writes.
#[derive(Debug)]
pub(crate) struct KernelFile {
    pub(super) file: File,
    pub(super) key: SealKey,
    pub(super) image: Uuid,
}
