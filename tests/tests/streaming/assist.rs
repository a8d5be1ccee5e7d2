//! Questions about code to the live kernel.

use serde_json::{Value, json};
use vivarium_tests::{Daemon, wait};

#[test]
fn a_kernel_completes_what_it_knows() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _set = session.execute("import json\nvariable_of_mine = [1, 2]").ok();
    let complete = |code: &str, cursor: Value| {
        let request = json!({"code": code, "cursor": cursor});
        session.request("POST", "/complete", Some(&request)).expect_success()
    };
    let reply = complete("é = variable_o", Value::Null);
    assert_eq!(reply["matches"][0]["text"], "variable_of_mine");
    assert_eq!((&reply["start"], &reply["end"]), (&json!(4), &json!(14)), "in characters");
    let reply = complete("json.lo + 1", json!(7));
    let texts: Vec<_> = reply["matches"].as_array().unwrap().iter().map(|m| &m["text"]).collect();
    assert!(texts.contains(&&json!("loads")), "{texts:?}");
    assert_eq!(complete("nothing_like_it", Value::Null)["matches"], json!([]));
    // It is no execution.
    assert_eq!(session.info()["usage"]["executions"], 1);
    assert_eq!(session.value("variable_of_mine"), "[1, 2]");
}

#[test]
fn an_answer_is_no_result_and_needs_no_room_among_them() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"limits": {"max_result_bytes": 1}}));
    let request = json!({"code": "prin"});
    let reply = session.request("POST", "/complete", Some(&request)).expect_success();
    assert_eq!(reply["matches"][0]["text"], "print");
    // The control: results of code are left out.
    assert!(session.execute("'x' * 100").ok().0["result"].is_null());
}

#[test]
fn a_kernel_says_what_something_is() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _set = session.execute("def double(x, by=2):\n    'Doubles.'\n    return x * by").ok();
    let inspect = |code: &str| {
        let request = json!({"code": code});
        session.request("POST", "/inspect", Some(&request)).expect_success()
    };
    let reply = inspect("double");
    assert_eq!((&reply["found"], &reply["docstring"]), (&json!(true), &json!("Doubles.")));
    assert!(reply["signature"].as_str().unwrap().contains("(x, by=2)"), "{reply}");
    assert_eq!(inspect("unheard_of")["found"], false);
}

#[test]
fn a_kernel_tells_whether_code_needs_another_line() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let is_complete = |code: &str| {
        let request = json!({"code": code});
        let reply = session.request("POST", "/is_complete", Some(&request)).expect_success();
        let text = |name: &str| reply[name].as_str().unwrap().to_owned();
        (text("status"), text("indent"))
    };
    let answer = |status: &str, indent: &str| (status.to_owned(), indent.to_owned());
    let _set = session.execute("kept = 1").ok();
    assert_eq!(is_complete("await x"), answer("complete", ""));
    assert_eq!(is_complete("class A:\n    def f(self):"), answer("incomplete", "        "));
    assert_eq!(is_complete("if x:\n    !ls"), answer("incomplete", "    "));
    assert_eq!(is_complete("x = 'é"), answer("invalid", ""));
    for hostile in ["\0", &"(".repeat(100_000), &"-".repeat(200_000), &"if x:\n ".repeat(2_000)] {
        assert_eq!(is_complete(hostile), answer("invalid", ""));
    }
    let _unread = is_complete(&"[".repeat(1 << 20));
    assert_eq!(session.info()["usage"]["executions"], 1);
    assert_eq!(session.value("kept"), "1");
}

#[test]
fn a_busy_session_is_not_asked() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events =
        session.stream("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)");
    events.expect("started");
    let request = json!({"code": "os."});
    for path in ["/complete", "/inspect", "/is_complete"] {
        let answer = session.request("POST", path, Some(&request));
        let _problem = answer.expect_problem(409, "busy");
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    events.rest();
    assert_eq!(session.request("POST", "/complete", Some(&request)).status, 200);
}

#[test]
fn a_session_that_is_interrupted_or_reset_meanwhile_was_busy() {
    let daemon = Daemon::start();
    for call in ["/interrupt", "/reset"] {
        let session = daemon.session();
        // Completion asks for what the object has, which is the tenant's code.
        let slow = "
import time
class Slow:
    def __dir__(self):
        open('asked', 'w').close()
        time.sleep(4)
        return []
slow = Slow()";
        let _made = session.execute(slow).ok();
        std::thread::scope(|threads| {
            let asked = threads
                .spawn(|| session.request("POST", "/complete", Some(&json!({"code": "slow."}))));
            wait::until_true("the question", || {
                session.request("GET", "/files/asked", None).status == 200
            });
            let _done = session.request("POST", call, None).expect_success();
            let _problem = asked.join().unwrap().expect_problem(409, "busy");
        });
    }
}
