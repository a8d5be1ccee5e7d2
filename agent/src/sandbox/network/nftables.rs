//! The packet filter of the session's network namespace: loaded in one transaction, and read back.
//!
//! As linux/netfilter/nf_tables.h has it. What is read back has to be what was loaded, chain for chain,
//! rule for rule and part for part: what this module cannot read is a difference.

use std::io;

use super::filter::{Chain, Expression, Header, Meta, OUTPUT, Rule, TABLE};
use super::netlink::{
    ACK, APPEND, Attributes, CREATE, EXCLUSIVE, Received, SUBSYSTEM, Socket, find, message, number,
    read, text,
};

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = NEW_TABLE + 1;
const NEW_CHAIN: u16 = NEW_TABLE + 3;
const GET_CHAIN: u16 = NEW_TABLE + 4;
const NEW_RULE: u16 = NEW_TABLE + 6;
const GET_RULE: u16 = NEW_TABLE + 7;

const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const GOTO: u32 = (-4_i32).cast_unsigned();
/// `NF_INET_LOCAL_OUT`.
const LOCAL_OUT: u32 = 3;
/// The one register that is used, of 16 bytes; 0 is the verdict.
const REGISTER: u32 = 1;
const TCP_RESET: u32 = 1;

/// Loads the filter into this network namespace, which must have none.
pub(super) fn load(chains: &[Chain]) -> io::Result<()> {
    let none = Attributes::default();
    let mut messages = message(BATCH_BEGIN, 0, &none);
    let new = ACK | CREATE | EXCLUSIVE;
    messages.extend(message(NEW_TABLE, new, &Attributes::default().text(1, TABLE)));
    let mut acks = 1;
    for chain in chains {
        messages.extend(message(NEW_CHAIN, new, &chain_attributes(chain)));
        acks += 1;
        for rule in &chain.rules {
            let rule = rule_attributes(&chain.name, rule);
            messages.extend(message(NEW_RULE, ACK | CREATE | APPEND, &rule));
            acks += 1;
        }
    }
    messages.extend(message(BATCH_END, 0, &none));
    Socket::open()?.commit(&messages, acks)
}

/// How what is in force differs from `chains`; `None` if it does not. Counts what there is beside it,
/// too: there is to be no other table.
pub(super) fn difference(chains: &[Chain]) -> io::Result<Option<String>> {
    let socket = Socket::open()?;
    let none = Attributes::default();
    let tables: Vec<_> = socket.dump(GET_TABLE, &none)?.iter().map(table).collect();
    if tables != [Some((TABLE.to_owned(), 0))] {
        return Ok(Some(format!("the tables are {tables:?}")));
    }
    let found = socket.dump(GET_CHAIN, &none)?;
    let rules = socket.dump(GET_RULE, &none)?;
    Ok(compare(chains, &found, &rules))
}

fn compare(chains: &[Chain], found: &[Received], rules: &[Received]) -> Option<String> {
    let names: Vec<_> = found.iter().map(read_chain).collect();
    let expected: Vec<_> = chains.iter().map(|it| Some((it.name.clone(), it.is_hook))).collect();
    if names != expected {
        return Some(format!("the chains are {names:?}"));
    }
    let mut rules = rules.iter().map(read_rule);
    for Chain { name, rules: expected, .. } in chains {
        for (index, rule) in expected.iter().enumerate() {
            let found = rules.next().flatten();
            if found.as_ref() != Some(&(name.clone(), rule.clone())) {
                return Some(format!("rule {index} of {name} is {found:?}"));
            }
        }
    }
    rules.next().map(|found| format!("there is another rule: {found:?}"))
}

fn chain_attributes(chain: &Chain) -> Attributes {
    let named = Attributes::default().text(1, TABLE).text(3, &chain.name);
    if !chain.is_hook {
        return named;
    }
    let hook = Attributes::default().number(1, LOCAL_OUT).number(2, 0);
    named.nest(4, &hook).number(5, DROP).text(7, "filter")
}

fn rule_attributes(chain: &str, rule: &Rule) -> Attributes {
    let elements = rule.iter().fold(Attributes::default(), |list, expression| {
        let (name, data) = encode(expression);
        list.nest(1, &Attributes::default().text(1, name).nest(2, &data))
    });
    Attributes::default().text(1, TABLE).text(2, chain).nest(4, &elements)
}

