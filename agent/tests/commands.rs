//! Commands: processes beside the kernel, in the same sandbox.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use harness::{Session, command, policy};
use vivarium_protocol::layer::Plan;
use vivarium_protocol::message::{
    CommandSpec, Completion, FromAgent, InputFile, Stdin, ToAgent, Work,
};
use vivarium_protocol::units::Limit;

/// Prints, and then waits for a signal. Not a shell: one that is about to start a program when it
/// is interrupted starts it first, and waits for it.
const PATIENT: &str = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n\
    print('go', flush=True)\nsignal.pause()";

/// Code that ends when no process that is called so is left.
const UNTIL_NONE_SLEEPS: &str = "import os\n\
    def sleeping():\n\
    \x20   found = 0\n\
    \x20   for pid in filter(str.isdigit, os.listdir('/proc')):\n\
    \x20       try: found += b'sleep' in open(f'/proc/{pid}/cmdline', 'rb').read()\n\
    \x20       except OSError: pass\n\
    \x20   return found\n\
    while sleeping(): pass\n\
    'gone'";

fn exited(code: i32) -> Option<Completion> {
    Some(Completion::Exited(code))
}

#[test]
fn a_command_runs_beside_the_kernel_and_leaves_it_as_it_is() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("x = 5; open('from-python', 'w').write('hi')");
    let outcome = session.shell("cat from-python; echo err >&2; pwd; echo $HOME; exit 3");
    assert_eq!(outcome.text(), ("hi/workspace\n/workspace\n", "err\n"));
    assert_eq!(outcome.completion, exited(3));
    assert_eq!(session.shell("kill -TERM $$").completion, Some(Completion::Signaled(15)));
    assert_eq!(session.execute("x").repr.as_deref(), Some("5"));
    let piped = session.shell("yes | head -n 1");
    assert_eq!((piped.text(), piped.completion), (("y\n", ""), exited(0)), "SIGPIPE ends yes");
}

#[test]
fn a_command_has_every_layer_that_a_kernel_has() {
    let mut session = Session::launch(policy()).unwrap();
    let facts = "import os, re\n\
        status = open('/proc/self/status').read()\n\
        show = lambda name: re.search(name + r':\\s*(.*)', status).group(1)\n\
        facts = [show(name) for name in ('Uid', 'CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp')]\n\
        facts += [os.readlink('/proc/self/ns/' + name) for name in \
            ('user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup')]\n\
        import resource\n\
        facts += [resource.getrlimit(getattr(resource, 'RLIMIT_' + name)) for name in \
            ('NOFILE', 'FSIZE', 'CORE', 'NPROC', 'AS')]\n\
        try: open('/etc/hostname-of-nobody', 'w')\n\
        except OSError as error: facts.append(error.errno)\n\
        facts.append(sorted(os.environ))\n\
        facts.append(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3])\n";
    let kernel = session.execute(&format!("{facts}print(facts)"));
    assert_eq!(kernel.exception, None, "{:?}", kernel.text());
    let code = format!("{facts}print(facts)");
    session.start_work(command(&["/usr/bin/python3", "-c", &code], b""), vec![], &[]);
    let beside = session.finish();
    assert_eq!(beside.text(), kernel.text());
    assert!(kernel.text().0.contains("'2'"), "seccomp is on in both: {:?}", kernel.text());
    // Nothing of the agent's or the launcher's is left open: three streams, and ls's own.
    let open = session.shell("ls /proc/self/fd | wc -l");
    assert_eq!(open.text().0.trim(), "4");
}

