//! What leaves a session that passt connects: the rules of its packet filter, as plain data.
//!
//! One chain sees every packet that a process of the session sends, whatever socket, interface, route or
//! protocol it chose, after the kernel has decided all of that. What no rule accepts is dropped. Nothing
//! here accepts a packet with options or extension headers: they could say more about where it goes than
//! the address that is looked at.

use std::net::IpAddr;

use vivarium_protocol::passt::{Passt, Subnet};

pub(super) const TABLE: &str = "vivarium";
/// Refuses: a TCP connection at once, and all else by dropping it, of which the sender is told (EPERM).
pub(super) const REFUSE: &str = "refuse";
pub(super) const OUTPUT: &str = "output";

/// A chain and its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) name: String,
    /// Whether it sees all that is sent, and drops what it does not accept; else others lead to it.
    pub(super) is_hook: bool,
    pub(super) rules: Vec<Rule>,
}

pub(super) type Rule = Vec<Expression>;

/// A part of a rule. Each loads into one register, or looks at it, or ends the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Meta(Meta),
    /// These bytes of the network or transport header.
    Payload {
        base: Header,
        offset: u32,
        len: u32,
    },
    /// Keeps the bits of this mask.
    Mask(Vec<u8>),
    /// Goes on if the register holds these bytes.
    Equals(Vec<u8>),
    RejectTcp,
    Accept,
    Goto(String),
}

/// linux/netfilter/nf_tables.h, `nft_meta_keys`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meta {
    OutInterfaceName = 7,
    Family = 15,
    Protocol = 16,
}

/// The same, `nft_payload_bases`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Network = 1,
    Transport = 2,
}

const IPV4: u8 = 2; // NFPROTO_IPV4
const IPV6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Neighbour solicitation and advertisement, RFC 4861. Only the kernel sends them: tenants have no raw
/// sockets.
const NEIGHBOUR: [u8; 2] = [135, 136];
/// RFC 791: version 4 and a header without options.
const NO_OPTIONS: u8 = 0x45;
const DNS: u16 = 53;

/// The chains of a session's filter, in an order in which they can be made.
pub(super) fn chains(passt: &Passt) -> Vec<Chain> {
    let refuse = vec![vec![
        Expression::Meta(Meta::Protocol),
        Expression::Equals(vec![TCP]),
        Expression::RejectTcp,
    ]];
    let mut output = vec![loopback()];
    output.extend(NEIGHBOUR.map(neighbour));
    // The resolver is at an address of a network that is refused.
    output.extend(passt.resolver.map(resolver));
    for subnet in &passt.allowed {
        output.extend([TCP, UDP].map(|protocol| reach(*subnet, protocol)));
    }
    output.extend(passt.refused.iter().map(|subnet| refused(*subnet)));
    for family in [IPV4, IPV6] {
        output.extend([TCP, UDP].map(|protocol| accepted(family, protocol)));
    }
    let refuse = Chain { name: REFUSE.to_owned(), is_hook: false, rules: refuse };
    vec![refuse, Chain { name: OUTPUT.to_owned(), is_hook: true, rules: output }]
}

fn loopback() -> Rule {
    let mut name = b"lo".to_vec();
    name.resize(libc::IFNAMSIZ, 0);
    vec![Expression::Meta(Meta::OutInterfaceName), Expression::Equals(name), Expression::Accept]
}

fn neighbour(kind: u8) -> Rule {
    let mut rule = plain(IPV6, ICMPV6);
    rule.extend([load(Header::Transport, 0, 1), Expression::Equals(vec![kind])]);
    rule.push(Expression::Accept);
    rule
}

fn resolver(address: IpAddr) -> Rule {
    let mut rule = plain(family(address), UDP);
    rule.extend(to(Subnet { address, prefix_len: bits(address) }));
    rule.extend([load(Header::Transport, 2, 2), Expression::Equals(DNS.to_be_bytes().to_vec())]);
    rule.push(Expression::Accept);
    rule
}

fn reach(subnet: Subnet, protocol: u8) -> Rule {
    let mut rule = plain(family(subnet.address), protocol);
    rule.extend(to(subnet));
    rule.push(Expression::Accept);
    rule
}

fn refused(subnet: Subnet) -> Rule {
    let mut rule = is_family(family(subnet.address));
    rule.extend(to(subnet));
    rule.push(Expression::Goto(REFUSE.to_owned()));
    rule
}

fn accepted(family: u8, protocol: u8) -> Rule {
    let mut rule = plain(family, protocol);
    rule.push(Expression::Accept);
    rule
}

/// A packet of this protocol whose header has nothing between it and that.
fn plain(family: u8, protocol: u8) -> Rule {
    let mut rule = is_family(family);
    if family == IPV4 {
        rule.extend([load(Header::Network, 0, 1), Expression::Equals(vec![NO_OPTIONS])]);
    }
    let offset = if family == IPV4 { 9 } else { 6 };
    rule.extend([load(Header::Network, offset, 1), Expression::Equals(vec![protocol])]);
    rule
}

fn is_family(family: u8) -> Rule {
    vec![Expression::Meta(Meta::Family), Expression::Equals(vec![family])]
}

/// The destination address.
fn to(subnet: Subnet) -> Rule {
    let (offset, address) = match subnet.address {
        IpAddr::V4(v4) => (16, v4.octets().to_vec()),
        IpAddr::V6(v6) => (24, v6.octets().to_vec()),
    };
    let len = u32::from(bits(subnet.address)) / 8;
    let (mask, address) = (Expression::Mask(subnet.mask()), Expression::Equals(address));
    vec![load(Header::Network, offset, len), mask, address]
}

const fn load(base: Header, offset: u32, len: u32) -> Expression {
    Expression::Payload { base, offset, len }
}

const fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
