//! Every attack class of SPEC section 1, tried from inside.
//!
//! One file per layer, each attack from a kernel and from a command. It is made twice: with every
//! layer on it fails with exactly this errno, and with its own layer off
//! (`sandbox.disable_layers`) it works, or gets as far as the kernel's own check of its arguments,
//! so that the test can fail. Where a second layer refuses the same, that one is off too in the
//! control, or the table says which one it is.

mod cgroup;
mod commands;
mod credentials;
mod env_scrub;
mod landlock;
mod mounts;
mod namespaces;
mod network;
mod passt;
mod planted;
mod process_start;
mod program;
mod rlimits;
mod seccomp;
mod tables;
mod whole;

use vivarium_tests::Daemon;

use self::tables::{contrast, with_and_without};

/// A directory of the host that a session without mounts can write to: the runtime directory of
/// its own daemon, whose id it has.
fn program_dir(daemon: &Daemon) -> String {
    daemon.dir().join("run").display().to_string()
}
