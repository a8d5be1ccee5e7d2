//! Which addresses no session reaches unless its operator says so, and the networks that say so.
//!
//! The lists are IANA's special-purpose registries (RFC 6890), and forms of IPv6 that carry an IPv4
//! address through somebody's translator or relay.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why an address is refused.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AddressClass {
    /// `0.0.0.0/8` and `::`, which reach the host itself.
    Unspecified,
    /// `127.0.0.0/8` and `::1`.
    Loopback,
    /// RFC 1918, and unique local addresses `fc00::/7`.
    Private,
    /// `169.254.0.0/16` and `fe80::/10`; most clouds' metadata is at one of these.
    LinkLocal,
    /// Metadata services of clouds that are elsewhere.
    Metadata,
    /// `100.64.0.0/10`, RFC 6598.
    Shared,
    /// `224.0.0.0/4` and `ff00::/8`.
    Multicast,
    /// `198.18.0.0/15` and `2001:2::/48`.
    Benchmark,
    /// `192.0.2.0/24`, `198.51.100.0/24`, `203.0.113.0/24`, `2001:db8::/32`, `3fff::/20`.
    Documentation,
    /// Not assigned to anybody on the internet: `240.0.0.0/4`, `192.0.0.0/24`, all outside `2000::/3`, …
    Reserved,
    /// `fec0::/10`.
    SiteLocal,
    /// IPv4 within IPv6: `::ffff:0:0/96`, `::ffff:0:0:0/96` and `::/96`.
    Mapped,
    /// NAT64: `64:ff9b::/96` and `64:ff9b:1::/48`.
    Nat64,
    /// `2002::/16` and its relays, `192.88.99.0/24`.
    SixToFour,
    /// `2001::/32`.
    Teredo,
    /// One of the host's own addresses.
    Host,
}

/// IPv4 networks that are refused. The first that holds an address names its class.
const V4: &[([u8; 4], u8, AddressClass)] = &[
    ([0, 0, 0, 0], 8, AddressClass::Unspecified),
    ([10, 0, 0, 0], 8, AddressClass::Private),
    ([100, 100, 100, 200], 32, AddressClass::Metadata),
    ([100, 64, 0, 0], 10, AddressClass::Shared),
    ([127, 0, 0, 0], 8, AddressClass::Loopback),
    ([168, 63, 129, 16], 32, AddressClass::Metadata),
    ([169, 254, 0, 0], 16, AddressClass::LinkLocal),
    ([172, 16, 0, 0], 12, AddressClass::Private),
    ([192, 0, 2, 0], 24, AddressClass::Documentation),
    ([192, 0, 0, 0], 24, AddressClass::Reserved),
    ([192, 31, 196, 0], 24, AddressClass::Reserved),
    ([192, 52, 193, 0], 24, AddressClass::Reserved),
    ([192, 88, 99, 0], 24, AddressClass::SixToFour),
    ([192, 168, 0, 0], 16, AddressClass::Private),
    ([192, 175, 48, 0], 24, AddressClass::Reserved),
    ([198, 18, 0, 0], 15, AddressClass::Benchmark),
    ([198, 51, 100, 0], 24, AddressClass::Documentation),
    ([203, 0, 113, 0], 24, AddressClass::Documentation),
    ([224, 0, 0, 0], 4, AddressClass::Multicast),
    ([240, 0, 0, 0], 4, AddressClass::Reserved),
];

/// IPv6 networks that are refused, within and outside of `2000::/3`.
const V6: &[([u16; 8], u8, AddressClass)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, AddressClass::Unspecified),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, AddressClass::Loopback),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, AddressClass::Mapped),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, AddressClass::Mapped),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, AddressClass::Mapped),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, AddressClass::Nat64),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, AddressClass::Nat64),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, AddressClass::Teredo),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, AddressClass::Benchmark),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, AddressClass::Documentation),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, AddressClass::Reserved),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, AddressClass::SixToFour),
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, AddressClass::Reserved),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, AddressClass::Documentation),
    // Amazon's, of which only this is to be named: the rest of fc00::/7 is private.
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, AddressClass::Metadata),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, AddressClass::Private),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, AddressClass::LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, AddressClass::SiteLocal),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, AddressClass::Multicast),
];

