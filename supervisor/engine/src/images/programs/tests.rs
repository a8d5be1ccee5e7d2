use std::io::Read as _;
use std::sync::Arc;

use super::*;

const PYTHON: &str = "3.11.2";

fn interpreter(program: &[u8]) -> Interpreter {
    Interpreter {
        path: "/usr/bin/python3".into(),
        prefixes: Vec::new(),
        isolate: Vec::new(),
        program: Arc::new(program.to_vec().into()),
        version: PYTHON.to_owned(),
        wasm: None,
    }
}

/// A directory, and what is kept in it of a library with this content.
fn programs(library: &[u8]) -> (tempfile::TempDir, Programs) {
    let dir = tempfile::tempdir().unwrap();
    let key = SealKey::read_or_make(&dir.path().join("key")).unwrap();
    let file = dir.path().join("library");
    fs::write(&file, library).unwrap();
    let installed = Some(Arc::new(File::open(file).unwrap().into()));
    let programs = Programs::new(dir.path().join("kept"), key, installed);
    (dir, programs)
}

#[test]
fn what_was_kept_is_read_again_into_memory_that_nobody_can_change() {
    let (_dir, programs) = programs(b"library\n");
    let hash = programs.keep(&interpreter(b"program")).unwrap().unwrap();
    assert_eq!(programs.keep(&interpreter(b"program")).unwrap(), Some(hash));
    assert_ne!(programs.keep(&interpreter(b"another")).unwrap(), Some(hash));
    let Kept { library, program } = programs.read(&hash, PYTHON).unwrap();
    assert_eq!(program, b"program");
    let mut content = Vec::new();
    let path = format!("/proc/self/fd/{}", library.as_raw_fd());
    File::open(&path).unwrap().read_to_end(&mut content).unwrap();
    assert_eq!(content, b"library\n");
    let written = File::options().write(true).open(&path).and_then(|mut file| file.write(b"x"));
    written.unwrap_err();
}

#[test]
fn what_is_not_there_damaged_or_of_another_contract_is_refused_by_that_name() {
    let (_dir, programs) = programs(b"library");
    let hash = programs.keep(&interpreter(b"program")).unwrap().unwrap();
    assert!(matches!(programs.read(&Hash::of(b""), PYTHON), Err(ProgramsError::Unknown)));
    assert!(
        matches!(programs.read(&hash, "3.12.0"), Err(ProgramsError::Python(version)) if version == PYTHON)
    );
    let path = programs.path(&hash);
    let good = fs::read(&path).unwrap();
    // In the place of another.
    let other = programs.keep(&interpreter(b"another")).unwrap().unwrap();
    fs::copy(programs.path(&other), &path).unwrap();
    assert!(matches!(programs.read(&hash, PYTHON), Err(ProgramsError::Io(_))));
    for place in [0, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[place] ^= 1;
        fs::write(&path, bad).unwrap();
        assert!(matches!(programs.read(&hash, PYTHON), Err(ProgramsError::Io(_))), "{place}");
    }
    fs::write(&path, good).unwrap();
    programs.read(&hash, PYTHON).unwrap();

    let header = Header {
        protocol_version: PROTOCOL_VERSION + 1,
        python: PYTHON.to_owned(),
        program_bytes: 0,
    };
    let name = hash.to_string();
    let sealing = programs.key.seal(Vec::new(), What::Programs { hash: &name }).unwrap();
    let mut writer = zstd::Encoder::new(sealing, LEVEL).unwrap();
    writer.write_all(&serde_json::to_vec(&header).unwrap()).unwrap();
    writer.write_all(b"\n").unwrap();
    fs::write(&path, writer.finish().unwrap().finish().unwrap()).unwrap();
    assert!(matches!(programs.read(&hash, PYTHON), Err(ProgramsError::Protocol)));
}

#[test]
fn those_that_no_image_needs_are_removed() {
    let (_dir, programs) = programs(b"library");
    let [one, other] = [b"one".as_slice(), b"other"]
        .map(|program| programs.keep(&interpreter(program)).unwrap().unwrap());
    programs.keep_only(&[one].into()).unwrap();
    programs.read(&one, PYTHON).unwrap();
    assert!(matches!(programs.read(&other, PYTHON), Err(ProgramsError::Unknown)));
}
