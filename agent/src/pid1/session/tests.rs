//! A session whose launcher, kernels and leaves are the test's. Each in a process of its own: a session
//! reaps every child of its process.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES, MAX_SPAWN_FRAME_BYTES};
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{
    CommandSpec, Completion, GO_ON, Origin, SpawnNumber, SpawnReport, ToLauncher,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};
use vivarium_protocol::policy::Network;
use vivarium_protocol::stream;

use self::outside::Outside;
use super::*;
use crate::leaf_control::fake::FakeLeaf;
use crate::sandbox::fixture;

mod outside;

/// Of no process.
const PID: u32 = i32::MAX as u32;

const BY_AGENT: KernelEnd = KernelEnd::Signaled { signal: 9, by_agent: true };
const KILLED: KernelEnd = KernelEnd::Signaled { signal: 9, by_agent: false };

/// A session with cgroups.
fn context(workdir: &Path) -> Context {
    let mut context = fixture::context(&[], Network::None, workdir);
    context.policy.cgroup = Some(fixture::placement("/agent", "/kernel"));
    context.program = Some(File::open("/dev/null").unwrap().into());
    context.host.cpus = 1;
    context
}

fn control_of(leaf: &FakeLeaf) -> LeafControl {
    let [kill, events] = leaf.files();
    LeafControl::new(kill, events).unwrap()
}

#[test]
fn a_command_with_its_own_leaf_outlives_kernels_and_leaves_nothing_behind() {
    let name = "a_command_with_its_own_leaf_outlives_kernels_and_leaves_nothing_behind";
    Outside::run(name, |mut outside, kernel, first| {
        let own = FakeLeaf::new();
        let beside = outside.command(1, Some(&own));
        assert_eq!(beside.leaf, Leaf::Command(1));
        let within = outside.command(2, None);
        assert_eq!(within.leaf, Leaf::FIRST);
        outside.code(3, 0);

        outside.send(&ToAgent::Replace { context: 0 }, None);
        assert_eq!(first.kills(), 1);
        outside.ended(&kernel, KILLED);
        outside.ended(&within, KILLED);
        assert_eq!(outside.recv_exit(), (0, Some(3), BY_AGENT));
        assert!(first.kills() > 1, "and cleared before the next");
        assert_eq!(outside.recv_done(), (2, Completion::Signaled(9)));
        let second = Leaf::Kernel { context: 0, before: 1 };
        let fresh = FakeLeaf::new();
        outside.send(&ToAgent::StartKernel { context: 0, leaf: second }, Some(&fresh));
        let next = outside.spawned();
        assert_eq!(next.leaf, second);
        let _next = outside.kernel_up(next);
        assert_eq!(outside.command(4, None).leaf, second);

        assert_eq!(own.kills(), 0);
        outside.ended(&beside, KernelEnd::Exited(0));
        assert_eq!(outside.recv_done(), (1, Completion::Exited(0)));
        assert_eq!(own.kills(), 1);
    });
}

#[test]
fn killing_a_command_with_its_own_leaf_kills_all_that_is_in_it() {
    let name = "killing_a_command_with_its_own_leaf_kills_all_that_is_in_it";
    Outside::run(name, |mut outside, _kernel, first| {
        let own = FakeLeaf::new();
        let command = outside.command(1, Some(&own));
        outside.send(&ToAgent::Kill { execution: 1 }, None);
        assert_eq!((own.kills(), first.kills()), (1, 0));
        outside.ended(&command, KILLED);
        assert_eq!(outside.recv_done(), (1, Completion::Signaled(9)));

        // One that is being started is killed once it has arrived.
        let late = FakeLeaf::new();
        let spec = CommandSpec { own_leaf: true, ..CommandSpec::new(vec!["sleep".into()]) };
        outside.execute(2, 0, Work::Command(spec), Some(&late));
        let command = outside.spawned();
        outside.send(&ToAgent::Kill { execution: 2 }, None);
        assert_eq!(late.kills(), 0);
        outside.executed(command);
        assert_eq!(outside.recv_started(), 2);
        assert_eq!(late.kills(), 1);
    });
}

#[test]
fn a_command_that_waits_for_a_kernel_can_be_killed() {
    let name = "a_command_that_waits_for_a_kernel_can_be_killed";
    Outside::run(name, |mut outside, kernel, _| {
        outside.ended(&kernel, KernelEnd::Exited(7));
        assert_eq!(outside.recv_exit(), (0, None, KernelEnd::Exited(7)));
        let own = FakeLeaf::new();
        let spec = CommandSpec { own_leaf: true, ..CommandSpec::new(vec!["sleep".into()]) };
        outside.execute(1, 0, Work::Command(spec), Some(&own));
        outside.send(&ToAgent::Kill { execution: 1 }, None);
        assert_eq!(outside.recv_started(), 1);
        assert_eq!(outside.recv_done(), (1, Completion::Signaled(9)));
    });
}

