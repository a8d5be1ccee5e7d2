use std::io::{Read, Write};

use super::*;

const KERNEL: What<'_> = What::Kernel { image: "a" };

fn key() -> (tempfile::TempDir, SealKey) {
    let dir = tempfile::tempdir().unwrap();
    let key = SealKey::read_or_make(&dir.path().join("key")).unwrap();
    (dir, key)
}

fn sealed(key: &SealKey, content: &[u8]) -> Vec<u8> {
    let mut sealing = key.seal(Vec::new(), KERNEL).unwrap();
    sealing.write_all(content).unwrap();
    sealing.finish().unwrap()
}

fn opened(key: &SealKey, what: What<'_>, sealed: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    key.open(sealed, what)?.read_to_end(&mut content)?;
    Ok(content)
}

#[test]
fn content_of_any_length_comes_back_and_is_not_in_the_file() {
    let (_dir, key) = key();
    for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
        let content = vec![7; len];
        let file = sealed(&key, &content);
        assert_eq!(opened(&key, KERNEL, &file).unwrap(), content, "{len} bytes");
        assert!(!file.windows(8).any(|bytes| bytes == [7; 8]), "{len} bytes");
    }
}

#[test]
fn two_files_of_the_same_content_have_nothing_in_common() {
    let (_dir, key) = key();
    let (one, other) = (sealed(&key, &[0; 64]), sealed(&key, &[0; 64]));
    assert!(one.chunks(8).zip(other.chunks(8)).all(|(one, other)| one != other));
}

#[test]
fn a_changed_byte_anywhere_is_refused() {
    let (_dir, key) = key();
    let mut file = sealed(&key, &vec![1; PIECE_BYTES + 3]);
    let len = file.len();
    for at in (0..len).filter(|at| at % 97 == 0 || *at < 40 || at + 40 > len) {
        file[at] ^= 1;
        let error = opened(&key, KERNEL, &file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "byte {at}");
        file[at] ^= 1;
    }
    opened(&key, KERNEL, &file).unwrap();
}

#[test]
fn a_file_that_is_cut_or_longer_or_has_its_pieces_in_another_order_is_refused() {
    let (_dir, key) = key();
    let file = sealed(&key, &[vec![1; PIECE_BYTES], vec![2; PIECE_BYTES], vec![3]].concat());
    let piece = PIECE_BYTES + TAG_BYTES;
    let (first, second) = (NONCE_BYTES, NONCE_BYTES + piece);
    let (nonce, rest) = file.split_at(NONCE_BYTES);
    let swapped =
        [nonce, &file[second..second + piece], &file[first..second], &rest[2 * piece..]].concat();
    let longer = [&*file, b"x"].concat();
    let cuts = [0, 1, first, first + 1, second, second + piece, file.len() - 1];
    let cut = cuts.map(|len| file[..len].to_vec());
    for wrong in cut.into_iter().chain([swapped, longer]) {
        let error = opened(&key, KERNEL, &wrong).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{} bytes", wrong.len());
    }
}

#[test]
fn a_file_of_something_else_and_of_another_key_is_refused() {
    let (_dir, key) = key();
    let (_other_dir, other) = self::key();
    let file = sealed(&key, b"x");
    opened(&key, KERNEL, &file).unwrap();
    opened(&key, What::Kernel { image: "b" }, &file).unwrap_err();
    opened(&key, What::Record { tenant: "a", session: "" }, &file).unwrap_err();
    opened(&other, KERNEL, &file).unwrap_err();
}

#[test]
fn a_key_is_made_once_for_its_owner_alone_and_one_of_another_length_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, key) = key();
    let path = dir.path().join("key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let again = SealKey::read_or_make(&path).unwrap();
    assert_eq!(opened(&again, KERNEL, &sealed(&key, b"x")).unwrap(), b"x");
    for len in [0, 31, 33, 4096] {
        fs::write(&path, vec![1; len]).unwrap();
        let error = SealKey::read_or_make(&path).unwrap_err();
        assert!(error.to_string().contains("32 random bytes"), "{error}");
    }
}
