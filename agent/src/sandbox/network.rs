//! Layer: what the session can reach.
//!
//! `none`, `loopback` and `trusted` have a network namespace of their own, in which there is nothing but
//! `lo`; `none` does not bring it up. Cloud metadata, link-local addresses, the host's own
//! loopback and its abstract Unix sockets are in another namespace, so there is no list of
//! them to keep. That `none` has no sockets but `AF_UNIX` is the seccomp layer's.
//!
//! `full` has one too where passt is there: the launcher starts `pasta`, which adds an interface that
//! leads out ([`crate::launcher`]), and the agent loads a packet filter ([`filter`]) before anything runs
//! inside and before it gives its capabilities up. Nothing inside can change it: that takes CAP_NET_ADMIN,
//! and netlink sockets, which seccomp refuses. Only the agent can read it, so it does when it has loaded it.

mod filter;
mod netlink;
mod nftables;

use std::os::fd::AsFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use vivarium_protocol::layer::{Layer, Report, Status};
use vivarium_protocol::passt::{self, Passt};
use vivarium_protocol::policy::Network as Reach;

use super::{Context, LayerCode, LayerError, proc_file};
use crate::sys;

pub(super) struct Network;

impl LayerCode for Network {
    fn layer(&self) -> Layer {
        Layer::Network
    }

    fn prepare(&self, context: &Context) -> Result<(), LayerError> {
        if !context.policy.has_own_loopback() {
            return Ok(());
        }
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| LayerError::new("socket(AF_INET)", error))?;
        sys::bring_loopback_up(socket.as_fd())
            .map_err(|error| LayerError::new("ioctl(SIOCSIFFLAGS, lo up)", error))
    }

    fn enter(&self, context: &Context) -> Result<(), LayerError> {
        context.policy.passt.as_ref().map_or(Ok(()), load_filter)
    }

    fn without(&self, context: &Context) -> &'static str {
        match context.policy.network {
            Reach::None if context.applies(Layer::Seccomp) => {
                "; no sockets but AF_UNIX, by the seccomp layer"
            }
            _ => "; the host's network, unrestricted",
        }
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        let mut expected = vec!["lo"];
        let detail = match context.policy.network {
            Reach::Full if context.policy.passt.is_some() => {
                expected.push(passt::INTERFACE);
                "own namespace, lo and an interface that leads out through passt"
            }
            Reach::Full => {
                return Ok(Report {
                    layer: Layer::Network,
                    status: Status::Off,
                    detail: "network = \"full\": the host's network, unrestricted".to_owned(),
                    fix: "ask for another network, or have the operator install passt".to_owned(),
                });
            }
            Reach::Loopback => "own namespace, lo only, up",
            Reach::Trusted => "own namespace, lo only, up; the egress gate is the only way out",
            Reach::None => "own namespace, lo only, down",
        };
        let interfaces = interfaces()?;
        if interfaces != expected {
            let what = format!("no interface but {expected:?}");
            return Err(LayerError::not_in_force(what, format!("{interfaces:?}")));
        }
        Ok(Report::enforced(Layer::Network, detail))
    }
}

/// Loads the packet filter, and reads back that it is there and nothing else.
fn load_filter(passt: &Passt) -> Result<(), LayerError> {
    let chains = filter::chains(passt);
    nftables::load(&chains).map_err(|error| {
        LayerError::new("load the packet filter", error)
            .with_fix("modprobe nf_tables nft_reject_inet, or have a kernel with them")
    })?;
    let difference = nftables::difference(&chains)
        .map_err(|error| LayerError::new("read the packet filter", error))?;
    match difference {
        None => Ok(()),
        Some(found) => Err(LayerError::not_in_force("the packet filter", found)),
    }
}

/// For the report: what the agent has read back of the packet filter, which it alone can.
pub(super) fn describe_filter(passt: &Passt) -> String {
    nftables::describe(&filter::chains(passt))
}

/// The names of this namespace's interfaces: /proc/self/net/dev, two lines of heading and then
/// `name: counters`.
fn interfaces() -> Result<Vec<String>, LayerError> {
    let path = "/proc/self/net/dev";
    let text = proc_file::read(path)?;
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
}