#[test]
fn with_leaves_a_kernel_ends_alone() {
    Outside::run("with_leaves_a_kernel_ends_alone", |mut outside, kernel, first| {
        let second = FakeLeaf::new();
        outside.send(&ToAgent::OpenContext { context: 1 }, Some(&second));
        let other = outside.spawned();
        assert_eq!(other.leaf, Leaf::first_of(1));
        let other = outside.kernel_up(other);
        outside.code(1, 0);
        outside.code(2, 1);
        let command = outside.command(3, None);

        // It dies by itself.
        outside.ended(&other, KernelEnd::Exited(7));
        assert_eq!(outside.recv_exit(), (1, Some(2), KernelEnd::Exited(7)));
        assert_eq!(second.kills(), 1);
        let (leaf, third) = (Leaf::Kernel { context: 1, before: 1 }, FakeLeaf::new());
        outside.send(&ToAgent::StartKernel { context: 1, leaf }, Some(&third));
        let next = outside.spawned();
        assert_eq!(next.leaf, leaf);
        let next = outside.kernel_up(next);

        // It is replaced.
        outside.code(4, 1);
        outside.send(&ToAgent::Replace { context: 1 }, None);
        outside.ended(&next, KILLED);
        assert_eq!(outside.recv_exit(), (1, Some(4), BY_AGENT));

        assert_eq!(first.kills(), 0);
        kernel.run(1);
        assert_eq!(outside.recv_done(), (1, Completion::Ok));
        outside.ended(&command, KernelEnd::Exited(0));
        assert_eq!(outside.recv_done(), (3, Completion::Exited(0)));
    });
}

#[test]
fn a_context_is_closed_once_its_kernel_has_ended() {
    Outside::run("a_context_is_closed_once_its_kernel_has_ended", |mut outside, kernel, first| {
        let [running, arriving] = [FakeLeaf::new(), FakeLeaf::new()];
        outside.send(&ToAgent::OpenContext { context: 1 }, Some(&running));
        let one = outside.spawned();
        let one = outside.kernel_up(one);
        outside.code(1, 1);
        outside.send(&ToAgent::OpenContext { context: 2 }, Some(&arriving));
        let two = outside.spawned();

        outside.send(&ToAgent::CloseContext { context: 1 }, None);
        outside.send(&ToAgent::CloseContext { context: 2 }, None);
        outside.send(&ToAgent::Replace { context: 2 }, None); // too late
        assert!(!outside.has_said());
        outside.ended(&one, KILLED);
        assert_eq!(outside.recv_exit(), (1, Some(1), BY_AGENT));
        assert_eq!(outside.recv(), FromAgent::ContextClosed { context: 1 });
        assert_eq!(running.kills(), 2);

        let kills = arriving.kills();
        let two = outside.executed(two);
        while arriving.kills() == kills {
            outside.turn();
        }
        assert!(!outside.has_said());
        outside.ended(&two, KILLED);
        assert_eq!(outside.recv(), FromAgent::ContextClosed { context: 2 }, "it ran nothing");

        outside.code(2, 0);
        kernel.run(2);
        assert_eq!(outside.recv_done(), (2, Completion::Ok));
        assert_eq!(first.kills(), 0);
    });
}

#[test]
fn a_kernel_that_can_not_be_started_ends_no_other() {
    Outside::run("a_kernel_that_can_not_be_started_ends_no_other", |mut outside, kernel, first| {
        outside.code(1, 0);
        let leaf = FakeLeaf::new();
        outside.send(&ToAgent::OpenContext { context: 1 }, Some(&leaf));
        let mut refused = outside.spawned();
        let report = UnixStream::from(refused.fds.pop().unwrap());
        let failed = SpawnReport::Failed(failure("start a process", "there is no memory"));
        stream::send(&report, &failed, MAX_SMALL_FRAME_BYTES).unwrap();
        outside.turn();
        outside.ended(&refused, KernelEnd::Exited(1));
        let (context, None, KernelEnd::NotStarted(why)) = outside.recv_exit() else { panic!() };
        assert!(context == 1 && why.contains("there is no memory"), "{why}");

        // Another needs a leaf of its own.
        outside.send(&ToAgent::Replace { context: 1 }, None);
        let leaf = Leaf::Kernel { context: 1, before: 1 };
        outside.send(&ToAgent::StartKernel { context: 1, leaf }, Some(&FakeLeaf::new()));
        let next = outside.spawned();
        let _next = outside.kernel_up(next);
        kernel.run(1);
        assert_eq!(outside.recv_done(), (1, Completion::Ok));
        assert_eq!(first.kills(), 0);
    });
}

