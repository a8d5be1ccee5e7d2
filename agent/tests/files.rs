//! Operations on files, declared outputs, and files that changed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use harness::transfers::send_content;
use harness::{Session, policy};
use vivarium_protocol::message::{
    FileKind, FileOperation, FileProblemKind, FileReply, InputFile, ToAgent, Work,
};

fn write(path: &str) -> FileOperation {
    FileOperation::Write { path: path.to_owned() }
}

fn read(path: &str, offset: u64, length: Option<u64>) -> FileOperation {
    FileOperation::Read { path: path.to_owned(), offset, length }
}

fn delete(path: &str) -> FileOperation {
    FileOperation::Delete { path: path.to_owned() }
}

#[test]
fn files_are_uploaded_and_downloaded_while_code_runs() {
    let mut session = Session::launch(policy()).unwrap();
    let content = b"0123456789".repeat(1 << 20);
    let execution = session.start("print('go', flush=True)\nwhile True: pass", vec![]);
    session.wait_for_output();
    let reply = session.write_file("in/put.bin", &content).unwrap();
    assert_eq!(reply, FileReply::Written { files: 1, bytes: content.len() as u64 });
    assert_eq!(session.read_file("in/put.bin").unwrap(), content);
    let (transfer, mut socket) = session.begin(read("in/put.bin", 7, Some(5)));
    let FileReply::Content { entry, length } = session.done(transfer).unwrap() else { panic!() };
    assert_eq!((entry.size_bytes, length, entry.kind), (content.len() as u64, 5, FileKind::File));
    let mut part = String::new();
    socket.read_to_string(&mut part).unwrap();
    assert_eq!(part, "78901");
    assert_eq!(session.list(""), ["in", "in/put.bin"]);
    assert_eq!(session.operate(delete("in")).unwrap(), FileReply::Deleted);
    assert_eq!(session.list(""), [""; 0]);
    session.send(&ToAgent::Interrupt { execution });
    session.finish();
    // What the API writes is the tenant's: it can change and remove it.
    session.write_file("mine", b"x").unwrap();
    let code = "import os; open('mine', 'a').write('y'); os.stat('mine').st_uid == os.getuid()";
    assert_eq!(session.execute(code).repr.as_deref(), Some("True"));
}

#[test]
fn paths_that_leave_the_workdir_are_refused() {
    let mut session = Session::launch(policy()).unwrap();
    let planted = "import os\n\
        os.symlink('/etc', 'dir'); os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo')\n\
        os.mkdir('sub'); open('plain', 'w').write('plain')";
    assert_eq!(session.execute(planted).exception, None);
    let mut refused = |operation: FileOperation, kind: FileProblemKind| {
        let described = format!("{operation:?}");
        let problem = session.operate(operation).unwrap_err();
        assert_eq!(problem.kind, kind, "{described}: {problem:?}");
    };
    for path in ["../etc/passwd", "/etc/passwd", "", ".", "sub/../plain", "dir/passwd", "link"] {
        refused(read(path, 0, None), FileProblemKind::Path);
        refused(write(path), FileProblemKind::Path);
    }
    for path in ["fifo", "sub"] {
        refused(read(path, 0, None), FileProblemKind::Kind);
        refused(write(path), FileProblemKind::Kind);
    }
    refused(read("none", 0, None), FileProblemKind::NotFound);
    refused(delete("dir/passwd"), FileProblemKind::Path);
    refused(delete("../workspace/plain"), FileProblemKind::Path);
    assert_eq!(session.read_file("plain").unwrap(), b"plain", "the control");
    // A link itself can be deleted, and what it leads to is still there.
    assert_eq!(session.operate(delete("dir")).unwrap(), FileReply::Deleted);
    assert_eq!(
        session.execute("len(open('/etc/passwd').read()) > 0").repr.as_deref(),
        Some("True")
    );
}