fn encode(expression: &Expression) -> (&'static str, Attributes) {
    let all = Attributes::default();
    let value = |bytes: &[u8]| Attributes::default().bytes(1, bytes);
    match expression {
        Expression::Meta(key) => ("meta", all.number(1, REGISTER).number(2, *key as u32)),
        Expression::Payload { base, offset, len } => {
            let all = all.number(1, REGISTER).number(2, *base as u32);
            ("payload", all.number(3, *offset).number(4, *len))
        }
        Expression::Mask(mask) => {
            let len = u32::try_from(mask.len()).unwrap_or(u32::MAX);
            let all = all.number(1, REGISTER).number(2, REGISTER).number(3, len);
            ("bitwise", all.nest(4, &value(mask)).nest(5, &value(&vec![0; mask.len()])))
        }
        Expression::Equals(bytes) => {
            ("cmp", all.number(1, REGISTER).number(2, 0).nest(3, &value(bytes)))
        }
        Expression::RejectTcp => ("reject", all.number(1, TCP_RESET).bytes(2, &[0])),
        Expression::Accept => verdict(Attributes::default().number(1, ACCEPT)),
        Expression::Goto(chain) => verdict(Attributes::default().number(1, GOTO).text(2, chain)),
    }
}

fn verdict(verdict: Attributes) -> (&'static str, Attributes) {
    let data = Attributes::default().nest(2, &verdict);
    ("immediate", Attributes::default().number(1, 0).nest(2, &data))
}

/// A table's name and flags, of which it is to have none (`NFT_TABLE_F_DORMANT` would be one).
fn table(received: &Received) -> Option<(String, u32)> {
    let all = kind(received, NEW_TABLE)?;
    Some((find(&all, 1).and_then(text)?, find(&all, 2).and_then(number).unwrap_or(0)))
}

/// A chain's name, and whether it sees all that is sent and drops by default; `None` if it is anything
/// else.
fn read_chain(received: &Received) -> Option<(String, bool)> {
    let all = kind(received, NEW_CHAIN)?;
    let name = find(&all, 3).and_then(text)?;
    let Some(hook) = find(&all, 4) else { return Some((name, false)) };
    let hook = read(hook);
    let is_ours = find(&hook, 1).and_then(number) == Some(LOCAL_OUT)
        && find(&hook, 2).and_then(number) == Some(0)
        && find(&all, 5).and_then(number) == Some(DROP)
        && find(&all, 7).and_then(text).as_deref() == Some("filter");
    is_ours.then_some((name, true))
}

/// A rule with the name of its chain.
fn read_rule(received: &Received) -> Option<(String, Rule)> {
    let all = kind(received, NEW_RULE)?;
    let chain = find(&all, 2).and_then(text)?;
    let elements = read(find(&all, 4)?);
    let rule: Option<Rule> = elements.iter().map(|(_, element)| decode(&read(element))).collect();
    Some((chain, rule?))
}

fn decode(element: &[(u16, &[u8])]) -> Option<Expression> {
    let name = find(element, 1).and_then(text)?;
    let data = read(find(element, 2).unwrap_or_default());
    let field = |kind| find(&data, kind).and_then(number);
    let value = |kind| find(&data, kind).and_then(|data| find(&read(data), 1));
    let in_register = |kind| field(kind) == Some(REGISTER);
    match name.as_str() {
        "meta" if in_register(1) => {
            let known = [Meta::OutInterfaceName, Meta::Family, Meta::Protocol];
            let key = field(2)?;
            known.into_iter().find(|meta| *meta as u32 == key).map(Expression::Meta)
        }
        "payload" if in_register(1) => {
            let known = [Header::Network, Header::Transport];
            let base = field(2)?;
            let base = known.into_iter().find(|header| *header as u32 == base)?;
            Some(Expression::Payload { base, offset: field(3)?, len: field(4)? })
        }
        "bitwise" if in_register(1) && in_register(2) => {
            let (mask, flipped) = (value(4)?, value(5)?);
            // Newer kernels say which operation; 0 is with mask and flipped bits.
            let is_mask = field(6).unwrap_or(0) == 0 && flipped.iter().all(|byte| *byte == 0);
            let len = usize::try_from(field(3)?).ok()?;
            (is_mask && len == mask.len()).then(|| Expression::Mask(mask.to_vec()))
        }
        "cmp" if in_register(1) && field(2) == Some(0) => {
            value(3).map(|bytes| Expression::Equals(bytes.to_vec()))
        }
        "reject" if field(1) == Some(TCP_RESET) => Some(Expression::RejectTcp),
        "immediate" if field(1) == Some(0) => {
            let verdict = read(find(&read(find(&data, 2)?), 2)?);
            match find(&verdict, 1).and_then(number)? {
                ACCEPT => Some(Expression::Accept),
                GOTO => find(&verdict, 2).and_then(text).map(Expression::Goto),
                _ => None,
            }
        }
        _ => None,
    }
}

fn kind(received: &Received, expected: u16) -> Option<Vec<(u16, &[u8])>> {
    (received.kind == expected).then(|| read(&received.attributes))
}