/// The launcher may say that a process has ended before anybody has read why.
#[test]
fn what_a_kernel_reported_before_its_end_is_told_although_its_end_is_read_first() {
    let name = "what_a_kernel_reported_before_its_end_is_told_although_its_end_is_read_first";
    Outside::run(name, |mut outside, _kernel, _first| {
        outside.send(&ToAgent::OpenContext { context: 1 }, Some(&FakeLeaf::new()));
        let mut refused = outside.spawned();
        let report = UnixStream::from(refused.fds.pop().unwrap());
        let failed = SpawnReport::Failed(failure("start a process", "there is no memory"));
        stream::send(&report, &failed, MAX_SMALL_FRAME_BYTES).unwrap();
        drop(report);
        outside.session.kernel_ended(1, KernelEnd::Exited(1), Usage::default()).unwrap();
        let (context, None, KernelEnd::NotStarted(why)) = outside.recv_exit() else { panic!() };
        assert!(context == 1 && why.contains("there is no memory"), "{why}");
    });
}

#[test]
fn code_waits_for_the_kernel_of_its_own_context() {
    Outside::run("code_waits_for_the_kernel_of_its_own_context", |mut outside, kernel, _| {
        let leaf = FakeLeaf::new();
        outside.send(&ToAgent::OpenContext { context: 1 }, Some(&leaf));
        let other = outside.spawned();
        outside.execute(1, 1, Work::code("1".into()), None);
        outside.code(2, 0);
        kernel.run(2);
        assert_eq!(outside.recv_done(), (2, Completion::Ok));
        let other = outside.kernel_up(other);
        assert_eq!(outside.recv_started(), 1);
        other.run(1);
        assert_eq!(outside.recv_done(), (1, Completion::Ok));
    });
}

#[test]
fn a_start_is_sent_before_code_gets_what_it_calls_functions_over() {
    let name = "a_start_is_sent_before_code_gets_what_it_calls_functions_over";
    Outside::run(name, |mut outside, kernel, _| {
        let mut work = Work::code("1".into());
        if let Work::Code { tools, .. } = &mut work {
            *tools = true;
        }
        let (files, outputs) = (vec![], vec![]);
        let request = Execute { execution: 1, context: 0, work, files, outputs };
        let pipes = ["/dev/null", "/dev/null"].map(|path| File::open(path).unwrap());
        let message = ToAgent::Execute(request);
        stream::send_with(&outside.supervisor, &message, &pipes, MAX_FRAME_BYTES).unwrap();
        outside.turn();
        assert!(!outside.has_said(), "it is held back");
        kernel.write(&[&[5], &1u64.to_le_bytes()[..]].concat());
        outside.turn();
        assert!(outside.has_said());
        assert_eq!(outside.recv_started(), 1);
    });
}

#[test]
fn without_the_files_of_a_leaf_there_is_no_process_in_it() {
    Outside::run("without_the_files_of_a_leaf_there_is_no_process_in_it", |mut outside, _, _| {
        let refused = outside.try_send(&ToAgent::OpenContext { context: 1 }, None).unwrap_err();
        assert_eq!(refused.operation, "receive a leaf's files");
        let spec = CommandSpec { own_leaf: true, ..CommandSpec::new(vec!["sleep".into()]) };
        let (work, files, outputs) = (Work::Command(spec), vec![], vec![]);
        let request = Execute { execution: 1, context: 0, work, files, outputs };
        let refused = outside.try_send(&ToAgent::Execute(request), None).unwrap_err();
        assert_eq!(refused.operation, "receive a leaf's files");
    });
    let workdir = tempfile::tempdir().unwrap();
    let mut context = context(workdir.path());
    let (_, launcher) = UnixStream::pair().unwrap();
    let mut launcher = LauncherClient::new(launcher);
    assert!(KernelContext::open(&context, 0, None, &mut launcher).is_err());
    context.policy.cgroup = None;
    let leaf = control_of(&FakeLeaf::new());
    assert!(KernelContext::open(&context, 0, Some(leaf), &mut launcher).is_err());
}

#[test]
fn the_end_of_the_first_kernel_is_told_in_words() {
    let name = "the_end_of_the_first_kernel_is_told_in_words";
    fixture::in_child(&format!("{}::{name}", module_path!()), || {
        let workdir = tempfile::tempdir().unwrap();
        let context = context(workdir.path());
        let leaf = FakeLeaf::new();
        let (supervisor, control) = UnixStream::pair().unwrap();
        let (launcher, theirs) = UnixStream::pair().unwrap();
        let first = FirstKernel::ask(&context, Some(control_of(&leaf)), theirs).unwrap();
        let session = Session::new(&context, &control, first, None).unwrap();
        let mut outside = Outside { session, supervisor, launcher };
        let kernel = outside.spawned();
        let kernel = outside.executed(kernel);
        File::from(kernel.fds[2].try_clone().unwrap()).write_all(b"no such module\n").unwrap();
        outside.ended(&kernel, KernelEnd::Exited(1));
        let failed = loop {
            if let Err(failed) = outside.session.turn() {
                break failed;
            }
        };
        assert_eq!(failed.reason, "it exited with code 1 before it was ready: no such module");
    });
}
