//! Every kernel's layers are reported, however late its agent gets to hear of them.

use std::fs;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vivarium_protocol::layer::Layer;
use vivarium_tests::processes::Process;
use vivarium_tests::{Setup, wait};

use super::Family;

/// How many kernels are started while their agent is held up. It is to be stopped after it has
/// asked for a kernel, and before it hears of its layers: most of the time it is.
const KERNELS: usize = 20;

/// The children of a process (proc(5), `children`). Looked for again and again.
fn children(of: &Process) -> Vec<i32> {
    let path = format!("/proc/{0}/task/{0}/children", of.pid);
    fs::read_to_string(path).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn send(to: &Process, signal: Signal) {
    kill(Pid::from_raw(to.pid), signal).unwrap();
}

fn reports_come(setup: Setup) {
    let daemon = setup.start();
    let session = daemon.session();
    for number in 0..KERNELS {
        let Family { launcher, agent, kernel } = Family::of(&daemon);
        let known = [agent.pid, kernel.pid];
        thread::scope(|scope| {
            let reset = scope.spawn(|| session.reset());
            while children(&launcher).iter().all(|pid| known.contains(pid)) && !reset.is_finished()
            {
            }
            send(&agent, Signal::SIGSTOP);
            // One that has said that it is ready sleeps until there is code.
            wait::until_true("a kernel that waits", || {
                let kernels = daemon.descendants();
                let mut kernels = kernels.iter().filter(|one| one.name.starts_with("python"));
                kernels.any(|one| one.pid != kernel.pid && one.state == 'S')
            });
            send(&agent, Signal::SIGCONT);
            let _reset = reset.join().unwrap();
        });
        let info = session.info();
        let layers = info["protection"].as_array().unwrap();
        let names: Vec<_> = layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
        assert_eq!(names, Layer::ALL.map(Layer::name), "kernel {number}");
        // An interrupt reaches it: its agent knows which process it is.
        let code = "import time\nwhile True: time.sleep(0.01)";
        let _stopped = session.execute_for(20, code).ended("timed_out", "wall_time", "preserved");
    }
    daemon.stop_and_check();
}

#[test]
fn a_kernel_that_is_faster_than_its_agent_is_reported_all_the_same() {
    reports_come(Setup::default());
}

#[test]
fn so_it_is_where_there_is_no_sandbox() {
    reports_come(Setup::default().config("sandbox", "mode = \"off\""));
}
