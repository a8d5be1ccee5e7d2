//! Commands beside code, in the background and not: their input, signals, events and ends.

use std::thread;

use serde_json::{Value, json};
use vivarium_tests::events::{Events, text};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::{Daemon, Session, Setup, wait};

/// Code that goes on when there is a file.
const AWAIT_FILE: &str = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)";

/// Starts a command in the background. Returns the id of its execution.
#[track_caller]
fn start(session: &Session<'_>, mut command: Value) -> String {
    command["background"] = json!(true);
    let answer = session.request("POST", "/commands", Some(&command));
    assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
    let reply = answer.json();
    assert_eq!(reply["session_id"], session.id);
    let id = reply["execution_id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(&*session.path(&format!("/executions/{id}"))));
    id
}

/// Starts one and waits until it prints.
#[track_caller]
fn started(session: &Session<'_>, command: Value) -> String {
    let id = start(session, command);
    let mut events = session.follow(&id, None);
    events.expect("started");
    events.expect("stdout");
    id
}

fn signal(session: &Session<'_>, id: &str, name: &str) -> Response {
    let path = format!("/executions/{id}/signal");
    session.request("POST", &path, Some(&json!({ "signal": name })))
}

fn write(daemon: &Daemon, session: &Session<'_>, id: &str, query: &str, data: &[u8]) -> Response {
    let path = session.path(&format!("/executions/{id}/stdin{query}"));
    let headers = [("Content-Type", "application/octet-stream")];
    Client::connect(&daemon.unix()).send("POST", &path, &headers, Some(data))
}

#[test]
fn a_server_in_the_background_serves_code() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session_with(&json!({"network": "loopback"}));
    let serve = json!({
        "argv": ["python3", "-m", "http.server", "--bind", "127.0.0.1", "8000"],
        "cwd": "public", "files": [{"name": "public/served", "text": "by the command"}],
    });
    let id = start(&session, serve);
    let fetch = "
import time, urllib.error, urllib.request
while True:
    try:
        answer = urllib.request.urlopen('http://127.0.0.1:8000/served').read()
        break
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ConnectionRefusedError): raise
        time.sleep(0.01)
answer";
    assert_eq!(session.value(fetch), "b'by the command'");
    assert_eq!(session.execution(&id), json!({"state": "running", "outcome": null}));
    assert_eq!(session.info()["state"], "idle");
    assert_eq!(signal(&session, &id, "SIGTERM").status, 204);
    let outcome = session.until_done(&id).ended("killed", "signal", "preserved");
    assert_eq!(outcome.0["files_changed"], json!([]));
    assert_eq!(session.value("len(answer)"), "14");
    daemon.release();
}

#[test]
fn a_command_does_not_wait_for_code_unless_asked() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    thread::scope(|scope| {
        let code = scope.spawn(|| session.execute(&format!("{AWAIT_FILE}\n'after'")));
        session.until_state("running");
        let waiting = scope.spawn(|| session.command(&json!({"shell": "ls", "queued": true})));
        wait::until_true("one that waits", || session.info()["usage"]["queued"] == 1);
        // The code waits for this.
        let command = json!({"shell": "echo $GREETING; touch go", "env": {"GREETING": "hello"}});
        assert_eq!(session.command(&command).ok().stdout(), "hello\n");
        assert_eq!(code.join().unwrap().ok().result(), "'after'");
        assert_eq!(waiting.join().unwrap().ok().stdout(), "go\n");
    });
    daemon.release();
}

