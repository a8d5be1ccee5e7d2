//! How a session of network `full` reaches the internet from a network namespace of its own: through
//! passt's user-mode network stack, `pasta`, which a launcher starts, and past a packet filter, which
//! the agent loads.
//!
//! Addresses within the session are those of RFC 7335, which no network routes, and of a prefix that
//! RFC 4193 sets aside, so that no network of an operator's can be meant by them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The interface inside.
pub const INTERFACE: &str = "passt0";
/// The session's own address.
pub const ADDRESS_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
/// Its prefix.
pub const PREFIX_LEN_V4: u8 = 29;
/// Where all goes.
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Leads to the host's resolver, where that has an IPv4 address.
pub const RESOLVER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 3);
/// The session's own address; its prefix has 64 bits.
pub const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfdd3, 0x7ab1, 0x5e51, 0, 0, 0, 0, 2);
/// Where all goes.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfdd3, 0x7ab1, 0x5e51, 0, 0, 0, 0, 1);
/// Leads to the host's resolver, where that has an IPv6 address.
pub const RESOLVER_V6: Ipv6Addr = Ipv6Addr::new(0xfdd3, 0x7ab1, 0x5e51, 0, 0, 0, 0, 3);

/// pasta, and what its session may not reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passt {
    /// Absolute path of `pasta` on the host.
    pub program: PathBuf,
    /// The address inside that leads to the host's resolver: [`RESOLVER_V4`] or [`RESOLVER_V6`].
    pub resolver: Option<IpAddr>,
    /// Networks that are reached although they are in `refused`.
    pub allowed: Vec<Subnet>,
    /// Networks that are not reached. Never empty.
    pub refused: Vec<Subnet>,
}

/// A network of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subnet {
    /// Its first address.
    pub address: IpAddr,
    /// How many bits of it all its addresses have in common.
    pub prefix_len: u8,
}

impl Subnet {
    /// Whether the prefix is no longer than the address, and no bit after it is set.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        match self.address {
            IpAddr::V4(v4) => {
                self.prefix_len <= 32 && v4.to_bits() & !mask_v4(self.prefix_len) == 0
            }
            IpAddr::V6(v6) => {
                self.prefix_len <= 128 && v6.to_bits() & !mask_v6(self.prefix_len) == 0
            }
        }
    }

    /// The bits that all its addresses have in common, in network order.
    #[must_use]
    pub fn mask(self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(_) => mask_v4(self.prefix_len).to_be_bytes().to_vec(),
            IpAddr::V6(_) => mask_v6(self.prefix_len).to_be_bytes().to_vec(),
        }
    }
}

const fn mask_v4(prefix_len: u8) -> u32 {
    match u32::MAX.checked_shr(prefix_len as u32) {
        Some(rest) => !rest,
        None => u32::MAX,
    }
}

const fn mask_v6(prefix_len: u8) -> u128 {
    match u128::MAX.checked_shr(prefix_len as u32) {
        Some(rest) => !rest,
        None => u128::MAX,
    }
}

impl Passt {
    /// What the types can not say of networks and resolver.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let resolvers = [IpAddr::V4(RESOLVER_V4), IpAddr::V6(RESOLVER_V6)];
        if self.refused.is_empty() {
            Some("passt.refused: a filter that refuses nothing")
        } else if !self.allowed.iter().chain(&self.refused).all(|subnet| subnet.is_valid()) {
            Some("passt: a network with bits after its prefix")
        } else if self.resolver.is_some_and(|resolver| !resolvers.contains(&resolver)) {
            Some("passt.resolver: not an address that leads to the host's")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(address: &str, prefix_len: u8) -> Subnet {
        Subnet { address: address.parse().unwrap(), prefix_len }
    }

    #[test]
    fn a_network_has_no_bits_after_its_prefix() {
        for (address, prefix_len) in [("0.0.0.0", 0), ("10.0.0.0", 8), ("192.0.2.7", 32)] {
            assert!(subnet(address, prefix_len).is_valid(), "{address}");
        }
        for (address, prefix_len) in [("::", 0), ("fc00::", 7), ("2001:db8::1", 128)] {
            assert!(subnet(address, prefix_len).is_valid(), "{address}");
        }
        for (address, prefix_len) in [("10.0.0.1", 8), ("10.0.0.0", 33), ("::1", 127), ("::", 129)]
        {
            assert!(!subnet(address, prefix_len).is_valid(), "{address}/{prefix_len}");
        }
    }

    #[test]
    fn a_mask_has_the_bits_of_the_prefix() {
        assert_eq!(subnet("10.0.0.0", 8).mask(), [255, 0, 0, 0]);
        assert_eq!(subnet("0.0.0.0", 0).mask(), [0; 4]);
        assert_eq!(subnet("192.0.2.1", 32).mask(), [255; 4]);
        let seven = subnet("fc00::", 7).mask();
        assert_eq!((seven.first(), seven.len()), (Some(&0xfe), 16));
    }

    #[test]
    fn a_filter_that_refuses_nothing_is_none() {
        let passt = |refused: &[Subnet], resolver: Option<IpAddr>| Passt {
            program: "/usr/bin/pasta".into(),
            resolver,
            allowed: Vec::new(),
            refused: refused.to_vec(),
        };
        let ten = subnet("10.0.0.0", 8);
        assert_eq!(passt(&[ten], Some(RESOLVER_V4.into())).problem(), None);
        assert!(passt(&[], None).problem().is_some());
        assert!(passt(&[subnet("10.0.0.1", 8)], None).problem().is_some());
        assert!(passt(&[ten], Some(ADDRESS_V4.into())).problem().is_some());
    }
}
