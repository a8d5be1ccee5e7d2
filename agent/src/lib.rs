//! Vivarium's launcher and agent.
//!
//! This is the code next to untrusted Python, so it is the least there can be: no HTTP, no
//! async runtime, no configuration. The supervisor says what to do in
//! [`vivarium_protocol::message`].
//!
//! | module | where it runs | what it does |
//! |---|---|---|
//! | [`launcher`] | outside | makes the namespaces and the agent; spawns kernels and commands in them |
//! | [`id_namespace`] | outside | makes the user namespace of all subordinate ids, once per daemon |
//! | [`zygote`] | outside | a warmed Python that forks kernels, and [`ffi`], by which Python calls it |
//! | [`storage`] | outside | reads, measures and removes what is in one home or volume |
//! | [`image`] | kernels and templates | a kernel's memory, written by itself and put into another |
//! | [`inspect`] | outside | what an interpreter needs, and the kernel program compiled by it |
//! | [`spawn`] | on the way inside | kernels and commands join the session and are confined |
//! | [`pid1`] | PID 1 inside | applies the layers of the inside, then runs the session's event loop |
//! | [`kernel`] | PID 1 inside | the session's processes: their channels, output and messages |
//! | [`files`] | PID 1 inside | the workdir's files, read, written and watched |
//! | [`sandbox`] | both | the layers |
//! | [`leaf_control`] | both | the files by which a leaf of the session's cgroup is cleared |
//! | [`children`], [`usage`] | everywhere | which children have ended, what processes use |
//! | [`failure`], [`log`], [`startup`] | everywhere | errors, the log, the first steps |
//! | [`sys`] | everywhere | the `unsafe` code, but for [`ffi`]'s |
//!
//! A module uses those that are below it in this order, never the other way round:
//! launcher, zygote, storage and [`ffi`]; pid1; kernel and spawn; sandbox and inspect; all others. A test holds
//! the modules to having no circle (tests/tests/repository).

mod children;
mod failure;
pub mod ffi;
mod files;
mod id_namespace;
mod image;
mod inspect;
mod kernel;
mod launcher;
mod leaf_control;
mod log;
mod pid1;
mod sandbox;
mod spawn;
mod startup;
mod storage;
mod sys;
mod usage;
mod zygote;

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use self::sys::DescriptorTable;

/// Runs what the command line names: `launch`, `template`, `range`, `storage`, `inspect PATH
/// [DISTRIBUTION…]`, or `distributions PATH [DISTRIBUTION…]`.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match &*arguments {
        [command] => run(command),
        [command, path, distributions @ ..] if command == "inspect" => {
            inspect::main_inspect(path.as_ref(), distributions)
        }
        [command, path, distributions @ ..] if command == "distributions" => {
            inspect::main_distributions(path.as_ref(), distributions)
        }
        _ => usage_error(),
    }
}

fn run(command: &OsStr) -> ExitCode {
    let main: fn(DescriptorTable, UnixStream) -> ExitCode = match command.as_encoded_bytes() {
        b"launch" => launcher::main,
        b"template" => |table, control| zygote::main(table, &control),
        b"storage" => |table, control| storage::main(&table, &control),
        b"range" => |table, control| id_namespace::main(&table, &control),
        _ => return usage_error(),
    };
    DescriptorTable::at_start().map_or(ExitCode::FAILURE, |(table, control)| main(table, control))
}

#[allow(clippy::print_stderr)] // the only words this program has for a person
fn usage_error() -> ExitCode {
    eprintln!("vivarium-agent is started by vivarium; see `vivarium --help`");
    ExitCode::from(2)
}
