//! The kernel that takes another's place, after a reset or a death.

use serde_json::json;

use crate::every_way::daemon;

/// What there is of an interpreter that nobody has used.
const FRESH: &str = "
import gc, os, signal, sys, tempfile, threading
told = [name for name in ('x', 'json', 'gone') if name in globals()]
told += [os.getppid(), os.getcwd()]
told += ['LEFT' in os.environ, '/nowhere' in sys.path, threading.active_count(), gc.isenabled()]
told += [sys.modules['__main__'].__dict__ is globals(), tempfile.gettempdir()]
told += [str(signal.getsignal(signal.SIGTERM)), str(signal.getsignal(signal.SIGINT))[:20]]
told += [os.umask(0o22), sorted(os.listdir('/proc/self/fd'))[:4]]
told += [sorted(name for name in os.environ)]
told";

/// Leaves something of everything behind.
const DIRTY: &str = "
import gc, json, os, signal, sys, tempfile, threading, time
x = 1
json.patched = True
os.environ['LEFT'] = 'over'
sys.path.insert(0, '/nowhere')
gc.disable()
tempfile.tempdir = '/nowhere'
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
open('/workspace/kept', 'w').write('content')
open('/tmp/kept', 'w').write('too')
os.chdir('/tmp'); os.umask(0o27) and None";

#[test]
fn by_a_reset_it_is_clean_and_came_about_in_the_same_way() {
    let daemon = daemon();
    let session = daemon.session();
    let fresh = session.value(FRESH);
    for _ in 0..3 {
        let _dirtied = session.execute(DIRTY).ok();
        session.reset();
        assert_eq!(session.value(FRESH), fresh);
        assert_eq!(
            session.value("open('/workspace/kept').read() + open('/tmp/kept').read()"),
            "'contenttoo'"
        );
        assert_eq!(session.value("'patched' in vars(__import__('json'))"), "False");
        daemon.until_only(1);
        daemon.check_start_mode();
    }
    daemon.stop_and_check();
}

#[test]
fn by_a_death_it_is_clean_and_came_about_in_the_same_way() {
    let daemon = daemon();
    let (session, neighbour) = (daemon.session(), daemon.session());
    let _innocent = neighbour.execute("x = 41").ok();
    let fresh = session.value(FRESH);
    for (code, cause) in [
        ("os._exit(3)", "exited"),
        ("os.kill(os.getpid(), 9)", "signal"),
        ("__import__('ctypes').string_at(0)", "signal"),
        ("while True: pass", "wall_time"),
    ] {
        let _dirtied = session.execute(DIRTY).ok();
        // Nothing but a kill ends the last one.
        let code = format!("signal.signal(2, signal.SIG_IGN)\n{code}");
        let request =
            json!({"code": code, "timeout_ms": if cause == "wall_time" { 2000 } else { 60_000 }});
        let outcome = session.execute_with(&request);
        assert_eq!((outcome.cause(), outcome.state()), (cause, "lost"), "{outcome}");
        assert_eq!(session.value(FRESH), fresh);
        assert_eq!(session.value("open('/workspace/kept').read()"), "'content'");
        daemon.until_only(2);
        daemon.check_start_mode();
    }
    assert_eq!(neighbour.value("x + 1"), "42");
    daemon.stop_and_check();
}
