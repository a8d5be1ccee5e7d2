//! Contexts: several kernels in one session. There are no cgroups here, so no leaves: with them the end
//! of one kernel is that of no other.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use harness::{Session, command, policy};
use vivarium_protocol::layer::Plan;
use vivarium_protocol::leaf::FIRST_CONTEXT;
use vivarium_protocol::message::{CommandSpec, Completion, FromAgent, ToAgent, Work};
use vivarium_protocol::outcome::KernelEnd;
use vivarium_protocol::units::Limit;

/// The end of a kernel that the agent killed, and not for what it did.
const BY_AGENT: Option<KernelEnd> = Some(KernelEnd::Signaled { signal: 9, by_agent: true });

/// Code that is over once the other side has made `theirs`.
fn meet(own: &str, theirs: &str) -> String {
    format!(
        "import os, time\n\
         open('{own}', 'w').close()\n\
         while not os.path.exists('{theirs}'): time.sleep(0.001)\n\
         '{own}'"
    )
}

const FOREVER: &str = "import time\nprint('go', flush=True)\nwhile True: time.sleep(1)";

#[test]
fn two_contexts_run_code_at_the_same_time_and_share_files_alone() {
    let mut session = Session::launch(policy()).unwrap();
    session.open_context(1);
    session.execute("x = 5");
    assert_eq!(session.execute_in(1, "x").exception.as_deref(), Some("NameError"));
    let first = session.start_in(FIRST_CONTEXT, &meet("a", "b"));
    let second = session.start_in(1, &meet("b", "a"));
    assert_eq!(session.finish_of(second).repr.as_deref(), Some("'b'"));
    assert_eq!(session.finish_of(first).repr.as_deref(), Some("'a'"));
    // Output goes to whose it is.
    let printing = |text: &str| format!("for _ in range(200): print('{text}' * 100, flush=True)");
    let first = session.start_in(FIRST_CONTEXT, &printing("a"));
    let second = session.start_in(1, &printing("b"));
    for (execution, other) in [(first, 'b'), (second, 'a')] {
        let outcome = session.finish_of(execution);
        assert_eq!(outcome.stdout.len(), 200 * 101);
        assert!(!outcome.text().0.contains(other));
    }
}

#[test]
fn a_second_kernel_has_every_layer_that_the_first_has() {
    let mut session = Session::launch(policy()).unwrap();
    let first = session.protection.clone();
    session.open_context(7);
    assert_eq!(session.protection, first);
    assert_eq!(session.execute_in(7, "1+1").repr.as_deref(), Some("2"));
}

#[test]
fn an_interrupt_reaches_the_context_that_runs_the_code() {
    let mut session = Session::launch(policy()).unwrap();
    session.open_context(1);
    let first = session.start_in(FIRST_CONTEXT, FOREVER);
    session.wait_for_output();
    let second = session.start_in(1, FOREVER);
    session.wait_for_output();
    session.send(&ToAgent::Interrupt { execution: second });
    assert_eq!(session.finish_of(second).completion, Some(Completion::Interrupted));
    assert!(!session.is_over(first));
    session.send(&ToAgent::Interrupt { execution: first });
    assert_eq!(session.finish_of(first).completion, Some(Completion::Interrupted));
}

#[test]
fn closing_a_context_leaves_the_others_and_commands_as_they_are() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("x = 5");
    session.open_context(1);
    session.open_context(2);
    let command = session.start_shell("echo go; until [ -e end ]; do sleep 0.01; done", b"");
    session.wait_for_output();
    let code = "import os, subprocess, sys, time\n\
        children = [subprocess.Popen(['sleep', '1000'], start_new_session=True) for _ in range(3)]\n\
        print('go', flush=True)\nwhile True: time.sleep(1)";
    let running = session.start_in(1, code);
    session.wait_for_output();

    session.close_context(1);

    assert_eq!(session.finish_of(running).end, BY_AGENT);
    let left = "import os, re\n\
        def sleeping():\n\
        \x20   found = 0\n\
        \x20   for pid in filter(str.isdigit, os.listdir('/proc')):\n\
        \x20       try: found += open(f'/proc/{pid}/cmdline').read() == 'sleep\\x001000\\x00'\n\
        \x20       except OSError: pass\n\
        \x20   return found\n\
        while sleeping(): pass\n\
        x";
    assert_eq!(session.execute(left).repr.as_deref(), Some("5"));
    session.close_context(2); // which runs nothing
    session.shell("touch end");
    assert_eq!(session.finish_of(command).completion, Some(Completion::Exited(0)));
    // Its number is not used again, but others are.
    session.open_context(3);
    assert_eq!(session.execute_in(3, "1+1").repr.as_deref(), Some("2"));
}

#[test]
fn a_context_that_is_still_being_opened_can_be_closed() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("x = 5");
    for context in 1..20 {
        session.begin_context(context);
        session.close_context(context);
    }
    assert_eq!(session.execute("x").repr.as_deref(), Some("5"));
    let processes = "import os; sum(map(str.isdigit, os.listdir('/proc')))";
    assert_eq!(session.execute(processes).repr.as_deref(), Some("1"), "the kernel alone");
}

