//! Each end of a call that was not answered: one outcome for each, and 410 for a late answer.

use serde_json::json;
use vivarium_tests::events::Event;
use vivarium_tests::{Daemon, Session, Setup};

use super::{IMPORT, answer, calling, result, start, start_with, until};

fn late(session: &Session<'_>, call: &Event) {
    answer(session, call, &json!({"result": 1})).expect_problem(410, "call_over");
}

#[test]
fn an_interrupt_gives_the_call_up() {
    let daemon = Daemon::start();
    let session = daemon.session();
    for code in ["tools.echo()", "await tools.aio.echo()"] {
        let mut events = start(&session, code);
        let call = events.expect("call");
        session.interrupt();
        assert_eq!(until(&mut events, "call_ended").data["outcome"], "withdrawn");
        let done = until(&mut events, "done").data;
        assert_eq!((&done["status"], &done["state"]), (&json!("interrupted"), &json!("preserved")));
        late(&session, &call);
    }
    // Code that catches it calls on.
    let code = "
try: tools.echo(n=1)
except KeyboardInterrupt: pass
tools.echo(n=2)";
    let mut events = start(&session, code);
    events.expect("call");
    session.interrupt();
    let second = until(&mut events, "call");
    assert_eq!(second.data["arguments"], json!({"n": 2}));
    result(&session, &second, &json!("second"));
    assert_eq!(until(&mut events, "result").data["repr"], "'second'");
    daemon.stop_and_check();
}

#[test]
fn a_call_that_is_not_answered_in_time_is_an_exception() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = format!(
        "{IMPORT}
try: tools.slow()
except vivarium.ToolTimeout as error: found = str(error)"
    );
    let tools = json!([{"name": "slow", "timeout_ms": 50}]);
    let mut events = start_with(&session, &json!({"code": code, "tools": tools}));
    let call = events.expect("call");
    assert_eq!(events.expect("call_ended").data["outcome"], "timeout");
    assert_eq!(events.expect("done").data["status"], "ok");
    late(&session, &call);
    assert_eq!(session.value("found"), "'slow: it was not answered in time'");
    daemon.stop_and_check();
}

#[test]
fn the_clock_stands_still_while_code_waits_and_goes_on_afterwards() {
    let daemon = Daemon::start();
    let session = daemon.session();
    // Its time of 2 s is over while it waits; the call says when.
    let code =
        "import time\nbegan = time.monotonic()\ntools.echo()\ntime.monotonic() - began > 2.5";
    let mut request = calling(code);
    request["timeout_ms"] = json!(2000);
    let mut events = start_with(&session, &request);
    let call = events.expect("call");
    vivarium_tests::wait::pause(std::time::Duration::from_millis(2600));
    result(&session, &call, &json!(null));
    assert_eq!(until(&mut events, "result").data["repr"], "True");
    // The control: it has the rest of its time afterwards, and no more.
    let mut request = calling("tools.echo()\nwhile True: pass");
    request["timeout_ms"] = json!(2000);
    let mut events = start_with(&session, &request);
    let call = events.expect("call");
    result(&session, &call, &json!(null));
    let done = until(&mut events, "done").data;
    assert_eq!((&done["status"], &done["cause"]), (&json!("timed_out"), &json!("wall_time")));
    daemon.stop_and_check();
}

#[test]
fn cpu_time_is_counted_while_a_call_waits() {
    let daemon = Setup::default().limits(&json!({"max_cpu_secs": 1})).start();
    let session = daemon.session();
    let code = "import threading\nthreading.Thread(target=tools.echo, daemon=True).start()
while True: pass";
    let mut events = start(&session, code);
    events.expect("call");
    let done = until(&mut events, "done").data;
    assert_eq!((&done["status"], &done["cause"]), (&json!("timed_out"), &json!("cpu_limit")));
    daemon.stop_and_check();
}

