//! Images that leave their host, and come to another that has the same key: a tar archive (POSIX.1-2024, pax,
//! "ustar Interchange Format") of three sealed files.
//!
//! ```text
//! record     what the image is of, for whoever is its session's tenant
//! kernel     memory and files, as they are below the state directory
//! template   the memory of its template
//! ```
//!
//! Each piece is checked before it is kept: nobody fills the disk with what no host of the key has sealed.

use std::fs::File;
use std::io::{self, Cursor};
use std::path::PathBuf;

use tar::Header;
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::record::{Image, Record, Unfinished};
use super::seal::{NONCE_BYTES, SEALED_BYTES, What};
use super::{Images, KERNEL, RECORD};
use crate::template::memory;

const TEMPLATE: &str = "template";

/// Blocks of an archive, of which two of zeroes are its end.
const BLOCK_BYTES: usize = 512;

/// Limits and metadata are bounded: no record has more.
const RECORD_MAX_BYTES: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("its tenant has no room for it")]
    Full,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An image on its way out.
pub struct Portable {
    /// How many bytes it has.
    pub bytes: u64,
    /// It, from the start.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
}

impl std::fmt::Debug for Portable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Portable").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Portable {
    fn add(
        self,
        name: &str,
        bytes: u64,
        content: impl AsyncRead + Send + Unpin + 'static,
    ) -> io::Result<Self> {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_cksum();
        let rest = vec![0; padding(bytes)];
        let total = self.bytes + (BLOCK_BYTES + rest.len()) as u64 + bytes;
        let header = Cursor::new(header.as_bytes().to_vec());
        let reader = self.reader.chain(header).chain(content).chain(Cursor::new(rest));
        Ok(Self { bytes: total, reader: Box::new(reader) })
    }

    fn add_file(self, name: &str, file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        self.add(name, bytes, tokio::fs::File::from_std(file).take(bytes))
    }
}

/// Opens an image to be read elsewhere. Blocks.
pub(crate) fn export(images: &Images, image: &Image) -> io::Result<Portable> {
    let Record { info, template, parts, .. } = &*image.record;
    if parts.is_some() {
        let (whole, record) = images.begin_with(&info.tenant, image)?;
        return export(images, &whole.image(record));
    }
    let sealed_for = What::Exported { tenant: &info.tenant };
    let record = image.record.seal(Vec::new(), &images.key, sealed_for)?;
    let kernel = File::open(image.dir.join(KERNEL))?;
    let template = images.bases.open(&info.environment, template)?;
    let end = [0; 2 * BLOCK_BYTES];
    let all = Portable { bytes: 0, reader: Box::new(tokio::io::empty()) }
        .add(RECORD, record.len() as u64, Cursor::new(record))?
        .add_file(KERNEL, kernel)?
        .add_file(TEMPLATE, template)?;
    let reader = Box::new(all.reader.chain(Cursor::new(end)));
    Ok(Portable { bytes: all.bytes + end.len() as u64, reader })
}

/// An image that was read, and is not kept yet.
pub(crate) struct Imported {
    pub(crate) unfinished: Unfinished,
    pub(crate) record: Record,
    /// Its template's memory, and where that is to be, unless it is there.
    template: Option<(NamedTempFile, PathBuf)>,
}

impl Imported {
    /// Keeps its template's memory. Blocks.
    pub(crate) fn keep_template(self) -> io::Result<(Unfinished, Record)> {
        if let Some((new, path)) = self.template {
            new.persist(path)?;
        }
        Ok((self.unfinished, self.record))
    }
}

