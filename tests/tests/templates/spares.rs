//! The process that a template forks ahead, which becomes the next session's kernel.

use nix::sys::signal::Signal;
use serde_json::json;
use vivarium_tests::processes::Process;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Session, Setup, wait};

use crate::{send, template};

/// Waits until there is another spare.
#[track_caller]
fn until_another(daemon: &Daemon, than: &Process) -> Process {
    wait::until("another spare", || daemon.spare().filter(|one| one.pid != than.pid))
}

/// Kills the template's spare, and waits until it is gone.
#[track_caller]
fn kill_spare(daemon: &Daemon) -> Process {
    let spare = daemon.until_spare();
    send(&spare, Signal::SIGKILL);
    wait::until_true("its end", || !spare.is_alive());
    spare
}

#[track_caller]
fn end(session: &Session<'_>) {
    assert_eq!(session.request("DELETE", "", None).status, 204);
}

#[test]
fn each_kernel_takes_it_and_another_follows() {
    let daemon = template(&[], "").start();
    let mut spare = daemon.until_spare();
    let session = daemon.session();
    for number in 0..4 {
        assert_eq!(
            session.value("len([it for it in In if it]), dict(Out), 'x' in globals()"),
            "(1, {}, False)"
        );
        assert!(session.is_forked());
        let next = until_another(&daemon, &spare);
        wait::until_true("the end of the one that became the kernel", || !spare.is_alive());
        spare = next;
        let _left = session.execute("x = 1; x").ok();
        // A kernel of the pool, one by a reset, and one after a death.
        if number % 2 == 0 {
            session.reset();
        } else {
            assert_eq!(session.execute("import os; os._exit(3)").status(), "killed");
        }
    }
    daemon.stop_and_check();
    let daemon = Setup::with_start_mode(StartMode::Executed).start();
    let _session = daemon.session();
    assert_eq!(daemon.spare(), None);
    daemon.stop_and_check();
}

/// The control of all of these: a kernel is what the spare becomes, so that one that stands still has the
/// launcher do without the template.
#[test]
fn one_that_hangs_is_done_without() {
    let daemon = template(&[], "").start();
    let (template, spare) = (daemon.templates(), daemon.until_spare());
    send(&spare, Signal::SIGSTOP);
    let session = daemon.any_session(&json!({}));
    assert!(!session.is_forked());
    assert_eq!(session.value("1 + 1"), "2");
    // It comes too late, and finds that nobody waits for it.
    send(&spare, Signal::SIGCONT);
    wait::until_true("the end of the one that hung", || !spare.is_alive());
    assert_eq!(session.processes(), 1);
    let _another = until_another(&daemon, &spare);
    daemon.until_template("ready");
    let next = daemon.any_session(&json!({}));
    assert!(next.is_forked());
    assert_eq!(next.value("1 + 1"), "2");
    assert_eq!(daemon.templates(), template);
    daemon.until_only(2);
    daemon.stop_and_check();
}

#[test]
fn one_that_was_killed_is_done_without() {
    let daemon = template(&[], "").start();
    let template = daemon.templates();
    for _ in 0..3 {
        let spare = kill_spare(&daemon);
        let session = daemon.session();
        assert!(session.is_forked());
        assert_eq!(session.value("1 + 1"), "2");
        let _another = until_another(&daemon, &spare);
        end(&session);
    }
    assert_eq!(daemon.templates(), template);
    daemon.until_only(0);
    daemon.stop_and_check();
}

#[test]
fn it_ends_with_its_template() {
    let daemon = template(&[], "").start();
    let spare = daemon.until_spare();
    send(&daemon.templates()[0], Signal::SIGKILL);
    wait::until_true("its end", || !spare.is_alive());
    let _of_the_next = until_another(&daemon, &spare);
    daemon.stop_and_check();
}

