use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use uuid::Uuid;

use super::{FILES_MAX, KnownParts, Parts, Reader, write};

/// Bytes of no pattern, always the same for a seed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(bytes).collect()
}

/// Images that follow each other, and their files.
#[derive(Default)]
struct Written {
    files: BTreeMap<Uuid, Vec<u8>>,
    known: KnownParts,
}

impl Written {
    /// Where the parts are, and how many bytes were new.
    fn add(&mut self, image: &[u8]) -> (Parts, usize) {
        let (id, mut file) = (Uuid::new_v4(), Vec::new());
        let (parts, known) = write(image, &mut file, id, &self.known).unwrap();
        let bytes = file.len();
        (self.known, _) = (known, self.files.insert(id, file));
        (parts, bytes)
    }

    fn read(&self, parts: &Parts) -> std::io::Result<Vec<u8>> {
        let open = |id| {
            let file = self.files.get(&id).cloned().ok_or(std::io::ErrorKind::NotFound)?;
            Ok(Box::new(Cursor::new(file)) as Box<dyn Read + Send>)
        };
        let mut image = Vec::new();
        let _bytes = Reader::new(parts.clone(), open).read_to_end(&mut image)?;
        Ok(image)
    }
}

#[test]
fn what_has_not_changed_is_written_once_wherever_it_is() {
    let mut written = Written::default();
    let mut image = noise(1, 1 << 20);
    let (first, bytes) = written.add(&image);
    assert!(bytes >= image.len(), "{bytes}");
    // A page changes, one comes, one goes, and all after it move by a little.
    image[300_000..304_096].copy_from_slice(&noise(2, 4096));
    drop(image.splice(500_000..500_000, noise(3, 4104)));
    drop(image.drain(700_000..704_096));
    let (second, bytes) = written.add(&image);
    assert!(bytes < 100_000, "{bytes}");
    assert_eq!(written.read(&second).unwrap(), image);
    assert_eq!(written.read(&first).unwrap(), noise(1, 1 << 20));
    let (third, bytes) = written.add(&image);
    assert_eq!((bytes, written.read(&third).unwrap()), (0, image));
}

#[test]
fn what_repeats_and_what_is_empty_comes_back() {
    let mut written = Written::default();
    for image in
        [vec![], vec![0; 200_000], [noise(1, 9000), vec![0; 70_000], noise(1, 9000)].concat()]
    {
        for _ in 0..2 {
            let (parts, _) = written.add(&image);
            assert_eq!(written.read(&parts).unwrap(), image);
        }
    }
}

#[test]
fn however_many_there_were_an_image_is_of_few_files() {
    let mut written = Written::default();
    let mut image = noise(1, 1 << 20);
    for change in 0..3 * FILES_MAX {
        let at = change * 20_000;
        image[at..at + 8192].copy_from_slice(&noise(change as u64 + 2, 8192));
        let (parts, bytes) = written.add(&image);
        assert!(parts.files().len() <= FILES_MAX, "{}", parts.files().len());
        assert!(change == 0 || bytes < image.len() / 4, "{change}: {bytes}");
        assert_eq!(written.read(&parts).unwrap(), image);
    }
}

#[test]
fn parts_that_are_not_there_are_an_error() {
    let mut written = Written::default();
    let image = noise(1, 100_000);
    let (parts, _) = written.add(&image);
    let id = parts.files()[0];
    let whole = written.files[&id].clone();
    for cut in [0, 2, 4, 5000, whole.len() - 1] {
        written.files.insert(id, whole[..cut].to_vec());
        assert!(written.read(&parts).is_err(), "{cut}");
    }
    written.files.clear();
    assert!(written.read(&parts).is_err());
    written.files.insert(id, whole);
    assert_eq!(written.read(&parts).unwrap(), image);
}