#[test]
fn code_has_a_directory_and_variables_for_one_execution() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"env": {"A": "session"}}));
    let _made = session.execute("import os\nos.mkdir('sub')\nos.mkdir('other')").ok();
    let look =
        "os.path.relpath(os.getcwd(), '/workspace'), os.environ.get('A'), os.environ.get('B')";
    let with = |code: &str| json!({"code": code, "cwd": "sub", "env": {"A": "own", "B": "b"}});
    assert_eq!(session.execute_with(&with(look)).ok().result(), "('sub', 'own', 'b')");
    assert_eq!(session.value(look), "('.', 'session', None)");
    let _failed = session.execute_with(&with("1 / 0")).raised("ZeroDivisionError");
    assert_eq!(session.value(look), "('.', 'session', None)");
    let _moved = session.execute("os.chdir('other')").ok();
    assert_eq!(session.execute_with(&with(look)).ok().result(), "('sub', 'own', 'b')");
    assert_eq!(session.value(look), "('other', 'session', None)");
    let run = json!({"code": "import os; os.getcwd()", "cwd": "d", "files": [{"name": "d/f", "text": ""}]});
    assert_eq!(daemon.run(&run).ok().result(), "'/workspace/d'");
}

#[test]
fn its_events_are_followed_from_any_that_is_kept() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let echo = "while read line; do echo got $line; done; exit 3";
    let id = start(&session, json!({"shell": echo, "stdin_open": true}));
    let mut events = session.follow(&id, None);
    events.expect("started");
    let mut last = 0;
    for line in ["one", "two"] {
        let reply = write(&daemon, &session, &id, "", format!("{line}\n").as_bytes());
        assert_eq!(reply.expect_success(), json!({"written_bytes": 4, "closed": false}));
        let event = events.expect("stdout");
        assert_eq!(event.data["text"], format!("got {line}\n"));
        last = event.id;
    }
    drop(events);
    let mut events = session.follow(&id, Some(last));
    let reply = write(&daemon, &session, &id, "?close=true", b"three\n");
    assert_eq!(reply.expect_success(), json!({"written_bytes": 6, "closed": true}));
    let rest = events.rest();
    assert_eq!((rest[0].id, text(&rest, "stdout")), (last + 1, "got three\n".to_owned()));
    assert_eq!(rest.last().unwrap().data["exit_code"], 3);
    let outcome = session.until_done(&id).ended("error", "exited", "preserved");
    assert_eq!(outcome.stdout(), "got one\ngot two\ngot three\n");
    write(&daemon, &session, &id, "", b"x").expect_problem(409, "not_running");
}

#[test]
fn what_is_closed_takes_no_more_input() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let command = json!({"shell": "wc -c; sleep 1000", "stdin_open": true});
    let id = start(&session, command);
    let much = vec![b'x'; 3 << 20];
    let reply = write(&daemon, &session, &id, "", &much).expect_success();
    assert_eq!(reply["written_bytes"], much.len());
    let _closed = write(&daemon, &session, &id, "?close=true", b"").expect_success();
    let mut events = session.follow(&id, None);
    events.expect("started");
    assert_eq!(events.expect("stdout").data["text"], "3145728\n");
    write(&daemon, &session, &id, "", b"x").expect_problem(409, "no_stdin");
    let deaf = start(&session, json!({"shell": "sleep 1000", "stdin": "all of it"}));
    write(&daemon, &session, &deaf, "", b"x").expect_problem(409, "no_stdin");
    write(&daemon, &session, &deaf, "?close=true", b"").expect_problem(409, "no_stdin");
    daemon.release();
}

#[test]
fn signals_reach_it_and_a_kill_what_it_has_started() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    // A shell says on standard error what signal ended its `sleep`, if there was one to end.
    let handler = "exec 2>/dev/null; trap 'echo hup' HUP; trap 'exit 3' TERM; echo on; \
                   while :; do sleep 0.01; done";
    let id = start(&session, json!({"shell": handler}));
    let mut events = session.follow(&id, None);
    events.expect("started");
    assert_eq!(events.expect("stdout").data["text"], "on\n");
    assert_eq!(signal(&session, &id, "HUP").status, 204);
    assert_eq!(events.expect("stdout").data["text"], "hup\n");
    assert_eq!(signal(&session, &id, "SIGTERM").status, 204);
    let outcome = session.until_done(&id).ended("error", "exited", "preserved");
    assert_eq!(outcome.0["exit_code"], 3);
    signal(&session, &id, "SIGTERM").expect_problem(409, "not_running");
    let tree = "setsid sleep 1000 & sleep 1000 & echo on; wait";
    let id = started(&session, json!({"shell": tree}));
    assert_eq!(signal(&session, &id, "SIGKILL").status, 204);
    let _killed = session.until_done(&id).ended("killed", "signal", "preserved");
    wait::until_true("nothing but the kernel", || session.processes() == 1);
    daemon.release();
}

