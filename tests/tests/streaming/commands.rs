//! Commands: processes beside the kernel, in the same sandbox.

use serde_json::json;
use vivarium_tests::events::{names, text};
use vivarium_tests::{Daemon, wait};

#[test]
fn a_command_is_a_program_with_arguments_or_a_line_for_the_shell() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _set = session.execute("x = 1; open('made', 'w').write('by the kernel')").ok();
    let echo = session.command(&json!({"argv": ["printf", "%s|", "a b", "$HOME", "*"]})).ok();
    assert_eq!(echo.stdout(), "a b|$HOME|*|");
    assert_eq!(echo.0["exit_code"], 0);
    let piped = session.command(&json!({"shell": "cat made | tr a-z A-Z; echo err >&2"})).ok();
    assert_eq!((piped.stdout(), piped.stderr()), ("BY THE KERNEL", "err\n"));
    let read = session.command(&json!({"argv": ["wc", "-c"], "stdin": "12345"})).ok();
    assert_eq!(read.stdout().trim(), "5");
    let bytes =
        session.command(&json!({"argv": ["od", "-An", "-tx1"], "stdin_base64": "/wA="})).ok();
    assert_eq!(bytes.stdout().trim(), "ff 00");
    let nothing = session.command(&json!({"argv": ["cat"]})).ok();
    assert_eq!(nothing.stdout(), "");
    // What it makes the kernel finds, whose variables are as they were.
    let request =
        json!({"shell": "mkdir -p d && cd d && pwd && echo hi > f", "outputs": [{"name": "d/f"}]});
    let made = session.command(&request).ok();
    assert_eq!(made.stdout(), "/workspace/d\n");
    assert_eq!(made.0["files"][0]["text"], "hi\n");
    for (cwd, directory) in [(".", ""), ("/workspace", ""), ("/workspace/d", "/d")] {
        let there = session.command(&json!({"argv": ["pwd"], "cwd": cwd})).ok();
        assert_eq!(there.stdout(), format!("/workspace{directory}\n"), "{cwd}");
    }
    let there = session.command(&json!({"argv": ["pwd"], "cwd": "d"})).ok();
    assert_eq!(there.stdout(), "/workspace/d\n");
    let given = json!({"shell": "cat in", "files": [{"name": "in", "text": "given"}]});
    assert_eq!(session.command(&given).ok().stdout(), "given");
    assert_eq!(session.value("(x, open('d/f').read())"), "(1, 'hi\\n')");
    daemon.stop_and_check();
}

#[test]
fn how_it_ended_is_told() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let failed = session.command(&json!({"shell": "exit 3"})).ended("error", "exited", "preserved");
    assert_eq!((&failed.0["exit_code"], failed.detail()), (&json!(3), "exit code 3"));
    let killed = session.command(&json!({"shell": "kill -SEGV $$"}));
    let killed = killed.ended("killed", "signal", "preserved");
    assert!(killed.0["exit_code"].is_null() && killed.detail().contains("SIGSEGV"), "{killed}");
    let missing = session.command(&json!({"argv": ["no-such-program"]}));
    assert_eq!(missing.ended("error", "exited", "preserved").0["exit_code"], 127);
    let long = session.command(&json!({"argv": ["true", "x".repeat(200_000)]}));
    assert_eq!(long.ended("error", "exited", "preserved").0["exit_code"], 126);
    let bad = session.request("POST", "/commands", Some(&json!({"argv": ["ls"], "shell": "ls"})));
    assert_eq!(bad.expect_problem(422, "invalid_field")["field"], "argv");
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn its_time_is_up_for_all_its_processes_and_costs_the_kernel_nothing() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _set = session.execute("x = 1").ok();
    let gave_way = session.command(&json!({"argv": ["sleep", "1000"], "timeout_ms": 100}));
    let gave_way = gave_way.ended("timed_out", "wall_time", "preserved");
    assert!(gave_way.detail().contains("the time of 0.1 s was up"), "{gave_way}");
    let stubborn =
        "trap '' INT; setsid sleep 1000 & sleep 1000 & echo on; while :; do sleep 1000; done";
    let killed = session.command(&json!({"shell": stubborn, "timeout_ms": 3000}));
    let killed = killed.ended("timed_out", "wall_time", "preserved");
    assert!(killed.detail().contains("did not give way to SIGINT"), "{killed}");
    assert_eq!(killed.stdout(), "on\n");
    wait::until_true("nothing but the kernel", || session.processes() == 1);
    assert_eq!(session.value("x"), "1");
}

#[test]
fn nothing_of_it_is_left_when_it_has_ended() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let outcome = session.command(&json!({"shell": "sleep 1000 & echo started"})).ok();
    assert_eq!(outcome.stdout(), "started\n");
    wait::until_true("nothing but the kernel", || session.processes() == 1);
}

#[test]
fn it_is_streamed_and_interrupted_like_code() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let command = json!({"shell": "echo on; while :; do sleep 0.05; done"});
    let mut events = session.stream_with("/commands", &[], &command);
    events.expect("started");
    assert_eq!(events.expect("stdout").data["text"], "on\n");
    assert_eq!(session.interrupt()["interrupted"], true);
    let done = events.rest().pop().unwrap();
    assert_eq!((done.name.as_str(), &done.data["status"]), ("done", &json!("interrupted")));
    assert_eq!(done.data["state"], "preserved");
    let run = json!({"shell": "echo out; echo err >&2; exit 2"});
    let mut events =
        vivarium_tests::events::Events::open(&daemon.unix(), "POST", "/v1/run", &[], Some(&run));
    let all = events.rest();
    assert_eq!((text(&all, "stdout"), text(&all, "stderr")), ("out\n".into(), "err\n".into()));
    assert_eq!(names(&all).last(), Some(&"done"));
    assert_eq!(all.last().unwrap().data["exit_code"], 2);
    let list = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "nothing of the run is left");
}

#[test]
fn it_is_confined_as_the_kernel_is() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let own =
        session.execute("import os\nprint(os.getuid(), open('/proc/self/status').read())").ok();
    let status = session.command(&json!({"shell": "id -u; cat /proc/self/status"})).ok();
    for line in ["CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"] {
        let find = |text: &str| {
            let found = text.lines().find(|found| found.starts_with(line));
            found.unwrap_or_else(|| panic!("no {line} in {text}")).to_owned()
        };
        assert_eq!(find(status.stdout()), find(own.stdout()));
    }
    let uid = own.stdout().split(' ').next().unwrap();
    assert!(status.stdout().starts_with(&format!("{uid}\n")), "{status}");
    let refused = session.command(&json!({"argv": ["unshare", "-U", "true"]}));
    let refused = refused.ended("error", "exited", "preserved");
    assert!(refused.stderr().contains("Operation not permitted"), "{refused}");
}

#[test]
fn queued_commands_and_code_take_turns() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut first = session.stream("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nopen('order', 'a').write('1')");
    first.expect("started");
    let command = json!({"shell": "printf 2 >> order", "queued": true});
    let mut second = session.stream_with("/commands", &[], &command);
    let mut third = session.stream("open('order', 'a').write('3')");
    assert_eq!(session.execution("2")["state"], "queued");
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    for events in [&mut first, &mut second, &mut third] {
        assert_eq!(events.rest().pop().unwrap().data["status"], "ok");
    }
    assert_eq!(session.value("open('order').read()"), "'123'");
}