#[test]
fn a_command_that_can_not_be_executed_ends_with_a_shells_exit_code() {
    let mut session = Session::launch(policy()).unwrap();
    let file = |name: &str, data: &[u8]| InputFile { name: name.to_owned(), data: data.to_vec() };
    let cases: [(&[&str], &str, i32, &str); 6] = [
        (&["no-such-program"], "", 127, "no-such-program: command not found"),
        (&["./missing"], "", 127, "./missing: No such file"),
        (&["./data"], "", 126, "./data: Permission denied"),
        (&["true"], "missing", 126, "missing: there is no such file"),
        (&["true"], "../..", 126, "../..: the name must be"),
        (&["true"], "data", 126, "data: there is something that is not a directory"),
    ];
    for (argv, cwd, code, said) in cases {
        let Work::Command(spec) = command(argv, b"") else { panic!() };
        let work = Work::Command(CommandSpec { cwd: cwd.to_owned(), ..spec });
        session.start_work(work, vec![file("data", b"data")], &[]);
        let outcome = session.finish();
        assert_eq!(outcome.completion, exited(code), "{said}");
        assert!(outcome.text().1.starts_with(said), "{:?}", outcome.text());
    }
    // The controls: a program on PATH, one in the workdir, and a directory to be in.
    let chmod = "mkdir -p dir && printf '#!/bin/sh\\npwd' > dir/run && chmod +x dir/run && dir/run";
    assert_eq!(session.shell(chmod).text(), ("/workspace\n", ""));
    let spec = CommandSpec::new(vec!["./run".into()]);
    let work = Work::Command(CommandSpec { cwd: "dir".into(), ..spec });
    session.start_work(work, vec![], &[]);
    assert_eq!(session.finish().text(), ("/workspace/dir\n", ""));
}

#[test]
fn arguments_that_are_too_long_end_the_command_with_126() {
    let mut session = Session::launch(policy()).unwrap();
    for (size, code) in [(100 << 10, 0), (1 << 20, 126), (5 << 20, 126)] {
        let long = "x".repeat(size);
        session.start_work(command(&["true", &long], b""), vec![], &[]);
        let outcome = session.finish();
        assert_eq!(outcome.completion, exited(code), "{size} bytes: {:?}", outcome.text());
        assert_eq!(outcome.text().1.to_lowercase().contains("too long"), code != 0);
    }
}

#[test]
fn input_is_written_as_fast_as_the_command_reads() {
    let mut session = Session::launch(policy()).unwrap();
    let input = b"0123456789abcdef".repeat(256 << 10); // 4 MiB
    session.start_shell("wc -c", &input);
    assert_eq!(session.finish().text().0.trim(), input.len().to_string());
    session.start_shell("head -c 3", &input);
    assert_eq!(session.finish().text(), ("012", ""));
    // Never read, and the agent goes on all the same.
    let execution = session.start_work(command(&["python3", "-c", PATIENT], &input), vec![], &[]);
    session.wait_for_output();
    session.send(&ToAgent::Describe);
    while !matches!(session.recv(), Some(FromAgent::Described(_))) {}
    session.send(&ToAgent::Interrupt { execution });
    assert_eq!(session.finish().completion, Some(Completion::Signaled(2)));
    assert_eq!(session.shell("cat").text(), ("", ""), "without input its end is there at once");
}

#[test]
fn an_interrupt_or_a_kill_costs_the_kernel_nothing() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("x = 5");
    let started = session.start_work(command(&["python3", "-c", PATIENT], b""), vec![], &[]);
    session.wait_for_output();
    session.send(&ToAgent::Interrupt { execution: started });
    let outcome = session.finish();
    assert!(matches!(outcome.completion, Some(Completion::Signaled(2))), "{outcome:?}");
    // One that ignores it, with a grandchild in a session of its own.
    let stubborn = "trap '' INT; echo go; setsid sleep 1000 & while :; do sleep 0.01; done";
    let started = session.start_shell(stubborn, b"");
    session.wait_for_output();
    session.send(&ToAgent::Interrupt { execution: started });
    session.send(&ToAgent::Kill { execution: started });
    assert_eq!(session.finish().completion, Some(Completion::Signaled(9)));
    assert_eq!(session.execute("x").repr.as_deref(), Some("5"));
    assert_eq!(session.execute(UNTIL_NONE_SLEEPS).repr.as_deref(), Some("'gone'"));
    // Killing what is no command does nothing.
    let execution =
        session.start("import time; print('go', flush=True); time.sleep(0.1); 7", vec![]);
    session.wait_for_output();
    session.send(&ToAgent::Kill { execution });
    assert_eq!(session.finish().repr.as_deref(), Some("7"));
}

#[test]
fn processes_that_a_command_left_end_with_it() {
    let mut session = Session::launch(policy()).unwrap();
    let outcome = session.shell("sleep 1000 & sleep 1000 & echo done");
    assert_eq!((outcome.text(), outcome.completion), (("done\n", ""), exited(0)));
    assert_eq!(session.execute(UNTIL_NONE_SLEEPS).repr.as_deref(), Some("'gone'"));
}

