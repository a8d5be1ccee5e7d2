//! Archives: what is unpacked, and what is not.

use serde_json::json;

use super::tar::{self, Kind};
use super::{Files, noise};

#[test]
fn archives_of_every_format_are_unpacked() {
    let daemon = crate::DAEMON.hold();
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
    daemon.release();
}

#[test]
fn directories_are_downloaded_as_archives() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(
        "import os\n\
         os.makedirs('d/sub/empty'); os.makedirs('.cache'); open('.cache/x', 'w').close()\n\
         open('d/a.txt', 'w').write('a'); open('d/sub/run.sh', 'w').close()\n\
         os.chmod('d/sub/run.sh', 0o750); os.utime('d/a.txt', (1, 1700000000))\n\
         open('d/' + 'ü' * 100, 'w').write('long')\n\
         os.symlink('/etc/passwd', 'd/link'); os.symlink('/etc', 'd/etc'); os.mkfifo('d/pipe')\n\
         os.mkdir('/tmp/t'); open('/tmp/t/f', 'w').write('of tmp')",
    );
    let read = "import tarfile\n\
        found = {}\n\
        with tarfile.open('got.tar') as tar:\n    \
            for one in tar:\n        \
                text = tar.extractfile(one).read().decode() if one.isfile() else None\n        \
                found[one.name] = (oct(one.mode), one.mtime if one.name == 'a.txt' else 0, text)";
    let answer = files.get("d");
    assert_eq!(answer.header("content-type").unwrap(), "application/x-tar");
    assert_eq!(files.put("got.tar", &answer.body).status, 201);
    files.run(read);
    let expected = "{'.': ('0o755', 0, None), 'a.txt': ('0o644', 1700000000, 'a'), \
        'sub': ('0o755', 0, None), 'sub/empty': ('0o755', 0, None), \
        'sub/run.sh': ('0o750', 0, ''), 'ü' * 100: ('0o644', 0, 'long')}";
    assert_eq!(files.session.value(&format!("found == {expected} or found")), "True");
    // What comes down goes up.
    assert_eq!(files.unpack("again", &answer.body).json()["files"], 3);
    assert_eq!(files.content("again/a.txt"), b"a");
    assert_eq!(files.delete("again").status, 204);
    assert_eq!(files.delete("got.tar").status, 204);
    let roots = [("%2Fworkspace", "files.tar", "d/a.txt"), ("%2Ftmp", "tmp.tar", "t/f")];
    for (path, name, inside) in roots {
        let answer = files.get(path);
        assert!(answer.header("content-disposition").unwrap().ends_with(name));
        assert_eq!(files.put("got.tar", &answer.body).status, 201);
        files.run(read);
        assert_eq!(files.session.value(&format!("{inside:?} in found")), "True", "{path}");
        assert_eq!(files.session.value("any('.cache' in name for name in found)"), "False");
        assert_eq!(files.delete("got.tar").status, 204);
    }
    for path in ["d/pipe", "d/link", "d/etc"] {
        assert!([409, 422].contains(&files.get(path).status), "{path}");
    }
    daemon.release();
}

#[test]
fn entries_that_are_no_files_end_an_archive() {
    let daemon = crate::DAEMON.hold();
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
    daemon.release();
}

#[test]
fn names_that_climb_end_an_archive() {
    let daemon = crate::DAEMON.hold();
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
    daemon.release();
}

#[test]
fn what_is_no_archive_is_refused() {
    let daemon = crate::DAEMON.hold();
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
    daemon.release();
}
