//! Finding pasta, passt's user-mode network stack, and what a session that it connects may not reach.
//!
//! Only the path and the addresses are from here: a session's launcher starts pasta, and its agent loads
//! the packet filter. Whether that works here is found out by a trial session.

use std::env;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::ifaddrs::getifaddrs;
use vivarium_egress::{Network, refused_networks};
use vivarium_protocol::passt::{Passt, RESOLVER_V4, RESOLVER_V6, Subnet};

use crate::settings::PasstSource;

/// Of Debian 12's version, 2023-03, and of those since.
const OPTIONS: [&str; 11] = [
    "--address",
    "--config-net",
    "--dns-forward",
    "--foreground",
    "--mac-addr",
    "--netns-only",
    "--no-dhcpv6",
    "--no-map-gw",
    "--no-netns-quit",
    "--no-ra",
    "--tcp-ns",
];

const TUN: &str = "/dev/net/tun";
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// A pasta that has every option that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pasta {
    pub path: PathBuf,
}

/// Why network `full` is the host's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why} (fix: {fix})")]
pub struct NoPasta {
    pub why: String,
    pub fix: String,
}

impl NoPasta {
    pub(crate) fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into() }
    }
}

/// The pasta that sessions of network `full` get.
pub fn find(source: &PasstSource) -> Result<Pasta, NoPasta> {
    let install = "install passt (Debian: apt install passt), or set egress.passt to its path";
    let path = match source {
        PasstSource::Off => {
            return Err(NoPasta::new("egress.passt is \"off\"", "set egress.passt to \"auto\""));
        }
        PasstSource::Path(path) => path.clone(),
        PasstSource::Auto | PasstSource::On => {
            on_path().ok_or_else(|| NoPasta::new("there is no program pasta on PATH", install))?
        }
    };
    let missing = missing_options(&path)
        .map_err(|error| NoPasta::new(format!("{}: {error}", path.display()), install))?;
    if !missing.is_empty() {
        let why = format!("{} has no {}", path.display(), missing.join(", "));
        return Err(NoPasta::new(why, "install passt of 2023-03 or later"));
    }
    fs::OpenOptions::new().read(true).write(true).open(TUN).map_err(|error| {
        let fix = format!(
            "modprobe tun; chmod 0666 {TUN}, as udev does (DeviceAllow={TUN} rw in a unit)"
        );
        NoPasta::new(format!("{TUN}: {error}"), fix)
    })?;
    Ok(Pasta { path })
}

fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let candidates = env::split_paths(&path).filter(|directory| directory.is_absolute());
    candidates.map(|directory| directory.join("pasta")).find(is_program)
}

/// Versions have no order that can be relied on (`pasta unknown version`), so its help says what it has.
fn missing_options(path: &Path) -> std::io::Result<Vec<&'static str>> {
    let help = Command::new(path).arg("--help").env_clear().stdin(Stdio::null()).output()?;
    let text = [help.stdout, help.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let has = |option: &str| text.split_whitespace().any(|word| word.trim_matches(',') == option);
    Ok(OPTIONS.into_iter().filter(|option| !has(option)).collect())
}

impl Pasta {
    /// What a session gets that is made now: the host's addresses and resolver are read here.
    pub fn for_session(&self, allowed: &[Network]) -> Passt {
        // With host addresses that nobody knows nothing is safe to reach.
        let own = own_addresses().unwrap_or_else(everything);
        Passt {
            program: self.path.clone(),
            resolver: resolver(&fs::read_to_string(RESOLV_CONF).unwrap_or_default()),
            allowed: allowed.iter().map(subnet).collect(),
            refused: refused_networks().map(|network| subnet(&network)).chain(own).collect(),
        }
    }
}

fn subnet(network: &Network) -> Subnet {
    Subnet { address: network.address(), prefix_len: network.prefix_len() }
}

/// The host's own addresses that are not refused anyway, sorted so that a session's policy is the same as
/// long as they are.
fn own_addresses() -> Option<Vec<Subnet>> {
    let addresses = getifaddrs().ok()?.filter_map(|interface| interface.address);
    let ips = addresses.filter_map(|address| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    let mut public: Vec<_> = ips.filter(|ip| vivarium_egress::class(*ip).is_none()).collect();
    public.sort_unstable();
    public.dedup();
    let one =
        |address: IpAddr| Subnet { address, prefix_len: if address.is_ipv4() { 32 } else { 128 } };
    Some(public.into_iter().map(one).collect())
}

fn everything() -> Vec<Subnet> {
    let v4 = Subnet { address: std::net::Ipv4Addr::UNSPECIFIED.into(), prefix_len: 0 };
    let v6 = Subnet { address: std::net::Ipv6Addr::UNSPECIFIED.into(), prefix_len: 0 };
    vec![v4, v6]
}

/// The address inside that leads to the host's first resolver of a family that pasta then has one of:
/// resolv.conf(5).
fn resolver(resolv_conf: &str) -> Option<IpAddr> {
    let servers = resolv_conf.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())??;
        address.split('%').next()?.parse::<IpAddr>().ok()
    });
    let families: Vec<_> = servers.map(|server| server.is_ipv4()).collect();
    if families.contains(&true) {
        Some(RESOLVER_V4.into())
    } else {
        families.contains(&false).then(|| RESOLVER_V6.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolver_is_of_a_family_that_the_host_has_one_of() {
        assert_eq!(resolver("search a\n"), None);
        assert_eq!(resolver("nameserver\nnameserver x\n"), None);
        assert_eq!(resolver("nameserver fe80::1%eth0\n"), Some(RESOLVER_V6.into()));
        assert_eq!(resolver("nameserver ::1\nnameserver 127.0.0.53\n"), Some(RESOLVER_V4.into()));
    }

    #[test]
    fn a_session_is_refused_what_the_gate_refuses_and_the_hosts_own() {
        let pasta = Pasta { path: "/usr/bin/pasta".into() };
        let allowed = ["10.1.0.0/16".parse().unwrap()];
        let passt = pasta.for_session(&allowed);
        assert_eq!(passt, pasta.for_session(&allowed), "a pool is of one policy");
        assert_eq!(passt.allowed.len(), 1);
        assert!(passt.refused.len() >= refused_networks().count());
        assert!(passt.refused.iter().all(|subnet| subnet.is_valid()));
    }

    #[test]
    fn a_program_without_the_options_is_not_pasta() {
        assert!(missing_options(Path::new("/nonexistent/pasta")).is_err());
        assert_eq!(missing_options(Path::new("/bin/true")).unwrap(), OPTIONS);
        let off = find(&PasstSource::Off).unwrap_err();
        assert!(off.to_string().contains("egress.passt"), "{off}");
        let none = find(&PasstSource::Path("/nonexistent/pasta".into())).unwrap_err();
        assert!(none.to_string().contains("install passt"), "{none}");
    }
}