#[test]
fn memory_is_limited_while_a_call_waits() {
    let daemon = Setup::default().limits(&json!({"max_memory_mb": 512})).start();
    let session = daemon.session();
    let is_killed = session.layer("cgroup")["status"] == "enforced";
    // Little is the control.
    for (bytes, is_too_much) in [(1 << 20, false), (1 << 30, true)] {
        let code = format!(
            "import os, threading\nthreading.Thread(target=tools.echo, daemon=True).start()
while not os.path.exists('{bytes}'): pass\nlen(b'x' * {bytes})"
        );
        let mut events = start(&session, &code);
        let call = until(&mut events, "call");
        let path = format!("/files/{bytes}");
        assert_eq!(session.request("PUT", &path, Some(&json!(""))).status, 201);
        let done = until(&mut events, "done").data;
        let expected = match (is_too_much, is_killed) {
            (false, _) => "ok",
            (true, true) => "killed",
            (true, false) => "error",
        };
        assert_eq!(done["status"], expected, "{done}");
        late(&session, &call);
    }
    daemon.stop_and_check();
}

#[test]
fn an_execution_waits_no_longer_than_it_may() {
    let daemon = Setup::default().config("session", "max_call_wait = \"200ms\"").start();
    let session = daemon.session();
    let code = "
found = []
for n in range(3):
    try: tools.echo(n=n)
    except vivarium.ToolTimeout as error: found.append(str(error))
found";
    let mut events = start(&session, code);
    let call = events.expect("call");
    assert_eq!(events.expect("call_ended").data["outcome"], "timeout");
    let repr = until(&mut events, "result").data["repr"].clone();
    assert!(repr.as_str().unwrap().matches("session.max_call_wait").count() == 2, "{repr}");
    late(&session, &call);
    daemon.stop_and_check();
}

#[test]
fn calls_end_with_what_ends_their_execution() {
    let daemon = Daemon::start();
    // A reset.
    let session = daemon.session();
    let mut events = start(&session, "tools.echo()");
    let call = events.expect("call");
    session.reset();
    assert_eq!(until(&mut events, "call_ended").data["outcome"], "ended");
    let done = until(&mut events, "done").data;
    assert_eq!((&done["status"], &done["cause"]), (&json!("killed"), &json!("reset")));
    late(&session, &call);
    // The death of its kernel.
    let code = "import os, threading\nthreading.Thread(target=tools.echo, daemon=True).start()
while not os.path.exists('go'): pass\nos.kill(os.getpid(), 9)";
    let mut events = start(&session, code);
    let call = events.expect("call");
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    assert_eq!(until(&mut events, "call_ended").data["outcome"], "ended");
    assert_eq!(until(&mut events, "done").data["status"], "killed");
    late(&session, &call);
    // Its own end, while a thread waits.
    let mut events = start(
        &session,
        "import os, threading\nthreading.Thread(target=tools.echo, daemon=True).start()
while not os.path.exists('stop'): pass",
    );
    let call = events.expect("call");
    assert_eq!(session.request("PUT", "/files/stop", Some(&json!(""))).status, 201);
    assert_eq!(until(&mut events, "call_ended").data["outcome"], "ended");
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    late(&session, &call);
    // The end of its session. What the thread says of its end comes first.
    let mut events = start(&session, "tools.echo()");
    let call = until(&mut events, "call");
    assert_eq!(session.request("DELETE", "", None).status, 204);
    assert_eq!(until(&mut events, "done").data["cause"], "deleted");
    late(&session, &call);
    daemon.stop_and_check();
}

#[test]
fn a_client_that_goes_away_leaves_the_call_to_others_unless_it_is_to_end() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = start(&session, "tools.echo()");
    let call = events.expect("call");
    drop(events);
    result(&session, &call, &json!("answered"));
    assert_eq!(session.until_done("1").result(), "'answered'");
    let mut request = calling("tools.echo()");
    request["cancel_on_disconnect"] = json!(true);
    let mut events = start_with(&session, &request);
    let call = events.expect("call");
    drop(events);
    assert_eq!(session.until_done("2").status(), "interrupted");
    late(&session, &call);
    daemon.stop_and_check();
}

#[test]
fn a_daemon_that_stops_ends_calls() {
    let daemon = Setup::default().config("session", "exec_timeout = \"5s\"").start();
    let session = daemon.session();
    let mut events = start(&session, "tools.echo()");
    events.expect("call");
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let done = until(&mut events, "done").data;
    assert_eq!(done["cause"], "draining", "{done}");
}