#[test]
fn with_cgroups_it_outlives_kernels_and_a_reset_if_it_is_to() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let shell = "setsid sleep 1000 & echo on; exec sleep 1000";
    let mortal = started(&session, json!({ "shell": shell }));
    let survivor = started(&session, json!({"shell": shell, "survives_reset": true}));
    let died = session.execute("import os; os.kill(os.getpid(), 9)").0;
    assert_eq!(died["cause"], "signal");
    for id in [&mortal, &survivor] {
        assert_eq!(session.execution(id)["state"], "running");
    }
    wait::until_true("two, their children and a kernel", || session.processes() == 5);
    let reply = session.reset();
    assert_eq!(reply["scope"], "context");
    let outcome = session.until_done(&mortal).ended("killed", "reset", "lost");
    assert!(outcome.detail().contains("the session was reset"), "{outcome}");
    assert_eq!(session.execution(&survivor)["state"], "running");
    wait::until_true("one and its child are gone", || session.processes() == 3);
    // Its end is that of what it has left, too.
    assert_eq!(signal(&session, &survivor, "SIGTERM").status, 204);
    let _ended = session.until_done(&survivor).ended("killed", "signal", "preserved");
    wait::until_true("nothing but the kernel", || session.processes() == 1);
    daemon.release();
}

#[test]
fn without_cgroups_it_ends_with_its_kernel_and_says_so() {
    let daemon = Setup::default().without(&["cgroup"]).start();
    let session = daemon.session();
    let forever = json!({"shell": "echo on; exec sleep 1000"});
    let crash = || session.execute("import os; os.kill(os.getpid(), 9)").0;
    let ends: [(&dyn Fn() -> Value, &str); 2] =
        [(&|| session.reset(), "reset"), (&crash, "signal")];
    for (end, cause) in ends {
        let id = started(&session, forever.clone());
        end();
        let outcome = session.until_done(&id).ended("killed", cause, "lost");
        assert!(outcome.detail().contains("ended with a kernel of its session"), "{outcome}");
        assert_eq!(session.value("1 + 1"), "2");
        assert_eq!(session.processes(), 1);
    }
    let id = started(&session, forever);
    assert_eq!(session.request("DELETE", "", None).status, 204);
    let _deleted = session.until_done(&id).ended("killed", "deleted", "lost");
    daemon.stop_and_check();
}

#[test]
fn a_reset_ends_one_that_is_being_started() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    for _ in 0..20 {
        let id = start(&session, json!({"argv": ["sleep", "1000"]}));
        session.reset();
        let outcome = session.until_done(&id).ended("killed", "reset", "lost");
        assert_eq!(outcome.stderr(), "");
    }
    daemon.release();
}

#[test]
fn it_runs_for_as_long_as_it_likes_unless_it_has_a_time() {
    let daemon = Setup::default().config("session", "exec_timeout = \"200ms\"").start();
    let session = daemon.session();
    let forever = json!({"argv": ["sleep", "1000"]});
    let id = start(&session, forever.clone());
    let _timed_out = session.command(&forever).ended("timed_out", "wall_time", "preserved");
    assert_eq!(session.execution(&id)["state"], "running");
    let timed = start(&session, json!({"argv": ["sleep", "1000"], "timeout_ms": 100}));
    let _timed_out = session.until_done(&timed).ended("timed_out", "wall_time", "preserved");
    assert_eq!(session.execution(&id)["state"], "running");
}