/// All that the parts of the kernel program and `sys` hold, and what the process has open and mapped.
const LOOK: &str = "
import gc, json, os, sys
def describe(value, depth=0):
    kind = type(value)
    if kind in (list, tuple, dict) and depth < 4:
        return [describe(it, depth + 1) for it in (value.items() if kind is dict else value)]
    if kind in (int, float, str, bytes, bool, type(None)):
        return repr(value)
    if kind.__module__ in parts and depth < 4:
        return describe(vars(value), depth + 1)
    return kind.__name__
gc.unfreeze()
modules = [it for it in gc.get_objects() if type(it) is type(sys) and it.__name__]
parts = {it.__name__ for it in modules if sys.modules.get(it.__name__) is not it}
gc.freeze()
# Numbers of processes and threads, a buffer, how much a read found, and this code's own variables.
MOVES = ('wire.chunk', 'wire.state.read_counts', 'guard.state.pid', 'guard.state.thread', 'variables.NAMESPACE')
look = {}
for module in modules:
    if module.__name__ in parts:
        for name, value in vars(module).items():
            name = module.__name__ + '.' + name
            kind = value if type(value) is type else type(value)
            if kind.__module__ in parts:
                for own, it in {**vars(kind), **vars(value)}.items():
                    look[name + '.' + own] = describe(it)
            elif not name.endswith(('.__builtins__', '.modules', '.environ')):
                look[name] = describe(value)
look = {name: it for name, it in look.items() if name not in MOVES}
look['parts'] = sorted(parts)
look['sys'] = {name: describe(it, 2) for name, it in vars(sys).items() if name != 'modules'}
look['modules'] = sorted(sys.modules)
look['builtins'] = sorted(vars(__import__('builtins')))
look['names'] = sorted(name for name in globals() if name.startswith('__'))
look['descriptors'] = sorted(os.listdir('/proc/self/fd'))[:4]
look['name'] = open('/proc/self/comm').read()
print(json.dumps(look))";

#[test]
fn its_kernel_is_as_one_that_was_forked_for_its_session() {
    let daemon = template(&["json"], "").start();
    let mut looks = Vec::new();
    for is_spare in [true, false] {
        let spare = if is_spare { daemon.until_spare() } else { kill_spare(&daemon) };
        let session = daemon.session();
        looks.push(session.execute(LOOK).ok().printed_json());
        assert!(session.is_forked());
        let _another = until_another(&daemon, &spare);
        end(&session);
    }
    let [ahead, forked] = &looks[..] else { panic!("two") };
    let (ahead, forked) = (ahead.as_object().unwrap(), forked.as_object().unwrap());
    assert!(forked["parts"].as_array().unwrap().len() > 15, "{}", forked["parts"]);
    let mut wrong: Vec<_> =
        forked.iter().filter(|(name, it)| ahead.get(*name) != Some(it)).collect();
    wrong.extend(ahead.iter().filter(|(name, _)| !forked.contains_key(*name)));
    let told =
        |name: &String| format!("{name}: {:?}\n    forked {:?}", ahead.get(name), forked.get(name));
    let wrong: Vec<_> = wrong.into_iter().map(|(name, _)| told(name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    daemon.stop_and_check();
}

/// Pages that its kernel has copied, or looked at for the first time, since it has its session.
fn page_faults(session: &Session<'_>) -> u64 {
    session.value("__import__('resource').getrusage(0).ru_minflt").parse().unwrap()
}

/// Nobody waits for them, whether there is a spare or not.
#[test]
fn kernels_of_a_pool_rehearse_too() {
    let pool = template(&[], "").config("environments.default", "pool_size = 3").start();
    wait::until_true("sessions in the pool", || pool.environment()["pool"]["ready"] == 3);
    let pooled = [pool.session(), pool.session(), pool.session()];
    let daemon = template(&[], "").start();
    let _killed = kill_spare(&daemon);
    let control = daemon.session();
    assert!(control.is_forked());
    let most = page_faults(&control) * 2 / 3;
    for session in &pooled {
        let found = page_faults(session);
        assert!(found < most, "{found}, of {most} at most");
    }
    pool.stop_and_check();
    daemon.stop_and_check();
}
