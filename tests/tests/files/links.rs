//! What is planted at a path: links, pipes, devices, directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Setup, host};

use super::Files;
use super::tar;

/// Outside of the workdir, and readable and writable for the session's own code.
const PLANTED: &str = "
import os, socket
open('/tmp/outside', 'w').write('outside')
os.mkdir('/tmp/outdir'); open('/tmp/outdir/f', 'w').write('outside')
os.symlink('/etc/passwd', 'passwd')
os.symlink('/tmp/outside', 'link')
os.symlink('/tmp/outdir', 'dirlink')
os.symlink('inside', 'inner'); open('inside', 'w').write('inside')
os.symlink('/proc/self/environ', 'environ')
os.symlink('/proc/1/root/etc/passwd', 'root')
os.symlink('/dev/zero', 'zero')
os.symlink('loop', 'loop')
os.mkfifo('pipe')
s = socket.socket(socket.AF_UNIX); s.bind('socket')
os.mkdir('dir'); open('dir/x', 'w').write('x')
";

#[test]
fn no_path_goes_through_a_link() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(PLANTED);
    // The links work, for whoever follows them.
    assert_eq!(files.session.value("open('link').read()"), "'outside'");
    assert_eq!(files.session.value("open('dirlink/f').read()"), "'outside'");
    assert_eq!(files.session.value("len(open('zero', 'rb').read(9))"), "9");
    let through = [
        "passwd",
        "link",
        "inner",
        "environ",
        "root",
        "root/x",
        "zero",
        "loop",
        "dirlink",
        "dirlink/f",
        "dirlink/new",
        "dirlink/new/er",
    ];
    for path in through {
        files.get(path).expect_problem(422, "bad_path");
        files.put(path, b"overwritten").expect_problem(422, "bad_path");
        if path != "dirlink" && path.contains('/') {
            files.delete(path).expect_problem(422, "bad_path");
        }
        files.unpack(path, &tar::archive(&[tar::file("f", b"x")])).expect_problem(422, "bad_path");
    }
    files.unpack("", &tar::archive(&[tar::file("link", b"x")])).expect_problem(422, "bad_path");
    files
        .unpack("", &tar::archive(&[tar::file("dirlink/f", b"x")]))
        .expect_problem(422, "bad_path");
    assert_eq!(files.session.value("open('/tmp/outside').read()"), "'outside'");
    assert_eq!(files.session.value("os.listdir('/tmp/outdir')"), "['f']");
    // A link itself is removed, and not what it leads to.
    for link in ["link", "dirlink", "loop", "zero"] {
        assert_eq!(files.delete(link).status, 204, "{link}");
    }
    assert_eq!(files.session.value("open('/tmp/outside').read()"), "'outside'");
    assert_eq!(files.session.value("open('/tmp/outdir/f').read()"), "'outside'");
    // Then there is room for a file.
    assert_eq!(files.put("link", b"mine").status, 201);
    assert_eq!(files.session.value("open('link').read()"), "'mine'");
    daemon.release();
}