#[test]
fn output_of_a_command_is_capped_and_the_kernels_is_its_own() {
    let mut session = Session::launch(policy()).unwrap();
    let flood = session.shell("head -c 3000000 /dev/zero | tr '\\0' x");
    assert_eq!((flood.stdout.len(), flood.stdout_dropped), (1 << 20, 3_000_000 - (1 << 20)));
    // A thread of the kernel prints while a command runs.
    session.execute(
        "import threading, os, time\n\
         def late():\n\
         \x20   while not os.path.exists('go'): time.sleep(0.001)\n\
         \x20   print('from the kernel', flush=True)\n\
         \x20   open('went', 'w').close()\n\
         threading.Thread(target=late).start()",
    );
    let outcome = session.shell("touch go; while [ ! -e went ]; do :; done; echo from the command");
    assert_eq!(outcome.text(), ("from the command\n", ""));
    assert_eq!(session.execute("None").text(), ("from the kernel\n", ""));
}

#[test]
fn cpu_time_of_a_command_is_counted_and_limited() {
    let mut policy = policy();
    policy.limits.max_cpu_secs = Limit::new(1).unwrap();
    let mut session = Session::launch(policy).unwrap();
    let execution = session.start_shell("while :; do :; done", b"");
    while !matches!(session.recv(), Some(FromAgent::CpuLimitReached { .. })) {}
    session.send(&ToAgent::Kill { execution });
    let outcome = session.finish();
    assert_eq!(outcome.completion, Some(Completion::Signaled(9)));
    assert!(outcome.cpu_us >= 1_000_000, "{}", outcome.cpu_us);
    let short = session.shell("true");
    assert!(short.cpu_us < 500_000, "each has its own: {}", short.cpu_us);
}

#[test]
fn a_kernel_that_dies_takes_commands_with_it() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute(
        "import threading, os, time\n\
         def die():\n\
         \x20   while not os.path.exists('now'): time.sleep(0.001)\n\
         \x20   os._exit(7)\n\
         threading.Thread(target=die).start()",
    );
    let other = session.start_shell("setsid sleep 1000; echo never", b"");
    let outcome = session.shell("echo so far; touch now; sleep 1000");
    assert_eq!(outcome.completion, Some(Completion::Signaled(9)));
    assert_eq!(outcome.text(), ("so far\n", ""));
    assert_eq!(outcome.changed(), ["now"]);
    let outcome = session.finish_of(other);
    assert_eq!((outcome.completion, outcome.text()), (Some(Completion::Signaled(9)), ("", "")));
    assert_eq!(session.shell("echo next; ps -e 2>/dev/null | grep -c sleep").text().0, "next\n0\n");
}

#[test]
fn commands_run_beside_code_and_one_another() {
    let mut session = Session::launch(policy()).unwrap();
    let code = session.start(
        "import os, time\n\
         while not os.path.exists('two'): time.sleep(0.001)\n\
         open('three', 'w').close()\n'code'",
        vec![],
    );
    let first = session.start_shell("until [ -e three ]; do sleep 0.01; done; echo first", b"");
    let second = session.start_shell("touch two; echo second; exit 3", b"");
    let outcome = session.finish_of(second);
    assert_eq!((outcome.completion, outcome.text()), (exited(3), ("second\n", "")));
    assert_eq!(session.finish_of(code).repr.as_deref(), Some("'code'"));
    assert_eq!(session.finish_of(first).text(), ("first\n", ""));
}

#[test]
fn what_changes_while_several_run_is_told_to_each() {
    let mut session = Session::launch(policy()).unwrap();
    session.shell("touch before");
    let code = session.start(
        "import os, time\n\
         open('by-code', 'w').close()\n\
         while not os.path.exists('go'): time.sleep(0.001)",
        vec![],
    );
    // Reads what changed until then, which is the code's alone.
    let waiting = "until [ -e by-code ]; do sleep 0.01; done";
    session.shell(waiting);
    let outcome = session.shell("touch by-command gone; rm gone");
    assert_eq!(outcome.changed(), ["by-command"]);
    session.shell("rm by-command; touch go");
    assert_eq!(session.finish_of(code).changed(), ["by-code", "go"]);
    let mut spec = CommandSpec::new(vec!["touch".into(), "quietly".into()]);
    spec.background = true;
    session.start_work(Work::Command(spec), vec![], &[]);
    assert_eq!(session.finish().changed(), [""; 0]);
}

