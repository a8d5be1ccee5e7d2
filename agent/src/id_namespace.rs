//! The user namespace that holds a daemon's whole range of subordinate ids: user_namespaces(7).
//!
//! Sessions get two ids each, mapped by their launcher, which may do so because it is in this
//! namespace. So the set-user-id helpers of package `uidmap`, which check /etc/subuid and
//! /etc/subgid, run once per daemon and not once per session. Every id is mapped to itself.
//!
//! Host id 0 is never mapped: it is in no range, and the daemon never runs as root.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Pid, getegid, geteuid};
use vivarium_protocol::discard;
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{CreateIdNamespace, Failure, FromIdNamespace};
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::startup::{check_protocol, sanitise};
use crate::sys::{self, DescriptorTable, Forked};

pub(crate) fn main(table: &DescriptorTable, control: &UnixStream) -> ExitCode {
    match create(table, control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            let failed = FromIdNamespace::Failed(failed);
            stream::send_if_open(control, &failed, MAX_SMALL_FRAME_BYTES);
            ExitCode::FAILURE
        }
    }
}

/// Enters `namespace`, as its owner may from outside.
pub(crate) fn enter(namespace: impl AsFd) -> Result<(), Failure> {
    setns(namespace, CloneFlags::CLONE_NEWUSER)
        .or_failure("setns into the range of subordinate ids")
        .map_err(|failed| Failure { layer: Some(Layer::Credentials), ..failed })
}

/// Enters a new namespace with this process's own id alone, to have its capabilities over files of that
/// id.
pub(crate) fn enter_own() -> Result<(), Failure> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).or_failure("unshare the user namespace")?;
    let write = |name: &str, text: String| {
        fs::write(format!("/proc/self/{name}"), text).or_failure("map the daemon's own id")
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))
}

fn create(table: &DescriptorTable, control: &UnixStream) -> Result<(), Failure> {
    let thread = sanitise(table)?;
    let order: CreateIdNamespace =
        stream::receive(control, MAX_SMALL_FRAME_BYTES).or_failure("receive the order")?;
    check_protocol(order.protocol_version)?;
    let forked = sys::clone3(thread, CloneFlags::CLONE_NEWUSER, None)
        .or_failure("clone3 with a user namespace")?;
    let Forked::Parent { child: inside } = forked else {
        // Keeps the namespace until the supervisor has opened it.
        discard(
            stream::receive::<()>(control, MAX_SMALL_FRAME_BYTES),
            "the end of the socket is what it waits for",
        );
        sys::exit_now(0);
    };
    map(inside, &order.ranges)?;
    let pid = u32::try_from(inside.as_raw()).unwrap_or_default();
    stream::send(control, &FromIdNamespace::Created { pid }, MAX_SMALL_FRAME_BYTES)
        .or_failure("tell of the namespace")
}

/// Has the helpers map our own id and the ranges of subordinate ids, each to itself.
fn map(process: Pid, ranges: &[(u32, u32)]) -> Result<(), Failure> {
    let helpers = [("newuidmap", geteuid().as_raw()), ("newgidmap", getegid().as_raw())];
    for (helper, own) in helpers {
        let mut arguments = vec![process.to_string()];
        for (first, last) in std::iter::once(&(own, own)).chain(ranges) {
            let count = last.saturating_sub(*first).saturating_add(1);
            arguments.extend([first, first, &count].map(ToString::to_string));
        }
        // The whole path, so that no PATH decides what runs.
        let status = Command::new(Path::new("/usr/bin").join(helper))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| refused(helper, error))?;
        if !status.success() {
            return Err(refused(helper, status));
        }
    }
    Ok(())
}

/// A helper's failure to map the ids.
fn refused(helper: &str, error: impl std::fmt::Display + 'static) -> Failure {
    Failure {
        layer: Some(Layer::Credentials),
        fix: "check that package uidmap is installed and that /etc/subuid and /etc/subgid grant \
              the daemon's user the range it is configured with"
            .to_owned(),
        ..failure(helper, error)
    }
}