#[test]
fn nodes_and_leases_are_no_traps() {
    let mut session = Session::launch(policy()).unwrap();
    // The only files that are not what they seem would be devices, which nobody can make.
    let make = "import os, stat, errno\n\
        def tried(kind):\n\
        \x20   try: os.mknod('node-%d' % kind, kind | 0o600, os.makedev(1, 5)); return 0\n\
        \x20   except OSError as error: return error.errno\n\
        [tried(kind) for kind in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK)]";
    assert_eq!(session.execute(make).repr.as_deref(), Some("[0, 0, 1, 1]"));
    // Whoever opens a file that is leased waits for its holder, if it waits at all.
    let lease = "import fcntl, signal; signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        f = open('leased', 'w'); f.write('x'); f.flush()\n\
        fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)";
    let held = session.execute(lease);
    if held.exception.is_none() {
        assert_eq!(session.read_file("leased").unwrap_err().kind, FileProblemKind::Io);
        session.execute("fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_UNLCK)");
    }
    assert_eq!(session.read_file("leased").unwrap_or_default(), b"x", "the control");
}

#[test]
fn an_aborted_upload_leaves_the_old_file() {
    let mut session = Session::launch(policy()).unwrap();
    session.write_file("f", b"old").unwrap();
    let (transfer, mut socket) = session.begin(write("f"));
    socket.write_all(&[3, 0, 0, 0]).unwrap();
    socket.write_all(b"new").unwrap();
    // It has been received so far: there is a file of 3 bytes that nobody is told of.
    let seen = "import os, time\n\
        while sorted(os.path.getsize(name) for name in os.listdir() if name != '.tmp') != [3, 3]:\n\
        \x20   time.sleep(0.001)\n\
        len(os.listdir())";
    let outcome = session.execute(seen);
    assert_eq!(outcome.repr.as_deref(), Some("3"));
    assert_eq!(outcome.changed(), [""; 0]);
    assert_eq!(session.list(""), ["f"]);
    drop(socket);
    assert_eq!(session.done(transfer).unwrap_err().kind, FileProblemKind::Aborted);
    assert_eq!(session.read_file("f").unwrap(), b"old");
    assert_eq!(session.execute("len(os.listdir())").repr.as_deref(), Some("2"));
    // A chunk of nonsense.
    let (transfer, mut socket) = session.begin(write("f"));
    socket.write_all(&u32::MAX.to_le_bytes()).unwrap();
    assert_eq!(session.done(transfer).unwrap_err().kind, FileProblemKind::Aborted);
    // The control.
    session.write_file("f", b"new").unwrap();
    assert_eq!(session.read_file("f").unwrap(), b"new");
}

#[test]
fn a_link_planted_during_an_upload_is_not_written_through() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("import os; os.mkdir('d'); open('/tmp/target', 'w').write('target')");
    let (transfer, socket) = session.begin(write("d/f"));
    session.execute("os.rename('d', 'moved'); os.symlink('/tmp', 'd')");
    send_content(socket, b"content");
    session.done(transfer).unwrap();
    let (transfer, socket) = session.begin(write("moved/target"));
    session.execute("os.symlink('/tmp/target', 'moved/target')");
    send_content(socket, b"content");
    assert_eq!(session.done(transfer).unwrap_err().kind, FileProblemKind::Path);
    let found =
        session.execute("open('/tmp/target').read(), os.listdir('/tmp'), os.listdir('moved')");
    assert_eq!(found.repr.as_deref(), Some("('target', ['target'], ['target', 'f'])"));
}