/// What is assigned for use on the internet at all.
const GLOBAL_V6: ([u16; 8], u8) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The class for which an address is refused; `None` if it is an address of the internet. Does not
/// know the host's own addresses.
#[must_use]
pub fn class(address: IpAddr) -> Option<AddressClass> {
    let found = match address {
        IpAddr::V4(v4) => {
            V4.iter().find(|(net, len, _)| in_v4(v4, Ipv4Addr::from(*net), *len)).map(|(.., c)| *c)
        }
        IpAddr::V6(v6) => {
            V6.iter().find(|(net, len, _)| in_v6(v6, Ipv6Addr::from(*net), *len)).map(|(.., c)| *c)
        }
    };
    match (found, address) {
        (None, IpAddr::V6(v6)) if !in_v6(v6, GLOBAL_V6.0.into(), GLOBAL_V6.1) => {
            Some(AddressClass::Reserved)
        }
        (found, _) => found,
    }
}

/// Every network that is refused by its class, for whoever decides by networks.
pub fn refused_networks() -> impl Iterator<Item = Network> {
    let v4 = V4.iter().map(|(net, len, _)| (IpAddr::from(*net), *len));
    let v6 = V6.iter().map(|(net, len, _)| (IpAddr::from(Ipv6Addr::from(*net)), *len));
    // What is outside of the global networks, whose first bits are 001.
    let outside = [(0, 3), (0x4000, 2), (0x8000, 1)];
    let outside = outside
        .map(|(first, len)| (IpAddr::from(Ipv6Addr::from([first, 0, 0, 0, 0, 0, 0, 0])), len));
    v4.chain(v6).chain(outside).map(|(address, prefix_len)| Network { address, prefix_len })
}

fn in_v4(address: Ipv4Addr, network: Ipv4Addr, prefix_len: u8) -> bool {
    let differing = address.to_bits() ^ network.to_bits();
    differing.leading_zeros() >= u32::from(prefix_len)
}

fn in_v6(address: Ipv6Addr, network: Ipv6Addr, prefix_len: u8) -> bool {
    let differing = address.to_bits() ^ network.to_bits();
    differing.leading_zeros() >= u32::from(prefix_len)
}

/// Why text is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Neither an address nor one with a length.
    #[error("not an address or network, as `10.0.0.0/8`")]
    Form,
    /// The prefix is longer than an address.
    #[error("a prefix of {0} bits, of which the address has fewer")]
    PrefixLen(u8),
    /// Bits are set after the prefix, so that it is unclear what is meant.
    #[error("bits are set after the prefix: {0} is the network")]
    HostBits(String),
}

/// An address, or a network of addresses: `192.0.2.7`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    prefix_len: u8,
}