/// Reads an image of a tenant's, which may have so many bytes of memory and files.
pub(crate) async fn import(
    images: &Images,
    tenant: &str,
    room: u64,
    from: &mut (impl AsyncRead + Unpin),
) -> Result<Imported, ImportError> {
    let bytes = entry(from, RECORD).await?;
    if bytes > RECORD_MAX_BYTES {
        return Err(unreadable().into());
    }
    let mut sealed = Vec::new();
    from.take(bytes).read_to_end(&mut sealed).await?;
    let record = Record::unseal(&*sealed, &images.key, What::Exported { tenant })?;
    skip(from, padding(bytes)).await?;

    let size_bytes = entry(from, KERNEL).await?;
    if size_bytes > room {
        return Err(ImportError::Full);
    }
    let unfinished = Unfinished { image: record.image, ..images.begin(tenant)? };
    let file = File::create_new(unfinished.dir.path().join(KERNEL))?;
    let what = What::Kernel { image: &record.image.to_string() };
    copy(images, from, size_bytes, what, Some(file)).await?;

    let (environment, fingerprint) = (&*record.info.environment, record.template);
    let bytes = entry(from, TEMPLATE).await?;
    if bytes > memory::BYTES_MAX {
        return Err(unreadable().into());
    }
    let template = images.bases.begin(environment, &fingerprint)?;
    let file = template.as_ref().map(|(new, _)| new.as_file().try_clone()).transpose()?;
    let what = What::Template { environment, fingerprint: &fingerprint.to_string() };
    copy(images, from, bytes, what, file).await?;
    Ok(Imported { unfinished, record, template })
}

/// Reads the header of the next file, which has to be this one: how long it is.
async fn entry(from: &mut (impl AsyncRead + Unpin), name: &str) -> io::Result<u64> {
    let mut block = [0; BLOCK_BYTES];
    from.read_exact(&mut block).await.map_err(cut)?;
    let header = Header::from_byte_slice(&block);
    let mut summed = header.clone();
    summed.set_cksum();
    let is_whole = summed.as_bytes() == header.as_bytes();
    let is_file = header.entry_type().is_file() && &*header.path_bytes() == name.as_bytes();
    let bytes = header.entry_size().ok().filter(|_| is_whole && is_file);
    bytes.ok_or_else(unreadable)
}

/// Copies a sealed file and what pads it.
async fn copy(
    images: &Images,
    from: &mut (impl AsyncRead + Unpin),
    bytes: u64,
    what: What<'_>,
    to: Option<File>,
) -> io::Result<()> {
    let mut to = to.map(tokio::fs::File::from_std);
    let mut left = bytes.checked_sub(NONCE_BYTES as u64).ok_or_else(unreadable)?;
    let mut nonce = [0; NONCE_BYTES];
    from.read_exact(&mut nonce).await.map_err(cut)?;
    let mut pieces = images.key.pieces(nonce, what);
    if let Some(to) = &mut to {
        to.write_all(&nonce).await?;
    }
    let mut piece = Vec::with_capacity(SEALED_BYTES);
    let mut is_last = false;
    while !is_last {
        let wanted = left.min(SEALED_BYTES as u64);
        left -= wanted;
        is_last = left == 0;
        piece.clear();
        if from.take(wanted).read_to_end(&mut piece).await? as u64 != wanted {
            return Err(cut(io::ErrorKind::UnexpectedEof.into()));
        }
        let sealed = to.is_some().then(|| piece.clone());
        pieces.open(&mut piece, is_last)?;
        if let (Some(to), Some(sealed)) = (&mut to, sealed) {
            to.write_all(&sealed).await?;
        }
    }
    if let Some(to) = &mut to {
        to.flush().await?;
        to.sync_all().await?;
    }
    skip(from, padding(bytes)).await
}

async fn skip(from: &mut (impl AsyncRead + Unpin), bytes: usize) -> io::Result<()> {
    let mut block = [0; BLOCK_BYTES];
    let rest = block.get_mut(..bytes).unwrap_or_default();
    from.read_exact(rest).await.map(drop).map_err(cut)
}

/// What is between a file of so many bytes and the next header.
fn padding(bytes: u64) -> usize {
    let over = usize::try_from(bytes % BLOCK_BYTES as u64).unwrap_or(0);
    (BLOCK_BYTES - over) % BLOCK_BYTES
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no image that a host of ours has exported")
}

fn cut(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it ends too early"),
        _ => error,
    }
}

#[cfg(test)]
mod tests;
