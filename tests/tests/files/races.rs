//! A path that is exchanged all the time while it is being opened.

use serde_json::json;

use super::{Files, tar};

/// How often each is tried at least.
const TIMES: usize = 1000;

/// Tries until it has succeeded once, and [`TIMES`] times at least.
fn try_often(what: &str, mut attempt: impl FnMut(usize) -> bool) {
    let mut succeeded = 0;
    for number in 0..100 * TIMES {
        succeeded += usize::from(attempt(number));
        if number >= TIMES && succeeded > 0 {
            return;
        }
    }
    panic!("{what} never succeeded");
}

/// Exchanges `file` for a link, and `dir` for another, until there is a file `stop`.
const EXCHANGING: &str = "
import os, threading
os.mkdir('/tmp/outdir')
open('/tmp/outdir/f', 'w').write('outside')
open('/tmp/outside', 'w').write('outside')
os.mkdir('real')
open('real/f', 'w').write('inside')
turns = 0
def exchange():
    global turns
    while not os.path.exists('stop'):
        os.symlink('/tmp/outside', 'next'); os.rename('next', 'file')
        open('next', 'w').write('inside'); os.rename('next', 'file')
        os.symlink('/tmp/outdir', 'dir'); os.sched_yield()
        os.unlink('dir')
        os.rename('real', 'dir')
        os.rename('dir', 'real')
        turns += 1
thread = threading.Thread(target=exchange, daemon=True)
thread.start()
import time
while turns == 0: time.sleep(0.001)
";

/// Lets the session exchange while `act` acts, and looks whether anything got out.
fn while_exchanged(act: impl Fn(&Files<'_>)) {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    files.run(EXCHANGING);
    act(&files);
    let _made = files.put("stop", b"");
    files.run("thread.join()");
    // The exchange was going on: this would have been another test.
    assert_eq!(files.session.value("turns > 0"), "True");
    assert_eq!(files.session.value("os.listdir('/tmp/outdir')"), "['f']");
    assert_eq!(files.session.value("open('/tmp/outdir/f').read()"), "'outside'");
    assert_eq!(files.session.value("open('/tmp/outside').read()"), "'outside'");
    daemon.release();
}

#[test]
fn who_follows_links_is_led_outside() {
    // The control of all that follows: a process beside the exchange, which opens by name.
    let follow = "
for path in ('file', 'dir/f'):
    while True:
        try:
            if open(path).read() == 'outside': break
        except OSError: pass";
    let request = json!({"argv": ["python3", "-c", follow], "timeout_ms": 100_000});
    while_exchanged(|files| {
        let _led = files.session.command(&request).ok();
    });
}

#[test]
fn outputs_are_the_file_or_refused() {
    while_exchanged(|files| {
        let names = ["file", "dir/f"].repeat(100);
        let outputs: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        // The exchange takes a CPU, and others may have the rest.
        let request = json!({"code": "1", "outputs": outputs, "timeout_ms": 100_000});
        let mut succeeded = 0;
        for _ in 0..TIMES / 100 {
            let outcome = files.session.execute_with(&request).ok();
            for file in outcome.0["files"].as_array().unwrap() {
                let is_inside = ["inside", ""].contains(&file["text"].as_str().unwrap_or("none"));
                assert!(is_inside || file["error"].is_string(), "{file}");
                succeeded += usize::from(file["text"] == "inside");
            }
        }
        assert!(succeeded > 0);
    });
}

#[test]
fn input_files_land_inside_or_nowhere() {
    while_exchanged(|files| {
        try_often("an input file", |number| {
            let name = if number % 2 == 0 { "file" } else { "dir/new" };
            let input = json!([{"name": name, "text": "inside"}]);
            let request = json!({"code": "1", "files": input});
            match files.session.execute_with(&request).status() {
                "ok" => true,
                "rejected" => false,
                status => panic!("{status}"),
            }
        });
    });
}

#[test]
fn reads_see_the_file_or_refuse() {
    while_exchanged(|files| {
        try_often("a read", |number| {
            let path = if number % 2 == 0 { "file" } else { "dir/f" };
            let answer = files.get(path);
            let text = String::from_utf8_lossy(&answer.body);
            assert!(!text.contains("outside"), "{text}");
            match answer.status {
                // The file is there before it has its content.
                200 => assert!(matches!(text.as_ref(), "inside" | ""), "{text}"),
                404 | 409 | 422 => {}
                _ => panic!("{} {text}", answer.status),
            }
            answer.status == 200
        });
    });
}

#[test]
fn writes_land_inside_or_nowhere() {
    while_exchanged(|files| {
        try_often("a write", |number| {
            let answer = match number % 3 {
                0 => files.put("file", b"inside"),
                1 => files.put("dir/new", b"inside"),
                _ => files.unpack("dir", &tar::archive(&[tar::file("f", b"inside")])),
            };
            match answer.status {
                200 | 201 => true,
                404 | 409 | 422 => false,
                status => panic!("{status} {}", String::from_utf8_lossy(&answer.body)),
            }
        });
    });
}

#[test]
fn deletions_stay_inside() {
    while_exchanged(|files| {
        try_often("a deletion", |number| {
            let answer = files.delete(if number % 2 == 0 { "dir/f" } else { "file" });
            match answer.status {
                204 => true,
                404 | 409 | 422 => false,
                status => panic!("{status} {}", String::from_utf8_lossy(&answer.body)),
            }
        });
    });
}

#[test]
fn entries_are_made_moved_and_changed_inside_or_nowhere() {
    while_exchanged(|files| {
        let _made = files.put("mine", b"inside");
        try_often("a change", |number| {
            let answer = match number % 5 {
                0 => files.change("file", &json!({"mode": "0666"})),
                1 => files.change("dir/f", &json!({"mode": "0666"})),
                2 => files.send("PUT", "dir/made?directory=true", &[], None),
                3 => files.change("mine", &json!({"move_to": "dir/f", "replace": true})),
                _ => files.change("dir/f", &json!({"move_to": "mine", "replace": true})),
            };
            match answer.status {
                200 | 201 => true,
                404 | 409 | 422 => false,
                status => panic!("{status} {}", String::from_utf8_lossy(&answer.body)),
            }
        });
        let modes =
            "{oct(os.stat(path).st_mode)[-3:] for path in ('/tmp/outside', '/tmp/outdir/f')}";
        assert_eq!(files.session.value(modes), "{'644'}");
    });
}

#[test]
fn archives_hold_what_is_inside() {
    while_exchanged(|files| {
        try_often("an archive", |number| {
            let answer = files.get(if number % 2 == 0 { "%2Fworkspace" } else { "dir" });
            let text = String::from_utf8_lossy(&answer.body);
            assert!(!text.contains("outside"), "{text}");
            match answer.status {
                200 => text.contains("inside"),
                404 | 409 | 422 => false,
                status => panic!("{status} {text}"),
            }
        });
    });
}
