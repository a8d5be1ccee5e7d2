//! What goes up comes down, and code in the session sees the same.

use serde_json::json;

use super::stream::Exchange;
use super::{Files, noise, resident_bytes};

#[test]
fn a_content_comes_back_as_it_went() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    for (name, content) in [
        ("empty", vec![]),
        ("text.txt", b"hello\n".to_vec()),
        ("zeros.bin", vec![0; 5000]),
        ("like-an-end", [vec![7; 262_140], vec![0; 64]].concat()),
        ("noise", noise(1, 3_000_001)),
    ] {
        let made = files.put(name, &content);
        assert_eq!(made.status, 201, "{name}");
        let said = json!({"path": name, "files": 1, "size_bytes": content.len()});
        assert_eq!(made.json(), said);
        assert!(files.content(name) == content, "{name}");
        let seen = format!("len(open({name:?}, 'rb').read())");
        assert_eq!(files.session.value(&seen), content.len().to_string());
        // Over it.
        assert_eq!(files.put(name, b"new").status, 200, "{name}");
        assert_eq!(files.content(name), b"new");
        assert_eq!(files.delete(name).status, 204);
        files.get(name).expect_problem(404, "unknown_file");
        files.delete(name).expect_problem(404, "unknown_file");
    }
    daemon.release();
}

#[test]
fn code_writes_and_clients_read() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run("open('a.csv', 'w').write('x,y\\n1,2\\n')");
    let answer = files.get("a.csv");
    assert_eq!(answer.body, b"x,y\n1,2\n");
    assert_eq!(answer.header("content-type"), Some("text/csv"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename*=UTF-8''a.csv"));
    // And what clients write belongs to the code.
    let _made = files.put("deep/er/b.txt", b"1");
    files.run("f = open('deep/er/b.txt', 'a'); f.write('2'); f.close()");
    files.run("import os; os.rename('deep/er/b.txt', 'deep/c.txt'); os.rmdir('deep/er')");
    assert_eq!(files.content("deep/c.txt"), b"12");
    assert_eq!(files.delete("deep").status, 204);
    assert_eq!(files.seen(), "\"['a.csv']\"");
    daemon.release();
}

#[test]
fn names_are_any_bytes_that_are_utf_8() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let long = "x".repeat(255);
    for (sent, name) in [
        ("%C3%BC%20%E4%BE%8B%F0%9F%8E%89", "ü 例🎉"),
        ("100%25", "100%"),
        ("%2561", "%61"),
        ("a%3Fb%23c%26d%3De%2Bf", "a?b#c&d=e+f"),
        ("plus+", "plus+"),
        ("%0A%0D%09%22%27%5C", "\n\r\t\"'\\"),
        ("-rf", "-rf"),
        ("...", "..."),
        ("%7E", "~"),
        (&long, &long),
    ] {
        assert_eq!(files.put(sent, sent.as_bytes()).status, 201, "{sent}");
        assert_eq!(files.content(sent), sent.as_bytes());
        let expected = files.session.value(&format!("ascii([{}])", json!(name)));
        assert_eq!(files.seen(), expected, "{sent}");
        assert_eq!(files.names(""), [name]);
        assert_eq!(files.delete(sent).status, 204);
    }
    files.put(&"x".repeat(256), b"").expect_problem(422, "bad_path");
    // A name that is no UTF-8 can be seen, and not be named.
    files.run("import os; os.close(os.open(b'bad\\xff', os.O_CREAT))");
    assert_eq!(files.names(""), ["bad\u{fffd}"]);
    files.get("bad%ff").expect_problem(422, "bad_path");
    daemon.release();
}

