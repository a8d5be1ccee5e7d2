//! The format of sealed files, read and written by its description alone (supervisor/engine/src/images/seal.rs).

use std::fs;
use std::path::{Path, PathBuf};

use aead_stream::aead::{KeyInit, Payload};
use aead_stream::{DecryptorBE32, EncryptorBE32};
use chacha20poly1305::XChaCha20Poly1305;
use serde_json::Value;

const NONCE_BYTES: usize = 19;
const SEALED_PIECE_BYTES: usize = (64 << 10) + 16;

fn cipher(state: &Path) -> XChaCha20Poly1305 {
    let key = fs::read(state.join("images/.key")).unwrap();
    XChaCha20Poly1305::new_from_slice(&key).unwrap()
}

fn open(state: &Path, file: &Path, what: &str) -> Vec<u8> {
    let sealed = fs::read(file).unwrap();
    let (nonce, pieces) = sealed.split_first_chunk::<NONCE_BYTES>().unwrap();
    let mut stream = DecryptorBE32::from_aead(cipher(state), &(*nonce).into());
    let mut pieces = pieces.chunks(SEALED_PIECE_BYTES);
    let last = pieces.next_back().unwrap();
    let payload = |msg| Payload { msg, aad: what.as_bytes() };
    let mut content: Vec<u8> =
        pieces.flat_map(|piece| stream.decrypt_next(payload(piece)).unwrap()).collect();
    content.extend(stream.decrypt_last(payload(last)).unwrap());
    content
}

fn seal(state: &Path, file: &Path, what: &str, content: &[u8]) {
    let nonce = [7; NONCE_BYTES];
    let mut stream = EncryptorBE32::from_aead(cipher(state), &nonce.into());
    let mut pieces = content.chunks(64 << 10);
    let last = pieces.next_back().unwrap_or_default();
    let payload = |msg| Payload { msg, aad: what.as_bytes() };
    let mut sealed = nonce.to_vec();
    pieces.for_each(|piece| sealed.extend(stream.encrypt_next(payload(piece)).unwrap()));
    sealed.extend(stream.encrypt_last(payload(last)).unwrap());
    fs::write(file, sealed).unwrap();
}

/// The image of a session of the default tenant.
pub(crate) struct Sealed {
    state: PathBuf,
    kernel: PathBuf,
    what: String,
}

impl Sealed {
    pub(crate) fn of(state: &Path, id: &str) -> Self {
        let dir = state.join("images/default").join(id);
        let record = open(state, &dir.join("record"), &format!("record\0default\0{id}"));
        let record: Value = serde_json::from_slice(&record).unwrap();
        let what = format!("kernel\0{}\0", record["image"].as_str().unwrap());
        Self { state: state.to_owned(), kernel: dir.join("kernel"), what }
    }

    /// What its kernel wrote.
    pub(crate) fn content(&self) -> Vec<u8> {
        zstd::decode_all(&*open(&self.state, &self.kernel, &self.what)).unwrap()
    }

    /// Has it be this, as only who has the key can.
    pub(crate) fn put(&self, content: &[u8]) {
        seal(&self.state, &self.kernel, &self.what, &zstd::encode_all(content, 1).unwrap());
    }
}

/// Changes the record of an image in this directory, as only who has the key can.
pub(crate) fn change_record(state: &Path, dir: &Path, what: &str, change: impl Fn(&mut Value)) {
    let file = dir.join("record");
    let mut record = serde_json::from_slice(&open(state, &file, what)).unwrap();
    change(&mut record);
    seal(state, &file, what, &serde_json::to_vec(&record).unwrap());
}

/// Changes the memory that is kept of the default environment's template, as only who has the key can. Returns what it
/// was.
pub(crate) fn change_template(state: &Path, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let dir = state.join("images/.templates/default");
    let file = fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let fingerprint = file.file_name().unwrap().to_str().unwrap();
    let what = format!("template\0default\0{fingerprint}");
    let kept = zstd::decode_all(&*open(state, &file, &what)).unwrap();
    let mut changed = kept.clone();
    change(&mut changed);
    seal(state, &file, &what, &zstd::encode_all(&*changed, 1).unwrap());
    kept
}
