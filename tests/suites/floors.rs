//! The least of each limit: with it a session starts and works, with less it is refused by name.

use serde_json::json;
use vivarium_tests::{Outcome, Session};

use crate::every_way::daemon;

/// Every limit, and the least that the API takes.
const LEAST: [(&str, u64); 9] = [
    ("max_memory_mb", 32),
    ("max_cpu_secs", 1),
    ("max_procs", 1),
    ("max_open_fds", 64),
    ("max_file_size_mb", 1),
    ("max_disk_mb", 1),
    ("max_inodes", 16),
    ("max_output_bytes", 1),
    ("max_result_bytes", 1),
];

/// A session with these limits works: code, a command, and a fresh kernel.
#[track_caller]
fn works(session: &Session<'_>) {
    let _first = session.execute("x = 1").ok();
    session.reset();
    let _fresh = session.execute("open('f', 'w').write('x') and None").ok();
    let _command = Outcome(session.command(&json!({"argv": ["true"]})).0).ok();
}

#[test]
fn with_the_least_of_each_limit_a_session_works_and_with_less_it_is_refused() {
    let daemon = daemon();
    for (name, least) in LEAST {
        let session = daemon.session_with(&json!({"limits": {name: least}}));
        works(&session);
        assert_eq!(session.request("DELETE", "", None).status, 204);
        let less = json!({"limits": {name: least - 1}});
        let problem = daemon
            .request("POST", "/v1/sessions", Some(&less))
            .expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], format!("limits.{name}"));
        let detail = problem["detail"].as_str().unwrap();
        assert!(least == 1 || detail.contains(&format!("at least {least}")), "{detail}");
    }
    let slow = daemon.session_with(&json!({"limits": {"cpu_cores": 0.01}}));
    let _ran = slow.execute("1").ok();
    // All of them at once.
    let all: serde_json::Map<_, _> =
        LEAST.iter().map(|(name, least)| ((*name).to_owned(), json!(least))).collect();
    works(&daemon.session_with(&json!({"limits": all})));
    daemon.stop_and_check();
}