#[test]
fn one_range_at_a_time() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let content = noise(2, 1_000_000);
    let _made = files.put("a", &content);
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=999999-", 999_999, 1_000_000),
        ("bytes=-1000", 999_000, 1_000_000),
        ("bytes=500000-599999", 500_000, 600_000),
        ("bytes=999000-2000000", 999_000, 1_000_000),
        ("bytes=-2000000", 0, 1_000_000),
    ] {
        let answer = files.send("GET", "a", &[("Range", range)], None);
        assert_eq!(answer.status, 206, "{range}");
        assert!(answer.body == content[from..to], "{range}");
        let said = format!("bytes {from}-{}/1000000", to - 1);
        assert_eq!(answer.header("content-range"), Some(said.as_str()));
    }
    for range in ["bytes=1000000-", "bytes=-0"] {
        let answer = files.send("GET", "a", &[("Range", range)], None);
        answer.expect_problem(416, "range_not_satisfiable");
        assert_eq!(answer.header("content-range"), Some("bytes */1000000"));
    }
    // A download that goes on where it was cut off, unless the file has changed meanwhile.
    files.run("import os; os.utime('a', (1000, 1000))");
    let tag = files.get("a").header("etag").unwrap().to_owned();
    assert!(tag.starts_with('"'), "{tag}");
    let resume = [("Range", "bytes=900000-"), ("If-Range", tag.as_str())];
    assert_eq!(files.send("GET", "a", &resume, None).body, content[900_000..]);
    let unchanged = files.send("GET", "a", &[("If-None-Match", &tag)], None);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    files.run("open('a', 'w').write('other'); os.utime('a', (2000, 2000))");
    let whole = files.send("GET", "a", &resume, None);
    assert_eq!((whole.status, whole.body.as_slice()), (200, b"other".as_slice()));
    daemon.release();
}

#[test]
fn head_says_what_get_would() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let _made = files.put("plot.png", &noise(3, 4096));
    let mut exchange = Exchange::begin(&daemon, "HEAD", &files.url("plot.png"), "");
    let head = exchange.head().unwrap();
    assert_eq!((head.status, head.length(), exchange.rest()), (200, 4096, 0));
    let got = files.get("plot.png");
    for name in ["content-type", "etag", "last-modified", "accept-ranges", "content-disposition"] {
        assert_eq!(head.header(name), got.header(name), "{name}");
    }
    let mut missing = Exchange::begin(&daemon, "HEAD", &files.url("none"), "");
    assert_eq!(missing.head().unwrap().status, 404);
    daemon.release();
}

#[test]
fn two_hundred_megabytes_pass_without_being_held() {
    const PARTS: usize = 200;
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let part = noise(4, 1 << 20);
    let before = resident_bytes(&daemon);
    let length = format!("Content-Length: {}\r\n", PARTS << 20);
    let mut up = Exchange::begin(&daemon, "PUT", &files.url("large"), &length);
    for _ in 0..PARTS {
        assert!(up.send(&part));
    }
    assert_eq!(up.head().unwrap().status, 201);
    let mut down = Exchange::begin(&daemon, "GET", &files.url("large"), "");
    assert_eq!(down.head().unwrap().length(), (PARTS << 20) as u64);
    for number in 0..PARTS {
        assert!(down.read(1 << 20) == part, "part {number}");
    }
    assert_eq!(down.rest(), 0);
    let grown = resident_bytes(&daemon).saturating_sub(before);
    assert!(grown < 32 << 20, "the daemon has grown by {grown} bytes");
    // Executions go on beside it.
    files.run("import os; assert os.path.getsize('large') == 200 << 20");
    daemon.release();
}

#[test]
fn files_are_there_while_code_runs() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            files.session.execute(
                "import os, time\n\
                 while not os.path.exists('in'): time.sleep(0.01)\n\
                 open('out.tmp', 'w').write(open('in').read() * 2)\n\
                 os.rename('out.tmp', 'out')\n\
                 while os.path.exists('out'): time.sleep(0.01)",
            )
        });
        let _made = files.put("in", b"ab");
        vivarium_tests::wait::until_true("the code's file", || files.get("out").status == 200);
        assert_eq!(files.content("out"), b"abab");
        assert_eq!(files.delete("out").status, 204);
        let _ended = running.join().unwrap().ok();
    });
    daemon.release();
}