impl Network {
    /// Its first address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits of it all its addresses have in common.
    #[must_use]
    pub const fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// Whether an address is in this network. IPv4 addresses within IPv6 are not looked into.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (address, self.address) {
            (IpAddr::V4(one), IpAddr::V4(net)) => in_v4(one, net, self.prefix_len),
            (IpAddr::V6(one), IpAddr::V6(net)) => in_v6(one, net, self.prefix_len),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix_len) = match text.split_once('/') {
            Some((address, len)) => {
                let is_plain = !len.is_empty() && len.chars().all(|c| c.is_ascii_digit());
                let len = len.parse().ok().filter(|_| is_plain).ok_or(NetworkError::Form)?;
                (address, Some(len))
            }
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Form)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = prefix_len.unwrap_or(bits);
        if prefix_len > bits {
            return Err(NetworkError::PrefixLen(prefix_len));
        }
        let rest = u32::from(bits - prefix_len);
        let base = match address {
            IpAddr::V4(v4) => {
                IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(rest).unwrap_or(0)).into())
            }
            IpAddr::V6(v6) => {
                IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(rest).unwrap_or(0)).into())
            }
        };
        if base != address {
            return Err(NetworkError::HostBits(format!("{base}/{prefix_len}")));
        }
        Ok(Self { address, prefix_len })
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;

    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressClass::*;

    #[test]
    fn what_is_not_the_internet_is_refused_by_its_class() {
        for (text, expected) in [
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("::", Unspecified),
            ("127.0.0.1", Loopback),
            ("127.255.255.255", Loopback),
            ("::1", Loopback),
            ("10.1.2.3", Private),
            ("172.31.255.255", Private),
            ("192.168.0.1", Private),
            ("fd00::1", Private),
            ("169.254.169.254", LinkLocal),
            ("fe80::1", LinkLocal),
            ("fd00:ec2::254", Metadata),
            ("100.100.100.200", Metadata),
            ("168.63.129.16", Metadata),
            ("100.64.0.1", Shared),
            ("100.127.255.255", Shared),
            ("224.0.0.1", Multicast),
            ("ff02::1", Multicast),
            ("198.19.255.255", Benchmark),
            ("2001:2::1", Benchmark),
            ("192.0.2.1", Documentation),
            ("198.51.100.1", Documentation),
            ("203.0.113.1", Documentation),
            ("2001:db8::1", Documentation),
            ("3fff::1", Documentation),
            ("192.0.0.8", Reserved),
            ("240.0.0.1", Reserved),
            ("255.255.255.255", Reserved),
            ("4000::1", Reserved),
            ("100::1", Reserved),
            ("5f00::1", Reserved),
            ("fec0::1", SiteLocal),
            ("::ffff:127.0.0.1", Mapped),
            ("::ffff:1.1.1.1", Mapped),
            ("::ffff:0:1.1.1.1", Mapped),
            ("::127.0.0.1", Mapped),
            ("64:ff9b::7f00:1", Nat64),
            ("64:ff9b:1::1", Nat64),
            ("2002:7f00:1::1", SixToFour),
            ("192.88.99.1", SixToFour),
            ("2001:0:1::1", Teredo),
        ] {
            assert_eq!(class(text.parse().unwrap()), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_internet_is_allowed() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "192.169.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "2001:4860:4860::8888",
        ] {
            assert_eq!(class(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn networks_hold_their_addresses_alone() {
        let net = |text: &str| text.parse::<Network>().unwrap();
        let has = |network: &str, address: &str| net(network).contains(address.parse().unwrap());
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.1.2.3", "10.1.2.3") && !has("10.1.2.3", "10.1.2.4"));
        assert!(has("fd00::/8", "fd12::1") && !has("fd00::/8", "fe00::1"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::ffff:1.2.3.4"));
        assert!(has("::/0", "::ffff:1.2.3.4"));
        assert_eq!("10.0.0.0/33".parse::<Network>(), Err(NetworkError::PrefixLen(33)));
        assert_eq!(
            "10.0.0.1/8".parse::<Network>(),
            Err(NetworkError::HostBits("10.0.0.0/8".to_owned()))
        );
        for text in ["", "10", "10.0.0.0/", "10.0.0.0/+8", "a.b/8", "10.0.0.0/8/8"] {
            assert_eq!(text.parse::<Network>(), Err(NetworkError::Form), "{text}");
        }
    }

    #[test]
    fn the_refused_networks_are_those_of_the_classes() {
        let networks: Vec<_> = refused_networks().collect();
        let refused = |ip: IpAddr| networks.iter().any(|network| network.contains(ip));
        // The first and last address of each, and those beside it.
        for network in &networks {
            let beside: Vec<IpAddr> = match network.address {
                IpAddr::V4(v4) => {
                    let (first, hosts) = (
                        v4.to_bits(),
                        u32::MAX.checked_shr(network.prefix_len.into()).unwrap_or(0),
                    );
                    let last = first | hosts;
                    let all = [first, last, first.wrapping_sub(1), last.wrapping_add(1)];
                    all.map(|bits| IpAddr::V4(bits.into())).to_vec()
                }
                IpAddr::V6(v6) => {
                    let (first, hosts) = (
                        v6.to_bits(),
                        u128::MAX.checked_shr(network.prefix_len.into()).unwrap_or(0),
                    );
                    let last = first | hosts;
                    let all = [first, last, first.wrapping_sub(1), last.wrapping_add(1)];
                    all.map(|bits| IpAddr::V6(bits.into())).to_vec()
                }
            };
            for ip in beside {
                assert_eq!(refused(ip), class(ip).is_some(), "{ip}");
            }
        }
        for public in ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "2a00:1450::1"] {
            assert!(!refused(public.parse().unwrap()), "{public}");
        }
    }
}
