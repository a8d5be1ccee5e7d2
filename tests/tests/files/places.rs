//! Absolute paths: the working directory, its other names, and /tmp.

use serde_json::json;
use vivarium_tests::Setup;

use super::{Files, tar};

#[test]
fn files_are_named_by_the_paths_that_code_sees() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    for (url, name, seen) in [
        ("%2Fworkspace/a/b", "a/b", "/workspace/a/b"),
        ("/mnt/data/c", "c", "/mnt/data/c"),
        ("%2fhome%2fuser%2fd", "d", "/home/user/d"),
        ("%2Ftmp/sub/e", "/tmp/sub/e", "/tmp/sub/e"),
    ] {
        let answer = files.put(url, b"content");
        assert_eq!((answer.status, &answer.json()["path"]), (201, &json!(name)), "{url}");
        assert_eq!(files.content(url), b"content");
        assert_eq!(files.session.value(&format!("open({seen:?}).read()")), "'content'");
        assert_eq!(files.put(url, b"again").status, 200);
    }
    assert_eq!(files.names("recursive=true"), ["a", "a/b", "c", "d"]);
    assert_eq!(files.names("path=/mnt/data/a"), ["a/b"]);
    assert_eq!(files.names("path=/tmp&recursive=true"), ["/tmp/sub", "/tmp/sub/e"]);
    assert_eq!(files.names("path=/tmp/&after=/tmp/sub"), [""; 0]);
    let archive = tar::archive(&[tar::file("f/g", b"x")]);
    assert_eq!(files.unpack("%2Ftmp/sub", &archive).json()["path"], "/tmp/sub");
    assert_eq!(files.content("%2Ftmp/sub/f/g"), b"x");
    // They belong to the code, which may do with them what it likes.
    files.run("open('/tmp/sub/f/g', 'a').write('y'); __import__('os').unlink('/tmp/sub/e')");
    assert_eq!(files.content("%2Ftmp/sub/f/g"), b"xy");
    // What it has made there in turn, sticky directory or not.
    files.run("open('/tmp/own', 'w').write('own')");
    assert_eq!(files.put("%2Ftmp/own", b"new").status, 200);
    for url in ["%2Ftmp/sub", "%2Ftmp/own", "%2Fmnt/data/a"] {
        assert_eq!(files.delete(url).status, 204, "{url}");
    }
    assert_eq!(files.session.value("__import__('os').listdir('/tmp')"), "[]");
    daemon.release();
}

#[test]
fn requests_bring_and_return_files_by_absolute_paths() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let outcome = session
        .execute_with(&json!({
            "code": "open('/tmp/out', 'w').write(open('/mnt/data/in').read() + open('/tmp/in').read())",
            "files": [{"name": "/workspace/in", "text": "a"}, {"name": "/tmp/in", "text": "b"}],
            "outputs": [{"name": "/tmp/out"}, {"name": "/home/user/in"}, {"name": "in"}],
        }))
        .ok();
    let files = outcome.0["files"].as_array().unwrap();
    let found: Vec<_> = files.iter().map(|file| (&file["name"], &file["text"])).collect();
    let expected = [("/tmp/out", "ab"), ("/home/user/in", "a"), ("in", "a")];
    for ((name, text), expected) in found.into_iter().zip(expected) {
        assert_eq!((name, text), (&json!(expected.0), &json!(expected.1)));
    }
    assert_eq!(files.len(), expected.len());
    // What lies in /tmp is nobody's result, and what was brought is known.
    assert_eq!(outcome.0["files_changed"], json!([]));
    for (field, request) in [
        ("files[0].name", json!({"code": "", "files": [{"name": "/etc/x", "text": ""}]})),
        ("files[0].name", json!({"code": "", "files": [{"name": "/tmp/../x", "text": ""}]})),
        ("outputs[0].name", json!({"code": "", "outputs": [{"name": "/proc/1/environ"}]})),
    ] {
        let refused = session.request("POST", "/execute", Some(&request));
        refused.expect_problem(422, "invalid_field");
        assert_eq!(refused.json()["field"], field);
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("/workspace") && detail.contains("/tmp"), "{detail}");
    }
    daemon.release();
}

