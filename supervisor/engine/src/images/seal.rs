//! Files of images, encrypted and authenticated with a key of the host: XChaCha20-Poly1305 in pieces, STREAM
//! (Hoang, Reyhanitabar, Rogaway and Vizár, 2015; <https://eprint.iacr.org/2015/189>).
//!
//! ```text
//! 19 bytes   nonce, drawn for each file
//! then       pieces: at most 64 KiB and a tag of 16 bytes; the last one is marked as that in its nonce
//! ```
//!
//! What a file is of (kind, tenant, session) is authenticated with it: in another's place it is refused.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use aead_stream::{DecryptorBE32, EncryptorBE32};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};

const KEY_BYTES: usize = 32;
pub(crate) const NONCE_BYTES: usize = 19;
const PIECE_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;

/// How long each piece of a file is but the last, which is no longer.
pub(crate) const SEALED_BYTES: usize = PIECE_BYTES + TAG_BYTES;

/// The key of a host, or of several that exchange images.
#[derive(Clone)]
pub(crate) struct SealKey(XChaCha20Poly1305);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey")
    }
}

impl SealKey {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut key = Vec::new();
        // A file without end is none.
        File::open(path)?.take(KEY_BYTES as u64 + 1).read_to_end(&mut key)?;
        let cipher = XChaCha20Poly1305::new_from_slice(&key).map_err(|_| {
            let why = format!("{} has to be {KEY_BYTES} random bytes long", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        Ok(Self(cipher))
    }

    /// Reads a key, which is made first if there is none.
    pub(crate) fn read_or_make(path: &Path) -> io::Result<Self> {
        if !fs::exists(path)? {
            let dir = path.parent().unwrap_or(Path::new("."));
            let mut new = tempfile::NamedTempFile::new_in(dir)?;
            new.write_all(&random::<KEY_BYTES>()?)?;
            new.as_file().sync_all()?;
            new.persist_noclobber(path)?;
            File::open(dir)?.sync_all()?;
        }
        Self::read(path)
    }

    /// What is written to it is sealed, and then written to `to`.
    pub(crate) fn seal<W: Write>(&self, mut to: W, what: What<'_>) -> io::Result<Sealing<W>> {
        let nonce = random::<NONCE_BYTES>()?;
        to.write_all(&nonce)?;
        let stream = EncryptorBE32::from_aead(self.0.clone(), &nonce.into());
        let piece = Vec::with_capacity(PIECE_BYTES + TAG_BYTES);
        Ok(Sealing { to, stream, what: what.bytes(), piece })
    }

    /// What was sealed, of which nothing is read before it is known to be genuine.
    pub(crate) fn open<R: Read>(&self, mut from: R, what: What<'_>) -> io::Result<Opening<R>> {
        let mut nonce = [0; NONCE_BYTES];
        from.read_exact(&mut nonce).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => not_genuine(),
            _ => error,
        })?;
        let from = BufReader::with_capacity(SEALED_BYTES, from);
        Ok(Opening { from, pieces: self.pieces(nonce, what), piece: Vec::new(), read: 0 })
    }

    /// Opens the pieces of a file that begins with this nonce.
    pub(crate) fn pieces(&self, nonce: [u8; NONCE_BYTES], what: What<'_>) -> Pieces {
        let stream = Some(DecryptorBE32::from_aead(self.0.clone(), &nonce.into()));
        Pieces { stream, what: what.bytes() }
    }
}

/// What a file is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'a> {
    Record {
        tenant: &'a str,
        session: &'a str,
    },
    Checkpoint {
        tenant: &'a str,
        session: &'a str,
    },
    /// Of the image that has this name in its record.
    Kernel {
        image: &'a str,
    },
    Template {
        environment: &'a str,
        fingerprint: &'a str,
    },
    /// A library and kernel program.
    Programs {
        hash: &'a str,
    },
    /// The record of an image that leaves the host.
    Exported {
        tenant: &'a str,
    },
}

impl What<'_> {
    /// No name has a zero byte.
    fn bytes(self) -> Vec<u8> {
        let parts = match self {
            Self::Record { tenant, session } => ["record", tenant, session],
            Self::Checkpoint { tenant, session } => ["checkpoint", tenant, session],
            Self::Kernel { image } => ["kernel", image, ""],
            Self::Template { environment, fingerprint } => ["template", environment, fingerprint],
            Self::Programs { hash } => ["programs", hash, ""],
            Self::Exported { tenant } => ["exported", tenant, ""],
        };
        parts.join("\0").into_bytes()
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

fn not_genuine() -> io::Error {
    let why =
        "it is not what was written there: it was changed, cut or moved, or the key is another";
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// `finish` has to be called, or what was written is refused as cut.
pub(crate) struct Sealing<W> {
    to: W,
    stream: EncryptorBE32<XChaCha20Poly1305>,
    what: Vec<u8>,
    piece: Vec<u8>,
}

impl<W: Write> Sealing<W> {
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let sealed = self.stream.encrypt_last_in_place(&self.what, &mut self.piece);
        sealed.map_err(|_| too_long())?;
        self.to.write_all(&self.piece)?;
        Ok(self.to)
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Only once there is more, since the last piece is another.
        if self.piece.len() == PIECE_BYTES && !bytes.is_empty() {
            let sealed = self.stream.encrypt_next_in_place(&self.what, &mut self.piece);
            sealed.map_err(|_| too_long())?;
            self.to.write_all(&self.piece)?;
            self.piece.clear();
        }
        let bytes = bytes.get(..PIECE_BYTES - self.piece.len()).unwrap_or(bytes);
        self.piece.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// A piece is written when it is full.
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn too_long() -> io::Error {
    io::ErrorKind::FileTooLarge.into()
}

/// The pieces of a file, opened in their order.
pub(crate) struct Pieces {
    /// `None` after the last piece.
    stream: Option<DecryptorBE32<XChaCha20Poly1305>>,
    what: Vec<u8>,
}

impl Pieces {
    /// Replaces the next piece by its content.
    pub(crate) fn open(&mut self, piece: &mut Vec<u8>, is_last: bool) -> io::Result<()> {
        let mut stream = self.stream.take().ok_or_else(not_genuine)?;
        if is_last {
            return stream.decrypt_last_in_place(&self.what, piece).map_err(|_| not_genuine());
        }
        stream.decrypt_next_in_place(&self.what, piece).map_err(|_| not_genuine())?;
        self.stream = Some(stream);
        Ok(())
    }

    const fn are_over(&self) -> bool {
        self.stream.is_none()
    }
}

pub(crate) struct Opening<R> {
    from: BufReader<R>,
    pieces: Pieces,
    piece: Vec<u8>,
    /// How much of the piece.
    read: usize,
}

impl<R: Read> Opening<R> {
    fn next_piece(&mut self) -> io::Result<()> {
        self.piece.clear();
        self.read = 0;
        if self.pieces.are_over() {
            return Ok(());
        }
        self.from.by_ref().take(SEALED_BYTES as u64).read_to_end(&mut self.piece)?;
        let is_last = self.from.fill_buf()?.is_empty();
        let opened = self.pieces.open(&mut self.piece, is_last);
        if opened.is_err() {
            self.piece.clear();
        }
        opened
    }
}

impl<R: Read> Read for Opening<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            self.next_piece()?;
        }
        let count = self.piece.get(self.read..).unwrap_or_default().read(to)?;
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