#[test]
fn without_leaves_a_reset_of_one_context_is_one_of_all_and_says_so() {
    let mut session = Session::launch(policy()).unwrap();
    session.open_context(1);
    session.open_context(2);
    session.execute_in(2, "x = 5");
    let first = session.start_in(FIRST_CONTEXT, FOREVER);
    session.wait_for_output();
    let second = session.start_in(1, FOREVER);
    session.wait_for_output();
    let mut spec = CommandSpec::new(vec!["sleep".into(), "1000".into()]);
    (spec.own_leaf, spec.background) = (true, true);
    let beside = session.start_work(Work::Command(spec), vec![], &[]);
    while !matches!(session.recv(), Some(FromAgent::Started { .. })) {}

    session.send(&ToAgent::Replace { context: 1 });

    for execution in [first, second] {
        assert_eq!(session.finish_of(execution).end, BY_AGENT);
    }
    assert_eq!(session.finish_of(beside).completion, Some(Completion::Signaled(9)));
    for context in [FIRST_CONTEXT, 1, 2] {
        session.wait_for_kernel(context);
        let outcome = session.execute_in(context, "x");
        assert_eq!(outcome.exception.as_deref(), Some("NameError"), "{context}");
    }
}

#[test]
fn kernels_that_end_all_at_once_are_each_replaced_once() {
    let mut session = Session::launch(policy()).unwrap();
    session.open_context(1);
    session.open_context(2);
    for round in 0..5 {
        session.begin_context(10 + round);
        let dying: Vec<_> =
            [0, 1, 2].map(|context| session.start_in(context, "import os; os._exit(7)")).into();
        for execution in dying {
            let outcome = session.finish_of(execution);
            let is_own = outcome.end == Some(KernelEnd::Exited(7));
            assert!(is_own || outcome.end == BY_AGENT, "{outcome:?}");
        }
        for context in [0, 1, 2, 10 + round] {
            session.wait_for_kernel(context);
            assert_eq!(session.execute_in(context, "1+1").repr.as_deref(), Some("2"));
        }
        session.close_context(10 + round);
    }
}

#[test]
fn cpu_time_is_counted_for_each_context() {
    let mut policy = policy();
    policy.limits.max_cpu_secs = Limit::new(1).unwrap();
    let mut session = Session::launch(policy).unwrap();
    session.open_context(1);
    let patient = session.start_in(FIRST_CONTEXT, &meet("here", "end"));
    let busy = session.start_in(1, "while True: pass");
    let reached = loop {
        if let Some(FromAgent::CpuLimitReached { execution, .. }) = session.recv() {
            break execution;
        }
    };
    assert_eq!(reached, busy);
    session.send(&ToAgent::Interrupt { execution: busy });
    assert_eq!(session.finish_of(busy).completion, Some(Completion::Interrupted));
    session.shell("touch end");
    let outcome = session.finish_of(patient);
    assert!(outcome.cpu_us < 500_000 && !outcome.cpu_limit_reached, "{outcome:?}");
}

#[test]
fn contexts_work_without_a_sandbox() {
    let workdir = tempfile::tempdir().unwrap();
    let mut bare = policy();
    bare.plan = Plan::off();
    bare.host_workdir = Some(workdir.path().to_owned());
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(workdir.path(), Some(65534), Some(65534)).unwrap();
    }
    let mut session = Session::launch(bare).unwrap();
    session.open_context(1);
    let running = session.start_in(1, FOREVER);
    session.wait_for_output();
    session.execute("x = 5");
    session.send(&ToAgent::Replace { context: FIRST_CONTEXT });
    assert_eq!(session.finish_of(running).end, BY_AGENT);
    session.wait_for_kernel(FIRST_CONTEXT);
    assert_eq!(session.execute("x").exception.as_deref(), Some("NameError"));
    session.execute("x = 6");
    session.close_context(1);
    assert_eq!(session.execute("x").repr.as_deref(), Some("6"));
    session.start_work(command(&["true"], b""), vec![], &[]);
    assert_eq!(session.finish().completion, Some(Completion::Exited(0)));
}

#[test]
fn what_is_asked_of_a_context_that_is_not_open_ends_the_session() {
    for (message, reason) in [
        (ToAgent::CloseContext { context: FIRST_CONTEXT }, "close a context"),
        (ToAgent::CloseContext { context: 3 }, "close a context"),
        (ToAgent::OpenContext { context: FIRST_CONTEXT }, "open a context"),
    ] {
        let mut session = Session::launch(policy()).unwrap();
        session.send(&ToAgent::Replace { context: 3 }); // which may have been closed meanwhile
        session.send(&message);
        let Some(FromAgent::Failed(failed)) = session.recv() else { panic!("{message:?}") };
        assert!(failed.to_string().contains(reason), "{failed}");
    }
}
