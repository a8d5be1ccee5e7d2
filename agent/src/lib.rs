//! Vivarium's launcher and agent.
//!
//! This is the code next to untrusted Python, so it is the least there can be: no HTTP, no
//! async runtime, no configuration. The supervisor says what to do in
//! [`vivarium_protocol::message`].
//!
//! | module | where it runs | what it does |
//! |---|---|---|
//! | [`launch`] | outside | makes the namespaces and the agent; spawns kernels and commands in them |
//! | [`id_namespace`] | outside | makes the user namespace of all subordinate ids, once per daemon |
//! | [`zygote`] | outside | a warmed Python that forks kernels, and [`ffi`], by which Python calls it |
//! | [`spawn`] | on the way inside | kernels and commands join the session and are confined |
//! | [`init`] | PID 1 inside | applies the layers of the inside, then is the session |
//! | [`session`] | PID 1 inside | the event loop: executions, output, kernels |
//! | [`kernel`] | PID 1 inside | one Python kernel and the agent's ends of its channels |
//! | [`command`] | PID 1 inside | one command of a tenant's, beside the kernel |
//! | [`files`] | PID 1 inside | the workdir's files, read and written for the API |
//! | [`changes`] | PID 1 inside | which of them an execution made or changed |
//! | [`children`] | everywhere | children that end, told and collected |
//! | [`kernel_wire`] | PID 1 inside | the bounded messages of a kernel, which is not believed |
//! | [`sandbox`] | both | the layers |
//! | [`inspect`] | outside | what an interpreter needs, and the kernel program compiled by it |
//! | [`sys`] | everywhere | the only `unsafe` code |

mod changes;
mod children;
mod command;
mod failure;
pub mod ffi;
mod files;
mod id_namespace;
mod init;
mod inspect;
mod kernel;
mod kernel_wire;
mod launch;
mod log;
mod output;
mod sandbox;
mod session;
mod spawn;
mod startup;
mod stream;
mod sys;
mod usage;
mod zygote;

use std::process::ExitCode;

/// Runs what the command line names: `launch`, `template`, `range`, or `inspect PATH`.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(command), None, None) if command == "launch" => launch::main(),
        (Some(command), None, None) if command == "template" => zygote::main(),
        (Some(command), None, None) if command == "range" => id_namespace::main(),
        (Some(command), Some(path), None) if command == "inspect" => {
            inspect::main_inspect(path.as_ref())
        }
        _ => usage_error(),
    }
}

#[allow(clippy::print_stderr)] // the only words this program has for a person
fn usage_error() -> ExitCode {
    eprintln!("vivarium-agent is started by vivarium; see `vivarium --help`");
    ExitCode::from(2)
}
