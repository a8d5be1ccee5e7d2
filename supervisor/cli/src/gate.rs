//! `vivarium gate`: the egress gate, which the daemon starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::exit::{Exit, Failure};

/// What the gate reads, and how much it takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names the resolvers
    #[arg(long, value_name = "FILE", default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// Names that are asked of no resolver
    #[arg(long, value_name = "FILE", default_value = "/etc/hosts")]
    hosts: PathBuf,
    /// A resolver in place of those of --resolv-conf; repeatable
    #[arg(long, value_name = "ADDRESS:PORT")]
    nameserver: Vec<SocketAddr>,
    /// Authorities that destinations are checked by [default: the system's]
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// The most connections of all sessions at one time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    max_connections: usize,
    /// Fails where the host has no Landlock
    #[arg(long)]
    strict: bool,
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let options = vivarium_gate::Options {
        resolv_conf: args.resolv_conf.clone(),
        hosts: args.hosts.clone(),
        nameservers: args.nameserver.clone(),
        ca_bundle: args.ca_bundle.clone(),
        max_connections: args.max_connections,
        strict: args.strict,
    };
    vivarium_gate::run(&options).map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    Ok(Exit::Ok)
}