#[test]
fn links_to_the_hosts_files_lead_nowhere_where_there_are_no_mounts() {
    // The workdir is then a directory of the host's, and the agent sees all of them.
    let daemon = Setup::default().without(&["mounts"]).start();
    let host = tempfile::Builder::new().prefix("vt").tempdir_in("/var/tmp").unwrap();
    let target = host.path().join("target");
    fs::write(&target, "of the host").unwrap();
    for (path, mode) in [(host.path(), 0o777), (&target, 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let files = Files::of(&daemon);
    files.run(&format!(
        "import os; os.symlink('{}', 'link'); os.symlink('{}', 'dirlink')",
        target.display(),
        host.path().display()
    ));
    let archive = tar::archive(&[tar::file("target", b"overwritten"), tar::file("new", b"new")]);
    for path in ["link", "dirlink/target", "dirlink/new"] {
        files.get(path).expect_problem(422, "bad_path");
        files.put(path, b"overwritten").expect_problem(422, "bad_path");
    }
    files.unpack("dirlink", &archive).expect_problem(422, "bad_path");
    files.delete("dirlink/target").expect_problem(422, "bad_path");
    assert_eq!(files.delete("dirlink").status, 204);
    assert_eq!(files.delete("link").status, 204);
    assert_eq!(fs::read_to_string(&target).unwrap(), "of the host");
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 1);
    // The control: what is no link works here as well.
    assert_eq!(files.put("dir/file", b"mine").status, 201);
    assert_eq!(files.session.value("open('dir/file').read()"), "'mine'");
    assert_eq!(files.unpack("dir", &archive).status, 200);
    assert_eq!(files.content("dir/target"), b"overwritten");
    daemon.stop_and_check();
}

#[test]
fn what_is_no_file_is_left_alone() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(PLANTED);
    for path in ["pipe", "socket", "dir"] {
        // A pipe without a writer, or a reader, blocks whoever waits for one.
        if path != "dir" {
            files.get(path).expect_problem(409, "not_a_file");
        }
        files.put(path, b"x").expect_problem(409, "not_a_file");
    }
    for path in ["pipe/x", "socket/x", "inside/x"] {
        files.get(path).expect_problem(409, "not_a_file");
        files.put(path, b"x").expect_problem(409, "not_a_file");
    }
    // A writer that waits for a reader is not served either.
    files.run(
        "import threading\nthreading.Thread(target=lambda: open('pipe', 'w'), daemon=True).start()",
    );
    files.get("pipe").expect_problem(409, "not_a_file");
    for path in ["pipe", "socket", "dir"] {
        assert_eq!(files.delete(path).status, 204, "{path}");
    }
    daemon.release();
}

const CLOSED: &str = "
import os
open('closed', 'w').write('mine'); os.chmod('closed', 0)
os.mkdir('dir'); open('dir/f', 'w').write('mine'); os.chmod('dir', 0)
os.link('closed', 'hard')
";

#[test]
fn permissions_are_the_sessions_own_affair() {
    // With two ids in a session, and with one.
    let runners =
        if host::is_root() { vec![Runner::Self_, program::nobody()] } else { vec![Runner::Self_] };
    for runner in runners {
        let daemon = Setup::default().runner(runner).start();
        let files = Files::of(&daemon);
        files.run(CLOSED);
        // Whatever is in the workdir is the session's, and so its client's.
        assert_eq!(files.content("closed"), b"mine");
        assert_eq!(files.content("hard"), b"mine");
        assert_eq!(files.content("dir/f"), b"mine");
        // A new file takes the place of one of two names, and leaves the other.
        assert_eq!(files.put("closed", b"new").status, 200);
        assert_eq!(files.content("hard"), b"mine");
        assert_eq!(files.session.value("open('closed').read()"), "'new'");
        assert_eq!(files.delete("dir").status, 204);
        daemon.stop_and_check();
    }
}

#[test]
fn without_a_sandbox_files_are_what_their_modes_say() {
    let daemon = Setup::default().config("sandbox", "mode = \"off\"").start();
    let files = Files::of(&daemon);
    files.run(CLOSED);
    for path in ["closed", "dir/f"] {
        files.get(path).expect_problem(409, "file_refused");
    }
    files.put("dir/new", b"x").expect_problem(409, "file_refused");
    files.run(
        "os.chmod('closed', 0o600); os.chmod('dir', 0o700); os.symlink('/etc/passwd', 'link')",
    );
    assert_eq!(files.content("closed"), b"mine");
    assert_eq!(files.put("dir/new", b"x").status, 201);
    files.get("link").expect_problem(422, "bad_path");
    assert_eq!(files.delete("dir").status, 204);
    daemon.stop_and_check();
}

#[test]
fn a_file_that_changes_while_it_is_read_has_no_more_than_it_said() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(
        "import os, threading\n\
         open('file', 'wb').write(b'x' * 1000000)\n\
         def change():\n    \
             while not os.path.exists('stop'):\n        \
                 os.truncate('file', 10); os.truncate('file', 1000000)\n\
         t = threading.Thread(target=change, daemon=True); t.start()",
    );
    for _ in 0..200 {
        let url = files.url("file");
        let mut exchange = super::stream::Exchange::begin(&daemon, "GET", &url, "");
        // The connection may end even before the head is sent.
        let Some(head) = exchange.head() else { continue };
        assert_eq!(head.status, 200);
        // Never more; if less, the connection ends before what was announced.
        assert!(exchange.rest() <= head.length());
    }
    let _made = files.put("stop", b"");
    files.run("t.join()");
    daemon.release();
}
