//! What an image is of, and its file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use vivarium_api_types::{
    HomeKind, ImageInfo, SessionInfo, SessionSpec, SessionState, StoredImage,
};
use vivarium_audit::Hash;
use vivarium_protocol::message::ExecutionNumber;

use super::names::Names;
use super::parts::{self, Parts};
use super::seal::{SealKey, What};
use super::stream::LEVEL;
use super::{KERNEL, RECORD};
use crate::stores::StoreKey;

/// Of what is below the directory. What has another is not resumed.
const VERSION: u32 = 1;

/// What is read into memory while the session is made that it is for.
const AHEAD_MAX_BYTES: u64 = 16 << 20;

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
    /// By what the library and kernel program of that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) programs: Option<Hash>,
    /// Of a checkpoint.
    pub(crate) name: Option<String>,
    /// The name that its kernel's file is sealed with.
    pub(crate) image: Uuid,
    /// The image of the checkpoint that the session was at, if nothing had begun in it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Uuid>,
    /// Where its parts are, if its file has not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<Parts>,
    /// The contexts whose kernels are in its file, in that order, and how many bytes each has; none if `main` has all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) contexts: Vec<(String, u64)>,
    /// Of a checkpoint, the variables that there were, if its kernel was asked as it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) names: Option<Names>,
}

/// What its kernels have written, as the record says it.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) template: Hash,
    pub(crate) programs: Option<Hash>,
    pub(crate) parts: Option<Parts>,
    pub(crate) contexts: Vec<(String, u64)>,
    pub(crate) names: Names,
}

impl Record {
    pub(crate) fn new(
        spec: SessionSpec,
        info: SessionInfo,
        executions: ExecutionNumber,
        unfinished: &Unfinished,
        of: Content,
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
            template: of.template,
            programs: of.programs,
            name: None,
            image,
            at: None,
            parts: of.parts,
            contexts: of.contexts,
            names: Some(of.names),
        })
    }

    pub(super) fn read(dir: &Path, key: &SealKey, what: What<'_>) -> io::Result<Self> {
        let record = Self::unseal(File::open(dir.join(RECORD))?, key, what)?;
        if !dir.join(KERNEL).exists() {
            return Err(io::Error::other("it is not whole"));
        }
        Ok(record)
    }

    pub(super) fn unseal(from: impl Read, key: &SealKey, what: What<'_>) -> io::Result<Self> {
        let mut text = Vec::new();
        key.open(from, what)?.read_to_end(&mut text)?;
        let record: Self = serde_json::from_slice(&text)?;
        if record.version != VERSION {
            return Err(io::Error::other("it is of another version of Vivarium"));
        }
        Ok(record)
    }

    pub(super) fn seal<W: io::Write>(&self, to: W, key: &SealKey, what: What<'_>) -> io::Result<W> {
        let mut sealing = key.seal(to, what)?;
        io::Write::write_all(&mut sealing, &serde_json::to_vec(self)?)?;
        sealing.finish()
    }

    /// That of a suspended session that has this id.
    pub(crate) fn of_session(self, id: String) -> Self {
        let spec = SessionSpec { id: Some(id.clone()), ..self.spec };
        let info = SessionInfo { id, state: SessionState::Suspended, ..self.info };
        let suspended_at = Timestamp::now();
        Self { spec, info, suspended_at, name: None, names: None, ..self }
    }

    /// That of a checkpoint after this execution.
    pub(crate) fn after(self, executions: ExecutionNumber, name: String) -> Self {
        Self { executions, name: Some(name), ..self }
    }

    /// The same by this name.
    pub(crate) fn named(&self, name: String) -> Self {
        Self { name: Some(name), ..self.clone() }
    }

    /// The same image, of this checkpoint, as that of a session that is this now.
    pub(crate) fn put_back(
        &self,
        checkpoint: Uuid,
        spec: SessionSpec,
        info: SessionInfo,
        executions: ExecutionNumber,
    ) -> Self {
        let (suspended_at, at) = (Timestamp::now(), Some(checkpoint));
        Self { spec, info, executions, suspended_at, at, name: None, names: None, ..self.clone() }
    }

    /// What lists show of the session.
    pub(crate) fn info(&self, expire_after: Option<Duration>) -> SessionInfo {
        SessionInfo { image: Some(self.image_info(expire_after)), ..self.info.clone() }
    }

    /// What lists of images show.
    pub(crate) fn stored(&self, expire_after: Option<Duration>) -> StoredImage {
        StoredImage {
            session_id: self.info.id.clone(),
            environment: self.info.environment.clone(),
            template: self.template.to_string(),
            executions: self.executions,
            image: self.image_info(expire_after),
        }
    }

    fn image_info(&self, expire_after: Option<Duration>) -> ImageInfo {
        ImageInfo {
            size_bytes: self.size_bytes,
            suspended_at: self.suspended_at,
            expires_at: self.expires_at(expire_after),
            auto_resume: self.resumes_by_itself(),
        }
    }

    /// Whether it is to be deleted: nobody resumed it in time, or its session's deadline has passed.
    pub(crate) fn is_over(&self, expire_after: Option<Duration>) -> bool {
        self.expires_at(expire_after).is_some_and(|end| end <= Timestamp::now())
    }

    /// Whether its session has this home or volume.
    pub(crate) fn has(&self, key: &StoreKey) -> bool {
        let home = self.spec.home.unwrap_or_default();
        match key {
            StoreKey::Tenant => home == HomeKind::Tenant,
            StoreKey::Session(id) => home == HomeKind::Session && *id == self.info.id,
            StoreKey::Volume(name) => self.spec.volumes.iter().any(|volume| volume.name == *name),
        }
    }

    /// Whether calls resume the session.
    pub(crate) fn resumes_by_itself(&self) -> bool {
        self.spec.auto_resume.unwrap_or(true)
    }

    /// The end of its time or its session's deadline, whichever is first.
    fn expires_at(&self, expire_after: Option<Duration>) -> Option<Timestamp> {
        let end = expire_after.and_then(|after| self.suspended_at.checked_add(after).ok());
        end.into_iter().chain(self.spec.deadline).min()
    }
}

