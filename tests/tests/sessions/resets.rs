//! Reset: everything of the user's is gone but the workdir.

use std::thread;

use serde_json::json;
use vivarium_tests::{Daemon, Outcome, processes, wait};

#[test]
fn nothing_but_the_workdir_is_left() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let dirty = "
import os, sys, subprocess, threading, time, json, builtins
x = 1
json.patched = True
builtins.len = lambda _: 99
sys.path.insert(0, '/nowhere')
os.environ['LEFT'] = 'over'
os.chdir('/tmp')
os.umask(0o27)
kept_open = open('/dev/null')
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
sleeper = subprocess.Popen(['sleep', '1000'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp('sleep', ['sleep', '1001'])
    os._exit(0)
os.wait()
sys.modules['__main__'] = None
open('/workspace/kept', 'w').write('content')";
    let _dirtied = session.execute(dirty).ok();
    wait::until_true("two sleepers", || session.processes() == 3);
    let agent = |daemon: &Daemon| {
        let all = daemon.descendants();
        let agents = all.iter().filter(|p| all.iter().any(|q| q.pid == p.parent));
        agents.map(|p| (p.pid, p.started)).min()
    };
    let before = agent(&daemon);
    let reply = session.reset();
    assert!(reply["ended_execution_id"].is_null(), "{reply}");
    let clean = "
import os, sys, threading
[n for n in ('x', 'json', 'dirty') if n in globals()] + \\
[len([1]), '/nowhere' in sys.path, 'LEFT' in os.environ, os.getcwd(), threading.active_count(),
 'json' in sys.modules and hasattr(sys.modules['json'], 'patched'), os.umask(0o22)]";
    assert_eq!(session.value(clean), "[1, False, False, '/workspace', 1, False, 18]");
    assert_eq!(session.value("open('kept').read()"), "'content'");
    assert_eq!(session.processes(), 1);
    assert_eq!(agent(&daemon), before, "the agent is the same");
    daemon.stop_and_check();
}

#[test]
fn it_ends_what_runs_and_what_waits_runs_in_the_fresh_kernel() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    thread::scope(|scope| {
        let code = "import signal; signal.signal(2, signal.SIG_IGN)\nprint('so far', flush=True)\nwhile True: pass";
        let first = scope.spawn(|| session.execute(code));
        session.until_state("running");
        let second = scope.spawn(|| session.execute("'first' in globals(), 1 + 1"));
        wait::until_true("one that waits", || session.info()["usage"]["queued"] == 1);
        let reply = session.reset();
        let outcome = first.join().unwrap().ended("killed", "reset", "lost");
        assert_eq!(reply["ended_execution_id"], outcome.0["execution_id"]);
        assert_eq!(second.join().unwrap().ok().result(), "(False, 2)");
    });
    daemon.release();
}

#[test]
fn many_at_once_are_one_or_more_and_never_stick() {
    let daemon = Daemon::start();
    let session = daemon.session();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| session.reset());
        }
    });
    assert_eq!(session.value("1 + 1"), "2");
    let left: Vec<_> = daemon.descendants();
    assert_eq!(left.len(), 3, "launcher, agent and kernel: {left:?}");
    assert!(left.iter().all(processes::Process::is_alive));
}

/// The kernel that an outcome tells of: its generation, whether it is fresh, and the cause of the
/// end of the one before.
fn kernel(outcome: &Outcome) -> (u64, bool, String) {
    let kernel = &outcome.0["kernel"];
    let cause = kernel["previous_end"]["cause"].as_str().unwrap_or_default();
    (kernel["generation"].as_u64().unwrap(), kernel["fresh"].as_bool().unwrap(), cause.to_owned())
}

/// A cause, and how to lose a kernel by it.
type Lose<'l> = (&'l str, &'l dyn Fn(&vivarium_tests::Session<'_>));

#[test]
fn every_outcome_tells_of_the_kernel_whatever_way_the_one_before_was_lost() {
    let daemon = crate::DAEMON.hold();
    let session = vivarium_tests::Session::named(&daemon, "made");
    let create = || {
        let body = json!({"code": "x = 1"});
        let path = "/v1/sessions/made/execute?create=true";
        Outcome(daemon.request("POST", path, Some(&body)).expect_success())
    };
    let (first, second) = (create(), create());
    assert_eq!(kernel(&first), (1, true, String::new()));
    assert_eq!(kernel(&second), (1, false, String::new()));
    assert_eq!(
        (&first.0["session_created"], &second.0["session_created"]),
        (&json!(true), &json!(false))
    );
    let run = daemon.run(&json!({"code": "1"}));
    assert_eq!((kernel(&run), &run.0["session_created"]), ((1, true, String::new()), &json!(true)));
    // Between executions: nobody has an answer that tells of it.
    let quit = "
import os, threading, time
def wait():
    while not os.path.exists('quit'): time.sleep(0.01)
    os._exit(7)
threading.Thread(target=wait).start()";
    let resets = |session: &vivarium_tests::Session<'_>| drop(session.reset());
    let dies = |session: &vivarium_tests::Session<'_>| {
        let main = || session.request("GET", "/contexts/main", None).expect_success();
        let before = main()["generation"].clone();
        let _set = session.execute(quit).ok();
        assert_eq!(session.request("PUT", "/files/quit", Some(&json!(""))).status, 201);
        wait::until_true("the next kernel", || main()["generation"] != before);
    };
    let exits = |session: &vivarium_tests::Session<'_>| {
        let _out = session.execute("import os; os._exit(3)").ended("killed", "exited", "lost");
    };
    let stubborn = "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass";
    let overruns = |session: &vivarium_tests::Session<'_>| {
        let _out = session.execute_for(2000, stubborn).ended("timed_out", "wall_time", "lost");
    };
    let ways: [Lose<'_>; 4] =
        [("reset", &resets), ("exited", &dies), ("exited", &exits), ("wall_time", &overruns)];
    for (number, (cause, lose)) in ways.into_iter().enumerate() {
        lose(&session);
        let generation = number as u64 + 2;
        let command = session.command(&json!({"argv": ["true"]})).ok();
        assert_eq!(kernel(&command), (generation, true, cause.to_owned()));
        for fresh in [true, false] {
            let outcome = session.execute("x");
            assert_eq!(kernel(&outcome), (generation, fresh, cause.to_owned()), "{outcome}");
            assert_eq!(outcome.exception(), "NameError");
        }
        let done = session.stream("1").rest().pop().unwrap();
        assert_eq!(done.data["kernel"]["generation"], generation);
        assert_eq!(done.data["session_created"], false);
    }
    daemon.release();
}
