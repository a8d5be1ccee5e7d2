//! Which files an execution changed, where the host has nothing left to watch them with.

use std::fs;

use serde_json::json;
use vivarium_tests::host;
use vivarium_tests::program::Runner;
use vivarium_tests::{Daemon, Setup};

use super::Files;

/// The inotify instances that a daemon's sessions have.
fn inotify_instances(daemon: &Daemon) -> usize {
    let processes = daemon.descendants();
    let open =
        processes.iter().filter_map(|one| fs::read_dir(format!("/proc/{}/fd", one.pid)).ok());
    let targets = open.flatten().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy() == "anon_inode:inotify").count()
}

#[test]
fn changed_files_are_told_when_inotify_instances_are_used_up() {
    let nobody = host::nobody();
    for (runner, instances) in [(Runner::User(nobody.clone()), 3), (Runner::OneInotify(nobody), 1)]
    {
        let daemon = Setup::default().runner(runner).start();
        let sessions = [daemon.session(), daemon.session(), daemon.session()];
        for name in ["first", "second", "third"] {
            for session in &sessions {
                let outcome = session.execute(&format!("open({name:?}, 'w').close()")).ok();
                let changed = outcome.0["files_changed"].as_array().unwrap();
                let names: Vec<_> =
                    changed.iter().filter_map(|file| file["name"].as_str()).collect();
                assert!(names.contains(&name), "{outcome}");
                // Where the workdir is walked, what was changed in the same tick of the clock as it
                // was told of is told twice.
                assert!(names.len() == 1 || instances == 1, "{outcome}");
                assert_eq!(outcome.0["files_changed_more"], false);
            }
        }
        // The descriptors of agents are for root to see.
        if host::is_root() {
            assert_eq!(inotify_instances(&daemon), instances);
        }
        daemon.stop_and_check();
    }
}

#[test]
fn files_that_code_deletes_are_told() {
    let daemon = crate::DAEMON.hold();
    let files = Files::of(&daemon);
    let changed = |code: &str| {
        let outcome = files.session.execute(code).ok();
        assert_eq!(outcome.0["files_changed_more"], false);
        outcome.0["files_changed"].clone()
    };
    let gone = |name: &str| json!({"name": name, "size_bytes": 0, "deleted": true});
    let here = |name: &str| json!({"name": name, "size_bytes": 1});
    assert_eq!(
        changed("import os\nfor n in 'abc': open(n, 'w').write('1')"),
        json!([here("a"), here("b"), here("c")])
    );
    assert_eq!(
        changed("os.unlink('a'); open('t', 'w').close(); os.unlink('t')"),
        json!([gone("a")])
    );
    assert_eq!(changed("os.rename('b', 'd')"), json!([here("d"), gone("b")]));
    // What the client itself did is no news to it.
    assert_eq!(files.delete("c").status, 204);
    assert_eq!(files.change("d", &json!({"move_to": "dir/e"})).status, 200);
    assert_eq!(files.put("f", b"1").status, 201);
    assert_eq!(changed("1"), json!([]));
    assert_eq!(changed("os.rename('dir', 'moved')"), json!([here("moved/e"), gone("dir")]));
    daemon.release();
}