#[test]
fn other_absolute_paths_are_refused_with_the_roots_there_are() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    for path in ["%2Fetc/passwd", "%2F", "/proc/1/environ", "%2Ftmpx/a", "%2Fdev/shm/a"] {
        for answer in [files.get(path), files.put(path, b"x"), files.delete(path)] {
            answer.expect_problem(422, "bad_path");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains("/workspace") && detail.contains("/tmp"), "{detail}");
        }
    }
    for path in ["%2Ftmp", "%2Fworkspace", "%2Fmnt/data/", "%2Ftmp/../etc/passwd", "%2Ftmp//x"] {
        files.put(path, b"x").expect_problem(422, "bad_path");
        files.delete(path).expect_problem(422, "bad_path");
    }
    daemon.release();
}

#[test]
fn no_path_in_tmp_goes_through_a_link() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(
        "import os\n\
         open('secret', 'w').write('of the workdir')\n\
         os.symlink('/workspace/secret', '/tmp/link'); os.symlink('/workspace', '/tmp/dir')\n\
         os.symlink('/etc', '/tmp/etc'); os.symlink('/tmp', 'tmp'); os.mkfifo('/tmp/pipe')",
    );
    // The control: whoever follows them gets there.
    assert_eq!(files.session.value("open('/tmp/dir/secret').read()"), "'of the workdir'");
    for path in ["%2Ftmp/link", "%2Ftmp/dir/secret", "%2Ftmp/etc/passwd", "tmp/link"] {
        files.get(path).expect_problem(422, "bad_path");
        files.put(path, b"x").expect_problem(422, "bad_path");
        files.unpack(path, &tar::archive(&[tar::file("f", b"x")])).expect_problem(422, "bad_path");
    }
    files.get("%2Ftmp/pipe").expect_problem(409, "not_a_file");
    assert_eq!(files.delete("%2Ftmp/dir").status, 204);
    assert_eq!(files.content("secret"), b"of the workdir");
    daemon.release();
}

#[test]
fn aliases_are_links_that_nobody_can_change() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let _outcome = session.execute("import os; os.chdir('/mnt/data'); open('a', 'w').close()").ok();
    assert_eq!(
        session.value("os.getcwd(), os.listdir('/home/user') == os.listdir('.')"),
        "('/workspace', True)"
    );
    let attempts = "[]\nfor attempt in (lambda: os.unlink('/mnt/data'), lambda: os.mkdir('/mnt/x'),\n\
                    lambda: os.rename('/home/user', '/home/x')):\n    \
                    try: attempt(); refused.append(None)\n    \
                    except OSError as error: refused.append(error.errno)";
    let _outcome = session.execute(&format!("refused = {attempts}")).ok();
    let errnos = session.value("all(number in (13, 18, 30) for number in refused), len(refused)");
    assert_eq!(errnos, "(True, 3)");
    daemon.release();
}

#[test]
fn the_hosts_tmp_is_not_there_without_mounts() {
    let daemon = Setup::default().without(&["mounts"]).start();
    let files = Files::of(&daemon);
    let host = tempfile::Builder::new().prefix("vt").tempdir_in("/tmp").unwrap();
    let name = host.path().file_name().unwrap().to_str().unwrap();
    std::fs::write(host.path().join("f"), "of the host").unwrap();
    let path = format!("%2Ftmp/{name}/f");
    for answer in [files.get(&path), files.put(&path, b"x"), files.delete(&path)] {
        answer.expect_problem(422, "bad_path");
        assert!(answer.json()["detail"].as_str().unwrap().contains("no /tmp of its own"));
    }
    assert_eq!(std::fs::read_to_string(host.path().join("f")).unwrap(), "of the host");
    // The working directory has its other names here too, for the API.
    assert_eq!(files.put("%2Fmnt/data/a", b"mine").status, 201);
    assert_eq!(files.session.value("open('a').read()"), "'mine'");
    daemon.stop_and_check();
}
