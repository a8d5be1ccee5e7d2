//! Leaves of a real cgroup: what is in which, and what ends with what. Where the tests may make no cgroup
//! they say so and do nothing: the workspace's tests do the same with a whole daemon.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use harness::{Scope, Session, command, policy};
use vivarium_protocol::layer::{Intent, Layer, Status};
use vivarium_protocol::leaf::FIRST_CONTEXT;
use vivarium_protocol::message::{Completion, ToAgent, Work};
use vivarium_protocol::outcome::KernelEnd;

const BY_AGENT: Option<KernelEnd> = Some(KernelEnd::Signaled { signal: 9, by_agent: true });

/// Leaves a daemon behind, which no parent and no group leads to.
const DAEMON: &str = "setsid sh -c 'setsid sleep 1000 & exec true' & wait; echo go";

/// The scope first: it is removed last.
#[allow(clippy::print_stdout)] // says that it is skipped
fn launch() -> Option<(Scope, Session)> {
    let Some(scope) = Scope::make() else {
        println!("skipped: there is no cgroup v2 for this user");
        return None;
    };
    let mut policy = policy();
    policy.plan.set(Layer::Cgroup, &Intent::Apply);
    policy.cgroup = Some(scope.placement());
    let session = Session::launch_in(policy, Some(&scope)).unwrap();
    Some((scope, session))
}

fn own_leaf(line: &str) -> Work {
    let Work::Command(mut spec) = command(&["/bin/sh", "-c", line], b"") else { panic!() };
    (spec.own_leaf, spec.background) = (true, true);
    Work::Command(spec)
}

fn daemon_of(session: &mut Session, context: u32) {
    let code = format!("import os; os.system({DAEMON:?})");
    assert_eq!(session.execute_in(context, &code).stdout, b"go\n");
}

#[test]
fn each_kernel_and_command_starts_in_its_leaf() {
    let Some((scope, mut session)) = launch() else { return };
    let cgroup = session.protection.iter().find(|report| report.layer == Layer::Cgroup).unwrap();
    assert_eq!(cgroup.status, Status::Enforced, "{cgroup:?}");
    assert_eq!(scope.processes("context-0-0"), 1);
    let leaf = scope.make_leaf("context-1-0");
    session.begin_context_in(1, &leaf);
    session.wait_for_kernel(1);
    assert_eq!(scope.processes("context-1-0"), 1);
    let within = session.start_shell("echo go; exec sleep 1000", b"");
    session.wait_for_output();
    assert_eq!(scope.processes("context-0-0"), 2);
    let leaf = scope.make_leaf("command-2");
    let beside = session.start_with(own_leaf("echo go; exec sleep 1000"), &leaf);
    session.wait_for_output();
    assert_eq!((beside, scope.processes("command-2")), (2, 1));
    for execution in [within, beside] {
        session.send(&ToAgent::Kill { execution });
        assert_eq!(session.finish_of(execution).completion, Some(Completion::Signaled(9)));
    }
}

#[test]
fn a_reset_ends_what_is_in_the_leaf_and_nothing_else() {
    let Some((scope, mut session)) = launch() else { return };
    let leaf = scope.make_leaf("context-1-0");
    session.begin_context_in(1, &leaf);
    session.wait_for_kernel(1);
    let leaf = scope.make_leaf("command-1");
    let beside = session.start_with(own_leaf("exit 3"), &leaf);
    assert_eq!(session.finish_of(beside).completion, Some(Completion::Exited(3)));
    scope.remove_leaf("command-1");
    let leaf = scope.make_leaf("command-2");
    let beside = session.start_with(own_leaf("echo go; exec sleep 1000"), &leaf);
    session.wait_for_output();
    session.execute("x = 5");
    daemon_of(&mut session, FIRST_CONTEXT);
    daemon_of(&mut session, 1);
    let running = session.start_in(1, "import time; print('go', flush=True); time.sleep(1000)");
    session.wait_for_output();
    assert_eq!((scope.processes("context-0-0"), scope.processes("context-1-0")), (2, 2));

    session.send(&ToAgent::Replace { context: 1 });
    assert_eq!(session.finish_of(running).end, BY_AGENT);
    scope.remove_leaf("context-1-0");
    let leaf = scope.make_leaf("context-1-1");
    session.start_kernel(1, 1, &leaf);
    session.wait_for_kernel(1);
    assert_eq!((scope.processes("context-0-0"), scope.processes("context-1-1")), (2, 1));
    assert_eq!(session.execute("x").repr.as_deref(), Some("5"));

    let ended = session.execute("import os; os._exit(7)");
    assert_eq!(ended.end, Some(KernelEnd::Exited(7)));
    scope.remove_leaf("context-0-0");
    let leaf = scope.make_leaf("context-0-1");
    session.start_kernel(FIRST_CONTEXT, 1, &leaf);
    session.wait_for_kernel(FIRST_CONTEXT);
    assert_eq!((scope.processes("context-0-1"), scope.processes("command-2")), (1, 1));
    assert!(!session.is_over(beside));

    session.close_context(1);
    scope.remove_leaf("context-1-1");
    session.send(&ToAgent::Kill { execution: beside });
    session.finish_of(beside);
    scope.remove_leaf("command-2");
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
}

#[test]
fn a_command_leaves_nothing_in_its_own_leaf() {
    let Some((scope, mut session)) = launch() else { return };
    for execution in 1..6 {
        let name = format!("command-{execution}");
        let leaf = scope.make_leaf(&name);
        assert_eq!(session.start_with(own_leaf(DAEMON), &leaf), execution);
        let outcome = session.finish_of(execution);
        assert_eq!((outcome.text().0, outcome.completion), ("go\n", Some(Completion::Exited(0))));
        scope.remove_leaf(&name);
    }
    // One that forks all the time, and kills nobody's parent.
    let leaf = scope.make_leaf("command-6");
    let bomb = "echo go; while :; do setsid sleep 0.02 & sleep 0.01; done";
    let execution = session.start_with(own_leaf(bomb), &leaf);
    session.wait_for_output();
    session.send(&ToAgent::Kill { execution });
    assert_eq!(session.finish_of(execution).completion, Some(Completion::Signaled(9)));
    scope.remove_leaf("command-6");
}

#[test]
fn a_context_that_is_still_being_opened_can_be_closed_and_its_leaf_removed() {
    let Some((scope, mut session)) = launch() else { return };
    for context in 1..10 {
        let name = format!("context-{context}-0");
        let leaf = scope.make_leaf(&name);
        session.begin_context_in(context, &leaf);
        session.close_context(context);
        scope.remove_leaf(&name);
    }
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
}
