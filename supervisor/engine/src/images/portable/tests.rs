use super::*;

#[test]
fn files_of_an_archive_are_padded_to_blocks() {
    for (bytes, expected) in [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511)] {
        assert_eq!(padding(bytes), expected, "{bytes} bytes");
    }
}

async fn archived(name: &str, content: &'static [u8]) -> Vec<u8> {
    let none = Portable { bytes: 0, reader: Box::new(tokio::io::empty()) };
    let mut one = none.add(name, content.len() as u64, content).unwrap();
    let mut bytes = Vec::new();
    one.reader.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes.len() as u64, one.bytes);
    bytes
}

#[tokio::test]
async fn a_header_is_read_as_it_was_written_and_no_other() {
    let bytes = archived(KERNEL, b"content").await;
    assert_eq!(bytes.len(), 2 * BLOCK_BYTES);
    assert_eq!(entry(&mut &*bytes, KERNEL).await.unwrap(), 7);
    assert!(entry(&mut &*bytes, RECORD).await.is_err(), "another name");
    let short = entry(&mut &bytes[..BLOCK_BYTES - 1], KERNEL).await.unwrap_err();
    assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    let changed = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        changed
    };
    // Its size, its checksum, its type.
    for at in [130, 150, 156] {
        assert!(entry(&mut &*changed(at), KERNEL).await.is_err(), "byte {at}");
    }
}
