//! `vivarium files`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use vivarium_tests::program::{self, Finished};
use vivarium_tests::{Daemon, Session};

use super::{url, vivarium};

fn files(daemon: &Daemon, arguments: &[&str], input: &str) -> Finished {
    let (action, rest) = arguments.split_first().unwrap();
    let mut command = vivarium(daemon.dir(), &["files", action, "--url", &url(daemon)]);
    program::finish(command.args(rest), input)
}

#[test]
fn files_go_in_and_come_out_as_they_are() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[i as usize % 3]).collect();
    let local = daemon.dir().join("data.bin");
    fs::write(&local, &bytes).unwrap();
    let _put = files(&daemon, &["put", "demo", "data.bin"], "").expect_code(0);
    let _put = files(&daemon, &["put", "demo", "data.bin", "a b/\u{e9}?.bin"], "").expect_code(0);
    let _put = files(&daemon, &["put", "demo", "-", "typed.txt"], "typed").expect_code(0);
    let sum =
        "import zlib; [zlib.crc32(open(n, 'rb').read()) for n in ('data.bin', 'a b/\u{e9}?.bin')]";
    let value = session.value(sum);
    let (one, other) = value.trim_matches(['[', ']']).split_once(", ").unwrap();
    assert_eq!(one, other);
    let listed = files(&daemon, &["list", "--recursive", "demo"], "").expect_code(0).stdout();
    assert!(listed.contains("a b/\u{e9}?.bin") && listed.contains("2.9 MiB"), "{listed}");
    let json = files(&daemon, &["list", "--json", "demo", "a b"], "").expect_code(0).stdout();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["size_bytes"], 3_000_000);
    let _got = files(&daemon, &["get", "demo", "a b/\u{e9}?.bin", "back.bin"], "").expect_code(0);
    assert!(fs::read(daemon.dir().join("back.bin")).unwrap() == bytes);
    assert_eq!(files(&daemon, &["get", "demo", "typed.txt", "-"], "").stdout(), "typed");
    let _gone = files(&daemon, &["rm", "demo", "a b", "typed.txt"], "").expect_code(0);
    let absent = files(&daemon, &["get", "demo", "typed.txt", "x"], "").expect_code(1);
    assert!(absent.stderr().contains("unknown_file"), "{}", absent.stderr());
    assert!(!daemon.dir().join("x").exists());
    daemon.stop_and_check();
}

#[test]
fn a_file_of_this_host_is_replaced_only_on_request() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let _made = session.execute("open('a.txt', 'w').write('theirs')").ok();
    let mine = daemon.dir().join("a.txt");
    fs::write(&mine, "mine").unwrap();
    let refused = files(&daemon, &["get", "demo", "a.txt"], "").expect_code(2);
    assert!(refused.stderr().contains("is there already"), "{}", refused.stderr());
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    let _got = files(&daemon, &["get", "--force", "demo", "a.txt"], "").expect_code(0);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "theirs");
    let mode = fs::metadata(&mine).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode & 0o111, 0, "{mode:o}");
    daemon.stop_and_check();
}

#[test]
fn an_archive_is_unpacked_there() {
    let daemon = Daemon::start();
    let _session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let source = daemon.dir().join("tree/sub");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("f.txt"), "from the archive").unwrap();
    let tar = Command::new("tar")
        .args(["-C", daemon.dir().to_str().unwrap(), "-cf", "-", "tree"])
        .output()
        .unwrap();
    fs::write(daemon.dir().join("tree.tar"), tar.stdout).unwrap();
    let _put = files(&daemon, &["put", "--unpack", "demo", "tree.tar", "into"], "").expect_code(0);
    let _put = files(&daemon, &["put", "--unpack", "demo", "tree.tar"], "").expect_code(0);
    let read = "open('into/tree/sub/f.txt').read() == open('tree/sub/f.txt').read()";
    assert_eq!(Session::named(&daemon, "demo").value(read), "True");
    let directory = files(&daemon, &["put", "demo", "tree"], "").expect_code(2);
    assert!(directory.stderr().contains("--unpack"), "{}", directory.stderr());
    daemon.stop_and_check();
}

#[test]
fn entries_are_made_described_moved_and_given_permissions() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let ok = |arguments: &[&str]| files(&daemon, arguments, "").expect_code(0).stdout();
    let _made = ok(&["mkdir", "demo", "a/b", "c", "c"]);
    let _put = files(&daemon, &["put", "demo", "-", "run.sh"], "echo hi\n").expect_code(0);
    let _moved = ok(&["mv", "demo", "run.sh", "a/b/"]);
    let _changed = ok(&["chmod", "demo", "755", "a/b/run.sh"]);
    let shown = ok(&["stat", "demo", "a/b/run.sh"]);
    assert!(shown.contains("8 B (8 bytes)") && shown.contains("0755"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&ok(&["stat", "--json", "demo", "c"])).unwrap();
    assert_eq!((&json["path"], &json["kind"]), (&"c".into(), &"directory".into()));
    assert_eq!(session.value("__import__('os').access('a/b/run.sh', 1)"), "True");
    let _put = files(&daemon, &["put", "demo", "-", "taken"], "").expect_code(0);
    let taken = files(&daemon, &["mv", "demo", "taken", "a/b/run.sh"], "").expect_code(1);
    assert!(taken.stderr().contains("--force"), "{}", taken.stderr());
    let _moved = ok(&["mv", "--force", "demo", "taken", "a/b/run.sh"]);
    let mode = files(&daemon, &["chmod", "demo", "u+x", "a"], "").expect_code(2);
    assert!(mode.stderr().contains("octal"), "{}", mode.stderr());
    daemon.stop_and_check();
}

#[test]
fn changes_are_printed_as_they_happen_until_the_session_is_gone() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let mut command = vivarium(daemon.dir(), &["files", "watch", "--url", &url(&daemon), "--json"]);
    let mut watch = command.arg("demo").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next(), serde_json::json!({"event": "ready"}));
    let _made = session.execute("__import__('os').mkdir('sub')").ok();
    let made = serde_json::json!({"event": "created", "path": "sub", "directory": true});
    assert_eq!(next(), made);
    let _moved = session.execute("__import__('os').rename('sub', 'else')").ok();
    let moved = serde_json::json!(
        {"event": "moved", "path": "else", "from": "sub", "directory": true}
    );
    assert_eq!(next(), moved);
    let delete = ["sessions", "delete", "--url", &url(&daemon), "demo"];
    let _deleted = program::finish(&mut vivarium(daemon.dir(), &delete), "").expect_code(0);
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    daemon.stop_and_check();
}