#[test]
fn the_sessions_limits_hold_for_uploads() {
    let mut limited = policy();
    limited.limits.max_file_size_mb = vivarium_protocol::units::Limit::new(1).unwrap();
    let mut session = Session::launch(limited).unwrap();
    let problem = session.write_file("f", &vec![0; (1 << 20) + 1]).unwrap_err();
    assert_eq!(problem.kind, FileProblemKind::NoSpace);
    session.write_file("f", &vec![0; 1 << 20]).unwrap();
    drop(session);
    let mut session = Session::launch(policy()).unwrap();
    let problem = session.write_file("f", &vec![0; 100 << 20]).unwrap_err();
    assert_eq!(problem.kind, FileProblemKind::NoSpace, "max_disk_mb is 64: {problem:?}");
    session.write_file("f", &vec![0; 50 << 20]).unwrap();
    session.execute("import os\nfor n in range(900): open(f'n{n}', 'w').close()");
    let refused = (0..200).map(|n| session.write_file(&format!("m{n}"), b"")).find_map(Result::err);
    assert_eq!(refused.unwrap().kind, FileProblemKind::NoSpace, "max_inodes is 1000");
}

#[test]
fn an_archive_is_unpacked_up_to_the_first_forbidden_entry() {
    let mut session = Session::launch(policy()).unwrap();
    let pack = "import os, tarfile, io\n\
        os.makedirs('src/deep'); open('src/deep/a', 'w').write('1'); open('src/' + 'n' * 150, 'w').write('22')\n\
        os.chmod('src/deep/a', 0o777)\n\
        def set_id(i): i.mode |= 0o4000; return i\n\
        t = tarfile.open('good.tar', 'w'); t.add('src', '.', filter=set_id); t.close()\n\
        t = tarfile.open('bad.tar', 'w'); t.add('src/deep/a', 'first')\n\
        i = tarfile.TarInfo('out'); i.type = tarfile.SYMTYPE; i.linkname = '/etc'; t.addfile(i)\n\
        t.add('src/deep/a', 'out/second'); t.close()\n\
        t = tarfile.open('up.tar', 'w'); t.add('src/deep/a', 'x/../../up'); t.close()";
    assert_eq!(session.execute(pack).exception, None);
    let mut unpack = |name: &str, path: &str| {
        let archive = session.read_file(name).unwrap();
        let (transfer, socket) = session.begin(FileOperation::Unpack { path: path.to_owned() });
        send_content(socket, &archive);
        session.done(transfer)
    };
    assert_eq!(unpack("good.tar", "to/here").unwrap(), FileReply::Written { files: 2, bytes: 3 });
    assert_eq!(unpack("bad.tar", "bad").unwrap_err().kind, FileProblemKind::Archive);
    assert_eq!(unpack("up.tar", "bad").unwrap_err().kind, FileProblemKind::Archive);
    let cut = session.read_file("good.tar").unwrap()[..700].to_vec();
    let (transfer, socket) = session.begin(FileOperation::Unpack { path: "cut".to_owned() });
    send_content(socket, &cut);
    assert_eq!(session.done(transfer).unwrap_err().kind, FileProblemKind::Archive);
    assert_eq!(session.list("bad"), ["bad/first"]);
    let long = format!("to/here/{}", "n".repeat(150));
    assert_eq!(session.list("to"), ["to/here", "to/here/deep", "to/here/deep/a", &long]);
    let mode =
        session.execute("oct(os.stat('to/here/deep/a').st_mode), open('to/here/deep/a').read()");
    assert_eq!(mode.repr.as_deref(), Some("('0o100755', '1')"));
}

#[test]
fn stalled_transfers_are_bounded_and_hold_nobody_up() {
    let mut session = Session::launch(policy()).unwrap();
    session.write_file("large", &vec![7; 8 << 20]).unwrap();
    // Some are not read, some send nothing.
    let mut stalled: Vec<_> = (0..4).map(|_| session.begin(read("large", 0, None))).collect();
    stalled.extend((0..4).map(|number| session.begin(write(&format!("w{number}")))));
    let (ninth, _socket) = session.begin(read("large", 0, None));
    let problem = session.done(ninth).unwrap_err();
    assert_eq!(problem.kind, FileProblemKind::Aborted);
    assert!(problem.detail.contains("8 operations"), "{problem:?}");
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
    // One goes, and there is room again: for the rest of those that read nothing, too.
    let (last, socket) = stalled.pop().unwrap();
    drop(socket);
    assert_eq!(session.done(last).unwrap_err().kind, FileProblemKind::Aborted);
    assert_eq!(session.read_file("large").unwrap().len(), 8 << 20);
    let (_, mut first) = stalled.remove(0);
    let mut content = Vec::new();
    first.read_to_end(&mut content).unwrap();
    assert_eq!(content, vec![7; 8 << 20]);
}

