//! Layer: what the session can reach.
//!
//! `none`, `loopback` and `trusted` have a network namespace of their own, in which there is nothing but
//! `lo`; `none` does not bring it up. Cloud metadata, link-local addresses, the host's own
//! loopback and its abstract Unix sockets are in another namespace, so there is no list of
//! them to keep. That `none` has no sockets but `AF_UNIX` is the seccomp layer's.

use std::os::fd::AsFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use vivarium_protocol::layer::{Layer, Report, Status};
use vivarium_protocol::policy::Network as Reach;

use super::{Context, LayerCode, LayerError, proc_file};
use crate::sys;

pub(super) struct Network;

impl LayerCode for Network {
    fn layer(&self) -> Layer {
        Layer::Network
    }

    fn enter(&self, context: &Context) -> Result<(), LayerError> {
        if !context.policy.network.has_own_loopback() {
            return Ok(());
        }
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| LayerError::new("socket(AF_INET)", error))?;
        sys::bring_loopback_up(socket.as_fd())
            .map_err(|error| LayerError::new("ioctl(SIOCSIFFLAGS, lo up)", error))
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
        let detail = match context.policy.network {
            Reach::Full => {
                return Ok(Report {
                    layer: Layer::Network,
                    status: Status::Off,
                    detail: "network = \"full\": the host's network, unrestricted".to_owned(),
                    fix: "ask for another network".to_owned(),
                });
            }
            Reach::Loopback => "own namespace, lo only, up",
            Reach::Trusted => "own namespace, lo only, up; the egress gate is the only way out",
            Reach::None => "own namespace, lo only, down",
        };
        let interfaces = interfaces()?;
        if interfaces != ["lo"] {
            return Err(LayerError::not_in_force("no interface but lo", format!("{interfaces:?}")));
        }
        Ok(Report::enforced(Layer::Network, detail))
    }
}

/// The names of this namespace's interfaces: /proc/self/net/dev, two lines of heading and then
/// `name: counters`.
fn interfaces() -> Result<Vec<String>, LayerError> {
    let path = "/proc/self/net/dev";
    let text = proc_file::read(path)?;
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
}
