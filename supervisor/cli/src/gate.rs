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
    /// Where files of packages are kept; without it none come from an index
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// What is kept of packages, of all tenants, in MiB
    #[arg(long, value_name = "N", default_value_t = 10_240)]
    max_cache_mb: u64,
    /// A directory of wheels that the configuration has in find_links; repeatable
    #[arg(long, value_name = "DIR")]
    find_links: Vec<PathBuf>,
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
        cache_dir: args.cache_dir.clone(),
        max_cache_mb: args.max_cache_mb,
        find_links: args.find_links.clone(),
    };
    vivarium_gate::run(&options).map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    Ok(Exit::Ok)
}