#[test]
fn a_flood_of_output_and_a_transfer_go_on_together() {
    let mut unlimited = policy();
    unlimited.limits.max_output_bytes = vivarium_protocol::units::Limit::Unlimited;
    let mut session = Session::launch(unlimited).unwrap();
    session.write_file("large", &vec![7; 32 << 20]).unwrap();
    let flood =
        "import os\nblock = b'x' * 65536\nwhile not os.path.exists('stop'): os.write(1, block)";
    session.start(flood, vec![]);
    session.wait_for_output();
    // The supervisor reads nothing of the flood meanwhile, and the content comes all the same.
    let (_, mut socket) = session.begin(read("large", 0, None));
    let mut content = Vec::new();
    socket.read_to_end(&mut content).unwrap();
    assert_eq!(content.len(), 32 << 20);
    session.write_file("stop", b"").unwrap();
    assert!(session.finish().exception.is_none());
}

/// An upload that takes the agent many turns, up to its end, which closes its socket. Nothing of what
/// the agent says is read before that.
fn upload_and_read_nothing(session: &mut Session) -> (u64, UnixStream) {
    let (upload, socket) = session.begin(write("large"));
    let mut end = socket.try_clone().unwrap();
    send_content(socket, &vec![7; 32 << 20]);
    assert_eq!(end.read(&mut [0]).unwrap(), 0);
    (upload, end)
}

/// Which of two is done first: a listing of many files, or an upload that was begun after it and takes
/// more turns of the agent's than that.
fn first_of_listing_and_upload(session: &mut Session) -> &'static str {
    let list = FileOperation::List {
        path: String::new(),
        recursive: true,
        after: String::new(),
        limit: 1,
    };
    let (listing, _socket) = session.begin(list);
    let (upload, _end) = upload_and_read_nothing(session);
    session.done(upload).unwrap();
    let first = if session.has_done(listing) { "listing" } else { "upload" };
    session.done(listing).unwrap();
    first
}

#[test]
fn nothing_is_listed_for_a_supervisor_that_does_not_keep_up() {
    let mut unlimited = policy();
    unlimited.limits.max_output_bytes = vivarium_protocol::units::Limit::Unlimited;
    unlimited.limits.max_inodes = vivarium_protocol::units::Limit::Unlimited;
    let mut session = Session::launch(unlimited).unwrap();
    let made = session.execute("for i in range(20000): open(str(i), 'w').close()");
    assert!(made.exception.is_none());
    // The control.
    assert_eq!(first_of_listing_and_upload(&mut session), "listing");
    let flood =
        "import os\nblock = b'x' * 65536\nwhile not os.path.exists('stop'): os.write(1, block)";
    session.start(flood, vec![]);
    session.wait_for_output();
    // While this is taken, the output fills what the agent holds for a supervisor that reads nothing.
    let (filled, _end) = upload_and_read_nothing(&mut session);
    assert_eq!(first_of_listing_and_upload(&mut session), "upload");
    session.done(filled).unwrap();
    session.write_file("stop", b"").unwrap();
    assert!(session.finish().exception.is_none());
}