/// For the report.
pub(super) fn describe(chains: &[Chain]) -> String {
    let rules = chains.iter().map(|chain| chain.rules.len()).sum::<usize>();
    format!("chain {OUTPUT} drops what its {rules} rules do not accept, each read back")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nix::sched::{CloneFlags, unshare};
    use vivarium_protocol::passt::{Passt, RESOLVER_V4, Subnet};

    use super::super::filter;
    use super::*;
    use crate::sandbox::fixture;

    fn passt(allowed: &[(&str, u8)]) -> Passt {
        let subnets = |all: &[(&str, u8)]| {
            let subnet = |(address, prefix_len): &(&str, u8)| Subnet {
                address: address.parse().unwrap(),
                prefix_len: *prefix_len,
            };
            all.iter().map(subnet).collect()
        };
        Passt {
            program: Path::new("/usr/bin/pasta").to_owned(),
            resolver: Some(RESOLVER_V4.into()),
            allowed: subnets(allowed),
            refused: subnets(&[("10.0.0.0", 8), ("0.0.0.0", 0), ("fc00::", 7), ("fe80::1", 128)]),
        }
    }

    /// What a kernel would give of these chains, if it gave just what it was sent.
    fn given(chains: &[Chain]) -> (Vec<Received>, Vec<Received>) {
        let attributes = |kind, all: &Attributes| Received {
            kind,
            attributes: message(kind, 0, all).get(20..).unwrap().to_vec(),
        };
        let of_chain = |chain| attributes(NEW_CHAIN, &chain_attributes(chain));
        let rules = chains.iter().flat_map(|chain| {
            let of_rule = |rule| attributes(NEW_RULE, &rule_attributes(&chain.name, rule));
            chain.rules.iter().map(of_rule).collect::<Vec<_>>()
        });
        (chains.iter().map(of_chain).collect(), rules.collect())
    }

    #[test]
    fn what_was_sent_is_read_back() {
        let chains = filter::chains(&passt(&[("192.168.0.0", 16), ("fd00::", 64)]));
        let (found, rules) = given(&chains);
        assert_eq!(compare(&chains, &found, &rules), None);
    }

    #[test]
    fn a_filter_that_differs_is_found() {
        let chains = filter::chains(&passt(&[]));
        let count = given(&chains).1.len();
        for index in 0..count {
            let (found, mut rules) = given(&chains);
            rules.remove(index);
            assert!(compare(&chains, &found, &rules).is_some(), "rule {index} is missing");
            let (found, mut rules) = given(&chains);
            // Each byte of a rule matters, but for what fills up to four.
            let last = rules.get(index).unwrap().attributes.len();
            let rule = rules.get_mut(index).unwrap();
            *rule.attributes.get_mut(last - 20).unwrap() ^= 0x40;
            assert!(compare(&chains, &found, &rules).is_some(), "rule {index} is another");
            let (found, mut rules) = given(&chains);
            let again = given(&chains).1.remove(index);
            rules.insert(index, again);
            assert!(compare(&chains, &found, &rules).is_some(), "rule {index} is there twice");
        }
        let (mut found, rules) = given(&chains);
        found.pop();
        assert!(compare(&chains, &found, &rules).is_some(), "a chain is missing");
        let accepting = Attributes::default().number(5, ACCEPT);
        let (mut found, rules) = given(&chains);
        let output = found.last_mut().unwrap();
        let policy = Attributes::default().number(5, DROP);
        let (policy, accepting) = (message(0, 0, &policy), message(0, 0, &accepting));
        let (policy, accepting) = (policy.get(20..).unwrap(), accepting.get(20..).unwrap());
        let at = output.attributes.windows(8).position(|window| window == policy).unwrap();
        output.attributes.get_mut(at..at + 8).unwrap().copy_from_slice(accepting);
        assert!(compare(&chains, &found, &rules).is_some(), "a chain that accepts by default");
    }

    /// In a network namespace of its own, where this host lets its user have one.
    #[test]
    fn the_kernel_gives_back_what_it_was_sent() {
        let name = "::the_kernel_gives_back_what_it_was_sent";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            if unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).is_err() {
                return;
            }
            let chains = filter::chains(&passt(&[("192.168.0.0", 16), ("fd00::", 64)]));
            match load(&chains) {
                // A kernel without nftables.
                Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return,
                loaded => loaded.unwrap(),
            }
            assert_eq!(difference(&chains).unwrap(), None);
            assert!(load(&chains).is_err(), "it is loaded once");
            let fewer = filter::chains(&passt(&[]));
            assert!(difference(&fewer).unwrap().is_some());
        });
    }
}
