//! Archives: what is unpacked, and what is not.

use serde_json::json;
use vivarium_tests::Daemon;

use super::tar::{self, Kind};
use super::{Files, noise};

#[test]
fn archives_of_every_format_are_unpacked() {
    let daemon = Daemon::start();
    let files = Files::of(&daemon);
    files.run(
        "import io, os, tarfile\n\
         long = 'l' * 120 + '/' + 'm' * 120 + '.txt'\n\
         def make(name, format):\n    \
             with tarfile.open(name, 'w', format=format) as tar:\n        \
                 def add(name, data, mode=0o644):\n            \
                     info = tarfile.TarInfo(name); info.size = len(data); info.mode = mode\n            \
                     tar.addfile(info, io.BytesIO(data))\n        \
                 directory = tarfile.TarInfo('./dir'); directory.type = tarfile.DIRTYPE\n        \
                 tar.addfile(directory)\n        \
                 add('./dir/a.txt', b'a'); add('run.sh', b'#!/bin/sh\\n', 0o4777)\n        \
                 add('empty', b''); add('\u{fc}.txt', b'u')\n        \
                 if format != tarfile.USTAR_FORMAT: add(long, b'deep')\n\
         make('ustar.tar', tarfile.USTAR_FORMAT)\n\
         make('gnu.tar', tarfile.GNU_FORMAT)\n\
         make('pax.tar', tarfile.PAX_FORMAT)",
    );
    for (name, count) in [("ustar", 4), ("gnu", 5), ("pax", 5)] {
        let archive = files.content(&format!("{name}.tar"));
        let answer = files.unpack(&format!("into/{name}"), &archive);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.json()["files"], json!(count), "{name}");
        assert_eq!(answer.json()["path"], json!(format!("into/{name}")));
        assert_eq!(files.content(&format!("into/{name}/dir/a.txt")), b"a");
        assert_eq!(files.content(&format!("into/{name}/%C3%BC.txt")), b"u");
        // Executable or not is kept, and no more of a mode.
        let mode = format!("oct(os.stat('into/{name}/run.sh').st_mode)");
        assert_eq!(files.session.value(&mode), "'0o100755'");
    }
    assert_eq!(files.session.value("open('into/gnu/' + long).read()"), "'deep'");
    assert_eq!(files.session.value("open('into/pax/' + long).read()"), "'deep'");
    // Into the workdir, over what is there.
    let content = noise(1, 700_000);
    let archive = tar::archive(&[tar::file("empty.bin", b""), tar::file("ustar.tar", &content)]);
    assert_eq!(files.unpack("", &archive).json()["size_bytes"], 700_000);
    assert!(files.content("ustar.tar") == content);
    daemon.stop_and_check();
}

#[test]
fn entries_that_are_no_files_end_an_archive() {
    let daemon = Daemon::start();
    let files = Files::of(&daemon);
    let first = tar::file("first", b"kept");
    for (name, kind, link) in [
        ("link", Kind::SymbolicLink, "/etc/passwd"),
        ("link", Kind::SymbolicLink, "first"),
        ("hard", Kind::HardLink, "first"),
        ("hard", Kind::HardLink, "/etc/passwd"),
        ("null", Kind::CharacterDevice, ""),
        ("disk", Kind::BlockDevice, ""),
        ("pipe", Kind::Pipe, ""),
        ("odd", Kind::Unknown, ""),
    ] {
        let archive = tar::archive(&[first.clone(), tar::entry(name, kind, b"", link)]);
        files.unpack("", &archive).expect_problem(422, "bad_archive");
        // What came before it is there, and it is not.
        assert_eq!(files.names(""), ["first"], "{kind:?}");
        assert_eq!(files.content("first"), b"kept");
    }
    daemon.stop_and_check();
}

#[test]
fn names_that_climb_end_an_archive() {
    let daemon = Daemon::start();
    let files = Files::of(&daemon);
    for name in ["../x", "/tmp/x", "a/../../x", "a/..", "..", "./../x"] {
        let archive = tar::archive(&[tar::file(name, b"x")]);
        files.unpack("", &archive).expect_problem(422, "bad_archive");
        files.unpack("sub", &archive).expect_problem(422, "bad_archive");
    }
    let directory = tar::entry("../made/", Kind::Directory, b"", "");
    files.unpack("sub", &tar::archive(&[directory])).expect_problem(422, "bad_archive");
    assert_eq!(files.session.value("__import__('os').path.exists('/tmp/x')"), "False");
    assert_eq!(files.names("recursive=true"), ["sub"]);
    // The control: the same names where they do not climb.
    let archive = tar::archive(&[tar::file("a/b/../x", b"x")]);
    files.unpack("", &archive).expect_problem(422, "bad_archive");
    assert_eq!(files.unpack("", &tar::archive(&[tar::file("./a/./x", b"x")])).status, 200);
    assert_eq!(files.content("a/x"), b"x");
    daemon.stop_and_check();
}

#[test]
fn what_is_no_archive_is_refused() {
    let daemon = Daemon::start();
    let files = Files::of(&daemon);
    let mut damaged = tar::archive(&[tar::file("a", b"x")]);
    damaged[0] ^= 1;
    let cut = tar::file("a", &noise(1, 5000))[..2000].to_vec();
    for bytes in [b"hello".to_vec(), noise(2, 4096), vec![], damaged, cut] {
        files.unpack("", &bytes).expect_problem(422, "bad_archive");
        assert_eq!(files.names(""), [""; 0]);
    }
    let plain = files.send("PUT", "x?unpack=true", &[("Content-Type", "text/plain")], Some(b""));
    plain.expect_problem(415, "unsupported_media_type");
    daemon.stop_and_check();
}