#[test]
fn a_file_that_shrinks_is_sent_up_to_its_new_end() {
    let mut session = Session::launch(policy()).unwrap();
    session.write_file("f", &vec![7; 16 << 20]).unwrap();
    let (transfer, mut socket) = session.begin(read("f", 0, None));
    let FileReply::Content { length, .. } = session.done(transfer).unwrap() else { panic!() };
    assert_eq!(length, 16 << 20);
    session.execute("open('f', 'r+').truncate(1 << 20)");
    let mut content = Vec::new();
    socket.read_to_end(&mut content).unwrap();
    assert!(content.len() < 16 << 20, "{}", content.len());
    session.execute("open('f', 'a').write('more')");
    let (transfer, mut socket) = session.begin(read("f", 0, Some(u64::MAX)));
    let FileReply::Content { length, .. } = session.done(transfer).unwrap() else { panic!() };
    session.execute("open('f', 'a').write('x' * 1000000)");
    let mut content = Vec::new();
    socket.read_to_end(&mut content).unwrap();
    assert_eq!(content.len() as u64, length, "no more than was announced");
}

#[test]
fn declared_outputs_are_sent_within_the_limit_of_results() {
    let mut session = Session::launch(policy()).unwrap(); // max_result_bytes is 1 MiB
    let code = "import os\n\
        open('a.txt', 'w').write('abc'); open('b.bin', 'wb').write(bytes(1 << 20))\n\
        os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo')";
    let outputs = ["a.txt", "b.bin", "a.txt", "link", "fifo", "none", "../up"];
    session.start_work(Work::code(code.to_owned()), vec![], &outputs);
    let outcome = session.finish();
    let names: Vec<_> = outcome.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, outputs);
    let content: Vec<_> = outcome.files.iter().map(|file| file.content.clone()).collect();
    assert_eq!(content[0].as_ref().unwrap().as_slice(), b"abc");
    assert!(content[1].as_ref().unwrap_err().contains("1048573 are left"), "{:?}", content[1]);
    assert_eq!(content[2].as_ref().unwrap().as_slice(), b"abc");
    for (index, reason) in [(3, "symbolic link"), (4, "regular"), (5, "no such"), (6, "relative")] {
        assert!(content[index].as_ref().unwrap_err().contains(reason), "{:?}", content[index]);
    }
    // Of what an exception or an exit left, too.
    session.start_work(Work::code("1/0".to_owned()), vec![], &["a.txt"]);
    assert_eq!(session.finish().files[0].content.as_ref().unwrap().as_slice(), b"abc");
    let code = "open('last', 'w').write('words').bit_length(); import os; os._exit(1)";
    session.start_work(Work::code(code.to_owned()), vec![], &["last"]);
    let outcome = session.finish();
    assert!(outcome.end.is_some());
    assert_eq!(outcome.files[0].content.as_ref().unwrap().as_slice(), b"words");
    assert_eq!(outcome.changed(), ["last"]);
}

#[test]
fn changed_files_are_reported() {
    let mut session = Session::launch(policy()).unwrap();
    let input = InputFile { name: "input.csv".to_owned(), data: b"1,2".to_vec() };
    session.start(
        "import os; os.makedirs('out/deep'); open('out/deep/r.txt', 'w').write('abcd')",
        vec![input],
    );
    let outcome = session.finish();
    assert_eq!(outcome.changed(), ["out/deep/r.txt"]);
    assert_eq!(outcome.changes.files[0].size_bytes, 4);
    session.write_file("uploaded", b"x").unwrap();
    assert_eq!(session.execute("1+1").changed(), [""; 0]);
    let code = "open('uploaded', 'a').write('y'); open('.cache/x', 'w') if os.makedirs('.cache', exist_ok=True) else 0";
    assert_eq!(session.execute(code).changed(), ["uploaded"]);
    assert_eq!(session.shell("echo hi > from-shell; rm uploaded").changed(), ["from-shell"]);
    // What changed between two executions belongs to the second.
    session.execute(
        "import threading, time\n\
         def later():\n\
         \x20   while not os.path.exists('go'): time.sleep(0.001)\n\
         \x20   open('late', 'w').close()\n\
         threading.Thread(target=later).start()",
    );
    session.write_file("go", b"").unwrap();
    while !session.list("").contains(&"late".to_owned()) {}
    assert_eq!(session.execute("1+1").changed(), ["late"]);
}