#[test]
fn a_command_has_variables_of_its_own_beside_the_sessions() {
    let mut session = Session::launch(policy()).unwrap();
    let mut spec = CommandSpec::new(vec!["env".into()]);
    spec.env = vec![("HOME".into(), "/elsewhere".into()), ("A".into(), "b=c".into())];
    session.start_work(Work::Command(spec), vec![], &[]);
    let outcome = session.finish();
    let lines: Vec<_> = outcome.text().0.lines().collect();
    assert!(lines.contains(&"HOME=/elsewhere") && lines.contains(&"A=b=c"), "{lines:?}");
    assert!(lines.contains(&"MPLBACKEND=Agg") && !lines.contains(&"HOME=/workspace"), "{lines:?}");
}

#[test]
fn a_command_reads_the_pipe_that_it_was_given() {
    let mut session = Session::launch(policy()).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    let mut spec = CommandSpec::new(vec!["cat".into()]);
    spec.stdin = Stdin::Pipe;
    let execution = session.start_with_pipe(Work::Command(spec), read.into());
    let mut write = std::fs::File::from(std::os::fd::OwnedFd::from(write));
    for _ in 0..3 {
        std::io::Write::write_all(&mut write, b"line\n").unwrap();
        session.wait_for_output();
    }
    drop(write);
    assert_eq!(session.finish_of(execution).completion, exited(0));
}

#[test]
fn signals_reach_the_process_group_of_a_command_and_no_other() {
    let mut session = Session::launch(policy()).unwrap();
    let trap = "trap 'echo got it; exit 5' USR1; echo go; while :; do sleep 0.01; done";
    let other = session.start_shell("echo go; sleep 1000", b"");
    session.wait_for_output();
    let execution = session.start_shell(trap, b"");
    session.wait_for_output();
    session.send(&ToAgent::Signal { execution, signal: 10 });
    let outcome = session.finish_of(execution);
    // A shell tells of the sleep that the signal ended, which is in its group.
    assert_eq!((outcome.completion, outcome.text().0), (exited(5), "got it\n"));
    session.send(&ToAgent::Signal { execution, signal: 9 }); // It is over.
    session.send(&ToAgent::Signal { execution: other, signal: 15 });
    assert_eq!(session.finish_of(other).completion, Some(Completion::Signaled(15)));
}

#[test]
fn the_output_of_a_command_that_is_held_waits() {
    let mut session = Session::launch(policy()).unwrap();
    let held = session.start_shell(
        "echo first; until [ -e go ]; do sleep 0.01; done; yes | head -c 300000; echo",
        b"",
    );
    session.wait_for_output();
    session.send(&ToAgent::Hold { execution: held, held: true });
    let _told = session.shell("touch go");
    // The control: another goes on meanwhile, and this one waits for its pipe.
    assert_eq!(session.shell("yes | head -c 300000 | wc -c").text().0.trim(), "300000");
    assert!(!session.is_over(held));
    session.send(&ToAgent::Hold { execution: held, held: false });
    assert_eq!(session.finish_of(held).completion, exited(0));
}

#[test]
fn commands_and_files_work_without_a_sandbox() {
    let workdir = tempfile::tempdir().unwrap();
    let mut bare = policy();
    bare.plan = Plan::off();
    bare.host_workdir = Some(workdir.path().to_owned());
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(workdir.path(), Some(65534), Some(65534)).unwrap();
    }
    let mut session = Session::launch(bare).unwrap();
    session.execute("x = 5");
    let outcome = session.shell("echo hi > made; pwd");
    assert_eq!(outcome.text().0.trim(), workdir.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(outcome.changed(), ["made"]);
    assert_eq!(session.read_file("made").unwrap(), b"hi\n");
    session.write_file("in/put", b"12").unwrap();
    assert_eq!(session.shell("cat in/put; setsid sleep 1000 & exit 4").completion, exited(4));
    let execution = session.start_shell("echo go; trap '' INT; while :; do :; done", b"");
    session.wait_for_output();
    session.send(&ToAgent::Kill { execution });
    assert_eq!(session.finish().completion, Some(Completion::Signaled(9)));
    assert_eq!(session.execute("x").repr.as_deref(), Some("5"));
}