/// Has an image that is whole on disk for good: fsync(2). What is removed meanwhile is not missed. Blocks.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    let paths = [dir.join(KERNEL), dir.join(RECORD), dir.to_owned()];
    for path in paths.iter().map(PathBuf::as_path).chain(dir.parent()) {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(file) => file.sync_all()?,
        }
    }
    Ok(())
}

fn open_sealed(dir: &Path, key: &SealKey, image: Uuid) -> io::Result<Box<dyn Read + Send>> {
    let sealed = File::open(dir.join(KERNEL))?;
    let sealed = key.open(sealed, What::Kernel { image: &image.to_string() })?;
    Ok(Box::new(zstd::Decoder::new(sealed)?))
}

/// A session that is suspended.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(super) dir: PathBuf,
    pub(super) key: SealKey,
    pub(crate) record: Arc<Record>,
    /// What its kernel wrote, if that was read ahead.
    content: Option<Arc<[u8]>>,
}

impl Image {
    pub(super) const fn new(dir: PathBuf, key: SealKey, record: Arc<Record>) -> Self {
        Self { dir, key, record, content: None }
    }

    /// The same with another record.
    pub(crate) fn with(&self, record: Record) -> Self {
        Self { record: Arc::new(record), ..self.clone() }
    }

    /// What its kernel wrote. Blocks.
    pub(crate) fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        match &self.content {
            Some(content) => Ok(Box::new(io::Cursor::new(Arc::clone(content)))),
            None => self.open_file(),
        }
    }

    fn open_file(&self) -> io::Result<Box<dyn Read + Send>> {
        let Some(parts) = self.record.parts.clone() else {
            return open_sealed(&self.dir, &self.key, self.record.image);
        };
        let (beside, key) = (self.dir.parent().unwrap_or(&self.dir).to_owned(), self.key.clone());
        let open = move |image: Uuid| open_sealed(&beside.join(image.to_string()), &key, image);
        Ok(Box::new(parts::Reader::new(parts, open)))
    }

    /// Puts together what its parts are in one file; what its record says then. Blocks.
    pub(super) fn write_whole(&self, to: &Unfinished) -> io::Result<Record> {
        let KernelFile { file, key, image } = to.create()?;
        let sealing = key.seal(file, What::Kernel { image: &image.to_string() })?;
        let mut writer = zstd::Encoder::new(sealing, LEVEL)?;
        io::copy(&mut self.open()?, &mut writer)?;
        drop(writer.finish()?.finish()?);
        let (size_bytes, parts) = (to.size_bytes()?, None);
        Ok(Record { size_bytes, image, parts, ..Record::clone(&self.record) })
    }

    /// The same with its content in memory, unless that is large. Blocks.
    pub(crate) fn read_ahead(self) -> io::Result<Self> {
        if self.content.is_some() || self.record.size_bytes > AHEAD_MAX_BYTES {
            return Ok(self);
        }
        let mut content = Vec::new();
        self.open_file()?.take(AHEAD_MAX_BYTES + 1).read_to_end(&mut content)?;
        let is_whole = content.len() as u64 <= AHEAD_MAX_BYTES;
        Ok(Self { content: is_whole.then(|| content.into()), ..self })
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

    /// The name that its kernel's file is sealed with.
    pub(crate) const fn id(&self) -> Uuid {
        self.image
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(fs::metadata(self.dir.path().join(KERNEL))?.len())
    }

    /// Writes what it is of, as the last of it. Blocks.
    pub(super) fn finish(&self, what: What<'_>, record: &Record) -> io::Result<()> {
        let file = File::create_new(self.dir.path().join(RECORD))?;
        drop(record.seal(file, &self.key, what)?);
        Ok(())
    }

    /// Moves it, once it is whole, to `dir`, where nothing is. Blocks.
    pub(super) fn move_to(self, dir: &Path) -> io::Result<()> {
        fs::rename(self.dir.path(), dir)?;
        // It is not there any more under that name.
        drop(self.dir.keep());
        Ok(())
    }

    /// The image that it is, as long as `self` is there.
    pub(crate) fn image(&self, record: Record) -> Image {
        Image::new(self.dir.path().to_owned(), self.key.clone(), Arc::new(record))
    }
}

/// An empty file for what a kernel writes.
#[derive(Debug)]
pub(crate) struct KernelFile {
    pub(super) file: File,
    pub(super) key: SealKey,
    pub(super) image: Uuid,
}
