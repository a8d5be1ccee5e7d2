//! The memory of the templates that images were taken under: what an image does not have is there, when its
//! template is not any more.
//!
//! A template that is built again of the same things has the same layout, and differs in few pages: the
//! stack's canary, pointers that are kept disguised, times. A kernel of it gets an image and these.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::NamedTempFile;
use vivarium_audit::Hash;
use vivarium_protocol::discard;

use super::lock;
use super::seal::{SealKey, What};
use crate::private_dir;
use crate::template::memory::{self, TemplateMemory};

const PAGE_BYTES: usize = 4096;

/// The most pages that two templates may differ in: more are no rebuilt template.
const DIFFERENCES_MAX: usize = 16 << 10;

const LEVEL: i32 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseError {
    #[error("the template that it was suspended under is not kept any more")]
    Unknown,
    #[error(
        "its environment's template is another now: the interpreter, its packages, Vivarium or the system was \
         replaced since it was suspended"
    )]
    Other,
    #[error("it was suspended on a CPU with other features")]
    Cpu,
    #[error("it was suspended under another Linux kernel, whose vdso(7) is not this one's")]
    Kernel,
    #[error("the template that it was suspended under can not be read: {0}")]
    Io(#[from] io::Error),
}

/// Pages in which two templates differ, as a kernel reads them: a count, and as often an address and a page.
pub(crate) type Differences = Arc<Vec<u8>>;

#[derive(Debug)]
pub(crate) struct Bases {
    root: PathBuf,
    key: SealKey,
    differences: Mutex<BTreeMap<(Hash, Hash), Differences>>,
}

impl Bases {
    pub(crate) fn new(root: PathBuf, key: SealKey) -> Self {
        Self { root, key, differences: Mutex::default() }
    }

    /// What is kept of a template, as it is on disk.
    pub(super) fn open(&self, environment: &str, fingerprint: &Hash) -> io::Result<File> {
        File::open(self.path(environment, fingerprint))
    }

    /// A place for what is kept of a template, if it is not kept yet.
    pub(super) fn begin(
        &self,
        environment: &str,
        fingerprint: &Hash,
    ) -> io::Result<Option<(NamedTempFile, PathBuf)>> {
        let path = self.path(environment, fingerprint);
        if path.exists() {
            return Ok(None);
        }
        let dir = self.root.join(environment);
        private_dir::make(&dir)?;
        Ok(Some((NamedTempFile::new_in(dir)?, path)))
    }

    fn path(&self, environment: &str, fingerprint: &Hash) -> PathBuf {
        self.root.join(environment).join(fingerprint.to_string())
    }

    /// Keeps a template's memory, if it is not kept yet. Blocks.
    pub(crate) fn keep(&self, environment: &str, memory: &TemplateMemory) -> io::Result<()> {
        let fingerprint = memory.fingerprint()?;
        let Some((new, path)) = self.begin(environment, &fingerprint)? else { return Ok(()) };
        let what = What::Template { environment, fingerprint: &fingerprint.to_string() };
        let mut writer = zstd::Encoder::new(self.key.seal(new, what)?, LEVEL)?;
        io::copy(&mut memory.reader()?, &mut writer)?;
        let new = writer.finish()?.finish()?;
        new.as_file().sync_all()?;
        new.persist(path)?;
        Ok(())
    }

    /// What the memory of a kernel of `to` differs in from one of `from`. Blocks.
    pub(crate) fn differences(
        &self,
        environment: &str,
        from: &Hash,
        to: &TemplateMemory,
    ) -> Result<Differences, BaseError> {
        let key = (*from, to.fingerprint()?);
        if key.0 == key.1 {
            return Ok(Arc::new(0_u64.to_le_bytes().to_vec()));
        }
        if let Some(known) = lock(&self.differences).get(&key) {
            return Ok(Arc::clone(known));
        }
        let file = match File::open(self.path(environment, from)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BaseError::Unknown);
            }
            file => file?,
        };
        let what = What::Template { environment, fingerprint: &from.to_string() };
        let found = Arc::new(compare(zstd::Decoder::new(self.key.open(file, what)?)?, to)?);
        lock(&self.differences).insert(key, Arc::clone(&found));
        Ok(found)
    }

    /// Removes those that no image needs.
    pub(crate) fn keep_only(&self, used: &BTreeSet<(String, Hash)>) -> io::Result<()> {
        let wanted: BTreeSet<_> =
            used.iter().map(|(environment, one)| self.path(environment, one)).collect();
        let Ok(environments) = fs::read_dir(&self.root) else { return Ok(()) };
        for environment in environments {
            for kept in fs::read_dir(environment?.path())? {
                let path = kept?.path();
                if !wanted.contains(&path) {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }
}

/// The rest of a template's layout.
fn text(from: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(memory::LAYOUT_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// What it is that differs in the layouts of two templates, from some byte on.
fn why_other(old: &[u8], new: &[u8]) -> BaseError {
    let differ_in_line_of = |name: &[u8]| {
        let is_of_other = |line: &&[u8]| !line.windows(name.len()).any(|part| part == name);
        let [old, new] =
            [old, new].map(|text| text.split(|byte| *byte == b'\n').filter(is_of_other));
        old.eq(new)
    };
    match (differ_in_line_of(b" [cpu] "), differ_in_line_of(b" [vdso] ")) {
        (true, _) => BaseError::Cpu,
        (_, true) => BaseError::Kernel,
        _ => BaseError::Other,
    }
}

/// Compares what was kept of a template with another's memory.
fn compare(mut old: impl Read, new: &TemplateMemory) -> Result<Vec<u8>, BaseError> {
    let (len, memory_bytes) = (new.bytes()?, new.memory_bytes()?);
    let mut found = 0_u64.to_le_bytes().to_vec();
    let (mut offset, mut count) = (0, 0_usize);
    let (mut before, mut now) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
    while offset < len {
        let size = usize::try_from(len - offset).unwrap_or(PAGE_BYTES).min(PAGE_BYTES);
        let (before, now) = (before.get_mut(..size), now.get_mut(..size));
        let (Some(before), Some(now)) = (before, now) else { return Err(BaseError::Other) };
        match old.read_exact(before) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(BaseError::Other);
            }
            read => read?,
        }
        new.read_at(now, offset)?;
        if before != now {
            // The layout is the same, or it is another template.
            if offset >= memory_bytes {
                let mut rest = vec![0; usize::try_from(len - offset).unwrap_or_default()];
                new.read_at(&mut rest, offset)?;
                let old = [&*before, &text(old)?].concat();
                return Err(why_other(&old, &rest));
            }
            if count == DIFFERENCES_MAX {
                return Err(BaseError::Other);
            }
            count += 1;
            discard(found.write_all(&new.address_of(offset)?.to_le_bytes()), "a vector takes all");
            found.extend(before.iter().zip(now.iter()).map(|(before, now)| before ^ now));
        }
        offset += size as u64;
    }
    if old.read(&mut before)? != 0 {
        return Err(BaseError::Other);
    }
    if let Some(place) = found.first_chunk_mut() {
        *place = (count as u64).to_le_bytes();
    }
    Ok(found)
}
