//! Archives as programs make them, and as none should.

use proptest::prelude::{any, prop, prop_assert_eq};

use super::*;

fn header(name: &str, kind: u8, size: usize) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[156] = kind;
    block[257..263].copy_from_slice(b"ustar\0");
    finished(block)
}

fn finished(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    block[154] = 0;
    block
}

fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, kind, content.len());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn read(pieces: &[&[u8]]) -> Result<Vec<String>, TarError> {
    let (mut parser, mut said) = (Parser::default(), Vec::<String>::new());
    let mut content = Vec::new();
    for mut piece in pieces.iter().copied() {
        loop {
            match parser.next(&mut piece)? {
                Event::Nothing => break,
                Event::Directory(name) => {
                    said.push(format!("dir {}", String::from_utf8_lossy(&name)))
                }
                Event::File { name, .. } => said.push(String::from_utf8_lossy(&name).into_owned()),
                Event::Data(data) => content.extend(data),
                Event::FileEnd => {
                    let content = std::mem::take(&mut content);
                    said.push(format!("= {}", String::from_utf8_lossy(&content)));
                }
            }
        }
    }
    parser.finish().map(|()| said)
}

fn whole(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut all = parts.concat();
    all.extend([0; 2 * BLOCK]);
    all
}

#[test]
fn archives_of_other_programs_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let long = "long/".repeat(40) + "name";
    for (name, content) in [("a", "1"), ("b/c", "22"), (&long, "333")] {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    for format in ["gnu", "pax", "ustar", "v7"] {
        let mut command = std::process::Command::new("tar");
        command.arg("-C").arg(directory.path()).args(["-c", "--format", format, "a", "b"]);
        if matches!(format, "gnu" | "pax") {
            command.arg("long");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = read(&[&output.stdout]).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert!(
            said.starts_with(&["a".into(), "= 1".into(), "dir b/".into()]),
            "{format}: {said:?}"
        );
        assert!(said.contains(&"= 22".to_owned()), "{format}: {said:?}");
        if matches!(format, "gnu" | "pax") {
            let at = said.iter().position(|name| *name == long).unwrap();
            assert_eq!(said[at + 1], "= 333", "{format}");
        }
    }
}

#[test]
fn links_devices_and_fifos_are_refused_by_name() {
    for (kind, what) in [(b'1', "hard link"), (b'2', "symbolic"), (b'3', "device"), (b'6', "FIFO")]
    {
        let error = read(&[&whole(&[entry("trap", kind, b"")])]).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("trap"), "{error}");
    }
    // The control: the same entry as a file.
    assert_eq!(read(&[&whole(&[entry("trap", b'0', b"")])]).unwrap(), ["trap", "= "]);
}

#[test]
fn damaged_and_cut_archives_are_errors() {
    let good = whole(&[entry("a", b'0', b"12345")]);
    let mut bad = good.clone();
    bad[3] ^= 1;
    assert_eq!(read(&[&bad]), Err(TarError::Damaged("checksum")));
    assert_eq!(read(&[&good[..BLOCK + 3]]), Err(TarError::Short));
    assert_eq!(read(&[&good[..100]]), Err(TarError::Short));
    assert_eq!(read(&[b""]), Err(TarError::Damaged("empty")));
    assert_eq!(read(&[&[0; 2 * BLOCK]]), Err(TarError::Damaged("empty")));
    assert!(read(&[&good[..2 * BLOCK]]).is_ok(), "some archives have no end");
}

#[test]
fn headers_are_bounded() {
    let large = entry("x", b'x', &vec![b'a'; 65 << 10]);
    assert_eq!(read(&[&large]), Err(TarError::TooLarge(65 << 10)));
    // A size of 2^63 in base 256 is no overflow, and is not believed before it has come.
    let mut block = header("huge", b'0', 0);
    block[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0x7f, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(read(&[&finished(block)]), Err(TarError::Short));
}

#[test]
fn pax_records_name_and_size_the_next_file_only() {
    let records = b"18 path=other/name\n";
    let records =
        [format!("{} path=other/name\n", records.len()).as_bytes(), b"10 size=3\n"].concat();
    let archive = whole(&[
        entry("x", b'x', &records),
        entry("short", b'0', b"abc"),
        entry("next", b'0', b"de"),
    ]);
    assert_eq!(read(&[&archive]).unwrap(), ["other/name", "= abc", "next", "= de"]);
    for wrong in ["5 a=b\n", "99 a=b\n", "x", "6 ab=\n 7 a"] {
        let archive = whole(&[entry("x", b'x', wrong.as_bytes()), entry("f", b'0', b"")]);
        assert_eq!(read(&[&archive]), Err(TarError::Damaged("pax record")), "{wrong:?}");
    }
}

proptest::proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _any = read(&[&bytes]);
    }

    #[test]
    fn an_archive_says_the_same_however_it_is_cut(
        content in prop::collection::vec(any::<u8>(), 0..1500), cut in 0_usize..4000,
    ) {
        let content = String::from_utf8_lossy(&content).into_owned().into_bytes();
        let archive = whole(&[entry("d", b'5', b""), entry("d/f", b'0', &content), entry("g", b'0', b"")]);
        let (first, second) = archive.split_at(cut.min(archive.len()));
        prop_assert_eq!(read(&[first, second]), read(&[&archive]));
    }

    #[test]
    fn a_damaged_header_never_panics(at in 0_usize..512, byte: u8) {
        let mut block = header("name", b'0', 3);
        block[at] = byte;
        let _any = read(&[&finished(block), &[0; 512]]);
    }
}