#[test]
fn a_session_is_idle_though_something_runs_in_the_background() {
    let times = "idle_timeout = \"4s\"\nreap_interval = \"100ms\"";
    let daemon = Setup::default().config("session", times).start();
    let busy = daemon.session();
    let await_file = json!({"shell": "while ! test -e go; do sleep 0.01; done"});
    let mut foreground = busy.stream_with("/commands", &[], &await_file);
    foreground.expect("started");
    assert_eq!(busy.info()["state"], "running");
    let idle = daemon.session();
    let id = start(&idle, json!({"argv": ["sleep", "1000"]}));
    idle.until_gone();
    let _ended = idle.until_done(&id).ended("killed", "expired", "lost");
    // It is older, and was used before.
    assert_eq!(busy.info()["state"], "running");
    assert_eq!(busy.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    assert_eq!(foreground.rest().pop().unwrap().data["status"], "ok");
    daemon.stop_and_check();
}

#[test]
fn a_thirty_third_is_refused_while_code_runs_on() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let forever = json!({"argv": ["sleep", "1000"]});
    let all: Vec<_> = (0..32).map(|_| start(&session, forever.clone())).collect();
    for request in [json!({"argv": ["true"]}), json!({"argv": ["true"], "background": true})] {
        let answer = session.request("POST", "/commands", Some(&request));
        answer.expect_problem(429, "too_many_commands");
        assert!(answer.header("retry-after").is_some());
    }
    // What waits for its turn has one.
    assert_eq!(session.value("1 + 1"), "2");
    assert_eq!(session.command(&json!({"argv": ["true"], "queued": true})).status(), "ok");
    assert_eq!(signal(&session, &all[7], "SIGKILL").status, 204);
    let _killed = session.until_done(&all[7]).ended("killed", "signal", "preserved");
    let _ran = session.command(&json!({"argv": ["true"]})).ok();
    session.reset();
    for id in all {
        session.until_done(&id);
    }
    daemon.release();
}

#[test]
fn who_reads_one_slowly_holds_up_nothing_else() {
    let daemon = Setup::default().config("sandbox", "max_output_bytes = \"unlimited\"").start();
    let session = daemon.session();
    let unread: Vec<Events> =
        (0..2).map(|_| session.stream_with("/commands", &[], &json!({"argv": ["yes"]}))).collect();
    for _ in 0..20 {
        assert_eq!(session.value("print('x' * 100_000); 1 + 1"), "2");
        let much = session.command(&json!({"shell": "head -c 100000 /dev/zero | tr '\\0' x"})).ok();
        assert_eq!(much.stdout().len(), 100_000);
    }
    for id in ["1", "2"] {
        assert_eq!(signal(&session, id, "SIGKILL").status, 204);
        let _killed = session.until_done(id).ended("killed", "signal", "preserved");
    }
    drop(unread);
    daemon.stop_and_check();
}

#[test]
fn a_retry_finds_the_one_that_was_started() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let body = json!({"shell": "echo on >> count; sleep 1000", "background": true}).to_string();
    let ask = || {
        let headers = [("Idempotency-Key", "the-same")];
        let path = session.path("/commands");
        let mut client = Client::connect(&daemon.unix());
        client.send("POST", &path, &headers, Some(body.as_bytes())).expect_success()
    };
    let first = ask();
    assert_eq!(first, ask());
    // Whoever followed it from the start may go away.
    let mut events = session.stream_with(
        "/commands",
        &[("Idempotency-Key", "the-same")],
        &serde_json::from_str(&body).unwrap(),
    );
    assert_eq!(events.expect("started").data["execution_id"], first["execution_id"]);
    drop(events);
    let id = first["execution_id"].as_str().unwrap();
    wait::until_true("its file", || session.request("GET", "/files/count", None).body == b"on\n");
    assert_ne!(session.execution(id)["state"], "done");
}
